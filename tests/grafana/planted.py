"""Queries with a planted fault that must be detected. Each run begins with them, so that a run without faults is
meaningful."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tests.grafana.frames import (
    Frame,
    alert_faults,
    annotation_faults,
    panel_faults,
    query_faults,
    read,
    verdict_faults,
)
from tests.grafana.plugin import Plugin, Request

SERIES, TABLE = "time_series", "table"
TWO_TIMES = (
    "(VALUES (timestamptz '2026-03-02', 'b', 1.0), (timestamptz '2026-03-01', 'a', 2.0)) AS t(time, name, value)"
)


def _chart(frames: Sequence[Frame]) -> Iterable[str]:
    return panel_faults({"type": "timeseries"}, frames)


@dataclass(frozen=True, slots=True)
class PlantedFault:
    """A query, the form in which a panel or rule requests it, and a word of the expected sentence."""

    sql: str
    format: str
    check: Callable[[Sequence[Frame]], Iterable[str]]
    word: str


FAULTS = (
    PlantedFault("SELECT nothing FROM reporting.site", TABLE, _chart, 'column "nothing" does not exist'),
    PlantedFault("SELECT * FROM public.site", TABLE, _chart, "permission denied"),
    PlantedFault("SELECT 1 WHERE $__timeFliter(now())", TABLE, _chart, "unknown macro"),
    PlantedFault("SELECT now() AS at, 1 AS value", SERIES, _chart, "no time column"),
    PlantedFault("SELECT 'noon' AS time, 1 AS value", SERIES, _chart, "not convertible"),
    PlantedFault(f"SELECT * FROM {TWO_TIMES}", SERIES, _chart, "sorted"),
    PlantedFault(f"SELECT * FROM {TWO_TIMES} ORDER BY time", TABLE, _chart, "does not become a series"),
    PlantedFault(f"SELECT time, value FROM {TWO_TIMES}", TABLE, _chart, "order of time"),
    PlantedFault("SELECT 1 AS value", TABLE, _chart, "no time field"),
    PlantedFault("SELECT 'noon' AS time, 'x' AS text, '' AS tags", TABLE, annotation_faults, "not convertible"),
    PlantedFault("SELECT now() AS time, 1 AS text, '' AS tags", TABLE, annotation_faults, "text is number"),
    PlantedFault("SELECT 1 AS a, 2 AS b", TABLE, alert_faults, "not numeric"),
    PlantedFault("SELECT 'a' AS site, n FROM generate_series(1, 2) AS n", TABLE, alert_faults, "two rows"),
    PlantedFault("SELECT 'a' AS site, NULL::float8 AS n", TABLE, alert_faults, "no number"),
)

RULES = (
    ("SELECT now() AS at, 'a' AS site", {"type": "gt", "params": [4]}, "must be"),
    ("SELECT nothing", {"type": "gt", "params": [4]}, 'column "nothing" does not exist'),
    ("SELECT 4 AS n", {"type": "above", "params": [4]}, "above"),
)
"""Queries of rules, conditions, and a word of the expected sentence."""


def undetected(plugin: Plugin, now: datetime) -> list[str]:
    """Sentences about planted faults that are not detected."""
    queries = [fault.sql for fault in FAULTS if not _is_detected(fault, plugin, now)]
    rules = [sql for sql, evaluator, word in RULES if word not in " ".join(_verdict(plugin, now, sql, evaluator))]
    return [f"planted fault not seen: {sql}" for sql in (*queries, *rules)]


def _verdict(plugin: Plugin, now: datetime, sql: str, evaluator: Mapping[str, Any]) -> list[str]:
    """Sentences about a rule whose query is compared with a threshold."""
    query = {"refId": "A", "rawSql": sql, "format": TABLE}
    threshold = {"refId": "C", "type": "threshold", "expression": "A", "conditions": [{"evaluator": evaluator}]}
    results = plugin.answer(Request(now - timedelta(hours=1), now, 1000, 100, [query], [threshold]))
    return list(verdict_faults(results["C"], results))


def _is_detected(fault: PlantedFault, plugin: Plugin, now: datetime) -> bool:
    model = {"refId": "A", "rawSql": fault.sql, "format": fault.format}
    result = plugin.answer(Request(now - timedelta(hours=1), now, 60_000, 100, [model]))["A"]
    sentences = [*query_faults(result), *fault.check(read(result))]
    return any(fault.word in sentence.lower() for sentence in sentences)
