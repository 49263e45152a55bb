"""The result of a reproduction or a score: a table, and its place between the markers of a page in Markdown."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.__main__ import processor

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "method" / "reproduce.md"


@dataclass(slots=True)
class Table:
    """Columns and rows of text. `failures` are sentences about unexpected results."""

    columns: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def markdown(self) -> str:
        """The table in Markdown, with the machine below it."""
        return f"{self.lines()}\n\n*{machine()}*\n"

    def lines(self) -> str:
        """The table in Markdown alone."""
        lines = [self.columns, tuple("---" for _ in self.columns), *self.rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def machine() -> str:
    """The machine of the table, without a date."""
    release = ".".join(platform.release().split(".")[:2])
    return f"Made on {os.cpu_count()} processors ({processor()}), Linux {release}, with other work on them."


def placed(document: str, name: str, table: str) -> str:
    """The document with `table` between the markers of `name`. Raises `ValueError` where it has none."""
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    before, marker, rest = document.partition(begin)
    _, found_end, after = rest.partition(end)
    if not marker or not found_end:
        raise ValueError(f"the page has no place for {name}: it needs the lines {begin.strip()} and {end}")
    return f"{before}{begin}\n{table}\n{end}{after}"
