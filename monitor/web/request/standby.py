"""Read pages from a PostgreSQL standby (`monitor.standby_reads`), and show as of when.

The primary serves readers who have just changed something, limited readers (the limit is on its connection), and the
API.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connections
from django.http import HttpRequest, HttpResponse

from monitor.accounts.access import FOR_PROGRAMS
from monitor.accounts.read_limits import is_limited
from monitor.standby_reads import STANDBY, leave_alone, prefer_standby

CHANGED_COOKIE = "changed"
# A standby is well under a second behind.
READS_PRIMARY_S = 10
FROM_PRIMARY = (*FOR_PROGRAMS, "/login/", "/lab/")


class PagesFromStandby:
    """Last middleware: makes the page itself where the standby can be read."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if STANDBY in connections.settings and request.method not in ("GET", "HEAD"):
            secure = settings.SESSION_COOKIE_SECURE
            response.set_cookie(
                CHANGED_COOKIE, "1", max_age=READS_PRIMARY_S, secure=secure, httponly=True, samesite="Lax"
            )
        return response

    def process_view(
        self, request: HttpRequest, view: Callable[..., Any], args: Any, kwargs: Any
    ) -> HttpResponse | None:
        """Return None to read the primary."""
        if STANDBY not in connections.settings or not self._may_be_older(request):
            return None
        with prefer_standby() as as_of:
            if as_of is None:
                return None
            request.as_of = as_of  # type: ignore[attr-defined]
            try:
                response: HttpResponse = view(request, *args, **kwargs)
                if hasattr(response, "render"):
                    response = response.render()
            except (DatabaseError, InterfaceError) as error:
                leave_alone(error)
            else:
                return response
        request.as_of = None  # type: ignore[attr-defined]
        return None

    def _may_be_older(self, request: HttpRequest) -> bool:
        return (
            request.method in ("GET", "HEAD")
            and not request.path.startswith(FROM_PRIMARY)
            and CHANGED_COOKIE not in request.COOKIES
            and not is_limited()
            and getattr(request, "shared_link", None) is None
        )
