"""Marks of what the pages, the gauges and closed incidents say about planted faults, with texts of real runs."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from tests.e2e.stack import RunningStack
from tests.lab_truth import polling
from tests.lab_truth.__main__ import by_surface
from tests.lab_truth.hovers import hover_marks, text_marks
from tests.lab_truth.marks import Mark, worst
from tests.lab_truth.pages import gauges, grid_cell, path_page
from tests.lab_truth.polling import CELL, Poller
from tests.lab_truth.scoring import score_poll, score_polls
from tests.lab_truth.stored import COUNTS, StoredRun, stored_run
from tests.lab_truth.truth import Impairment, Pair, Signal, Truth
from tests.unit.test_lab_truth_scoring import BEGIN, LOSSY, NUMBERS, TIMES, poll, told, truth

PAIR = ("cern", "nersc")
BOTH = frozenset({PAIR, PAIR[::-1]})
FOUND = "no loss: 0 of 92 since 17:30:42 UTC, no more loss since 17:30:42 UTC; 20% from 17:27:32 UTC"


def clock(written: str) -> float:
    return datetime.fromisoformat(f"2026-11-30T{written}+00:00").astimezone(UTC).timestamp()


def of_run(signal: Signal = Signal.LOSS, value: float = 0.2, over_bytes: int = 0) -> Truth:
    """An impairment from 17:27:32 to 17:30:42 between cern and nersc; the third site's path is not affected."""
    planted = Impairment(signal, *PAIR, value, clock("17:27:32"), clock("17:30:42"), over_bytes)
    pairs = BOTH | {("cern", "ornl")}
    return Truth((planted,), pairs, base_rtt_ms=dict.fromkeys(pairs, 60.0), base_loss={}, **TIMES)


LARGE = of_run(value=1.0, over_bytes=600)


def hover(
    words: str, at: str, of: Truth | None = None, size: int = 100, pair: Pair = PAIR, delivered: str = ""
) -> Mark:
    newest = clock(delivered) if delivered else None
    marks = hover_marks(f"{pair[0]} to {pair[1]}: {words}", pair, size, of or of_run(), clock(at), newest)
    return worst(marks).mark


@pytest.mark.parametrize(
    ("words", "at"),
    [
        ("loses 20% since 17:27:32 UTC, incident open · 20% loss, 25 of 125 lost in the last 10 min", "17:29:40"),
        ("loses about 20% since 17:27:32 UTC · 5 of 104 lost in the last 10 min", "17:29:00"),
        ("no loss: 0 of 472 since 17:10:42 UTC · 0 of 472, so below 0.64% (95%) in the last 10 min", "17:27:00"),
        (f"{FOUND}, incident open · 25 of 125 lost in the last 10 min", "17:31:00"),
        ("too few packets so far · 0 of 40, so below 7.5% (95%) in the last 10 min", "17:27:00"),
        ("waiting for the first results", "17:27:00"),
        ("forward loses about 20% since 17:27:32 UTC; loss 3.2% (fair), incident open · 8 of 250 lost", "17:29:40"),
        ("loss 1.2% (good) · 5 of 420 lost in the last 10 min", "17:34:00"),
    ],
)
def test_a_hover_with_the_truth_is_true(words: str, at: str) -> None:
    assert hover(words, at) is Mark.TRUE


