"""Rate limits: a token bucket for each key, in the centre's Redis.

`wait_s` takes a token from the bucket and returns 0, or returns the seconds until the next token. Fails open: while
Redis is unavailable nothing is limited.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from monitor.redis_client import RedisClient, centre

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

ON_DEMAND_PINGS = Rate(per_s=0.1, most=6)
"""Of a user: a person looks at the replies of some paths in turn; nobody pings the whole mesh by clicking."""
ON_DEMAND_AGGREGATES = Rate(per_s=1 / 60, most=5)
"""Of a user: each loads several sites."""


def wait_s(key: str, rate: Rate, client: RedisClient | None = None) -> float:
    """0 if `key` may proceed, else the seconds to wait; in the centre's Redis unless a `client` is given."""
    answer = (client or centre()).script(TAKE, [f"rate:{key}"], [rate.per_s, rate.most])
    return 0.0 if answer is None else float(answer)


class _CalmKeys:
    """Buckets of this process, each a small part of a key's rate: who stays within it needs no look at Redis."""

    def __init__(self) -> None:
        self._left: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def take(self, key: str, rate: Rate) -> bool:
        now_s, most = time.monotonic(), rate.most // PART_OF_CALM
        with self._lock:
            left, at_s = self._left.get(key, (float(most), now_s))
            left = min(most, left + (now_s - at_s) * rate.per_s / PART_OF_CALM)
            self._left[key] = (left - 1 if left >= 1 else left), now_s
        return left >= 1


PART_OF_CALM = 50
_calm_keys = _CalmKeys()


def wait_s_of_calm(key: str, rate: Rate) -> float:
    """As `wait_s`, for keys of a bounded number that ask seldom: a fiftieth of the rate, in each process, is not
    counted in Redis."""
    return 0.0 if _calm_keys.take(key, rate) else wait_s(key, rate)
