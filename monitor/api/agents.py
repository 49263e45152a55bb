"""What agents ask of the centre over HTTP: their plan, and to take their results. Nothing here is behind the login.

    GET  /api/agent/plan      200 Plan with its version as ETag, 304 where the agent has it
    POST /api/agent/results   a Batch, as JSON or MessagePack, plain, gzip or zstd, to 200 Receipt after the commit

A refusal is JSON, {"error": "…"}: 400 not a batch, 401 no valid token, 411 no length, 413 too large, 415 written or
packed in a way that is not known here. 503 with Retry-After where the database is away, slow or full, or enough batches
are being stored already: nothing waits here, the agent keeps its results and comes again. The structs are in
`probes.site.wire`; unpacking is in `monitor.api.bodies`, what is done with a batch in `monitor.archive.ingest`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps

import msgspec
from django.contrib.auth.decorators import login_not_required
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseNotModified
from django.utils import timezone
from django.utils.cache import patch_cache_control
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_POST

from monitor.api import health
from monitor.api.bodies import Refused, arrival_in
from monitor.api.models import AgentToken, token_digest
from monitor.archive import trouble
from monitor.archive.arrivals import BatchTooLarge
from monitor.archive.ingest import receive
from monitor.mesh.models import Site
from monitor.mesh.plan import plan_for

RETRY_AFTER_S = 5
BATCHES_AT_ONCE = 2
"""In one process: the other threads answer pages meanwhile, and memory is bounded."""
LONGEST_WAIT_S = 1.0

AgentView = Callable[[HttpRequest, Site], HttpResponse]

logger = logging.getLogger(__name__)
_storing = threading.BoundedSemaphore(BATCHES_AT_ONCE)


def agent_view(view: AgentView) -> Callable[[HttpRequest], HttpResponse]:
    """The view with what all of them share: who asks, and how a refusal or a missing database is answered."""

    @csrf_exempt
    @login_not_required
    @wraps(view)
    def answer(request: HttpRequest) -> HttpResponse:
        try:
            response = view(request, _site_of(request))
        except Refused as refused:
            response = _error(refused.status, str(refused))
        except BatchTooLarge as error:
            response = _error(413, str(error))
        except (OperationalError, InterfaceError) as error:
            kind = trouble.kind_of(error)
            logger.warning("an agent is told to come again: %s: %s", kind, error)
            trouble.note(kind)
            response = _error(503, f"{kind}; try again")
        if response.status_code == 503:
            response["Retry-After"] = str(RETRY_AFTER_S)
        if response.status_code == 401:
            response["WWW-Authenticate"] = 'Bearer realm="soundings agents"'
        patch_cache_control(response, private=True, no_cache=True)
        return response

    return answer


@require_GET
@agent_view
def plan(request: HttpRequest, site: Site) -> HttpResponse:
    """What the site must measure now."""
    current = plan_for(site, timezone.now())
    etag = f'"{current.version}"'
    known = [tag.strip().removeprefix("W/") for tag in request.headers.get("If-None-Match", "").split(",")]
    response = HttpResponseNotModified() if etag in known else _json(current)
    response["ETag"] = etag
    return response


@require_POST
@agent_view
def results(request: HttpRequest, site: Site) -> HttpResponse:
    """Store a batch and send the receipt."""
    with _one_of_few():
        now, arrival = timezone.now(), arrival_in(request)
        receipt = receive(site.pk, arrival, now)
        health.record(site.pk, arrival, now)
    trouble.over()
    return _json(receipt)


@contextmanager
def _one_of_few() -> Iterator[None]:
    """Nothing of a batch is read before there is room for it; an agent waits better than we do."""
    if not _storing.acquire(timeout=LONGEST_WAIT_S):
        raise Refused(503, f"{BATCHES_AT_ONCE} batches are being stored already; try again")
    try:
        yield
    finally:
        _storing.release()


def _site_of(request: HttpRequest) -> Site:
    """The site whose agent holds the token. One look-up by digest, the same for every token, right or wrong."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise Refused(401, "no token: send Authorization: Bearer TOKEN; `manage.py site token NAME` makes one")
    found = (
        AgentToken.objects.select_related("site").filter(digest=token_digest(token.strip()), revoked_at=None).first()
    )
    if found is None:
        raise Refused(401, "this token is unknown or revoked; `manage.py site token NAME` makes a new one")
    return found.site


def _json(value: object) -> HttpResponse:
    return HttpResponse(msgspec.json.encode(value), content_type="application/json")


def _error(status: int, reason: str) -> HttpResponse:
    return HttpResponse(msgspec.json.encode({"error": reason}), status=status, content_type="application/json")
