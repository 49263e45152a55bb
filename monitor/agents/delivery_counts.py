"""Count deliveries by HTTP status, in the centre's Redis for all web processes.

Redis holds nothing essential: nothing is counted while it is unavailable, and counts are lost with it.
"""

from __future__ import annotations

from functools import wraps

from django.http import HttpRequest, HttpResponse

from monitor import redis_client
from monitor.agents.clock_headers import View

KEY = "deliveries"


def count_responses(view: View) -> View:
    """Decorator that counts a view's responses by status."""

    @wraps(view)
    def answer(request: HttpRequest) -> HttpResponse:
        response = view(request)
        redis_client.centre().command("hincrby", KEY, str(response.status_code), 1)
        return response

    return answer


def deliveries() -> dict[str, int]:
    """Number of deliveries by status since Redis started; empty while it is unavailable."""
    counters = redis_client.centre().command("hgetall", KEY) or {}
    return {status.decode(): int(count) for status, count in sorted(counters.items())}
