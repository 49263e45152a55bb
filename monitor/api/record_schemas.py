"""Schemas of answers that have the fields of a record of `monitor.archive.queries`, or of a part of a result."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import fields
from typing import Any, TypeVar, get_type_hints

import msgspec
from ninja import Schema
from pydantic import create_model

SchemaT = TypeVar("SchemaT", bound=Schema)


def with_fields_of(
    record: type, *, without: Collection[str] = (), **in_json: Any
) -> Callable[[type[SchemaT]], type[SchemaT]]:
    """Give a schema the fields of a record, in order, none optional; `in_json` replaces types."""
    required = {name: of for name, of in required_fields(record, **in_json).items() if name not in without}

    def decorate(schema: type[SchemaT]) -> type[SchemaT]:
        return create_model(
            schema.__name__, __base__=schema, __doc__=schema.__doc__, __module__=schema.__module__, **required
        )

    return decorate


def required_fields(record: type, **in_json: Any) -> dict[str, Any]:
    """The fields of a record for `pydantic.create_model`, none optional; `in_json` as for `with_fields_of`."""
    types = {**get_type_hints(record), **in_json}
    of_record: Any = msgspec.structs.fields if issubclass(record, msgspec.Struct) else fields
    return {field.name: (types[field.name], ...) for field in of_record(record)}