@pytest.mark.parametrize(
    ("words", "at", "mark"),
    [
        ("no loss: 0 of 472 since 17:10:42 UTC · 0 of 472, so below 0.64% (95%)", "17:29:40", Mark.FALSE),
        ("no loss: 0 of 472 since 17:10:42 UTC · 0 of 472, so below 0.64% (95%)", "17:28:00", Mark.SILENT),
        ("loss 0.24% (excellent) · 1 of 420 lost in the last 10 min", "17:28:00", Mark.SILENT),
        (f"{FOUND} · 25 of 125 lost", "17:29:40", Mark.FALSE),
        ("dead since 17:27:32 UTC, incident open · 25 of 125 lost", "17:29:40", Mark.FALSE),
        ("all lost: 100% loss · 25 of 125 lost", "17:29:40", Mark.FALSE),
        ("loses 20% since 17:24:32 UTC, incident open", "17:29:40", Mark.FALSE),
        ("loses 3% since 17:27:32 UTC, incident open", "17:29:40", Mark.UNCLEAR),
        ("loss about 0.6% since 17:30:42 UTC", "17:34:00", Mark.TRUE),
        ("loss about 20% since 17:27:32 UTC", "17:34:00", Mark.LATE),
        ("loses 20% since 17:27:32 UTC, incident open", "17:33:00", Mark.LATE),
        ("no loss: 0 of 92 since 17:30:42 UTC, no more loss since 17:29:42 UTC; 20% from 17:27:32 UTC", "17:31:00",
         Mark.FALSE),
        ("no loss: 0 of 92 since 17:30:42 UTC, no more loss since 17:30:42 UTC; 50% from 17:27:32 UTC", "17:31:00",
         Mark.UNCLEAR),
        ("something is odd", "17:27:00", Mark.UNCLEAR),
    ],
)  # fmt: skip
def test_a_hover_against_the_truth_has_its_mark(words: str, at: str, mark: Mark) -> None:
    assert hover(words, at) is mark


def test_a_hover_of_another_size_names_the_one_that_loses() -> None:
    words = "loses 100% of packets of 1,000 bytes since 17:27:32 UTC; 100 B: no loss, incident open · 0 of 441"
    assert hover(words, "17:29:40", LARGE) is Mark.TRUE
    assert hover(words, "17:29:40", of_run()) is not Mark.TRUE


def test_a_hover_of_a_trouble_elsewhere_is_false() -> None:
    assert hover("loses 20% since 17:27:32 UTC", "17:29:40", pair=("cern", "ornl")) is Mark.FALSE


def test_a_trouble_that_lasts_and_is_over_is_unclear() -> None:
    assert hover(f"{FOUND}, loses 20% since 17:27:32 UTC", "17:31:00") is Mark.UNCLEAR
    assert hover("no loss: 0 of 92 since 17:30:42 UTC, loses 20% since 17:27:32 UTC", "17:31:00") is Mark.UNCLEAR


def test_an_end_and_a_trouble_of_other_packets_are_true() -> None:
    words = "no loss: 0 of 92 since 17:24:42 UTC, loses 99% of packets of 1,000 bytes since 17:27:32 UTC"

    assert hover(words, "17:29:40", LARGE) is Mark.TRUE


def test_the_loss_of_another_size_needs_its_size() -> None:
    words = "too few packets so far, loses 99%{} since 17:27:32 UTC"

    assert hover(words.format(""), "17:29:40", LARGE) is Mark.UNCLEAR
    assert hover(words.format(""), "17:29:40", LARGE, size=1000) is Mark.UNCLEAR
    assert hover(words.format(" of packets of 1,000 bytes"), "17:29:40", LARGE) is Mark.TRUE


def test_a_hover_is_of_the_size_of_its_grid() -> None:
    assert hover("dead since 17:27:32 UTC", "17:29:40", LARGE, size=1000) is Mark.TRUE
    assert hover("dead since 17:27:32 UTC", "17:29:40", LARGE) is Mark.FALSE
    assert hover("no loss: 0 of 472 since 17:10:42 UTC", "17:29:40", LARGE, size=1000) is Mark.FALSE


def test_a_hover_of_the_loss_tells_a_longer_rtt() -> None:
    longer, words = of_run(Signal.RTT, 60.0), "no loss: 0 of 472 since 17:20:42 UTC"

    assert hover(f"{words}, RTT 120 ms since 17:27:32 UTC (was 60 ms)", "17:29:40", longer) is Mark.TRUE
    assert hover(words, "17:28:00", longer) is Mark.SILENT
    assert hover(words, "17:29:40", longer) is Mark.MISSED


@pytest.mark.parametrize(
    ("delivered", "mark"),
    [("", Mark.TRUE), ("17:24:32", Mark.TRUE), ("17:24:42", Mark.TRUE), ("17:25:12", Mark.FALSE)],
)
def test_newer_data_that_were_delivered_are_no_missing(delivered: str, mark: Mark) -> None:
    words = "as of 17:24:32 UTC, no newer data: no loss: 0 of 92 since 17:20:42 UTC · 0 of 92, so below 3.3% (95%)"

    assert hover(words, "17:29:40", delivered=delivered) is mark


