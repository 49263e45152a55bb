"""Agent API: plan, results and on-demand pings. No login.

    GET  /api/agent/plan      200 Plan with its version as ETag, 304 where the agent has it
    POST /api/agent/results   a Batch, as JSON or MessagePack, plain, gzip or zstd, to 200 Receipt after the commit,
                              with the version of the plan where it is stored
    POST /api/agent/on-demand-pings   an OnDemandPingReport as JSON, to 200 {}; 410 where that run is over

A refusal is JSON, {"error": "…"}: 400 not a batch, 401 no valid token, 405 another method, 408 truncated or too slow,
409 another agent holds the token (`monitor.agents.holders`), 411 no length, 413 too large, 415 unknown content type or
encoding, 426 another protocol (`monitor.agents.protocol`), 429 with Retry-After above the rate limit of the token. 503
with Retry-After where the database is unavailable, slow or full, or too many batches are being stored: nothing is
queued here, the agent keeps its results and retries. `probes.site.wire` has the structs,
`monitor.agents.request_bodies` decompresses, `monitor.archive.ingest.store_batch` stores.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
from django.http import HttpRequest, HttpResponse, HttpResponseNotModified
from django.utils import timezone

from monitor.agents import health
from monitor.agents.authentication import AgentSite, agent_view
from monitor.agents.request_bodies import RequestRefused, decompress, read_body, read_request
from monitor.agents.responses import json_answer
from monitor.archive.upkeep import trouble
from monitor.mesh import stored_plans
from monitor.mesh.models import Site
from monitor.mesh.plan import plan_for
from monitor.mesh.schedule.requests import HANDED_OUT, UnknownRun, record
from probes.site.wire import ABILITIES_HEADER, PLAN_HEADER, OnDemandPingReport

RETRY_AFTER_S = 5
LARGEST_PING_REPORT_BYTES = 16_384
BATCHES_AT_ONCE = 2
"""Batches stored at a time per process: other threads serve pages, and memory is bounded."""
LONGEST_WAIT_S = 1.0

_storing = threading.BoundedSemaphore(BATCHES_AT_ONCE)
_sending: set[int] = set()
_sending_lock = threading.Lock()


@agent_view("GET")
def plan(request: HttpRequest, site: AgentSite) -> HttpResponse:
    """Plan of the site. It is built only where the agent has another version, or no version is stored."""
    abilities = {ability.strip() for ability in request.headers.get(ABILITIES_HEADER, "").split(",")}
    etags = [tag.strip().removeprefix("W/") for tag in request.headers.get("If-None-Match", "").split(",")]
    has_all = abilities >= set(HANDED_OUT)
    if has_all and site.plan_version is not None and f'"{site.plan_version}"' in etags:
        return _with_etag(HttpResponseNotModified(), f'"{site.plan_version}"')
    now, iperf3_of = timezone.now(), health.Iperf3OfSites()
    if has_all:
        current = stored_plans.build(site.pk, now, iperf3_of)
    else:
        current = plan_for(Site.objects.get(pk=site.pk), now, iperf3_of, abilities)
    etag = f'"{current.version}"'
    return _with_etag(HttpResponseNotModified() if etag in etags else json_answer(current), etag)


def _with_etag(response: HttpResponse, etag: str) -> HttpResponse:
    response["ETag"] = etag
    return response


@agent_view("POST")
def results(request: HttpRequest, site: AgentSite) -> HttpResponse:
    """Store a batch and send the receipt."""
    with _single_upload(site):
        packed = read_request(request)
    with _limit_batches():
        now, arrival = timezone.now(), decompress(packed)
        receipt = health.receive_with_health(site.pk, arrival, now)
        if receipt.accepted > 0:  # an empty batch does not prove that storing works
            trouble.clear_trouble()
    response = json_answer(receipt)
    if site.plan_version is not None:
        response[PLAN_HEADER] = site.plan_version
    return response


@agent_view("POST")
def on_demand_pings(request: HttpRequest, site: AgentSite) -> HttpResponse:
    """Store the newest report of on-demand pings."""
    try:
        report = msgspec.json.decode(read_body(request, LARGEST_PING_REPORT_BYTES), type=OnDemandPingReport)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestRefused(400, f"not a report of on-demand pings: {error}") from error
    if any(place >= len(report.rtts_ms) or report.rtts_ms[place] is not None for place in report.awaited):
        raise RequestRefused(400, "awaited names a request that was not sent, or that was answered")
    try:
        record(site.pk, report, timezone.now())
    except UnknownRun as error:
        raise RequestRefused(410, str(error)) from error
    return json_answer({})


@contextmanager
def _single_upload(site: AgentSite) -> Iterator[None]:
    """Allow a single upload per site at a time, so that a slow site occupies a single thread."""
    with _sending_lock:
        if site.pk in _sending:
            raise RequestRefused(503, f"{site.name} is sending already; try again", retry_after_s=RETRY_AFTER_S)
        _sending.add(site.pk)
    try:
        yield
    finally:
        with _sending_lock:
            _sending.remove(site.pk)


@contextmanager
def _limit_batches() -> Iterator[None]:
    """Limit the batches decompressed at a time; excess agents retry."""
    if not _storing.acquire(timeout=LONGEST_WAIT_S):
        reason = f"{BATCHES_AT_ONCE} batches are being stored already; try again"
        raise RequestRefused(503, reason, retry_after_s=RETRY_AFTER_S)
    try:
        yield
    finally:
        _storing.release()
