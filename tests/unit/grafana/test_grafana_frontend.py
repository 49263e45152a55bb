"""Grafana's treatment of variables and periods in its frontend. Expected texts: Grafana's documentation ("Variable
syntax", "Global variables") and the tests of its format registry and of rangeUtil."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.grafana.frontend import (
    FrontendError,
    Option,
    Selection,
    built_in,
    formatted,
    hidden_by_their_text,
    interpolate,
    interval_ms,
    interval_text,
    options,
    relative,
    step_ms,
)

NOW = datetime(2026, 3, 14, 12, 30, tzinfo=UTC)
ONE, TWO = Selection(("test1",)), Selection(("test1", "test2"), is_quoted=True)


@pytest.mark.parametrize(
    ("selection", "name", "text"),
    [
        (ONE, "sqlstring", "'test1'"),
        (TWO, "sqlstring", "'test1','test2'"),
        (Selection(("test'value",)), "sqlstring", "'test''value'"),
        (Selection(('test"value',)), "sqlstring", "'test\\\"value'"),
        (TWO, "csv", "test1,test2"),
        (Selection(("o'b",)), "raw", "o'b"),
        (Selection(("o'b",)), None, "o''b"),
        (Selection(("o'b",), is_quoted=True), None, "'o''b'"),
        (TWO, None, "'test1','test2'"),
        (Selection(("%",), is_raw=True), "sqlstring", "%"),
        (Selection((), is_quoted=True), "sqlstring", ""),
    ],
)
def test_a_format_gives_the_text_of_grafana(selection: Selection, name: str | None, text: str) -> None:
    assert formatted(selection, name) == text


@pytest.mark.parametrize("text", ["$site", "${site}", "[[site]]", "${site:raw}", "[[site:raw]]"])
def test_every_syntax_of_a_variable_is_replaced(text: str) -> None:
    assert interpolate(f"= {text} ", {"site": Selection(("cern",))}, {}) == "= cern "


def test_macros_stay_for_the_plugin() -> None:
    text = "WHERE $__timeFilter(at) AND at > $__timeFrom() AND $__unixEpochFilter(x)"

    assert interpolate(text, {}, {}) == text


@pytest.mark.parametrize("text", ["$sauce", "${__sauce}", "${site:sqlstrin}", "${site.text}", "${__from:date}"])
def test_names_unknown_to_grafana_are_refused(text: str) -> None:
    with pytest.raises(FrontendError):
        interpolate(text, {"site": ONE}, {"__from": "0"})


@pytest.mark.parametrize(
    ("length", "points", "least", "text"),
    [
        (timedelta(minutes=10), 1600, "1ms", "500ms"),
        (timedelta(minutes=10), 1600, "10s", "10s"),
        (timedelta(hours=6), 1000, "1ms", "20s"),
        (timedelta(days=7), 720, ">1h", "1h"),
        (timedelta(days=90), 720, "1h", "3h"),
        (timedelta(days=3000), 720, "1h", "1d"),
    ],
)
def test_the_step_of_a_panel_follows_period_and_width(length: timedelta, points: int, least: str, text: str) -> None:
    assert interval_text(step_ms(NOW - length, NOW, points, interval_ms(least))) == text


def test_the_period_is_in_the_global_variables() -> None:
    constants = built_in(NOW - timedelta(hours=1), NOW, 60_000)

    assert constants["__interval"] == "1m"
    assert constants["__range"] == "3600s"
    assert int(constants["__to"]) - int(constants["__from"]) == 3_600_000


def test_a_period_relative_to_now_is_parsed() -> None:
    assert relative("now", NOW) == NOW
    assert relative("now-24h", NOW) == NOW - timedelta(days=1)
    assert relative("now-7d", NOW) == NOW - timedelta(days=7)
    with pytest.raises(FrontendError):
        relative("yesterday", NOW)


def test_options_are_pairs_or_every_value_of_a_row() -> None:
    assert options([{"__text": "CERN", "__value": "cern"}]) == [Option("CERN", "cern")]
    assert options([{"a": 1, "b": 2}]) == [Option("1", "1"), Option("2", "2")]


def test_of_two_options_with_the_same_text_the_first_is_kept() -> None:
    rows = [{"__text": "Lab", "__value": "a"}, {"__text": "Lab", "__value": "b"}]

    assert options(rows) == [Option("Lab", "a")]
    assert hidden_by_their_text(rows) == ["b"]
