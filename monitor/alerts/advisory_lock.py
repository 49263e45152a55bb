"""PostgreSQL advisory lock for work that two workers must not do at once.

PostgreSQL ends a stalled worker's connection, and with it the lock, after `IDLE_TIMEOUT`; its next statement fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import DatabaseError, InterfaceError, connection

# Between two statements; the longest legitimate pause is 30 s, while waiting for a channel.
IDLE_TIMEOUT = "120s"
_LOCK = """
    SELECT
        is_ours,
        CASE WHEN is_ours THEN set_config('idle_session_timeout', %(pause)s, false) END,
        CASE WHEN is_ours THEN set_config('idle_in_transaction_session_timeout', %(pause)s, false) END
    FROM (SELECT pg_try_advisory_lock(%(key)s) AS is_ours OFFSET 0) AS lock
"""
_UNLOCK = """
    SELECT
        pg_advisory_unlock(%(key)s),
        set_config('idle_session_timeout', '0', false),
        set_config('idle_in_transaction_session_timeout', '0', false)
"""


@contextmanager
def advisory_lock(key: int) -> Iterator[bool]:
    """Try to take the advisory lock `key` and hold it for the block; yield whether it was taken."""
    if not _execute(_LOCK, key):
        yield False
        return
    try:
        yield True
    finally:
        try:
            _execute(_UNLOCK, key)
        except (DatabaseError, InterfaceError):
            # A lost connection has released the lock; a connection that survived must not keep it.
            connection.close()
            raise


def _execute(statement: str, key: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(statement, {"key": key, "pause": IDLE_TIMEOUT})
        (done, *_) = cursor.fetchone()
        return bool(done)
