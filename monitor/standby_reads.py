"""Reading from a standby of PostgreSQL, where SOUNDINGS_READ_DATABASE_URL names one.

Within `prefer_standby` the connection of this thread is that of the standby, if it answers and is not far behind, and
else that of the primary as always. A standby refuses to write.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from django.db import DEFAULT_DB_ALIAS, DatabaseError, InterfaceError, connections

STANDBY = "standby"
"""Alias of the standby in Django's settings."""
FARTHEST_BEHIND = timedelta(seconds=120)
"""A centre that works commits more often, at the latest with the sample of its load each minute."""
LEFT_ALONE_S = 5.0
"""How long the standby is not tried again after it failed."""
STATE = "SELECT now(), CASE WHEN pg_is_in_recovery() THEN pg_last_xact_replay_timestamp() ELSE now() END"

logger = logging.getLogger(__name__)
_left_alone_until_s = 0.0


@contextmanager
def prefer_standby() -> Iterator[datetime | None]:
    """Read from the standby. Yields the time up to which it has everything; None where the primary is read."""
    as_of = _as_of() if STANDBY in connections.settings else None
    if as_of is None:
        yield None
        return
    primary = connections[DEFAULT_DB_ALIAS]
    connections[DEFAULT_DB_ALIAS] = connections[STANDBY]
    try:
        yield as_of
    finally:
        connections[DEFAULT_DB_ALIAS] = primary


def _as_of() -> datetime | None:
    """Time of the last transaction that the standby replayed; None where it is away or far behind."""
    if time.monotonic() < _left_alone_until_s:
        return None
    try:
        with connections[STANDBY].cursor() as cursor:
            cursor.execute(STATE)
            now, as_of = cursor.fetchone()
    except (DatabaseError, InterfaceError) as error:
        leave_alone(error)
        return None
    return as_of if as_of is not None and now - as_of <= FARTHEST_BEHIND else None


def leave_alone(error: Exception) -> None:
    """Read from the primary for `LEFT_ALONE_S`."""
    global _left_alone_until_s
    connections[STANDBY].close()
    _left_alone_until_s = time.monotonic() + LEFT_ALONE_S
    logger.warning("the standby cannot be read, the primary is read instead: %s", error)
