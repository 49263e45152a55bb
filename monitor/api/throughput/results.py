"""The users' API about the results of each kind of `monitor.archive.kinds`: an address for each.

As in `monitor.api.users`, which these addresses are part of: read-only, units in the names, null is not known.
"""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router, Schema
from pydantic import create_model

from monitor.api.parameters import ProblemOut, Range, path_or_404
from monitor.api.record_schemas import required_fields
from monitor.archive.kinds import RESULT_KINDS
from monitor.archive.kinds.kind import Point, ResultKind
from monitor.archive.queries.kind_series import kind_series

router = Router()


def _add(result_kind: ResultKind) -> None:
    """Add the address of a kind, which is its name."""
    name, answer = result_kind.kind.name, result_kind.answer
    fields = required_fields(result_kind.point)
    schema: Any = create_model(
        answer.schema, __base__=Schema, __doc__=answer.description, __module__=__name__, **fields
    )

    @router.get(
        f"/paths/{{int:path_id}}/{name}",
        response={200: list[schema], 404: ProblemOut, 422: ProblemOut},
        summary=answer.summary,
        operation_id=answer.operation_id,
    )
    def list_results(request: HttpRequest, path_id: int, between: Query[Range]) -> list[Point]:
        path_or_404(path_id)
        return kind_series(name, path_id, *between.resolve_at(timezone.now()))


for _kind in RESULT_KINDS.values():
    _add(_kind)