def test_newer_pings_during_tests_are_no_missing_data() -> None:
    words = (
        "as of 17:24:32 UTC, newer pings sent during throughput tests, excluded: no loss: 0 of 92 since 17:20:42 UTC"
    )

    assert hover(words, "17:29:40", delivered="17:29:02") is Mark.TRUE


def test_an_end_before_the_run_is_not_scored() -> None:
    words = "no loss: 0 of 92 since 17:20:42 UTC, no more loss since 17:20:42 UTC; 20% from 17:17:32 UTC"

    assert hover(words, "17:27:40") is Mark.SILENT
    assert hover(words, "17:27:40", pair=("cern", "ornl")) is Mark.TRUE
    assert hover(words, "17:29:40") is Mark.FALSE


@pytest.mark.parametrize(
    ("signs", "text", "style", "mark"),
    [
        ("▲", "0", "none-lost incident", Mark.UNCLEAR),
        ("△", "~0.2%", "loss-0", Mark.UNCLEAR),
        ("△", "< 0.9%", "loss-0", Mark.UNCLEAR),
        ("△", "up to 13%", "none-lost", Mark.TRUE),
        ("▲", "1,000 B", "loss-5 incident", Mark.TRUE),
        ("△", "RTT", "none-lost", Mark.TRUE),
        ("", "0", "none-lost", Mark.TRUE),
        ("△", "too few", "bound", Mark.TRUE),
        ("▲", "all lost", "total-loss incident", Mark.FALSE),
        ("▲", "~20%", "loss-5 incident", Mark.UNCLEAR),
    ],
)
def test_a_flagged_cell_names_its_trouble(signs: str, text: str, style: str, mark: Mark) -> None:
    said = "cern to nersc: no loss: 0 of 92 since 17:24:42 UTC, incident open"
    cell = {"path_id": 1, "style": style, "signs": signs, "text": text, "said": said}

    assert worst(text_marks(cell, PAIR, 100, LARGE, clock("17:29:40"))).mark is mark


def test_a_cell_whose_trouble_is_over_may_be_flagged() -> None:
    said = f"cern to nersc: {FOUND}, incident open"
    cell = {"path_id": 1, "style": "none-lost incident", "signs": "▲", "text": "0", "said": said}

    def mark(pair: Pair, at: str) -> Mark:
        return worst(text_marks(cell, pair, 100, of_run(), clock(at))).mark

    assert mark(PAIR, "17:31:00") is Mark.TRUE
    assert mark(PAIR, "17:29:40") is Mark.FALSE
    assert mark(("cern", "ornl"), "17:31:00") is Mark.FALSE


def page_marks(now: str, rows: dict[str, str], banner: str = "", size: int = 100, of: Truth = LARGE) -> Mark:
    shown = {
        "path_id": 1,
        "packet_bytes": size,
        "banner": [banner] if banner else [],
        "now": now,
        "rows": [{"name": name, "now": text} for name, text in rows.items()],
    }
    taken = {**empty_poll("17:29:40"), "path_page": shown}
    return score_poll(taken, of).surfaces["path page"].mark


def empty_poll(at: str, *, incidents: dict[str, frozenset[Pair]] | None = None) -> dict[str, Any]:
    """A poll of the paths between cern and nersc, numbered from 1, of which only new surfaces are scored."""
    cells = [
        {"path_id": number, "source": pair[0], "destination": pair[1], "state": "no_data", "value": None,
         "value_measured": None, "incident_id": None, "condition": "bad", "ended": None, "is_since_end": False}
        for number, pair in enumerate((PAIR, PAIR[::-1], ("cern", "ornl")), start=1)
    ]  # fmt: skip
    grid = {"since": clock(at) - 600, "until": clock(at), "packet_bytes": 100, "cells": cells}
    ids = {(cell["source"], cell["destination"]): cell["path_id"] for cell in cells}
    rows = [
        {"id": 1, "title": title, "state": "open", "rule": "loss", "began": None,
         "path_ids": [ids[pair] for pair in sorted(pairs)]}
        for title, pairs in (incidents or {}).items()
    ]  # fmt: skip
    return {
        **poll(clock(at), "Too early.", counts={"paths": 3, "normal": 1}),
        "loss": grid,
        "rtt": grid,
        "incidents": rows,
        "hovers": {"100": [], "1000": []},
        "evaluated": clock(at) - 8,
        "evaluated_after": clock(at) - 8,
    }


