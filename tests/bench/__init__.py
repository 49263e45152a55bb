"""Benchmarks: each module beside this file has `run() -> list[Row]`, and is never part of the tests."""

from __future__ import annotations

from dataclasses import dataclass

LONG = {"archive_queries", "alert_evaluation", "faults"}
"""Benchmarks that take many minutes and much disk."""


@dataclass(frozen=True)
class Row:
    """One line of a benchmark's table: what was measured, the number with its unit, and what it should reach."""

    measure: str
    value: str
    reach: str = ""
