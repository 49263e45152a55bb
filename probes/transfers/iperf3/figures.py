"""Figures of a report that may be damaged, by the bounds of the struct that they are for: a damaged one is unknown."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import msgspec

DAMAGED = (KeyError, TypeError, IndexError, ValueError, AttributeError, ArithmeticError, msgspec.DecodeError)
"""The exceptions of code that reads a tree with values of other types, or without them."""

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)


def unless_damaged(read: Callable[P, T]) -> Callable[P, T | None]:
    """Make a reader of a part return None where that part is damaged."""

    @functools.wraps(read)
    def reader(*args: P.args, **kwargs: P.kwargs) -> T | None:
        try:
            return read(*args, **kwargs)
        except DAMAGED:
            return None

    return reader


def known(value: object, bounds: Any) -> Any:
    """The value as a type with bounds; None where it is no such value."""
    try:
        return msgspec.convert(value, bounds)
    except (msgspec.ValidationError, ArithmeticError):
        return None


def kept(struct: type[S], **values: object) -> S:
    """The struct of those values that are within its bounds; the others have their defaults.

    Raises `msgspec.ValidationError` where a value without a default is not within them.
    """
    fields = _fields(struct)
    good = {}
    for name, value in values.items():
        kind, is_required = fields[name]
        try:
            good[name] = msgspec.convert(value, kind)
        except (msgspec.ValidationError, ArithmeticError) as error:
            if is_required:
                raise msgspec.ValidationError(f"{name}: {error}") from error
    return struct(**good)


@functools.cache
def _fields(struct: type[msgspec.Struct]) -> dict[str, tuple[Any, bool]]:
    """The type of each field, and whether it has no default."""
    return {field.name: (field.type, field.required) for field in msgspec.structs.fields(struct)}
