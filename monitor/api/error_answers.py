"""Answer failed requests of the users' API with a status and `{"detail": "…"}`, and all in JSON, with times in Z."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import NinjaAPI
from ninja.errors import ValidationError
from ninja.renderers import JSONRenderer
from ninja.responses import NinjaJSONEncoder

from monitor.alerts.incidents.actions import ActionRefused
from monitor.alerts.incidents.listing import UnknownFilter
from monitor.api.incidents import status_of
from monitor.api.limited_requests import TooOften
from monitor.mesh.schedule.on_demand import OnDemandError
from monitor.overview.grid import UnknownChoice

MOST_NAMED = 5


class ApiEncoder(NinjaJSONEncoder):
    def default(self, o: Any) -> Any:
        if isinstance(o, datetime):
            return o.isoformat().replace("+00:00", "Z")
        return super().default(o)


class ApiRenderer(JSONRenderer):
    encoder_class = ApiEncoder


def add_error_answers(api: NinjaAPI) -> None:
    @api.exception_handler(ActionRefused)
    @api.exception_handler(OnDemandError)
    def not_possible(request: HttpRequest, error: ActionRefused | OnDemandError) -> HttpResponse:
        answer = api.create_response(request, {"detail": str(error)}, status=status_of(error))
        if isinstance(error, TooOften):
            answer["Retry-After"] = str(error.wait_s)
        return answer

    @api.exception_handler(UnknownFilter)
    @api.exception_handler(UnknownChoice)
    def unknown_choice(request: HttpRequest, error: Exception) -> HttpResponse:
        return api.create_response(request, {"detail": str(error)}, status=422)

    @api.exception_handler(ValidationError)
    def invalid(request: HttpRequest, error: ValidationError) -> HttpResponse:
        return api.create_response(request, {"detail": validation_sentence(error.errors)}, status=422)


def validation_sentence(errors: Sequence[dict[str, Any]]) -> str:
    """Word pydantic's errors: `at: required; duration_s: must be greater than 0`."""
    # A value of several permitted types has an error for each of them.
    faults = list(dict.fromkeys(f"{_place(error['loc'])}: {_fault(error)}" for error in errors))
    more = len(faults) - MOST_NAMED
    return "; ".join(faults[:MOST_NAMED]) + (f"; and {more} more" if more > 0 else "")


def _place(location: Sequence[str | int]) -> str:
    source, *names = location
    if source in ("body", "form", "file") and len(names) > 1:
        del names[0]
    return ".".join(str(name) for name in names) or str(source)


def _fault(error: dict[str, Any]) -> str:
    known = {"missing": "required", "extra_forbidden": "unknown field"}.get(str(error["type"]))
    if known is not None:
        return known
    text = str(error["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    # "Input should be a valid integer", "String should match pattern …"
    text = re.sub(r"^\w+ should ", "must ", text)
    return text[:1].lower() + text[1:]
