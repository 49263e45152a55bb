"""One at a time: an advisory lock of PostgreSQL for work that two workers must not do at once.

The lock belongs to the connection, and ends with it. So that a worker which was stopped in the middle does not keep the
others from the work for ever, PostgreSQL ends its connection after `LONGEST_PAUSE`; should it go on then, its next
statement fails, and it has lost the lock.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import DatabaseError, InterfaceError, connection

LONGEST_PAUSE = "120s"
"""Between two statements. The longest that work does between them is 30 s, while it waits for a channel."""
_TAKE = """
    SELECT
        is_ours,
        CASE WHEN is_ours THEN set_config('idle_session_timeout', %(pause)s, false) END,
        CASE WHEN is_ours THEN set_config('idle_in_transaction_session_timeout', %(pause)s, false) END
    FROM (SELECT pg_try_advisory_lock(%(key)s) AS is_ours OFFSET 0) AS lock
"""
_LET_GO = """
    SELECT
        pg_advisory_unlock(%(key)s),
        set_config('idle_session_timeout', '0', false),
        set_config('idle_in_transaction_session_timeout', '0', false)
"""


@contextmanager
def alone(key: int) -> Iterator[bool]:
    """Whether nobody else has the lock of this number, nor will while this lasts."""
    if not _execute(_TAKE, key):
        yield False
        return
    try:
        yield True
    finally:
        try:
            _execute(_LET_GO, key)
        except (DatabaseError, InterfaceError):
            # The lock went with the connection; a connection that still stands must not keep it.
            connection.close()
            raise


def _execute(statement: str, key: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(statement, {"key": key, "pause": LONGEST_PAUSE})
        (done, *_) = cursor.fetchone()
        return bool(done)
