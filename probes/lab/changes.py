"""Validate changes of a path's settings."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import inspect

from probes.lab.settings import LabError, PathSettings

UNITS = {"mbps": "Mbit/s", "ms": "ms", "bytes": "bytes"}


def changed_settings(settings: PathSettings, changes: Mapping[str, float | int | None]) -> PathSettings:
    """Apply the changes. Raises `LabError` with the bounds of the first invalid value."""
    for name, value in changes.items():
        _check_bounds(name, value)
    try:
        return msgspec.convert({**msgspec.structs.asdict(settings), **changes}, PathSettings)
    except msgspec.ValidationError as error:
        raise LabError(str(error).replace("`$.", "`")) from error


def _check_bounds(name: str, value: float | int | None) -> None:
    field = next((field for field in _FIELDS if field.name == name), None)
    if field is None or value is None:
        return
    kinds = field.type.types if isinstance(field.type, inspect.UnionType) else (field.type,)
    number = next(kind for kind in kinds if isinstance(kind, inspect.IntType | inspect.FloatType))
    is_low = number.ge is not None and value < number.ge
    is_high = number.le is not None and value > number.le
    if is_low or is_high:
        unlimited = ', or "unlimited"' if name.endswith("_mbps") else ""
        raise LabError(f"{name.replace('_', ' ')} {value:g}: write {_range(number, name)}{unlimited}")


def _range(number: inspect.IntType | inspect.FloatType, name: str) -> str:
    unit = UNITS.get(name.rpartition("_")[2], "")
    high = "or more" if number.le is None else f"to {number.le:,g}"
    return f"{number.ge:,g} {high} {unit}".rstrip()


_FIELDS = tuple(inspect.type_info(PathSettings).fields)  # type: ignore[attr-defined]
