"""Read from a PostgreSQL standby (SOUNDINGS_READ_DATABASE_URL), which refuses writes, if it answers and is not far
behind."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from django.db import DEFAULT_DB_ALIAS, DatabaseError, InterfaceError, connections

# Alias of the standby in Django's settings.
STANDBY = "standby"
# A centre that works commits more often, at the latest with the sample of its load each minute.
FARTHEST_BEHIND = timedelta(seconds=120)
# How long the standby is not tried again after it failed.
LEFT_ALONE_S = 5.0
STATE = "SELECT now(), CASE WHEN pg_is_in_recovery() THEN pg_last_xact_replay_timestamp() ELSE now() END"

logger = logging.getLogger(__name__)
_left_alone_until_s = 0.0


@contextmanager
def prefer_standby() -> Iterator[datetime | None]:
    """Read from the standby; yield the time up to which it is complete, None for the primary."""
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
    """Time of the standby's last replayed transaction; None if away or behind."""
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
    global _left_alone_until_s
    connections[STANDBY].close()
    _left_alone_until_s = time.monotonic() + LEFT_ALONE_S
    logger.warning("the standby cannot be read, the primary is read instead: %s", error)