ROWS = {
    "loss, 100 B": "0 of 119 since 17:21:12 UTC",
    "loss, 1,000 B": "100% since 17:27:32 UTC",
    "median RTT": "60.3 ms",
}
BANNER = "cern ↔ nersc loses 100% of packets of 1,000 bytes since 17:27:32 UTC"


def test_a_path_page_with_the_truth_is_true() -> None:
    assert page_marks("Now: loss 0, median RTT 60.3 ms", ROWS, BANNER) is Mark.TRUE
    assert page_marks("Now: all lost", ROWS, BANNER, size=1000) is Mark.TRUE
    assert page_marks("Now: no reply since 17:27:32 UTC", ROWS, BANNER, size=1000) is Mark.TRUE


@pytest.mark.parametrize(
    ("now", "rows", "banner", "mark"),
    [
        ("Now: loss 50%, median RTT 60.3 ms", ROWS, BANNER, Mark.UNCLEAR),
        ("Now: loss 0, median RTT 60.3 ms", {**ROWS, "loss, 100 B": "50% since 17:27:32 UTC"}, BANNER, Mark.UNCLEAR),
        ("Now: loss 0, median RTT 60.3 ms", {**ROWS, "loss, 1,000 B": "0 of 119 since 17:21:12 UTC"}, BANNER,
         Mark.FALSE),
        ("Now: loss 0, median RTT 75.3 ms", ROWS, BANNER, Mark.UNCLEAR),
        ("Now: loss 0, median RTT 60.3 ms", ROWS, "Being checked: loses 100% since 17:27:32 UTC", Mark.UNCLEAR),
        ("Now: loss 0, median RTT 60.3 ms", ROWS, "", Mark.MISSED),
    ],
)  # fmt: skip
def test_a_path_page_against_the_truth_has_its_mark(now: str, rows: dict[str, str], banner: str, mark: Mark) -> None:
    assert page_marks(now, rows, banner) is mark


def test_a_headline_above_all_rows_is_unclear() -> None:
    rows = {"loss, 100 B": "16% since 17:27:32 UTC", "loss, 1,000 B": "16% since 17:27:32 UTC"}
    banner = "cern ↔ nersc loses 20% since 17:27:32 UTC"

    assert page_marks("Now: loss 20%, median RTT 60.3 ms", rows, banner, of=of_run()) is Mark.TRUE
    assert page_marks("Now: loss 31%, median RTT 60.3 ms", {**rows, "loss, 100 B": "14% since 17:27:32 UTC",
        "loss, 1,000 B": "14% since 17:27:32 UTC"}, banner, of=of_run()) is Mark.UNCLEAR  # fmt: skip


def scraped(loss: float, packet_bytes: int | None = None, condition: str = "bad", **changed: Any) -> Mark:
    of_path = {"path_id": 1, "packet_bytes": packet_bytes}
    prometheus = {
        "condition": [{"path_id": 1, "packet_bytes": None, "value": condition}],
        "loss": [{**of_path, "value": loss}],
        "measured": [],
    }
    taken = {**empty_poll("17:29:40", incidents=changed.pop("incidents", None)), "prometheus": prometheus, **changed}
    return score_poll(taken, changed.pop("of", LARGE)).surfaces["prometheus"].mark


def test_a_gauge_of_no_size_is_that_of_any() -> None:
    assert scraped(1.0) is Mark.TRUE
    assert scraped(0.99, 1000) is Mark.TRUE
    assert scraped(0.5) is Mark.UNCLEAR
    assert scraped(0.99, 100) is Mark.UNCLEAR


