"""Error pages, or JSON for programs; fault details are only in the log."""

from __future__ import annotations

import sys

from django.core.exceptions import PermissionDenied
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponsePermanentRedirect, JsonResponse
from django.template.loader import render_to_string
from django.urls import is_valid_path
from django.urls.exceptions import Resolver404
from django.utils.http import escape_leading_slashes

from monitor.accounts.access import FOR_PROGRAMS
from monitor.accounts.preferences import from_cookies
from monitor.archive.cold.files import ColdFileError

RETRY_AFTER_S = 5
BAD_REQUEST = "The request is invalid, or its host is not in SOUNDINGS_ALLOWED_HOSTS."
NOT_ALLOWED = "You do not have permission."
NOT_FOUND = "No page at this address."
FAILED = "Internal error; see the log of the web server. Measurements continue."
NO_COLD_FILES = (
    "The bursts of these days are in files that cannot be read at the moment. `manage.py archive cold --verify` tells "
    "the administrator why. Summaries of longer periods and recent days are not affected."
)
NO_DATABASE = "The database cannot be reached. Measurements continue; reload to retry."
STALE_FORM = "The form has expired or came from another site. Reload the page and submit it again."


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return error_answer(request, 400, "Bad request", BAD_REQUEST)


def forbidden(request: HttpRequest, exception: PermissionDenied) -> HttpResponse:
    return error_answer(request, 403, "Not allowed", str(exception) or NOT_ALLOWED)


def not_found(request: HttpRequest, exception: Http404) -> HttpResponse:
    """Answer 404, or redirect where the address only has a slash too many."""
    bare = request.path_info.rstrip("/")
    if isinstance(exception, Resolver404) and bare != request.path_info and is_valid_path(bare):
        # Not what the client wrote: "//other.example/" would lead to another host.
        query = request.META.get("QUERY_STRING", "")
        return HttpResponsePermanentRedirect(
            escape_leading_slashes(bare) + f"?{query}" * bool(query), preserve_request=True
        )
    said = "" if isinstance(exception, Resolver404) else str(exception)
    return error_answer(request, 404, "Not found", said or NOT_FOUND)


def failed(request: HttpRequest) -> HttpResponse:
    """Answer 500, or 503 where database or cold files fail; called while the exception is handled."""
    if isinstance(sys.exc_info()[1], (OperationalError, InterfaceError)):
        response = error_answer(request, 503, "Temporarily unavailable", NO_DATABASE)
        response.headers["Retry-After"] = str(RETRY_AFTER_S)
        return response
    if isinstance(sys.exc_info()[1], ColdFileError):
        return error_answer(request, 503, "Old bursts cannot be read", NO_COLD_FILES)
    return error_answer(request, 500, "Internal error", FAILED)


def stale_form(request: HttpRequest, reason: str = "") -> HttpResponse:
    return error_answer(request, 403, "Form expired", STALE_FORM)


def error_answer(request: HttpRequest, status: int, title: str, text: str) -> HttpResponse:
    """Error page in the browser's theme, or JSON for programs; needs no request, session or database."""
    if request.path.startswith(FOR_PROGRAMS):
        return JsonResponse({"detail": text}, status=status)
    context = {"error_title": title, "error_text": text, "preferences": from_cookies(request.COOKIES)}
    return HttpResponse(render_to_string("web/error.html", context), status=status)
