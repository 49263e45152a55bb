"""Schemas of answers that have the fields of a record of `monitor.archive.queries`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar, get_type_hints

from ninja import Schema
from pydantic import create_model

SchemaT = TypeVar("SchemaT", bound=Schema)


def with_fields_of(record: type, **in_json: Any) -> Callable[[type[SchemaT]], type[SchemaT]]:
    """Class decorator: give a schema all fields of a record, in their order, none optional.

    `in_json` has the types of fields that are answered in another type than the record's.
    """
    types = {**get_type_hints(record), **in_json}
    required: dict[str, Any] = {field.name: (types[field.name], ...) for field in fields(record)}

    def decorate(schema: type[SchemaT]) -> type[SchemaT]:
        return create_model(
            schema.__name__, __base__=schema, __doc__=schema.__doc__, __module__=schema.__module__, **required
        )

    return decorate