def test_a_gauge_with_another_loss_than_the_title_is_unclear() -> None:
    title = "cern ↔ nersc loses 99% of packets of 1,000 bytes since 17:27:32 UTC"
    mixed = Impairment(Signal.LOSS, *PAIR, 0.5, clock("17:27:32"), clock("17:30:42"))
    plain = Truth((mixed,), LARGE.pairs, base_rtt_ms={}, base_loss={}, **TIMES)

    assert scraped(0.5, incidents={title: BOTH}, of=plain) is Mark.UNCLEAR
    assert scraped(0.99, incidents={title: BOTH}) is Mark.TRUE


def test_a_gauge_has_the_condition_of_the_grid() -> None:
    assert scraped(1.0, condition="suspect") is Mark.UNCLEAR
    assert scraped(1.0, condition="suspect", evaluated=clock("17:29:38")) is Mark.TRUE
    assert scraped(1.0, condition="suspect", evaluated_after=clock("17:29:41")) is Mark.TRUE
    assert scraped(1.0, condition="normal") is Mark.FALSE


def closed(title: str, of: Truth, pairs: frozenset[Pair] = BOTH) -> Mark:
    row = empty_poll("17:33:00", incidents={title: pairs})["incidents"][0]
    return score_poll({**empty_poll("17:33:00"), "closed": [row]}, of).surfaces["closed"].mark


@pytest.mark.parametrize(
    ("title", "mark"),
    [
        ("cern ↔ nersc lost 20%, from 2026-11-30 17:27:32 to 17:30:42 UTC", Mark.TRUE),
        ("cern ↔ nersc lost 20%, from about 2026-11-30 17:27 to 2026-11-30 17:30 UTC", Mark.TRUE),
        ("cern ↔ nersc lost 20%, from 2026-11-30 17:25:32 to 17:30:42 UTC", Mark.FALSE),
        ("cern ↔ nersc lost 20%, from 2026-11-30 17:27:32 to 17:32:42 UTC", Mark.FALSE),
        ("cern ↔ nersc lost 3%, from 2026-11-30 17:27:32 to 17:30:42 UTC", Mark.UNCLEAR),
        ("cern ↔ nersc dead, from 2026-11-30 17:27:32 to 17:30:42 UTC", Mark.FALSE),
    ],
)
def test_a_closed_title_has_level_onset_and_end(title: str, mark: Mark) -> None:
    assert closed(title, of_run()) is mark


def test_a_closed_title_has_the_packet_size() -> None:
    title = "cern ↔ nersc lost {}, from 2026-11-30 17:27:32 to 17:30:42 UTC"

    assert closed(title.format("50%"), LARGE) is Mark.UNCLEAR
    assert closed(title.format("100% of packets of 1,000 bytes"), LARGE) is Mark.TRUE
    assert closed(title.format("100% of packets of 100 bytes"), LARGE) is Mark.UNCLEAR


def test_a_closed_title_of_another_signal_has_its_worst() -> None:
    longer = of_run(Signal.RTT, 60.0)
    title = "cern ↔ nersc: RTT {} ms (was 60 ms), from 2026-11-30 17:27:32 to 17:30:42 UTC"

    assert closed(title.format(120), longer) is Mark.TRUE
    assert closed(title.format(90), longer) is Mark.UNCLEAR
    assert closed("cern ↔ nersc dead, from 2026-11-30 17:27:32 to 17:30:42 UTC", of_run(value=1.0)) is Mark.TRUE


def flapped() -> Truth:
    """Five outages of 20 s from 17:27:32 on."""
    begins = [clock("17:27:32") + at for at in (0, 40, 80, 120, 160)]
    outages = tuple(Impairment(Signal.LOSS, *PAIR, 1.0, begin, begin + 20) for begin in begins)
    return Truth(outages, BOTH, base_rtt_ms={}, base_loss={}, **TIMES)


def test_a_hover_of_a_flapping_path_is_one_statement() -> None:
    words = "flaps: 4 outages of about 20 s since 17:27:32 UTC, answers now, incident open · 45 of 130 lost"

    assert hover(words, "17:30:05", flapped()) is Mark.TRUE
    assert hover(words, "17:29:40") is Mark.FALSE


