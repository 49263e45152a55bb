"""Marks of statements about planted faults, with polls written by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.lab_truth.cells import Z, wilson
from tests.lab_truth.faults import FAULTS
from tests.lab_truth.marks import Mark
from tests.lab_truth.scoring import changes_a_minute, score_poll
from tests.lab_truth.statements import Interval, Kind, read_clause, read_sentence
from tests.lab_truth.stored import stored_run, truth_of
from tests.lab_truth.truth import Impairment, Phase, Signal, Truth, impairments_of

SITES = ("ornl", "slac", "nersc")
PAIRS = frozenset((a, b) for a in SITES for b in SITES if a != b)
NUMBERS = dict(enumerate(sorted(PAIRS), start=1))
BEGIN = 1_795_897_600.0
"""2026-11-28 20:26:40 UTC."""
TIMES = {"proof_s": 60.0, "end_s": 40.0, "onset_s": 15.0}
LOSS = Impairment(Signal.LOSS, "ornl", "slac", 0.25, BEGIN, BEGIN + 300)
LOSSY = {("ornl", "slac"), ("slac", "ornl")}
CALM = "All 6 paths are normal."
BAD = {"with_problems": 2, "normal": 4}


def truth(*impairments: Impairment) -> Truth:
    rtts = dict.fromkeys(PAIRS, 60.0)
    return Truth(impairments or (LOSS,), PAIRS, base_rtt_ms=rtts, base_loss={}, **TIMES)


def cell(number: int, metric: str, at: float, **values: Any) -> dict[str, Any]:
    source, destination = NUMBERS[number]
    usual = {"state": "none_lost", "value": 0.0} if metric == "loss" else {"state": "value", "value": 60.0}
    return {
        "path_id": number, "source": source, "destination": destination, **usual, "value_measured": None,
        "value_sent": None, "sent": 500, "received": 500, "incident_id": None, "is_since_end": False, "ended": None,
        **values,
    }  # fmt: skip


def on_both(**values: Any) -> dict[tuple[str, str], dict[str, Any]]:
    """These values in the cells of both affected paths."""
    return dict.fromkeys(LOSSY, values)


def poll(at: float, sentence: str, **given: Any) -> dict[str, Any]:
    """A poll in which all is normal but for what is given: `counts`, `loss` and `rtt` by path, `titles` with their
    paths, and `status`."""
    counts = {"paths": 6, "with_problems": 0, "back_to_normal": 0, "normal": 6, "being_checked": 0, "overdue": 0}
    titles = given.get("titles", {})
    grids = {}
    for metric in ("loss", "rtt"):
        changed = given.get(metric, {})
        cells = [cell(number, metric, at, **changed.get(pair, {})) for number, pair in NUMBERS.items()]
        grids[metric] = {"since": at - 600, "until": at, "packet_bytes": 100, "cells": cells}
    incidents = [
        {
            "id": number, "title": title, "state": "open", "rule": "loss", "began": None,
            "path_ids": [key for key, pair in NUMBERS.items() if pair in pairs],
        }
        for number, (title, pairs) in enumerate(titles.items(), start=1)
    ]  # fmt: skip
    return {
        "at": at,
        "state": {"sentence": sentence, **counts, **given.get("counts", {})},
        **grids,
        "incidents": incidents,
        "status": {"sentence": given.get("status", sentence), "open": given.get("rows", [])},
        "sentence_after": given.get("after", sentence),
    }


def told(at: float, figure: str = "25%", place: str = "ornl → slac", since: str = "20:26:40") -> dict[str, Any]:
    """A poll that tells the loss on all surfaces."""
    level = on_both(state="value", value=0.25, value_sent=100, value_measured=0.2, incident_id=1)
    return poll(
        at,
        f"2 of 6 paths have problems: {place} loses {figure} since {since}. 4 normal.",
        counts={"with_problems": 2, "normal": 4},
        loss=level,
        rtt=on_both(incident_id=1),
        titles={f"loss {figure} now from ornl to slac, since 2026-11-28 20:26 UTC": LOSSY},
        status="1 open incident: 2 of 6 paths have problems.",
        rows=[{"what": "ornl → slac: packet loss", "when": "since 2026-11-28 20:26 UTC, for 2 min"}],
    )


def marks(taken: dict[str, Any], *impairments: Impairment) -> dict[str, Mark]:
    return {surface: marked.mark for surface, marked in score_poll(taken, truth(*impairments)).surfaces.items()}


def test_a_told_loss_is_true_on_every_surface() -> None:
    score = score_poll(told(BEGIN + 120), truth())

    assert {surface: marked.reason for surface, marked in score.surfaces.items() if marked.reason} == {}
    assert score.mark is Mark.TRUE


def test_before_its_proof_a_fault_may_be_silent() -> None:
    assert marks(poll(BEGIN + 30, CALM))["sentence"] is Mark.SILENT
    assert score_poll(poll(BEGIN + 30, CALM), truth()).mark is Mark.SILENT


def test_after_its_proof_a_lossy_path_is_not_normal() -> None:
    found = marks(poll(BEGIN + 90, CALM))

    assert (found["sentence"], found["counts"], found["status"]) == (Mark.FALSE, Mark.FALSE, Mark.FALSE)


def test_a_proved_fault_that_no_word_tells_is_missed() -> None:
    assert marks(poll(BEGIN + 90, "No open incidents. 4 normal."))["sentence"] is Mark.MISSED


def test_paths_without_newer_data_are_not_missed() -> None:
    words = "No open incidents; 2 paths with newest pings that do not count, sent during throughput tests. 4 normal."
    counts = {"overdue": 2, "normal": 4}

    found = marks(poll(BEGIN + 90, words, counts=counts))
    fewer = marks(poll(BEGIN + 90, words.replace("2 paths", "1 path"), counts={**counts, "overdue": 1}))

    assert (found["sentence"], found["counts"]) == (Mark.TRUE, Mark.TRUE)
    assert (fewer["sentence"], fewer["counts"]) == (Mark.MISSED, Mark.MISSED)


def test_an_ended_fault_is_told_late_after_its_time() -> None:
    within, after = marks(told(BEGIN + 335)), marks(told(BEGIN + 345))

    assert set(within.values()) == {Mark.TRUE}
    assert (after["sentence"], after["incidents"], after["status"]) == (Mark.LATE, Mark.LATE, Mark.LATE)


def test_a_path_that_is_not_affected_is_false() -> None:
    assert marks(told(BEGIN + 120, place="ornl ↔ nersc"))["sentence"] is Mark.FALSE


def test_an_incident_with_a_path_not_affected_is_false() -> None:
    taken = told(BEGIN + 120)
    taken["incidents"][0]["path_ids"] = list(NUMBERS)

    assert marks(taken)["incidents"] is Mark.FALSE


def test_the_reverse_direction_is_false() -> None:
    assert marks(told(BEGIN + 120, place="slac → ornl"))["sentence"] is Mark.FALSE
    assert marks(told(BEGIN + 120, place="slac ↔ ornl"))["sentence"] is Mark.TRUE


@pytest.mark.parametrize(
    ("since", "mark"), [("20:26:20", Mark.TRUE), ("20:27:04", Mark.TRUE), ("20:25:40", Mark.FALSE)]
)
def test_an_onset_is_within_a_cycle_and_its_set(since: str, mark: Mark) -> None:
    assert marks(told(BEGIN + 120, since=since))["sentence"] is mark


@pytest.mark.parametrize(
    ("figure", "mark"), [("18 to 32%", Mark.TRUE), ("about 20%", Mark.TRUE), ("4 to 7%", Mark.UNCLEAR)]
)
def test_a_figure_that_does_not_hold_the_truth_is_unclear(figure: str, mark: Mark) -> None:
    assert marks(told(BEGIN + 120, figure=figure))["sentence"] is mark


def test_a_title_with_another_figure_than_the_sentence_is_unclear() -> None:
    taken = told(BEGIN + 120)
    taken["incidents"][0]["title"] = "loss 35 to 60% now from ornl to slac"

    assert marks(taken)["incidents"] is Mark.UNCLEAR


def test_counts_that_contradict_each_other_are_unclear() -> None:
    taken = told(BEGIN + 120)
    taken["loss"]["cells"][0]["incident_id"] = 1
    taken["status"]["sentence"] = "2 open incidents, 1 of them over: 2 of 6 paths have problems."

    found = marks(taken)

    assert found["status"] is Mark.UNCLEAR


def test_surfaces_are_not_compared_while_the_sentence_changes() -> None:
    taken = told(BEGIN + 120)
    taken["status"]["sentence"] = "1 open incident, over: 1 of 6 paths has problems."
    taken["sentence_after"] = "another"

    assert marks(taken)["status"] is Mark.TRUE


def test_words_that_no_form_knows_are_unclear() -> None:
    assert marks(poll(BEGIN - 60, "Something is odd."))["sentence"] is Mark.UNCLEAR


def test_a_cell_with_the_loss_of_its_window_is_true() -> None:
    thinned = on_both(state="value", value=0.05, sent=500, received=475)

    assert marks(poll(BEGIN + 120, CALM, loss=thinned))["grid"] is Mark.TRUE


def test_a_cell_of_an_affected_path_without_loss_is_unclear() -> None:
    level = on_both(state="value", value=0.02, value_sent=400, value_measured=0.2, incident_id=1)

    assert marks(poll(BEGIN + 200, CALM, loss=level))["grid"] is Mark.UNCLEAR


def test_a_level_of_an_ended_loss_is_late() -> None:
    level = on_both(state="value", value=0.25, value_sent=100, value_measured=0.2, incident_id=1)

    assert marks(poll(BEGIN + 500, CALM, loss=level))["grid"] is Mark.LATE


def test_a_stray_loss_that_is_being_checked_is_not_false() -> None:
    stray = {("nersc", "slac"): {"state": "value", "value": 0.0124, "value_sent": 323, "value_measured": 0.002}}
    words = "No open incidents; 1 path with loss, being checked (nersc → slac: 4 of 323 packets lost). 5 normal."

    found = marks(poll(BEGIN - 60, words, counts={"being_checked": 1, "normal": 5}, loss=stray))

    assert (found["sentence"], found["grid"]) == (Mark.TRUE, Mark.UNCLEAR)


def test_a_cell_with_an_incident_on_a_clean_path_is_false() -> None:
    assert marks(poll(BEGIN - 60, CALM, loss={("nersc", "slac"): {"incident_id": 1}}))["grid"] is Mark.FALSE


def test_all_lost_is_false_where_packets_pass() -> None:
    dead = on_both(state="total_loss", value=1.0)

    assert marks(poll(BEGIN + 120, CALM, loss=dead))["grid"] is Mark.FALSE
    assert marks(poll(BEGIN + 120, "ornl ↔ slac no reply for 2 min."))["sentence"] is Mark.FALSE


def test_a_raised_rtt_has_its_figures_of_now_and_before() -> None:
    raised = Impairment(Signal.RTT, "ornl", "slac", 60.0, BEGIN, BEGIN + 300)

    def mark(words: str) -> Mark:
        return marks(poll(BEGIN + 120, words, counts={"with_problems": 2, "normal": 4}), raised)["sentence"]

    assert mark("ornl → slac: RTT 120 ms since 20:26:42 (was 60 ms).") is Mark.TRUE
    assert mark("ornl → slac RTT 60 → 120.3 ms for 2 min.") is Mark.TRUE
    assert mark("ornl → slac: RTT 90 ms since 20:26:42 (was 60 ms).") is Mark.UNCLEAR
    assert mark("ornl → slac: RTT 120 ms since 20:26:42 (was 80 ms).") is Mark.UNCLEAR
    assert mark("ornl → slac: RTT normal again (60 ms) since 20:28:02; 120 ms from 20:26.") is Mark.FALSE
    assert mark("ornl → slac loses 3% since 20:26:42.") is Mark.FALSE


def test_an_rtt_that_is_normal_again_is_true() -> None:
    raised = Impairment(Signal.RTT, "ornl", "slac", 60.0, BEGIN, BEGIN + 300)
    words = "ornl → slac: RTT normal again (60 ms) since 20:31:42; 120 ms from 20:26."

    assert marks(poll(BEGIN + 400, words), raised)["sentence"] is Mark.TRUE


@pytest.mark.parametrize(
    ("words", "mark"),
    [
        ("no more loss since 20:31:42 UTC; 25% from 20:26:42 UTC", Mark.TRUE),
        ("no more loss since 20:31:42 UTC; about 20% from 2026-11-28 20:26 UTC", Mark.TRUE),
        ("no more loss since 20:30:02 UTC; 25% from 20:26:42 UTC", Mark.FALSE),
        ("no more loss since 20:31:42 UTC; 25% from 20:24:42 UTC", Mark.FALSE),
        ("no more loss since 20:31:42 UTC; 3% from 20:26:42 UTC", Mark.UNCLEAR),
        ("answers again since 20:31:42 UTC; dead from 20:26:42 UTC", Mark.FALSE),
        ("loses 25% since 20:26:42 UTC", Mark.LATE),
    ],
)
def test_what_is_over_has_its_own_times_and_level(words: str, mark: Mark) -> None:
    place = "ornl ↔ slac" + ("" if words[0] in "al" else ":")
    over = {"counts": {"back_to_normal": 2, "normal": 4}, "titles": {f"{place} {words}": LOSSY}}

    found = marks(poll(BEGIN + 400, f"No path has a problem now. {place} {words}. 4 normal.", **over))

    assert (found["sentence"], found["incidents"]) == (mark, mark)


def test_what_is_over_was_a_trouble_of_this_path() -> None:
    words = "No path has a problem now. nersc ↔ slac: no more loss since 20:31:42 UTC; 25% from 20:26:42 UTC."

    assert marks(poll(BEGIN + 400, words))["sentence"] is Mark.FALSE


def test_an_outage_that_is_over_was_one() -> None:
    dead = [Impairment(Signal.LOSS, *pair, 1.0, BEGIN, BEGIN + 300) for pair in LOSSY]
    words = "No path has a problem now. ornl ↔ slac answers again since 20:31:42 UTC; dead from 20:26:42 UTC."

    assert marks(poll(BEGIN + 400, words), *dead)["sentence"] is Mark.TRUE


def test_no_problem_now_is_false_of_a_proved_fault() -> None:
    words = "No path has a problem now. nersc ↔ ornl: no more loss since 20:26:00 UTC; 25% from 20:24:00 UTC."
    earlier = Impairment(Signal.LOSS, "ornl", "nersc", 0.25, BEGIN - 160, BEGIN - 40)

    assert marks(poll(BEGIN + 90, words), LOSS, earlier)["sentence"] is Mark.FALSE
    assert marks(poll(BEGIN - 10, words), LOSS, earlier)["sentence"] is Mark.TRUE


def test_too_many_paths_that_are_over_are_false() -> None:
    words = "2 of 6 paths have problems: ornl → slac loses 25% since 20:26:40. {} over, waiting to close."
    counts = {"with_problems": 2, "normal": 4}

    assert marks(poll(BEGIN + 120, words.format(2), counts=counts))["sentence"] is Mark.FALSE


def test_a_site_has_as_many_dead_paths_as_are_told() -> None:
    dead = [Impairment(Signal.LOSS, *pair, 1.0, BEGIN, BEGIN + 300) for pair in (("ornl", "slac"), ("slac", "ornl"))]

    def mark(words: str) -> Mark:
        return marks(poll(BEGIN + 120, words, counts={"with_problems": 2, "normal": 4}), *dead)["sentence"]

    assert mark("ornl: 2 of 4 paths dead since 20:26:42.") is Mark.TRUE
    assert mark("ornl: 3 of 4 paths dead since 20:26:42.") is Mark.UNCLEAR
    assert mark("nersc: 2 of 4 paths dead since 20:26:42.") is Mark.FALSE


def test_a_flapping_path_is_not_normal_between_its_outages() -> None:
    outages = [Impairment(Signal.LOSS, "ornl", "slac", 1.0, BEGIN + at, BEGIN + at + 20) for at in range(0, 200, 40)]
    between = BEGIN + 150
    flaps = "ornl ↔ slac flaps: 4 outages of about 20 s since 20:26, dead now. 4 normal."
    found = truth(*outages)

    assert found.phase(("ornl", "slac"), BEGIN + 30) is Phase.ENDING
    assert found.phase(("ornl", "slac"), between) is Phase.PROVED
    assert marks(poll(between, CALM), *outages)["sentence"] is Mark.FALSE
    assert marks(poll(between, flaps, counts={"with_problems": 2, "normal": 4}), *outages)["sentence"] is Mark.TRUE


def test_a_path_flaps_until_ten_minutes_after_the_third_newest_outage() -> None:
    outages = [Impairment(Signal.LOSS, "ornl", "slac", 1.0, BEGIN + at, BEGIN + at + 20) for at in range(0, 200, 40)]
    third_newest = BEGIN + 2 * 40 + 20
    found = truth(*outages)

    assert found.phase(("ornl", "slac"), third_newest + 599) is Phase.ENDING
    assert found.phase(("ornl", "slac"), third_newest + 601) is Phase.ENDED


def test_a_flapping_path_is_not_over_between_its_outages() -> None:
    outages = [Impairment(Signal.LOSS, "ornl", "slac", 1.0, BEGIN + at, BEGIN + at + 20) for at in range(0, 200, 40)]
    over = poll(
        BEGIN + 150,
        "The problems of 2 of 6 paths are over, waiting to close: ornl ↔ slac replies again since 20:29:00 UTC, "
        "3 of 56 packets lost, after no reply for 21 s. 4 normal.",
        counts={"back_to_normal": 2, "normal": 4},
        loss=on_both(value_measured=0.5, value_sent=20, incident_id=1),
        titles={"no reply from 2026-11-28 20:28:40 to 20:29:00 UTC, since then no loss on ornl ↔ slac": LOSSY},
        status="1 open incident: the problems of 2 of 6 paths are over, waiting to close.",
    )

    found = marks(over, *outages)

    assert {surface for surface, mark in found.items() if mark is Mark.FALSE} == {
        *("sentence", "counts", "incidents", "status")
    }
    assert found["grid"] is Mark.TRUE


def test_a_loss_by_size_is_told_with_the_size() -> None:
    large = Impairment(Signal.LOSS, "ornl", "slac", 1.0, BEGIN, BEGIN + 300, over_bytes=600)

    def mark(words: str) -> Mark:
        return marks(poll(BEGIN + 120, words, counts={"with_problems": 2, "normal": 4}), large)["sentence"]

    assert mark("ornl ↔ slac loses 100% of packets of 1,000 B since 20:26:40.") is Mark.TRUE
    assert mark("ornl ↔ slac loss 31 to 69% for 2 min.") is Mark.UNCLEAR


@pytest.mark.parametrize(
    ("packet_bytes", "value", "mark"),
    [(100, 0.0, Mark.TRUE), (1000, 1.0, Mark.TRUE), (100, 0.5, Mark.UNCLEAR), (1000, 0.0, Mark.FALSE)],
)
def test_a_cell_is_of_the_packet_size_of_its_grid(packet_bytes: int, value: float, mark: Mark) -> None:
    large = Impairment(Signal.LOSS, "ornl", "slac", 1.0, BEGIN, BEGIN + 300, over_bytes=600)
    state = "value" if value else "none_lost"
    level = on_both(state=state, value=value, value_sent=60, value_measured=value, incident_id=1)
    taken = poll(BEGIN + 200, CALM, counts=BAD, loss=level)
    taken["loss"]["packet_bytes"] = packet_bytes

    assert marks(taken, large)["grid"] is mark


def test_all_lost_of_a_size_is_true() -> None:
    large = Impairment(Signal.LOSS, "ornl", "slac", 1.0, BEGIN, BEGIN + 300, over_bytes=600)
    taken = poll(BEGIN + 200, CALM, counts=BAD, loss=on_both(state="total_loss", value=1.0, incident_id=1))
    of_size = {**taken, "loss": {**taken["loss"], "packet_bytes": 1000}}

    assert (marks(taken, large)["grid"], marks(of_size, large)["grid"]) == (Mark.FALSE, Mark.TRUE)


def test_a_rate_is_of_its_own_direction() -> None:
    slow = Impairment(Signal.RATE, "ornl", "slac", 3e6, BEGIN, BEGIN + 300)

    def mark(words: str) -> Mark:
        return marks(poll(BEGIN + 120, words, counts={"with_problems": 1, "normal": 5}), slow)["sentence"]

    assert mark("ornl → slac throughput 28.1 Mbit/s → 2.9 Mbit/s for 2 min.") is Mark.TRUE
    assert mark("ornl → slac throughput 28.1 Mbit/s → 9.4 Mbit/s for 2 min.") is Mark.UNCLEAR
    assert mark("slac → ornl throughput 28.1 Mbit/s → 2.9 Mbit/s for 2 min.") is Mark.FALSE


@pytest.mark.parametrize(
    ("clause", "kind"),
    [
        ("ornl → slac loses 3% since 13:34:02", Kind.LOSS),
        ("in2p3: 6 of 8 paths dead since 14:21:02", Kind.DEAD),
        ("cern ↔ ornl flaps: 4 outages of about 20 s since 14:42, dead now", Kind.FLAPS),
        ("ornl → nersc: RTT 162 ms since 14:00:02 (was 102 ms)", Kind.RTT),
        ("ornl → nersc: RTT normal again (102 ms) since 14:06:02; 162 ms from 14:00", Kind.OVER),
        ("One path is being checked: cern → slac, 3 of 40 packets lost since 14:00:02", Kind.CHECKED),
        ("1 path with loss, not proven above the alert threshold so far (ornl → nersc: 4 of 323 lost)", Kind.CHECKED),
        ("One more path shows the loss on its way back", Kind.CHECKED),
        ("2 paths without newer data since 14:41:20 UTC", Kind.OVERDUE),
        ("All 20 paths are normal", Kind.ALL_NORMAL),
        ("3 paths with newest pings that do not count, sent during throughput tests", Kind.OVERDUE),
        ("the problems of 2 of 20 paths are over, waiting to close: ornl → slac no loss since 22:23:55 UTC", Kind.OVER),
        ("1 with a problem that is over", Kind.OVER),
        ("No path has a problem now", Kind.PROBLEMS),
        ("cern ↔ ornl: no reply at times since 2026-11-28 20:26 UTC, for 3 min", Kind.FLAPS),
        ("slac ↔ ornl: more jitter than usual", Kind.JITTER),
        ("slac ↔ ornl: unusual delays", Kind.RTT),
        ("ornl ↔ slac: no more loss since 13:50:15 UTC; 3% from 13:34:02 UTC", Kind.OVER),
        ("cern answers again since 14:42:26 UTC; dead from 14:39:02 UTC", Kind.OVER),
        ("2 over, waiting to close", Kind.OVER),
        ("4 of 20 paths have no newer results", Kind.OVERDUE),
        ("3 without newer results", Kind.OVERDUE),
        ("4 of 20 paths could not be measured", Kind.UNDECIDED),
        ("18 normal as far as judged", Kind.NORMAL),
        ("Throughput of 20 paths not judged yet: fewer than 8 tests", Kind.UNDECIDED),
        ("cern replies again since 14:42:26 UTC, no loss (below 4.6%), after no reply for 3 min", Kind.OVER),
        ("cern no reply for 3 min", Kind.DEAD),
        ("no reply from 2026-11-28 22:38:01 to 22:41:20 UTC, since then no loss (below 4%) on cern", Kind.OVER),
        ("no reply from 2026-11-28 22:38:01 to 22:41:20 UTC, since then loss 12% on cern, 8 paths", Kind.LOSS),
        ("Last incident: ornl → slac loss 17 to 29% for 3 min, resolved 87 s ago", Kind.PAST),
    ],
)
def test_each_form_of_words_is_known(clause: str, kind: Kind) -> None:
    assert read_clause(clause, BEGIN, ("ornl", "slac", "nersc", "cern", "in2p3")).kind is kind


def test_a_sentence_is_read_clause_by_clause() -> None:
    text = (
        "2 of 20 paths have problems: ornl → slac loss 14 to 39% for 68 s, and 1 other incident. 1 path with packets "
        "that do not exclude the loss of the incident yet (slac → nersc), 17 normal as far as judged."
    )

    kinds = [statement.kind for statement in read_sentence(text, BEGIN, SITES)]

    assert kinds == [Kind.PROBLEMS, Kind.LOSS, Kind.INCIDENTS, Kind.CHECKED, Kind.NORMAL]


def test_each_of_several_problems_is_a_statement() -> None:
    text = (
        "3 of 6 paths have problems: ornl → slac loses 3% since 13:34:02; nersc: 1 of 4 paths dead since 14:21:02 and "
        "nersc ↔ slac: RTT normal again (60 ms) since 14:06:02; 120 ms from 14:00. One path is being checked: "
        "slac → nersc."
    )

    statements = read_sentence(text, BEGIN, SITES)

    assert [statement.kind for statement in statements] == [
        Kind.PROBLEMS,
        Kind.LOSS,
        Kind.DEAD,
        Kind.OVER,
        Kind.CHECKED,
    ]
    assert (statements[2].count, statements[2].of, statements[3].figure) == (1, 4, Interval(58.0, 62.0))
    assert (statements[4].count, statements[4].pairs) == (1, frozenset({("slac", "nersc")}))


def test_a_time_of_yesterday_is_before_now() -> None:
    midnight = BEGIN - 20 * 3600 - 26 * 60 - 40

    statement = read_clause("ornl → slac loses 3% since 23:59:50", midnight + 30, SITES)

    assert statement.since == midnight - 10


def test_a_change_ends_the_one_before() -> None:
    line = {"type": "change", "signal": "rtt", "source": "ornl", "destination": "slac"}
    changes = [{**line, "at": at, "value": value} for at, value in ((10.0, 2.0), (40.0, 4.0), (70.0, None))]

    found = impairments_of(changes)

    assert [(each.since, each.until, each.value) for each in found] == [(10.0, 40.0, 2.0), (40.0, 70.0, 4.0)]
    assert truth(*found).rtt_range(("slac", "ornl"), 0.0, 50.0) == (60.0, 64.0)


def test_the_interval_of_a_count_is_wilsons() -> None:
    interval = wilson(0.1, 100)

    for bound in (interval.low, interval.high):
        assert abs(0.1 - bound) == pytest.approx(Z * math.sqrt(bound * (1 - bound) / 100))


def test_no_loss_holds_a_truth_of_none() -> None:
    assert all(wilson(0.0, sent).meets(0.0, 0.0) for sent in range(1, 1000))


def test_changes_are_counted_within_any_minute() -> None:
    polls = [poll(at, f"sentence {at // 15}") for at in range(0, 120, 5)]

    assert changes_a_minute(polls) == 4


def test_every_fault_restores_each_of_its_changes() -> None:
    for fault in FAULTS:
        lines = [
            {"signal": change.signal, "source": change.source, "destination": change.destination, "at": change.at_s,
             "value": change.value, "over_bytes": change.over_bytes}
            for change in sorted(fault.changes, key=lambda change: change.at_s)
        ]  # fmt: skip
        assert all(each.until is not None and each.until <= fault.lasts_s for each in impairments_of(lines)), fault.name


def test_a_stored_run_has_its_fault_and_truth() -> None:
    change = {"type": "change", "signal": "loss", "source": "cern", "destination": "ornl", "over_bytes": 0}
    lines = [
        {"type": "fault", "name": "loss-25", "at": BEGIN},
        {**change, "at": BEGIN, "value": 0.25},
        {**change, "at": BEGIN + 180, "value": None},
        {"type": "end", "at": BEGIN + 400, "is_calm": True},
    ]

    run = stored_run(lines)

    assert (run.fault.name, run.is_calm, len(run.truth.pairs)) == ("loss-25", True, 20)
    assert run.truth == truth_of(run.fault, lines[1:3], {})
    assert run.truth.loss_range(("ornl", "cern"), BEGIN + 10, BEGIN + 20) == (0.25, 0.25)


def test_counts_of_earlier_runs_are_made_disjoint() -> None:
    nested = {"with_problems": 2, "back_to_normal": 2, "normal": 4}
    disjoint = {"with_problems": 1, "back_to_normal": 1, "normal": 4}
    lines = [
        {"type": "fault", "name": "loss-25", "at": BEGIN},
        *({"type": "poll", **poll(BEGIN, "Too early.", counts=counts)} for counts in (nested, disjoint)),
    ]

    assert [taken["state"]["with_problems"] for taken in stored_run(lines).polls] == [0, 1]


def test_a_new_path_has_the_figures_of_its_hosts_site() -> None:
    path = {"type": "path", "source": "slac", "destination": "kek", "host_at": "cern"}

    run = stored_run([{"type": "fault", "name": "new-path", "at": BEGIN}, path])

    assert len(run.truth.pairs) == 21
    assert run.truth.rtt_range(("slac", "kek"), BEGIN, BEGIN) == run.truth.rtt_range(("slac", "cern"), BEGIN, BEGIN)
