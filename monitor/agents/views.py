"""Agent API: plan, results, on-demand pings, without login. docs/api.md has the requests and statuses.

Besides, 409 where another agent holds the token (`monitor.agents.holders`), and POST /api/agent/on-demand-pings: an
OnDemandPingReport to 200 {}; 410 where that run is over.
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
# Per process: other threads serve pages, and memory is bounded.
BATCHES_AT_ONCE = 2
LONGEST_WAIT_S = 1.0

_storing = threading.BoundedSemaphore(BATCHES_AT_ONCE)
_sending: set[int] = set()
_sending_lock = threading.Lock()


@agent_view("GET")
def plan(request: HttpRequest, site: AgentSite) -> HttpResponse:
    """The plan is built only where the agent has another version, or none is stored."""
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
    """Allow one upload per site at a time."""
    # A slow site then occupies a single thread.
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
    if not _storing.acquire(timeout=LONGEST_WAIT_S):
        reason = f"{BATCHES_AT_ONCE} batches are being stored already; try again"
        raise RequestRefused(503, reason, retry_after_s=RETRY_AFTER_S)
    try:
        yield
    finally:
        _storing.release()
