"""Convert delivered results to rows of their tables."""

from __future__ import annotations

from typing import Any, TypeVar, cast

import msgspec
from django.db.models import Model

from probes.free_text import cleaned
from probes.site.wire import Delivered

Row = TypeVar("Row", bound=Model)


def row_of(table: type[Row], delivered: Delivered, **computed: Any) -> Row:
    """Build an unsaved row from equally named fields and `computed`; `measured_at` is the start."""
    result = delivered.result
    fields = {
        **msgspec.structs.asdict(
            cast("msgspec.Struct", result)
        ),  # a struct may leave its defaults out where it is encoded
        **msgspec.to_builtins(result),
        "path_id": delivered.path_id,
        "measured_at": result.started_at,
        "test": delivered.test,
        "slot_id": delivered.slot_id,
        "during_test": delivered.during_test,
        **computed,
    }
    names = [column.name for column in table._meta.concrete_fields if column.name in fields]
    return table(**{name: _storable(fields[name]) for name in names})


def _storable(value: Any) -> Any:
    """Make an agent's text printable and a single line."""
    return cleaned(value) if isinstance(value, str) else value
