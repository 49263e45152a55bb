"""What agents ask of the centre over HTTP: their plan, and to take their results. Nothing here is behind the login.

    GET  /api/agent/plan      200 Plan with its version as ETag, 304 where the agent has it
    POST /api/agent/results   a Batch, as JSON or MessagePack, plain, gzip or zstd, to 200 Receipt after the commit

A refusal is JSON, {"error": "…"}: 400 not a batch, 401 no valid token, 405 another method, 408 cut or too slow, 409
another agent holds the token (`monitor.agents.holders`), 411 no length, 413 too large, 415 written or packed in a way
that is not known here, 426 another protocol (`monitor.agents.protocol`), 429 with Retry-After where one token asks too
often. 503 with Retry-After where the database is away, slow or full, or enough batches are being stored already:
nothing waits here, the agent keeps its results and comes again. The structs are in `probes.site.wire`; unpacking is in
`monitor.agents.bodies`, what is done with a batch in `monitor.archive.ingest.batches`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps

from django.http import HttpRequest, HttpResponse, HttpResponseNotModified
from django.utils import timezone

from monitor.accounts import rates
from monitor.accounts.callers import client_address
from monitor.accounts.models import token_digest
from monitor.agents import health, holders
from monitor.agents.answers import json_answer, open_to_programs
from monitor.agents.bodies import Refused, received, unpacked
from monitor.agents.models import AgentToken
from monitor.agents.protocol import require_spoken
from monitor.agents.stamps import View
from monitor.archive.ingest.batches import receive
from monitor.archive.upkeep import trouble
from monitor.mesh.models import Site
from monitor.mesh.plan import plan_for
from probes.site.wire import IDENTITY_HEADER

RETRY_AFTER_S = 5
BATCHES_AT_ONCE = 2
"""In one process: the other threads answer pages meanwhile, and memory is bounded."""
LONGEST_WAIT_S = 1.0

AgentView = Callable[[HttpRequest, Site], HttpResponse]

_storing = threading.BoundedSemaphore(BATCHES_AT_ONCE)
_sending: set[int] = set()
_sending_lock = threading.Lock()


def agent_view(method: str) -> Callable[[AgentView], View]:
    """Makes a view of one for the site that asks: whoever has no valid token, or asks too often, is refused first."""

    def wrap(view: AgentView) -> View:
        @open_to_programs(method)
        @wraps(view)
        def answer(request: HttpRequest) -> HttpResponse:
            require_spoken(request)
            return view(request, _site_of(request))

        return answer

    return wrap


@agent_view("GET")
def plan(request: HttpRequest, site: Site) -> HttpResponse:
    """What the site must measure now."""
    current = plan_for(site, timezone.now(), health.iperf3_of_sites())
    etag = f'"{current.version}"'
    known = [tag.strip().removeprefix("W/") for tag in request.headers.get("If-None-Match", "").split(",")]
    response = HttpResponseNotModified() if etag in known else json_answer(current)
    response["ETag"] = etag
    return response


@agent_view("POST")
def results(request: HttpRequest, site: Site) -> HttpResponse:
    """Store a batch and send the receipt."""
    with _only_one_of(site):
        packed = received(request)
    with _one_of_few():
        now, arrival = timezone.now(), unpacked(packed)
        receipt = receive(site.pk, arrival, now)
        if receipt.accepted > 0:  # a batch of nothing does not show that anything can be stored
            trouble.over()
        health.record(site.pk, arrival, now)
    return json_answer(receipt)


@contextmanager
def _only_one_of(site: Site) -> Iterator[None]:
    """A site sends one body at a time, so that one which sends slowly holds one thread and no more."""
    with _sending_lock:
        if site.pk in _sending:
            raise Refused(503, f"{site.name} is sending already; try again", retry_after_s=RETRY_AFTER_S)
        _sending.add(site.pk)
    try:
        yield
    finally:
        with _sending_lock:
            _sending.remove(site.pk)


@contextmanager
def _one_of_few() -> Iterator[None]:
    """Nothing is unpacked before there is room for it; an agent waits better than we do."""
    if not _storing.acquire(timeout=LONGEST_WAIT_S):
        reason = f"{BATCHES_AT_ONCE} batches are being stored already; try again"
        raise Refused(503, reason, retry_after_s=RETRY_AFTER_S)
    try:
        yield
    finally:
        _storing.release()


def _site_of(request: HttpRequest) -> Site:
    """The site whose agent holds the token. One look-up by digest, the same for every token, right or wrong."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise Refused(401, "no token: send Authorization: Bearer TOKEN; `manage.py site token NAME` makes one")
    digest = token_digest(token.strip())
    found = AgentToken.objects.select_related("site").filter(digest=digest, revoked_at=None).first()
    if found is None:
        raise Refused(401, "this token is unknown or revoked; `manage.py site token NAME` makes a new one")
    wait_s = rates.wait_s(f"agent:{digest}", rates.AGENT)
    if wait_s > 0:
        raise Refused(429, f"{found.site.name} asks too often; slow down", retry_after_s=wait_s)
    holders.require_holder(found, request.headers.get(IDENTITY_HEADER), client_address(request), timezone.now())
    return found.site
