"""The Content-Security-Policy of every answer, by which only our own scripts run and nothing inline, and the
Permissions-Policy.

The charts keep to it too: Vega runs with its expression interpreter, so `unsafe-eval` is not needed. A view whose
answer wants another policy (a stored report carries its own style sheet) sets the header itself.
"""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

HEADER = "Content-Security-Policy"
PAGES = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
STORED_DOCUMENT = "; ".join(
    (
        "default-src 'none'",
        "style-src 'unsafe-inline'",
        "img-src data:",
        "sandbox allow-top-navigation-by-user-activation",
    )
)
"""For an HTML file that was written earlier: its own style and pictures show, nothing in it can run."""


NO_DEVICES = ", ".join(
    f"{feature}=()"
    for feature in ("accelerometer", "camera", "geolocation", "gyroscope", "microphone", "payment", "usb")
)
"""The Permissions-Policy: no page of ours asks for any of these."""


class Policies:
    """Middleware: adds the policies to answers that have none."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response.headers.setdefault(HEADER, PAGES)
        response.headers.setdefault("Permissions-Policy", NO_DEVICES)
        return response
