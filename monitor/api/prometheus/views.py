"""`/metrics` and `/metrics/paths`, with access as for the API.

Answers are cached in Redis, so no process gives an older figure after a newer. Without Redis each process reads the
database, one scrape at a time.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from django.db import DatabaseError, InterfaceError, connection, transaction
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from monitor import redis_client
from monitor.accounts.read_limits import is_limited
from monitor.api.prometheus.paths import PathCollector
from monitor.api.prometheus.system import SystemCollector
from monitor.archive.queries.directions import direction_counters
from monitor.archive.queries.for_prometheus import newest_responses, path_counters, route_counters
from monitor.overview.links.use import link_uses
from monitor.present.read import load, path_names

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Shorter than any scrape interval.
KEPT_S = 5
# Maximum of paths and packet sizes in a scrape of /metrics/paths: each is 27 samples and a millisecond or more.
MOST_SERIES = 1000
# Prometheus hangs up after 10 s.
STATEMENT_TIMEOUT = "8s"

logger = logging.getLogger(__name__)
_one_at_a_time = threading.Lock()


class TooMany(Exception):
    """The message says how to split the scrape."""


@require_safe
def system(request: HttpRequest) -> HttpResponse:
    return _answer("system", lambda: SystemCollector(timezone.now()))


@require_safe
def paths(request: HttpRequest) -> HttpResponse:
    """Newest values of each path; ?source=SITE restricts them."""
    source = request.GET.get("source") or None
    return _answer(f"paths:{source or ''}", lambda: _path_collector(source))


def _path_collector(source: str | None) -> PathCollector:
    now = timezone.now()
    counters = path_counters(now, source=source, most=MOST_SERIES + 1)
    names = path_names(source, most=MOST_SERIES + 1)
    if max(len(counters), len(names)) > MOST_SERIES:
        raise TooMany(
            f"more than {MOST_SERIES} paths and packet sizes: scrape each site by itself, with ?source=SITE "
            "(docs/prometheus.md shows how)"
        )
    path_ids = sorted({counter.path_id for counter in counters})
    present = load([path_id for *_, path_id in names])
    return PathCollector(
        counters,
        route_counters(now, path_ids),
        direction_counters(now, path_ids),
        link_uses(path_ids, {}, now) if path_ids else (),
        newest_responses(now, source=source, most=MOST_SERIES),
        [((*ends, str(path_id)), present[path_id]) for *ends, path_id in names if path_id in present],
    )


def _answer(key: str, make: Callable[[], Collector]) -> HttpResponse:
    try:
        text = _exposed(make) if is_limited() else _shared(key, make)
    except TooMany as error:
        return _refused(422, str(error))
    except (DatabaseError, InterfaceError) as error:
        logger.warning("no metrics: the database does not answer: %s", error)
        return _refused(503, "the database does not answer; try again")
    return HttpResponse(text, content_type=CONTENT_TYPE)


def _shared(key: str, make: Callable[[], Collector]) -> bytes:
    """Collector's text, made once in `KEPT_S` for all readers without limits."""
    cache = redis_client.centre()
    text: bytes | None = cache.command("get", f"metrics:{key}")
    if text is None:
        with _one_at_a_time:
            text = cache.command("get", f"metrics:{key}")
            if text is None:
                text = _exposed(make)
                cache.command("set", f"metrics:{key}", text, ex=KEPT_S, nx=True)
    return text


def _exposed(make: Callable[[], Collector]) -> bytes:
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('statement_timeout', %s, true)", [STATEMENT_TIMEOUT])
        return generate_latest(make())


def _refused(status: int, detail: str) -> HttpResponse:
    response = HttpResponse(f"{detail}\n", status=status, content_type="text/plain; charset=utf-8")
    if status == 503:
        response["Retry-After"] = str(KEPT_S)
    return response
