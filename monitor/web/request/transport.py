"""Require TLS over networks, unless SOUNDINGS_ALLOW_PLAIN_HTTP=1.

Django's SECURE_SSL_REDIRECT would also turn away loopback: the local agent and `manage.py up`.
"""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponsePermanentRedirect, JsonResponse

from monitor.accounts.access import FOR_PROGRAMS
from monitor.accounts.origin import stayed_on_this_machine

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
