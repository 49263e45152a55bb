"""JSON responses to agents; refusals have status, reason and Retry-After."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from functools import wraps

import msgspec
from django.contrib.auth.decorators import login_not_required
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.utils.cache import patch_cache_control
from django.views.decorators.csrf import csrf_exempt

from monitor.agents.clock_headers import View
from monitor.agents.request_bodies import RequestRefused
from monitor.archive.ingest.arrivals import BatchTooLarge
from monitor.archive.upkeep import trouble

DATABASE_RETRY_AFTER_S = 5

logger = logging.getLogger(__name__)


def json_answer(value: object) -> HttpResponse:
    return HttpResponse(msgspec.json.encode(value), content_type="application/json")


def open_to_programs(*methods: str) -> Callable[[View], View]:
    """Allow these methods without login or cookies; answer `RequestRefused`."""

    def wrap(view: View) -> View:
        @csrf_exempt
        @login_not_required
        @wraps(view)
        def answer(request: HttpRequest) -> HttpResponse:
            if request.method in methods:
                response = _call_view(view, request)
            else:
                reason = f"{request.method} is not for this address: send {' or '.join(methods)}"
                response = _refusal(RequestRefused(405, reason))
                response["Allow"] = ", ".join(methods)
            patch_cache_control(response, private=True, no_store=True)
            return response

        return answer

    return wrap


def _call_view(view: View, request: HttpRequest) -> HttpResponse:
    try:
        return view(request)
    except RequestRefused as refused:
        return _refusal(refused)
    except BatchTooLarge as error:
        return _refusal(RequestRefused(413, str(error)))
    except (OperationalError, InterfaceError) as error:
        kind = trouble.kind_of(error)
        logger.warning("an agent is told to retry: %s: %s", kind, error)
        trouble.record_trouble(kind)
        return _refusal(RequestRefused(503, f"{kind}; try again", retry_after_s=DATABASE_RETRY_AFTER_S))


def _refusal(refused: RequestRefused) -> HttpResponse:
    response = json_answer({"error": str(refused)})
    response.status_code = refused.status
    if refused.retry_after_s is not None:
        response["Retry-After"] = str(max(1, math.ceil(refused.retry_after_s)))
    if refused.status == 401:
        response["WWW-Authenticate"] = 'Bearer realm="soundings agents"'
    return response
