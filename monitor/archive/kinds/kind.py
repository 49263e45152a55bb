"""A kind that has a table of its own: how its results are checked, stored, read and answered.

The table declares the fields of a result: `ResultKind.point` is the record of those that API, CSV files and pages show.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, make_dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from django.db import models

from probes.contract import Kind

# A frozen record with the shown fields of a result; `at` is the start of the measurement.
Point = Any
NOT_SHOWN = ("path_id", "slot_id")
TYPES: dict[type[models.Field[Any, Any]], type] = {
    models.FloatField: float,
    models.IntegerField: int,
    models.TextField: str,
    models.BooleanField: bool,
    models.DateTimeField: datetime,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiAnswer:
    """The texts of a kind in the description of the API.

    `schema` and `operation_id` name a result and the operation in generated clients.
    """

    schema: str
    operation_id: str
    summary: str
    description: str


@dataclass(frozen=True, eq=False, kw_only=True)
class ResultKind:
    kind: Kind
    table: type[models.Model]
    contradiction: Callable[[Any], str | None]  # reason to refuse a result; None if its fields agree
    computed: Callable[[Any], dict[str, Any]] = lambda run: {}  # columns without a field of the result
    slot_bytes: str | None = None  # field with the bytes that a test moved; None for a kind without slots
    not_shown: tuple[str, ...] = ()  # columns that are stored alone
    answer: ApiAnswer

    @cached_property
    def point(self) -> type[Any]:
        """The record of the shown columns, in the order of the table."""
        shown = (column for column in self.table._meta.concrete_fields if column.name not in self._left_out)
        return make_dataclass(
            f"{self.table.__name__}Point",
            [("at" if column.name == "measured_at" else column.name, _type_of(column)) for column in shown],
            frozen=True,
            slots=True,
        )

    @property
    def _left_out(self) -> tuple[str, ...]:
        return (*NOT_SHOWN, *self.not_shown)


def _type_of(column: models.Field[Any, Any]) -> Any:
    value = next(value for field, value in TYPES.items() if isinstance(column, field))
    return value | None if column.null else value
