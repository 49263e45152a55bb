"""Token buckets in the centre's Redis. Fails open: without Redis nothing is limited."""

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
    per_s: float  # on average
    most: int  # largest burst


# Batches are sent in sequence and take over 20 ms each: the fullest spool, 1,700 batches, drains without a limit.
AGENT = Rate(per_s=50, most=2000)
SCRIPT = Rate(per_s=10, most=200)
LOGIN = Rate(per_s=0.2, most=20)
LOGIN_OF_ACCOUNT_FROM_ADDRESS = Rate(per_s=1 / 30, most=10)
LOGIN_OF_DEVICE = Rate(per_s=1 / 30, most=10)
# For all addresses together: half a million guesses a year at a password; common passwords are rejected.
LOGIN_OF_ACCOUNT = Rate(per_s=1 / 60, most=30)

# For a user, who looks at some paths in turn and does not ping the whole mesh by clicking.
ON_DEMAND_PINGS = Rate(per_s=0.1, most=6)
# For a user: each test loads several sites.
ON_DEMAND_AGGREGATES = Rate(per_s=1 / 60, most=5)


def wait_s(key: str, rate: Rate, client: RedisClient | None = None) -> float:
    """Take a token and return 0, or return the seconds until the next token."""
    answer = (client or centre()).script(TAKE, [f"rate:{key}"], [rate.per_s, rate.most])
    return 0.0 if answer is None else float(answer)


class _CalmKeys:
    """Buckets of this process, with a small part of each rate, to spare Redis."""

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
    """Like `wait_s`, but without Redis up to a fiftieth of the rate in each process; for a bounded number of keys."""
    return 0.0 if _calm_keys.take(key, rate) else wait_s(key, rate)
