"""Types of the keys of limits.toml: each with the meaning and the example that commands and messages show."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta


def described(meaning: str, example: object) -> Meta:
    """Attach to a key its meaning, and an example for error messages."""
    return Meta(description=meaning, examples=[example])


NetworkList = tuple[str, ...]
HourList = tuple[str, ...]
Number = Annotated[float, Meta(ge=0, lt=1e18)]
Hours = Annotated[HourList, described("hours of the day (UTC) that contain every measurement", ["20:00-06:00"])]
ALL_DAY = ("00:00-24:00",)
FLOAT_SLACK = 1e-9
"""Tolerance of comparisons with a limit, for rounding."""
