"""Mathis, the 3/N bound and MOS are defined in `monitor.analysis` and in the migration of the SQL functions only."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("dashboards", "monitor", "packaging", "probes", "scripts")
SUFFIXES = {".html", ".json", ".py", ".sql", ".toml"}
HOMES = ("monitor/analysis/", "monitor/archive/migrations/")
FORMULAS = {
    "Mathis": r"\b1_?460(\.0)?\s*\*|\*\s*1_?460\b|\b11_?680\b",
    "3/N": r"\b3(\.0+)?(::[a-z0-9 ]+?)?\s*/\s*(nullif\()?\(?(sum\()?sent\b",
    "MOS": r"\b0?\.035\b|\b93\.2\b",
}


def files() -> list[str]:
    paths = [*ROOT.glob("*"), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))]
    names = sorted(path.relative_to(ROOT).as_posix() for path in paths if path.is_file() and path.suffix in SUFFIXES)
    return [name for name in names if not name.startswith(HOMES)]


@pytest.mark.parametrize("formula", FORMULAS)
def test_a_formula_is_defined_only_in_its_place(formula: str) -> None:
    pattern = re.compile(FORMULAS[formula], re.IGNORECASE)

    copies = [
        f"{file}: {match[0]}" for file in files() for match in [pattern.search((ROOT / file).read_text())] if match
    ]

    assert copies == []


def test_the_files_of_all_apps_are_searched() -> None:
    assert {"monitor/archive/queries/metrics.py", "monitor/archive/queries/sql/grid.sql", "manage.py"} <= set(files())


def test_the_patterns_match_the_formulas() -> None:
    texts = (
        ("Mathis", "1460 * 8 / (rtt_ms / 1000 * sqrt(loss))"),
        ("3/N", "least(3::double precision / nullif(sent, 0), 1)"),
        ("3/N", "LEAST(3.0::float8 / sent, 1)"),
        ("MOS", "1 + 0.035 * r + 7e-6 * r"),
    )
    for formula, text in texts:
        assert re.search(FORMULAS[formula], text, re.IGNORECASE), text
