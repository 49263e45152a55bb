"""Advisory lock that lets a single beat schedule and another take over.

PostgreSQL ends its connection after `SILENCE_S` without an answer.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from django.db import DatabaseError, InterfaceError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

# Key of the advisory lock: unique in this database.
KEY = 0x50_4E_44_4E_42_45_41_54
# How long the lock is taken as held after a check.
CHECKED_FOR_S = 0.5
SILENCE_S = 15
_LOCK = f"""
    SELECT
        pg_try_advisory_lock(%s),
        set_config('idle_session_timeout', '{SILENCE_S}s', false),
        set_config('tcp_user_timeout', '{SILENCE_S}s', false),
        set_config('tcp_keepalives_idle', '5', false),
        set_config('tcp_keepalives_interval', '5', false),
        set_config('tcp_keepalives_count', '2', false)
"""
logger = logging.getLogger(__name__)


class BeatLock:
    """The lock of this process; not held without a database."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._connection: BaseDatabaseWrapper | None = None
        self._checked_s = -CHECKED_FOR_S
        self._was_held: bool | None = None

    def is_held(self) -> bool:
        """Whether this process holds the lock; takes it if free. An answer is kept for `CHECKED_FOR_S`."""
        if self._connection is not None and self._clock() - self._checked_s < CHECKED_FOR_S:
            return True
        is_held = self._check() or self._take()
        self._checked_s = self._clock()
        if is_held != self._was_held:
            logger.warning("this beat schedules" if is_held else "another beat schedules, or the database is away")
            self._was_held = is_held
        return is_held

    def release(self) -> None:
        """Let another beat take over at once."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _check(self) -> bool:
        if self._connection is not None and self._connection.is_usable():
            return True
        self.release()
        return False

    def _take(self) -> bool:
        connection = connections.create_connection("default")
        try:
            with connection.cursor() as cursor:
                cursor.execute(_LOCK, [KEY])
                (is_ours, *_) = cursor.fetchone()
        except (DatabaseError, InterfaceError):
            is_ours = False
        if is_ours:
            self._connection = connection
        else:
            connection.close()
        return bool(is_ours)