def test_a_closed_title_counts_the_outages() -> None:
    title = "cern ↔ nersc flapped: {} outages, from 2026-11-30 17:27:32 to 17:30:32 UTC"

    assert closed(title.format(5), flapped()) is Mark.TRUE
    assert closed(title.format(2), flapped()) is Mark.UNCLEAR


def test_a_closed_title_of_a_rate_has_its_lowest() -> None:
    slow = of_run(Signal.RATE, 3e6)
    title = "cern → nersc: throughput {} Mbit/s (was 28.1 Mbit/s), from 2026-11-30 17:27:32 to 17:30:42 UTC"

    assert closed(title.format(2.9), slow, frozenset({PAIR})) is Mark.TRUE
    assert closed(title.format(9.4), slow, frozenset({PAIR})) is Mark.UNCLEAR


def test_a_closed_incident_of_a_clean_path_is_false() -> None:
    title = "cern: 3 of 3 paths lost 20%, from 2026-11-30 17:27:32 to 17:30:42 UTC"

    assert closed(title, of_run(), frozenset({PAIR, ("cern", "ornl")})) is Mark.FALSE


def test_a_cell_is_read_from_its_markup() -> None:
    markup = (
        '<td class="loss-5 incident"><a id="p14" href="/paths/14/?period=hour&amp;size=100" aria-label="cern to nersc: '
        'loses &lt; 20%"><b class="sign" aria-hidden="true">▲</b><b class="sign quiet" aria-hidden="true">◷</b>~15 '
        "<small>ms</small><sup>2</sup></a></td>"
    )

    assert grid_cell(markup) == {
        "path_id": 14, "style": "loss-5 incident", "said": "cern to nersc: loses < 20%", "signs": "▲◷",
        "text": "~15 ms",
    }  # fmt: skip
    assert grid_cell('<td class="same"></td>') is None


def test_a_path_page_is_read_from_its_markup() -> None:
    page = """
  <div id="alarm" data-live>
    <p class="alarm critical"><b class="sign" aria-hidden="true">▲</b> <a href="/incidents/1/">cern ↔ nersc loses 20%</a> open</p>
    <p class="alarm checked"><span aria-hidden="true">△</span> Being checked: loses 100% since 19:30:27 UTC</p>
  </div>
  <p class="present" id="present" data-live><span title="ornl to cern: 50%"><span class="sign" aria-hidden="true">△</span> Now: loss <b>too few</b>, median RTT <b>118.3 ms</b></span></p>
  <details class="present-rows" id="present-rows" data-live><summary>now and in the last hour</summary>
  <tbody><tr><th scope="row">loss, 100 B</th><td>0 of 119 since 19:27:12 UTC</td><td>0 of 119</td></tr></tbody></table></details>
"""  # noqa: E501

    assert path_page(page) == {
        "banner": ["cern ↔ nersc loses 20%", "Being checked: loses 100% since 19:30:27 UTC"],
        "now": "Now: loss too few, median RTT 118.3 ms",
        "rows": [{"name": "loss, 100 B", "now": "0 of 119 since 19:27:12 UTC"}],
    }


def test_gauges_are_read_from_their_text() -> None:
    labels = 'destination_site="cern",host="cern",path="11",source="ornl",source_site="ornl"'
    text = (
        "# HELP soundings_path_condition Its condition: 0 normal, 1 awaited, 5 bad\n"
        f"soundings_path_condition{{{labels}}} 5.0\n"
        f"soundings_path_loss_ratio{{{labels}}} 0.5\n"
        f'soundings_path_measured_timestamp_seconds{{{labels},packet_bytes="1000"}} 1.5e+09\n'
    )

    assert gauges(text) == {
        "condition": [{"path_id": 11, "packet_bytes": None, "value": "bad"}],
        "loss": [{"path_id": 11, "packet_bytes": None, "value": 0.5}],
        "measured": [{"path_id": 11, "packet_bytes": 1000, "value": 1.5e9}],
    }


def test_a_poll_without_the_pages_scores_the_others() -> None:
    assert set(score_poll(told(BEGIN + 120), truth()).surfaces) == {"sentence", "counts", "grid", "incidents", "status"}


