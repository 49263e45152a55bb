"""Answer agents' frequent requests without the middleware of pages, which costs ten times the request. Agents need only
compressed plans, and refusal of plain HTTP. Other requests go through all of Django, to the same views."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from http.client import responses
from typing import Any, cast

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.core.handlers.exception import convert_exception_to_response
from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpRequest, HttpResponse, HttpResponsePermanentRedirect, JsonResponse
from django.middleware.gzip import GZipMiddleware

from monitor.accounts.access import FOR_PROGRAMS
from monitor.accounts.origin import stayed_on_this_machine
from monitor.agents import urls

REFUSED = (
    "plain HTTP is refused, and what it carried was shown to the network: use https://, and if a token was sent, "
    "replace it. Behind a proxy, let it set X-Forwarded-Proto, and name it in SOUNDINGS_TRUSTED_PROXIES"
)
UNNAMED_PROXY = (
    "a proxy that is not named in SOUNDINGS_TRUSTED_PROXIES says that this came by https://; whoever runs this centre "
    "names it there"
)


class EncryptedTransport:
    """Redirect readers to https://; refuse everything else sent in the clear."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if settings.ALLOW_PLAIN_HTTP or request.is_secure() or stayed_on_this_machine(request):
            return self.get_response(request)
        if request.path.startswith(FOR_PROGRAMS) or request.method not in ("GET", "HEAD"):
            return JsonResponse({"error": REFUSED, "detail": REFUSED}, status=403)
        if request.headers.get("X-Forwarded-Proto", "").lower() == "https":
            raise PermissionDenied(UNNAMED_PROXY)  # a redirect would lead here again
        return HttpResponsePermanentRedirect(f"https://{request.get_host()}{request.get_full_path()}")


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
