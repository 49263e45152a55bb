"""The centre's Redis for everything but Celery: one client in each process, behind a circuit breaker.

Redis holds nothing essential here (rate limits, counters, short-lived copies), so a call never raises while Redis is
unavailable: it returns None, and Redis is not contacted again for `OPEN_S`. An outage thus costs a process one timeout
in that time, and one warning when it begins.
"""

from __future__ import annotations

import logging
import threading
import time
from functools import lru_cache
from typing import Any

import redis
from django.conf import settings

TIMEOUT_S = 0.25
OPEN_S = 5.0
"""How long the circuit stays open after a failure."""

logger = logging.getLogger(__name__)


def connect(url: str, timeout_s: float) -> Any:
    """A client of the Redis at a Celery broker URL, with a timeout on connecting and on each answer."""
    of_client = url.replace("redis+socket://", "unix://", 1)
    return redis.Redis.from_url(of_client, socket_timeout=timeout_s, socket_connect_timeout=timeout_s)


class RedisClient:
    """Commands and scripts in a Redis."""

    def __init__(self, url: str, timeout_s: float = TIMEOUT_S) -> None:
        self._client = connect(url, timeout_s)
        self._scripts: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._open_until = 0.0
        self._is_failing = False

    def command(self, name: str, *arguments: Any, **options: Any) -> Any:
        """Run a command, as redis-py's method `name`; None while Redis is unavailable."""
        return self._call(getattr(self._client, name), *arguments, **options)

    def script(self, text: str, keys: list[str], arguments: list[Any]) -> Any:
        """Run a Lua script; None while Redis is unavailable."""
        if text not in self._scripts:
            self._scripts[text] = self._client.register_script(text)
        return self._call(self._scripts[text], keys=keys, args=arguments)

    def _call(self, call: Any, *arguments: Any, **options: Any) -> Any:
        if time.monotonic() < self._open_until:
            return None
        try:
            answer = call(*arguments, **options)
        except (redis.RedisError, OSError) as error:
            self._open(error)
            return None
        self._is_failing = False
        return answer

    def _open(self, error: Exception) -> None:
        with self._lock:
            was_failing, self._is_failing = self._is_failing, True
            self._open_until = time.monotonic() + OPEN_S
        if not was_failing:
            logger.warning(
                "Redis is unavailable (%s): no rate limits, no delivery counters, no queue length", type(error).__name__
            )


@lru_cache(maxsize=1)
def _client_of(url: str) -> RedisClient:
    return RedisClient(url)


def centre() -> RedisClient:
    """The client of the Redis named in SOUNDINGS_REDIS_URL."""
    return _client_of(settings.CELERY_BROKER_URL)
