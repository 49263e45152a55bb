"""Decide by headers whether a body is read: no form is large, and a large body needs authority first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.core.handlers.wsgi import WSGIRequest
from django.db import close_old_connections
from django.http import HttpRequest, HttpResponse

from monitor.accounts.roles import Action, may
from monitor.agents.authentication import has_valid_token
from monitor.web.bodies.heads import FORM_BYTES
from monitor.web.pages.captures.view import MOST_BODY_BYTES
from monitor.web.request.errors import error_answer

LONGEST_LENGTH = 18
NO_LENGTH = "The request has a body without a length; send Content-Length."
TOO_LARGE = f"The body is larger than {FORM_BYTES // 1000} kB, which no form here needs; send less."
NO_AUTHORITY = "Log in as an operator before you send this file."


@dataclass(frozen=True, slots=True)
class LargeBody:
    most_bytes: int
    may_send: Callable[[HttpRequest], bool]


def _is_operator(request: HttpRequest) -> bool:
    if not hasattr(request, "user"):  # asked before the middleware has seen the request
        close_old_connections()
        SessionMiddleware(_no_answer).process_request(request)
        AuthenticationMiddleware(_no_answer).process_request(request)
    return may(request.user, Action.OPERATE)


def _no_answer(request: HttpRequest) -> HttpResponse:
    raise NotImplementedError


LARGE_BODIES = {
    ("POST", "/api/agent/results"): LargeBody(settings.DATA_UPLOAD_MAX_MEMORY_SIZE, has_valid_token),
    ("POST", "/captures/"): LargeBody(MOST_BODY_BYTES, _is_operator),
}


def is_welcome(environ: dict[str, Any]) -> bool:
    """Whether the body is read. Raises database errors."""
    length = _length(environ)
    if length is None or length <= FORM_BYTES:
        return length is not None
    large = LARGE_BODIES.get((environ["REQUEST_METHOD"], environ["PATH_INFO"]))
    return large is not None and length <= large.most_bytes and large.may_send(WSGIRequest(environ))


class BodyLimits:
    """Answer 411 for a body without length, 413 for a form too large, 403 for a stranger's large body."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self._refusal(request) or self.get_response(request)

    def _refusal(self, request: HttpRequest) -> HttpResponse | None:
        length = _length(request.META)
        large = LARGE_BODIES.get((str(request.method), request.path_info))
        if request.path.startswith("/api/agent/") or (length is not None and length <= FORM_BYTES):
            return None
        if length is None:
            return error_answer(request, 411, "No length", NO_LENGTH)
        if large is None:
            return error_answer(request, 413, "Too large", TOO_LARGE)
        return None if large.may_send(request) else error_answer(request, 403, "Not allowed", NO_AUTHORITY)


def _length(environ: dict[str, Any]) -> int | None:
    said = environ.get("CONTENT_LENGTH") or "0"
    if "HTTP_TRANSFER_ENCODING" in environ or not (said.isascii() and said.isdecimal()):
        return None
    return int(said[: LONGEST_LENGTH + 1])  # Python refuses to parse thousands of digits
