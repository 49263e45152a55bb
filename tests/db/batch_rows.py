"""A batch of results as received from an agent, without its results."""

from __future__ import annotations

from datetime import datetime

from monitor.archive.models import ReceivedBatch
from monitor.mesh.models import Site


def store_batch(site: Site, at: datetime, number: int = 1, measured_from: datetime | None = None) -> None:
    ReceivedBatch.objects.create(
        site=site, spool="test", number=number, received_at=at, sent_at=at, agent_version="0.1.0", accepted=1,
        refused=0, queued=0, dropped=0, measured_from=measured_from,
    )  # fmt: skip
