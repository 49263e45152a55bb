"""Count deliveries by HTTP status in Redis, for all web processes; nothing is counted without Redis."""

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
    global _due_s
    with _lock:
        counts = dict(_uncounted)
        _uncounted.clear()
        _due_s = time.monotonic() + ADDED_UP_EVERY_S
    for status, number in counts.items():
        redis_client.centre().command("hincrby", KEY, str(status), number)


def deliveries() -> dict[str, int]:
    """Deliveries by status since Redis started; empty without Redis."""
    _add_up()
    counters = redis_client.centre().command("hgetall", KEY) or {}
    return {status.decode(): int(count) for status, count in sorted(counters.items())}
