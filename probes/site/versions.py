"""Versions, as agents and the centre tell them to each other, compared."""

from __future__ import annotations

import re


def is_older(version: str, than: str) -> bool:
    """Whether `version` comes before `than`. What follows the numbers (rc1, +local) does not count."""
    return _numbers(version) < _numbers(than)


def _numbers(version: str) -> tuple[int, ...]:
    """The release's numbers without zeros at the end, so that 1.0 is 1.0.0; none for what is no version."""
    leading = re.match(r"\d{1,9}(\.\d{1,9})*", version)
    numbers = [int(number) for number in leading[0].split(".")] if leading else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
