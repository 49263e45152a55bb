"""Marks of statements, worst last."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Mark(StrEnum):
    """Quality of a statement. `SILENT` is before a proof was possible, `MISSED` after it, without a false word."""

    TRUE = "true"
    SILENT = "silent before proof"
    UNCLEAR = "unclear"
    MISSED = "silent after proof"
    LATE = "late"
    FALSE = "false"


@dataclass(frozen=True, slots=True)
class Marked:
    """A mark, and its reason unless it is true."""

    mark: Mark
    reason: str = ""


def worst(marks: Iterable[Marked]) -> Marked:
    """The worst of these, the first of several; true without any."""
    order = list(Mark)
    return max(marks, key=lambda each: order.index(each.mark), default=Marked(Mark.TRUE))
