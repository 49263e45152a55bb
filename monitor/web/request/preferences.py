"""Apply the reader's theme and time zone to pages; the API and metrics stay in UTC."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from monitor.accounts import preferences
from monitor.accounts.access import FOR_PROGRAMS
from monitor.accounts.preferences import THEME_COOKIE, ZONE_COOKIE, Preferences

SAME_FOR_ALL = (*FOR_PROGRAMS, "/charts/", "/status/")
COOKIE_AGE_S = 365 * 86_400


class PersonalPages:
    """Middleware that applies the reader's preferences, after authentication."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        try:
            return self.get_response(request)
        finally:
            timezone.deactivate()

    def process_view(self, request: HttpRequest, view: Callable[..., Any], args: Any, kwargs: Any) -> None:
        if not request.path.startswith(SAME_FOR_ALL):
            chosen = preferences.load(request.user, request.COOKIES)
            request.preferences = chosen  # type: ignore[attr-defined]
            timezone.activate(chosen.zone)


def preferences_of(request: HttpRequest) -> Preferences:
    """Preferences, from cookies where no view was reached."""
    chosen: Preferences | None = getattr(request, "preferences", None)
    return preferences.from_cookies(request.COOKIES) if chosen is None else chosen


def personal(request: HttpRequest) -> dict[str, Any]:
    return {"preferences": preferences_of(request)}


def set_cookies(response: HttpResponse, chosen: Preferences) -> None:
    for name, value in ((THEME_COOKIE, chosen.theme.value), (ZONE_COOKIE, chosen.time_zone)):
        set_cookie(response, name, value)


def set_cookie(response: HttpResponse, name: str, value: str) -> None:
    response.set_cookie(
        name, value, max_age=COOKIE_AGE_S, secure=settings.SESSION_COOKIE_SECURE, httponly=True, samesite="Lax"
    )
