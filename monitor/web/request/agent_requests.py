"""Answer agents' frequent requests without the middleware of pages, which costs ten times the request. Agents need only
compressed plans, and refusal of plain HTTP. Other requests go through all of Django, to the same views."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from http.client import responses
from typing import Any, cast

from django.core.handlers.exception import convert_exception_to_response
from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpRequest, HttpResponse
from django.middleware.gzip import GZipMiddleware

from monitor.agents import urls
from monitor.web.request.transport import EncryptedTransport

PREFIX = "/api/agent/"
FREQUENT = {("GET", "plan"), ("POST", "results")}

View = Callable[[HttpRequest], HttpResponse]


def _whole(view: View) -> View:
    """Apply the agents' middleware; never raises."""
    compressed = cast("View", GZipMiddleware(view))
    return cast("View", convert_exception_to_response(EncryptedTransport(compressed)))


_VIEWS: dict[tuple[str, str], View] = {
    (method, PREFIX + route): _whole(pattern.callback)
    for pattern in urls.urlpatterns
    for method, route in FREQUENT
    if str(pattern.pattern) == route
}


def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes] | None:
    """Return None for any other request."""
    view = _VIEWS.get((environ["REQUEST_METHOD"], environ["PATH_INFO"]))
    if view is None or environ.get("SCRIPT_NAME"):
        return None
    response = view(WSGIRequest(environ))
    if not response.has_header("Content-Length"):
        response["Content-Length"] = str(len(response.content))
    status = f"{response.status_code} {responses.get(response.status_code, '')}"
    start_response(status, [*response.items()])
    return [response.content]
