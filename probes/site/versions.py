"""Compares the versions that agents and the centre report to each other."""

from __future__ import annotations

import re


def is_older(version: str, than: str) -> bool:
    """Whether `version` precedes `than`. Suffixes (rc1, +local) are ignored."""
    return _numbers(version) < _numbers(than)


def _numbers(version: str) -> tuple[int, ...]:
    # Without final zeros, so that 1.0 equals 1.0.0; empty if unreadable.
    leading = re.match(r"\d{1,9}(\.\d{1,9})*", version)
    numbers = [int(number) for number in leading[0].split(".")] if leading else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
