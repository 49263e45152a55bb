"""Figures of a maybe damaged report, checked by their struct's bounds: a damaged figure is unknown."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import msgspec

# The exceptions of code that reads a tree with values of other types, or without them.
DAMAGED = (KeyError, TypeError, IndexError, ValueError, AttributeError, ArithmeticError, msgspec.DecodeError)

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)


def unless_damaged(read: Callable[P, T]) -> Callable[P, T | None]:
    """Make a reader return None for a damaged part."""

    @functools.wraps(read)
    def reader(*args: P.args, **kwargs: P.kwargs) -> T | None:
        try:
            return read(*args, **kwargs)
        except DAMAGED:
            return None

    return reader


def known(value: object, bounds: Any) -> Any:
    """The value as a bounded type, or None."""
    try:
        return msgspec.convert(value, bounds)
    except (msgspec.ValidationError, ArithmeticError):
        return None


def kept(struct: type[S], **values: object) -> S:
    """Build a struct; values out of bounds get defaults.

    Raises `msgspec.ValidationError` where there is no default.
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
    return {field.name: (field.type, field.required) for field in msgspec.structs.fields(struct)}
