"""Contents of an agent's spool, for the tests."""

from __future__ import annotations

from probes.site.spool import results
from probes.site.spool.spool import Spool


def count_queued(spool: Spool) -> int:
    """Results in the spool, including those of an unacknowledged batch."""
    with spool._database.reading() as connection:
        return results.count(connection)
