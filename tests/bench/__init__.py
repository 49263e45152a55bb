"""Benchmarks: each module beside this file, but those of `SHARED`, has `run() -> list[Row]`.

None is part of the tests.
"""

from __future__ import annotations

from dataclasses import dataclass

LONG = {
    "alert_evaluation",
    "archive_queries",
    "faults",
    "grid_page",
    "many_sites",
    "path_page",
    "steady",
    "storm",
    "trace",
}
"""Benchmarks that take many minutes and much disk."""
SHARED = ("processes", "serving", "wide_mesh")
"""Modules without a benchmark."""


@dataclass(frozen=True)
class Row:
    """A line of a benchmark's table: the measured quantity, its value with the unit, and the target."""

    measure: str
    value: str
    reach: str = ""
