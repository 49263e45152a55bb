"""Count deliveries by HTTP status, in the centre's Redis for all web processes.

Each process adds its counts to Redis once a second. Redis holds nothing essential: nothing is counted while it is
unavailable, and counts are lost with it.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from functools import wraps

from django.http import HttpRequest, HttpResponse

from monitor import redis_client
from monitor.agents.clock_headers import View

KEY = "deliveries"
ADDED_UP_EVERY_S = 1.0

_uncounted: Counter[int] = Counter()
_lock = threading.Lock()
_due_s = 0.0


def count_responses(view: View) -> View:
    """Decorator that counts a view's responses by status."""

    @wraps(view)
    def answer(request: HttpRequest) -> HttpResponse:
        response = view(request)
        with _lock:
            _uncounted[response.status_code] += 1
        if time.monotonic() >= _due_s:
            _add_up()
        return response

    return answer


def _add_up() -> None:
    """Add the counts of this process to those in Redis."""
    global _due_s
    with _lock:
        counts = dict(_uncounted)
        _uncounted.clear()
        _due_s = time.monotonic() + ADDED_UP_EVERY_S
    for status, number in counts.items():
        redis_client.centre().command("hincrby", KEY, str(status), number)


def deliveries() -> dict[str, int]:
    """Number of deliveries by status since Redis started; empty while it is unavailable."""
    _add_up()
    counters = redis_client.centre().command("hgetall", KEY) or {}
    return {status.decode(): int(count) for status, count in sorted(counters.items())}
