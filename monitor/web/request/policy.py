"""Browser policies of stored documents, and the Permissions-Policy."""

from __future__ import annotations

from collections.abc import Callable

from csp.constants import NONE, UNSAFE_INLINE
from django.http import HttpRequest, HttpResponse

# For an HTML file that was written earlier: its own style and pictures show, nothing in it can run.
STORED_DOCUMENT: dict[str, list[str]] = {
    "default-src": [NONE],
    "style-src": [UNSAFE_INLINE],
    "img-src": ["data:"],
    "sandbox": ["allow-top-navigation-by-user-activation"],
}

NO_DEVICES = ", ".join(
    f"{feature}=()"
    for feature in ("accelerometer", "camera", "geolocation", "gyroscope", "microphone", "payment", "usb")
)


class PermissionsPolicy:
    """Deny pages the browser's devices: none asks for them."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response.headers.setdefault("Permissions-Policy", NO_DEVICES)
        return response
