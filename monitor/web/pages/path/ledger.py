"""Planned and completed measurements of a path."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from monitor.archive.outcomes import outcome_words
from monitor.archive.queries.operation.ledger import count_planned, ledger_of_path
from probes.contract import Outcome


@dataclass(frozen=True, slots=True)
class TestRow:
    test: str
    planned: int
    measured: int
    others: tuple[tuple[str, int], ...]


def ledger_rows(path_id: int, since: datetime, until: datetime) -> tuple[TestRow, ...]:
    rows = []
    for test, of_test in groupby(ledger_of_path(path_id, since, until), key=lambda line: line.test):
        lines = list(of_test)
        measured = sum(line.count for line in lines if line.outcome == Outcome.MEASURED)
        others = tuple(
            (outcome_words(line.outcome, line.reason), line.count) for line in lines if line.outcome != Outcome.MEASURED
        )
        rows.append(TestRow(test, count_planned(lines), measured, others))
    return tuple(rows)
