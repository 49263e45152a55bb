"""Detection of faults in the plugin's answers: each test plants a fault in a valid result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.grafana.frames import (
    Field,
    Frame,
    alert_faults,
    annotation_faults,
    name_faults,
    panel_faults,
    query_faults,
    read,
    verdict_faults,
)

CHART = {"type": "timeseries"}


def answer(*columns: tuple[str, str, Sequence[Any]], **meta: Any) -> dict[str, Any]:
    """A result as written by Grafana's data source."""
    fields = [{"name": name, "type": kind} for name, kind, _ in columns]
    return {
        "status": 200,
        "frames": [{"schema": {"fields": fields, "meta": meta}, "data": {"values": [v for *_, v in columns]}}],
    }


def frames(*columns: tuple[str, str, Sequence[Any]]) -> list[Frame]:
    return read(answer(*columns))


TIME, NUMBER, TEXT = ("time", "time", [1, 2]), ("Loss", "number", [0.5, None]), ("path", "string", ["a", "b"])


def test_a_valid_chart_over_time_has_no_fault() -> None:
    assert list(panel_faults(CHART, frames(TIME, NUMBER))) == []
    assert list(panel_faults(CHART, frames())) == []


@pytest.mark.parametrize(
    ("columns", "word"),
    [
        ([NUMBER], "no time field"),
        ([TIME], "no field of numbers"),
        ([TIME, NUMBER, TEXT], "path does not become a series"),
        ([("time", "time", [2, 1]), NUMBER], "order of time"),
        ([("time", "time", [1, None]), NUMBER], "without a time"),
        ([TIME, NUMBER, NUMBER], "two columns of a name"),
    ],
)
def test_a_fault_of_a_chart_is_detected(columns: list[Any], word: str) -> None:
    (fault,) = panel_faults(CHART, frames(*columns))

    assert word in fault


def test_a_table_needs_no_time() -> None:
    assert list(panel_faults({"type": "table"}, frames(NUMBER, TEXT))) == []


def test_a_map_needs_numbers_for_both_coordinates() -> None:
    location = {"mode": "coords", "latitude": "Latitude", "longitude": "Longitude"}
    panel = {"type": "geomap", "options": {"layers": [{"location": location}]}}
    latitude, longitude = ("Latitude", "number", [46.2]), ("Longitude", "number", [6.1])

    assert list(panel_faults(panel, frames(latitude, longitude))) == []
    assert list(panel_faults(panel, frames(latitude))) == ["no numbers for the longitude: Longitude"]


def test_errors_and_notices_of_the_plugin_are_faults() -> None:
    assert query_faults({"status": 500, "error": "no such column"}) == ["no such column"]
    assert query_faults(answer(TIME, notices=[{"severity": "warning", "text": "cut"}])) == ["cut"]
    assert query_faults(answer(TIME, NUMBER)) == []


def test_an_alert_rule_needs_a_number_and_labels_that_differ() -> None:
    seconds = ("silent_s", "number", [1.0, 2.0])

    assert list(alert_faults(frames(TEXT, seconds))) == []
    assert list(alert_faults(frames())) == ["not numeric: no fields"]
    assert list(alert_faults(frames(TIME, seconds))) == ["not numeric: time (time), silent_s (number)"]
    assert list(alert_faults(frames(TEXT, seconds, NUMBER)))
    assert list(alert_faults(frames(("site", "string", ["a", "a"]), seconds))) == ["two rows with the labels ('a',)"]
    assert list(alert_faults(frames(TEXT, NUMBER))) == ["no number in Loss"]


def test_an_annotation_needs_a_time_and_texts() -> None:
    words = [("text", "string", ["x", "y"]), ("tags", "string", ["a,b", "c"])]

    assert list(annotation_faults(frames(TIME, ("timeEnd", "time", [2, 3]), *words))) == []
    assert list(annotation_faults(frames(("time", "string", ["1", "2"]), *words))) == ["time is string"]
    assert list(annotation_faults(frames(TIME, ("timeEnd", "string", ["2", "3"]), *words))) == ["timeEnd is string"]
    assert list(annotation_faults(frames(TIME, words[0]))) == ["tags is missing"]


def columns(*names: str) -> list[Field]:
    return [Field(name, "string", {}, ()) for name in names]


def panel_with(overrides: list[dict[str, Any]], sql: str) -> dict[str, Any]:
    return {"targets": [{"rawSql": sql}], "fieldConfig": {"overrides": overrides}}


def test_overrides_and_links_name_columns_that_are_returned() -> None:
    link = {"id": "links", "value": [{"url": "/d/x?var-site=${__data.fields.From}&n=${__data.fields.Number}"}]}
    override = {"matcher": {"id": "byName", "options": "Path"}, "properties": [link]}
    panel = panel_with([override], 'SELECT a AS "Path", b AS "From", c AS "Number"')

    assert list(name_faults(panel, columns("Path", "From", "Number"))) == []
    assert list(name_faults(panel, columns("From"))) == [
        "an override names Path, which no query returns",
        "a link names Number, which no query returns",
    ]


def test_series_named_by_the_data_may_be_absent() -> None:
    override = {"matcher": {"id": "byName", "options": "loss"}, "properties": []}
    panel = panel_with([override], "SELECT time, rule, count(*) AS incidents")

    assert list(name_faults(panel, columns("time", "incidents"))) != []
    assert list(name_faults(panel, columns("time", "rtt"))) == []


def test_a_rule_decides_0_or_1_for_each_row() -> None:
    two = answer(("n", "number", [3.0, 5.0]))

    assert list(verdict_faults(answer(("C", "number", [0, 1])), {"A": two})) == []
    assert list(verdict_faults(answer(("C", "number", [1])), {"A": two})) == ["the rule decides [1] on 2 rows"]
    assert list(verdict_faults(answer(("C", "number", [3, 5])), {"A": two}))
    assert list(verdict_faults({"error": "no such operator"}, {"A": two})) == ["no such operator"]
