"""Count deliveries by HTTP status, in the centre's Redis for all web processes.

Redis holds nothing essential: nothing is counted while it is unavailable, and counts are lost with it.
"""

from __future__ import annotations

import logging
import time
from functools import lru_cache, wraps
from typing import Any

import redis
from django.conf import settings
from django.http import HttpRequest, HttpResponse

from monitor.agents.stamps import View
from probes.broker import client_url

KEY = "deliveries"
REDIS_TIMEOUT_S = 0.25
LEFT_ALONE_S = 5.0

logger = logging.getLogger(__name__)


class Tally:
    """Counters in a Redis, which is not contacted for a while after it did not answer."""

    def __init__(self, url: str) -> None:
        self._client: Any = redis.Redis.from_url(
            client_url(url), socket_timeout=REDIS_TIMEOUT_S, socket_connect_timeout=REDIS_TIMEOUT_S
        )
        self._left_alone_until = 0.0

    def count(self, status: int) -> None:
        self._ask("hincrby", KEY, str(status), 1)

    def counts(self) -> dict[str, int]:
        """Counts by status; empty while Redis is unavailable."""
        counters = self._ask("hgetall", KEY) or {}
        return {status.decode(): int(count) for status, count in sorted(counters.items())}

    def _ask(self, verb: str, *arguments: Any) -> Any:
        if time.monotonic() < self._left_alone_until:
            return None
        try:
            return getattr(self._client, verb)(*arguments)
        except (redis.RedisError, OSError) as error:
            self._left_alone_until = time.monotonic() + LEFT_ALONE_S
            logger.warning("deliveries are not counted: Redis does not answer (%s)", type(error).__name__)
            return None


@lru_cache(maxsize=1)
def _tally(url: str) -> Tally:
    return Tally(url)


def counted(view: View) -> View:
    """Decorator that counts a view's responses by status."""

    @wraps(view)
    def answer(request: HttpRequest) -> HttpResponse:
        response = view(request)
        _tally(settings.CELERY_BROKER_URL).count(response.status_code)
        return response

    return answer


def deliveries() -> dict[str, int]:
    """Number of deliveries by status since Redis started."""
    return _tally(settings.CELERY_BROKER_URL).counts()
