"""Rate limits: a token bucket for each key, in the centre's Redis.

`wait_s` takes a token from the bucket and returns 0, or returns the seconds until the next token. Fails open: while
Redis is unavailable nothing is limited, and it is not contacted for a few seconds.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import redis
from django.conf import settings

from probes.broker import client_url

REDIS_TIMEOUT_S = 0.25
LEFT_ALONE_S = 5.0

# The clock is Redis's own, so that all web processes agree. HSET keeps the bucket only until it would be full again.
TAKE = """
local now = redis.call('TIME')
local at = now[1] + now[2] / 1000000
local per_s, most = tonumber(ARGV[1]), tonumber(ARGV[2])
local known = redis.call('HMGET', KEYS[1], 'left', 'at')
local left = math.min(most, (tonumber(known[1]) or most) + math.max(0, at - (tonumber(known[2]) or at)) * per_s)
local wait = 0
if left >= 1 then left = left - 1 else wait = (1 - left) / per_s end
redis.call('HSET', KEYS[1], 'left', tostring(left), 'at', tostring(at))
redis.call('PEXPIRE', KEYS[1], math.ceil(most / per_s * 1000) + 1000)
return tostring(wait)
"""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Rate:
    """`per_s` on average, with bursts of up to `most`."""

    per_s: float
    most: int


AGENT = Rate(per_s=50, most=2000)
"""An agent sends requests in sequence, and a batch of 1,000 results takes longer than 20 ms: the fullest spool, 1,700
batches, drains without hitting the limit."""
SCRIPT = Rate(per_s=10, most=200)
LOGIN = Rate(per_s=0.2, most=20)
LOGIN_OF_ACCOUNT_FROM_ADDRESS = Rate(per_s=1 / 30, most=10)
LOGIN_OF_DEVICE = Rate(per_s=1 / 30, most=10)
LOGIN_OF_ACCOUNT = Rate(per_s=1 / 60, most=30)
"""From all addresses together: half a million guesses a year at a password, and common passwords are rejected."""


class Buckets:
    """Buckets in a Redis."""

    def __init__(self, url: str) -> None:
        client: Any = redis.Redis.from_url(
            client_url(url), socket_timeout=REDIS_TIMEOUT_S, socket_connect_timeout=REDIS_TIMEOUT_S
        )
        self._take = client.register_script(TAKE)
        self._lock = threading.Lock()
        self._left_alone_until = 0.0

    def wait_s(self, key: str, rate: Rate) -> float:
        """0 if `key` may proceed, else the seconds to wait."""
        if time.monotonic() < self._left_alone_until:
            return 0.0
        try:
            return float(self._take(keys=[f"rate:{key}"], args=[rate.per_s, rate.most]))
        except (redis.RedisError, OSError) as error:
            self._leave_alone(error)
            return 0.0

    def _leave_alone(self, error: Exception) -> None:
        with self._lock:
            is_known = time.monotonic() < self._left_alone_until
            self._left_alone_until = time.monotonic() + LEFT_ALONE_S
        if not is_known:
            logger.warning("rate limits are off: Redis does not answer (%s)", type(error).__name__)


@lru_cache(maxsize=1)
def _buckets(url: str) -> Buckets:
    return Buckets(url)


def wait_s(key: str, rate: Rate) -> float:
    """As `Buckets.wait_s`, in the centre's Redis."""
    return _buckets(settings.CELERY_BROKER_URL).wait_s(key, rate)
