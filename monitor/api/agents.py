"""What agents ask of the centre over HTTP: their plan, and to take their results. Nothing here is behind the login.

    GET  /api/agent/plan      200 Plan with its version as ETag, 304 where the agent has it
    POST /api/agent/results   a Batch, plain or gzip, to 200 Receipt after the commit

A refusal is JSON, {"error": "…"}: 400 not a batch, 401 no valid token, 411 no length, 413 too large, 415 not JSON or
gzip. 503 with Retry-After where the database is away; the agent keeps its results and comes again. The structs are in
`probes.site.wire`; what is done with a batch is in `monitor.archive.ingest`.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable
from functools import wraps

import msgspec
from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseNotModified
from django.utils import timezone
from django.utils.cache import patch_cache_control
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_POST

from monitor.api.models import AgentToken, token_digest
from monitor.archive.checks import BatchRejected
from monitor.archive.ingest import store
from monitor.mesh.models import Site
from monitor.mesh.plan import plan_for
from probes.site.wire import Batch

RETRY_AFTER_S = 5
LARGEST_BATCH = 10_000
"""Results in one batch."""
GZIP_WBITS = 31

AgentView = Callable[[HttpRequest, Site], HttpResponse]

logger = logging.getLogger(__name__)
_batches = msgspec.json.Decoder(Batch)


class Refused(Exception):
    """A request that is answered with this status and reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


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
        except (OperationalError, InterfaceError) as error:
            logger.warning("an agent is told to come again: the database is away: %s", error)
            response = _error(503, "the database is away; try again")
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
    batch = _decode(_body(request))
    try:
        return _json(store(site.pk, batch, timezone.now()))
    except BatchRejected as error:
        raise Refused(400, str(error)) from error


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


def _body(request: HttpRequest) -> bytes:
    """The decoded body, never more than DATA_UPLOAD_MAX_MEMORY_SIZE of it."""
    limit_bytes = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    if request.content_type != "application/json":
        raise Refused(415, f"content type {request.content_type!r}: send application/json")
    length = request.META.get("CONTENT_LENGTH") or ""
    if not length.isdecimal():
        raise Refused(411, "send the Content-Length")
    if int(length) > limit_bytes:
        raise Refused(413, f"{length} bytes are more than {limit_bytes}; send smaller batches")
    encoding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding == "identity":
        return request.body
    if encoding == "gzip":
        return _gunzip(request.body, limit_bytes)
    raise Refused(415, f"content encoding {encoding!r}: send gzip or none")


def _gunzip(data: bytes, limit_bytes: int) -> bytes:
    """Decompress without ever holding more than the limit, whatever the data claims."""
    stream = zlib.decompressobj(GZIP_WBITS)
    try:
        body = stream.decompress(data, limit_bytes + 1)
    except zlib.error as error:
        raise Refused(400, f"not gzip: {error}") from error
    if len(body) > limit_bytes:
        raise Refused(413, f"more than {limit_bytes} bytes when decompressed; send smaller batches")
    if not stream.eof or stream.unused_data:
        raise Refused(400, "the gzip data ends too early or goes on after its end")
    return body


def _decode(body: bytes) -> Batch:
    try:
        batch = _batches.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refused(400, f"not a batch: {error}") from error
    if len(batch.results) > LARGEST_BATCH:
        raise Refused(413, f"{len(batch.results)} results are more than {LARGEST_BATCH}; send smaller batches")
    return batch


def _json(value: object) -> HttpResponse:
    return HttpResponse(msgspec.json.encode(value), content_type="application/json")


def _error(status: int, reason: str) -> HttpResponse:
    return HttpResponse(msgspec.json.encode({"error": reason}), status=status, content_type="application/json")
