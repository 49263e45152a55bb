"""How many deliveries were answered with which status, counted in the centre's Redis by all web processes together.

Redis holds nothing that is needed: while it is away nothing is counted, and what was counted ends with it.
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
    """The counts in one Redis, which is left alone for a while when it does not answer."""

    def __init__(self, url: str) -> None:
        self._client: Any = redis.Redis.from_url(
            client_url(url), socket_timeout=REDIS_TIMEOUT_S, socket_connect_timeout=REDIS_TIMEOUT_S
        )
        self._left_alone_until = 0.0

    def count(self, status: int) -> None:
        self._ask("hincrby", KEY, str(status), 1)

    def counts(self) -> dict[str, int]:
        """By status; none while Redis is away."""
        found = self._ask("hgetall", KEY) or {}
        return {status.decode(): int(count) for status, count in sorted(found.items())}

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
    """The view, its answers counted by status."""

    @wraps(view)
    def answer(request: HttpRequest) -> HttpResponse:
        response = view(request)
        _tally(settings.CELERY_BROKER_URL).count(response.status_code)
        return response

    return answer


def deliveries() -> dict[str, int]:
    """How many deliveries were answered with each status since Redis started."""
    return _tally(settings.CELERY_BROKER_URL).counts()