def test_delivered_bursts_are_known_from_earlier_polls() -> None:
    [(number, pair), *_] = [(number, pair) for number, pair in NUMBERS.items() if pair not in LOSSY]
    said = f"{pair[0]} to {pair[1]}: as of 20:24:40 UTC, no newer data: no loss: 0 of 92 since 20:20:42 UTC"
    cell = {"path_id": number, "style": "stale", "signs": "◷", "text": "0", "said": said}
    measured = [{"path_id": number, "packet_bytes": 100, "value": BEGIN - 90}]
    scraped = {"prometheus": {"condition": [], "loss": [], "measured": measured}}

    def polls(seen_s: float) -> list[dict[str, Any]]:
        times = {"evaluated": BEGIN, "evaluated_after": BEGIN, "hovers": {"100": []}}
        return [
            {**poll(BEGIN - seen_s, "Too early."), **times, **scraped},
            {**poll(BEGIN - 10, "Too early."), "hovers": {"100": [cell]}},
        ]

    assert score_polls(polls(45), truth())[-1].surfaces["hovers"].mark is Mark.FALSE
    assert score_polls(polls(15), truth())[-1].surfaces["hovers"].mark is Mark.TRUE


def test_polls_are_counted_by_surface_and_fault() -> None:
    lines = [{"type": "fault", "name": "loss-25", "at": BEGIN}]
    run = stored_run(lines)
    of_lossy = StoredRun(run.fault, truth(), (told(BEGIN + 120), poll(BEGIN + 90, "No open incidents.")), True)

    rows = by_surface([(of_lossy, score_polls(of_lossy.polls, of_lossy.truth))]).rows

    assert [row for row in rows if row[0] == "sentence"] == [
        ("sentence", "all", "2", "1", "0", "1", "0", "0", "0"),
        ("sentence", of_lossy.fault.title, "2", "1", "0", "1", "0", "0", "0"),
    ]


class Centre:
    """A centre with two paths, the second of which is in trouble; the rows of its grid change once."""

    port = 0

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.axes = "a1"

    def get(self, path: str) -> Any:
        if path == "state":
            return {"sentence": "", "evaluated_at": None, **dict.fromkeys(COUNTS, 0)}
        if path.startswith("incidents"):
            return []
        cells = [
            {**dict.fromkeys(CELL), "path_id": 1, "source": "cern", "destination": "nersc", "ended_at": None},
            {**dict.fromkeys(CELL), "path_id": 2, "source": "nersc", "destination": "cern", "ended_at": None,
             "condition": "bad"},
            {**dict.fromkeys(CELL), "path_id": 3, "source": "cern", "destination": "ornl", "ended_at": None},
        ]  # fmt: skip
        return {"since": None, "until": None, "packet_bytes": 100, "cells": cells}

    def read(self, _: Any, path: str) -> str:
        self.asked.append(path)
        if path == "/status/":
            return '<section id="mesh-state"></section><section id="open"></section>'
        if not path.startswith("/grid/changes"):
            return ""
        cell = '<td class="none-lost"><a id="p1" aria-label="cern to nersc: no loss">0</a></td>'
        is_known = path.endswith(f"since={self.axes}-")
        return json.dumps({"version": f"{self.axes}-c1", **({"cells": {"1": cell}} if is_known else {"reload": True})})


def test_a_poller_reads_pages_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    centre = Centre()
    monkeypatch.setattr(polling, "_read", centre.read)
    poller = Poller(cast("RunningStack", centre), {PAIR})

    first = poller.poll()
    centre.axes = "a2"
    taken = [first, *(poller.poll() for _ in range(6))]

    assert [[*set(each) & {"path_page", "prometheus"}] for each in taken] == [
        *(["prometheus"], ["path_page"], ["path_page"]) * 2, ["prometheus"],
    ]  # fmt: skip
    assert [path for path in centre.asked if path.startswith("/paths/")] == [
        f"/paths/{path_id}/?period=hour&size={size}" for path_id in (1, 2) for size in (100, 1000)
    ]
    assert all(len(each["hovers"][size]) == 1 for each in taken for size in ("100", "1000"))
