"""Reject a NUL, which text in the database cannot hold, and too large numbers in paths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse

from monitor.accounts.access import FOR_PROGRAMS
from probes.bounds import LARGEST_BIGINT


class RejectUnreadable:
    """Answer 400 for a NUL, 404 for a number beyond every key."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        query = request.META.get("QUERY_STRING", "")
        if "\x00" in request.path_info or "\x00" in query or "%00" in query:
            if request.path.startswith(FOR_PROGRAMS):
                return JsonResponse({"detail": "a NUL in the address"}, status=400)
            raise BadRequest("a NUL in the address")
        return self.get_response(request)

    def process_view(self, request: HttpRequest, view: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> None:
        if any(isinstance(value, int) and value > LARGEST_BIGINT for value in kwargs.values()):
            raise Http404("No number is that large.")
        # Programs send no forms, and a body of theirs is not read before it is known who sends it.
        is_form = request.method == "POST" and not request.path.startswith(FOR_PROGRAMS)
        if is_form and any("\x00" in text for _, texts in request.POST.lists() for text in texts):
            raise BadRequest("a NUL in the form")
