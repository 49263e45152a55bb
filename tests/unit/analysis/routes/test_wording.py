"""Sentences about routes: the facts in them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from monitor.analysis.routes.compare import RouteHops
from monitor.analysis.routes.crossings import SILENT, Level, Part
from monitor.analysis.routes.differences import diff_as
from monitor.analysis.routes.effects import ChangeEffect, LossStep, MedianStep
from monitor.analysis.routes.onset import LossOnset
from monitor.analysis.routes.suspects import Suspect, Suspects
from monitor.analysis.routes.wording import (
    AsLabels,
    as_change,
    common_part,
    later_change,
    loss_onset,
    probability,
    route_change,
    route_unchanged,
    stretch,
)
from tests.facts import lacks

NUMBERS = {"a": 680, "g": 20965, "c": 513, "l": 3356, "m": 3356, "k": 174}
LABELS = AsLabels(NUMBERS.get, {20965: "GEANT", 513: "CERN"}.get)
AT = datetime(2026, 3, 1, 14, 29, 41, tzinfo=UTC)


def route(text):
    return RouteHops(tuple(None if letter == "." else letter for letter in text), True)


def test_the_onset_names_hops_as_and_ends():
    certain = LossOnset(3, 4, False, 0.97, 0.01, 2)

    text = loss_onset(certain, route("a.gcz"), None, LABELS)

    assert text == (
        "loss begins between hop 3 (AS 20965 GEANT) and hop 4 (AS 513 CERN), seen from both ends"
    )  # fmt: skip


def test_an_uncertain_onset_says_so():
    text = loss_onset(LossOnset(0, 5, True, 0.6, 0.3, 1), route("a.gcz"), route("cgagz"), LABELS)

    assert "cannot tell" in text
    assert "0.60" in text
    assert "between the source and the destination of the reverse route" in text
    assert "one end" in text
    assert loss_onset(None, route("ab"), None, LABELS) == "where: cannot tell"


def test_a_change_names_time_effect_and_as():
    effect = ChangeEffect(MedianStep(0.0, 100.0, 160.2, 59.0, 61.0), None)

    text = route_change(AT, route("almc"), route("akkc"), LABELS, effect)

    assert text == "the route changed at 14:29:41 UTC, +60 ms, now by AS 174 instead of AS 3356"


def test_a_change_that_went_back_is_of_the_past():
    change = route_change(AT, route("almc"), route("akkc"), LABELS)
    last_there_at = AT + timedelta(minutes=20)

    soon = later_change(change, last_there_at, last_there_at + timedelta(seconds=40), is_back=True)
    late = later_change(change, last_there_at, last_there_at + timedelta(minutes=10), is_back=True)
    third = later_change(change, last_there_at, last_there_at + timedelta(seconds=40), is_back=False)

    assert soon.startswith("the route changed at 14:29:41 UTC, then by AS 174 instead of AS 3356; ")
    assert lacks(soon, "back", "previous route", "14:50:21 UTC") == []
    assert lacks(late, "first seen back", "14:59:41 UTC") == []
    assert lacks(third, "changed again at 14:50:21 UTC") == []
    assert "back" not in third
    assert "then no longer by AS 3356" in later_change(
        route_change(AT, route("alc"), route("ac"), LABELS), AT, AT, is_back=True
    )


def test_loss_and_falls_are_effects_too():
    effect = ChangeEffect(MedianStep(0.0, 100.0, 95.0, -6.0, -4.0), LossStep(0, 600, 12, 300, 0.01, 0.06))

    text = route_change(AT, route("almc"), route("akkc"), LABELS, effect)

    assert "−5.0 ms" in text
    assert "loss 0% → 4%" in text


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("almc", "amlc", "other hops 2 to 3, same AS"),
        ("alc", "ac", "no longer by AS 3356"),
        ("ac", "akc", "now by AS 174"),
        ("xyz", "xwz", "other hop 2"),  # without a table of AS
    ],
)
def test_a_change_within_an_as_names_the_hops(before, after, expected):
    assert route_change(AT, route(before), route(after), LABELS).endswith(f", {expected}")


def test_changed_as_are_shown_side_by_side():
    assert as_change(diff_as(route("almc"), route("akkc"), NUMBERS.get)) == "AS 3356 → AS 174"
    assert as_change(diff_as(route("almc"), route("amlc"), NUMBERS.get)) == ""


def test_an_unchanged_route_is_said_to_be():
    assert route_unchanged() == "route unchanged; where: cannot tell"
    assert (
        lacks(route_unchanged(has_reverse=False), "route unchanged", "reverse route unknown; where: cannot tell") == []
    )
    assert lacks(route_unchanged(up_to=6), "route unchanged up to hop 6", "; where: cannot tell") == []


def suspect(value, *parts):
    return Suspect(parts, value, 5, 6)


def test_a_common_part_has_its_probability_and_the_next():
    result = Suspects(
        (suspect(0.5, Part(Level.LINK, ("g", "c"))),),
        (suspect(0.93, Part(Level.AS, ("20965",))), suspect(0.04, Part(Level.AS, ("513",)))),
    )

    text = common_part("AS 20965 GEANT", result.places[0], result, LABELS)

    assert text == "AS 20965 GEANT 0.93, next AS 513 CERN 0.04"


def test_the_only_link_of_a_common_part_is_told():
    result = Suspects((suspect(0.95, Part(Level.LINK, ("g", "c")), Part(Level.BORDER, ("513", "20965"))),), ())

    assert "link g – c" in common_part("the border", result.parts[0], result, LABELS)
    assert "link" not in common_part(stretch("g", "c", LABELS), result.parts[0], result, LABELS)


def test_a_stretch_has_the_as_of_its_ends():
    assert stretch("g", "x", LABELS) == "between g (AS 20965 GEANT) and x"


def test_many_parts_that_cannot_be_told_apart_are_counted():
    links = [Part(Level.LINK, (f"r{place}", SILENT)) for place in range(6)]
    result = Suspects((suspect(0.95, Part(Level.AS, ("513",))), suspect(0.03, *links)), ())

    text = common_part("AS 513 CERN", result.parts[0], result, LABELS)

    assert "r0" in text
    assert "silent hops" in text
    assert "2 more" in text


def test_a_probability_is_never_rounded_to_one():
    assert [probability(value) for value in (0.999, 0.931, 0.0)] == ["0.99", "0.93", "0.00"]
