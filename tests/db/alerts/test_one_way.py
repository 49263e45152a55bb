"""The direction of an incident's loss or delay by STAMP tests: planted faults, and the statements about them."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import numpy as np
import pytest

from monitor.alerts.evidence.facts import Facts, OneWayFacts, PathFacts
from monitor.alerts.evidence.one_way.stated import counted_direction
from monitor.alerts.evidence.stated import Fault
from monitor.alerts.evidence.ticket import ticket_text
from monitor.alerts.evidence.titles import place_of
from monitor.alerts.incidents import queries
from monitor.analysis.directions import DirectionLosses, LostDirection
from monitor.archive.models import DirectionBurst
from tests.db.alert_rows import make_mesh
from tests.db.evidence_rows import BEGAN, MINUTE, NOW, bursts, finding, gathered, incident, lossy
from tests.facts import lacks

pytestmark = pytest.mark.django_db


@pytest.fixture
def paths():
    return make_mesh(["slac", "cern", "niit"], NOW - timedelta(days=2))


def cycles(path, since, until, lost=(0, 0), *, sent=30, delays_ms=(30.0, 30.0), every=MINUTE, undecided=0):
    """STAMP cycles whose packets are lost by `lost` (forward, reverse; None without counters) of each `sent`; delays
    are raw, with the far clock 5 s ahead."""
    rows = [
        DirectionBurst(
            path_id=path.pk,
            measured_at=since + number * every,
            packet_bytes=200,
            test="oneway",
            outcome="measured",
            during_test=False,
            sent=sent,
            received=sent - sum(count or 0 for count in lost) - undecided,
            undecided=undecided,
            dscp=0,
            forward_lost=lost[0],
            reverse_lost=lost[1],
            forward_median_ms=delays_ms[0] + 5000 + 0.1 * (number % 4),
            reverse_median_ms=delays_ms[1] - 5000 + 0.1 * (number % 4),
        )
        for number in range(round((until - since) / every))
    ]
    DirectionBurst.objects.bulk_create(rows)


def lossy_both(paths):
    """Loss of the round trips of both paths between two sites: pings cannot tell which way."""
    there, back = paths["slac → cern"], paths["cern → slac"]
    for path in (there, back):
        bursts(path, NOW - timedelta(hours=6), BEGAN, [20.0, 20.2, 20.1, 20.4])
        bursts(path, BEGAN, NOW, [20.0, 20.2, 20.1], lost=1)
        cycles(path, NOW - timedelta(hours=2), BEGAN)
    return there, back


def opened(*bad):
    row = incident(*(finding(path) for path in bad))
    cause = gathered(row).cause
    return queries.incident_with_paths(row.pk), cause


def test_a_loss_one_way_names_the_one_way_everywhere(paths):
    there, back = lossy_both(paths)
    cycles(there, BEGAN, NOW, lost=(3, 0))
    cycles(back, BEGAN, NOW, lost=(0, 3))
    row, cause = opened(there, back)
    ticket = ticket_text(row, gathered(row))

    # From each end 20 cycles of 30: 60 of 600 from slac, and of the 600 that slac returns 60 are lost on the way.
    assert (cause.fault, cause.toward, cause.toward_by) == (Fault.LOSS, ("slac", "cern"), "STAMP")
    sentence = "Loss from slac to cern: 10% of 1,200 packets slac → cern, 0 of 1,140 cern → slac, counted by STAMP"
    assert lacks(cause.sentence, sentence) == []
    assert lacks(cause.next_step, "from slac to cern", "ticket below", "that direction") == []
    assert (row.toward, row.toward_by) == ("slac → cern", "STAMP")
    assert place_of(row) == "slac → cern"
    assert lacks(ticket, sentence, "slac → cern: forward 60 of 600 lost, reverse 0 of 540 lost since the onset") == []


def test_a_loss_on_the_way_back_names_the_other_direction(paths):
    there, back = lossy_both(paths)
    cycles(there, BEGAN, NOW, lost=(0, 3))
    row, cause = opened(there, back)

    assert cause.toward == ("cern", "slac")
    assert lacks(cause.sentence, "Loss from cern to slac: 10% of 600 packets cern → slac, 0 of 600 slac → cern") == []
    assert row.toward == "cern → slac"


def test_few_pings_before_the_onset_are_not_called_no_more_loss(paths):
    """2% of the pings and of the packets forward since the onset, and none of the 64 pings before it."""
    there, back = paths["slac → cern"], paths["cern → slac"]
    for path in (there, back):
        bursts(path, BEGAN - 16 * MINUTE, BEGAN, [20.0, 20.2, 20.1, 20.4])
        cycles(path, NOW - timedelta(hours=2), BEGAN)
        bursts(path, BEGAN, NOW, [20.0] * 49, lost=1)
    cycles(there, BEGAN, NOW, lost=(1, 0))
    cycles(back, BEGAN, NOW, lost=(0, 1))
    _, cause = opened(there, back)

    assert lacks(cause.sentence, "counted by STAMP", "too few pings before the onset to tell", "2% since the") == []
    assert "no more loss" not in cause.sentence


def test_a_loss_both_ways_is_said_of_both(paths):
    there, back = lossy_both(paths)
    cycles(there, BEGAN, NOW, lost=(3, 2))
    row, cause = opened(there, back)

    assert (cause.fault, cause.toward, row.toward) == (Fault.LOSS, None, "")
    assert lacks(cause.sentence, "in both directions", "cern → slac 7.4% of 540", "slac → cern 10% of 600") == []


def test_few_losses_cannot_tell_and_say_so(paths):
    there, back = lossy_both(paths)
    cycles(there, BEGAN, NOW - 18 * MINUTE, lost=(1, 0))
    cycles(there, NOW - 18 * MINUTE, NOW)
    row, cause = opened(there, back)

    assert (cause.toward, row.toward) == (None, "")
    facts = ("direction: cannot tell (STAMP: ", "cern → slac 0 of 598", "slac → cern 0.33% of 600")
    assert lacks(cause.sentence, *facts) == []


@pytest.mark.parametrize("fields", [{"lost": (None, None), "undecided": 3}, None], ids=["stateless", "without"])
def test_without_counters_the_direction_is_left_to_throughput_tests(paths, fields):
    there, back = paths["slac → cern"], paths["cern → slac"]
    lossy(there, back)
    if fields is not None:
        cycles(there, BEGAN, NOW, **fields)
    _, cause = opened(there)

    assert (cause.fault, cause.toward) == (Fault.LOSS, None)
    assert lacks(cause.sentence, "direction not known from pings") == []
    assert "STAMP" not in cause.sentence


def test_counters_of_some_of_the_paths_tell_nothing_of_all(paths):
    there, back = lossy_both(paths)
    other = paths["slac → niit"]
    bursts(other, NOW - timedelta(hours=6), BEGAN, [20.0, 20.2, 20.1, 20.4])
    bursts(other, BEGAN, NOW, [20.0, 20.2, 20.1], lost=1)
    cycles(there, BEGAN, NOW, lost=(3, 0))
    row = incident(finding(there), finding(back), finding(other), cause="slac outbound")

    assert gathered(row).cause.toward is None


def across(paths, *, lost):
    """An incident of four paths between two groups of sites; `lost` packets forward and reverse of those to the far."""
    names = [f"{near} → {far}" for near in ("cern", "desy") for far in ("fnal", "slac")]
    bad = [paths[name] for name in names]
    for path in bad:
        bursts(path, NOW - timedelta(hours=6), BEGAN, [20.0, 20.2, 20.1, 20.4])
        bursts(path, BEGAN, NOW, [20.0, 20.2, 20.1], lost=1)
        cycles(path, NOW - timedelta(hours=2), BEGAN)
        cycles(path, BEGAN, NOW, lost=lost)
    row = incident(*map(finding, bad), cause="link 192.0.2.1 – 192.0.2.2")
    return gathered(row).cause, queries.incident_with_paths(row.pk)


@pytest.mark.parametrize(("lost", "ends"), [((3, 0), (0, 1)), ((0, 3), (1, 0)), ((3, 3), None)])
def test_a_link_that_loses_one_way_is_named_with_its_way(lost, ends):
    groups = ("cern, desy", "fnal, slac")
    cause, row = across(make_mesh(["cern", "desy", "fnal", "slac"], NOW - timedelta(days=2)), lost=lost)

    assert cause.fault is Fault.LOSS
    if ends is None:
        assert (cause.toward, row.toward) == (None, "")
        assert lacks(cause.sentence, "in both directions") == []
        return
    source, destination = (groups[end] for end in ends)
    assert cause.toward == (source, destination)
    # Four paths of 20 cycles of 30 packets.
    assert lacks(cause.sentence, f"Loss from {source} to {destination}: 10% of 2,400 packets", "STAMP") == []
    assert place_of(row) == f"{source} → {destination}"


def test_paths_within_a_group_name_no_way():
    paths = make_mesh(["cern", "desy", "fnal"], NOW - timedelta(days=2))
    bad = [paths[name] for name in ("cern → desy", "desy → fnal", "fnal → cern")]
    for path in bad:
        bursts(path, NOW - timedelta(hours=6), BEGAN, [20.0, 20.2, 20.1, 20.4])
        bursts(path, BEGAN, NOW, [20.0, 20.2, 20.1], lost=1)
        cycles(path, BEGAN, NOW, lost=(3, 0))

    assert gathered(incident(*map(finding, bad), cause="AS 64500")).cause.toward is None


@pytest.mark.parametrize(
    ("delays_ms", "ends", "text"),
    [
        ((50.0, 30.0), ("slac", "cern"), "One-way delay slac → cern +"),
        ((30.0, 50.0), ("cern", "slac"), "One-way delay cern → slac +"),
        ((40.0, 40.0), None, "The delay rose in both directions"),
        ((80.0, -30.0), None, None),
    ],
    ids=["forward", "reverse", "both", "clock"],
)
def test_a_step_one_way_is_said_without_a_clock(paths, delays_ms, ends, text):
    there, back = paths["slac → cern"], paths["cern → slac"]
    for path in (there, back):
        bursts(path, NOW - timedelta(hours=6), BEGAN, [60.0, 60.2, 60.1, 60.4])
        bursts(path, BEGAN, NOW, [80.0, 80.2, 80.1, 80.4])
    cycles(there, NOW - timedelta(hours=2), BEGAN)
    cycles(there, BEGAN, NOW, delays_ms=delays_ms)
    row = incident(finding(there, "rtt", figures={"before_ms": 60.0, "after_ms": 80.0}))
    cause = gathered(row).cause
    place = place_of(queries.incident_with_paths(row.pk))

    assert (cause.fault, cause.toward) == (Fault.ROUTE, ends)
    assert place == ("cern ↔ slac" if ends is None else " → ".join(ends))
    if text is None:
        assert "STAMP" not in cause.sentence
    else:
        assert lacks(cause.sentence, text, "STAMP") == []
    if ends is not None:
        assert "reverse unchanged" in cause.sentence
        step_ms = float(cause.sentence.partition(text)[2].partition(" ms")[0])
        assert step_ms == pytest.approx(20.0, abs=0.3)  # the planted delays vary by 0.3 ms


def _counts(generator, planted, ratio, cycles_of_ten):
    lost = np.zeros((2, cycles_of_ten), dtype=int)
    arrived = np.full(cycles_of_ten, 10)
    for way, name in enumerate((LostDirection.FORWARD, LostDirection.REVERSE)):
        if planted in (name, LostDirection.BOTH):
            lost[way] = generator.binomial(arrived, ratio)
        arrived = arrived - lost[way]
    forward, reverse = lost
    return DirectionLosses(
        10 * cycles_of_ten, int(forward.sum()), int(reverse.sum()), cycles_of_ten,
        int((forward > 0).sum()), int((reverse > 0).sum()),
    )  # fmt: skip


def _facts(there, back):
    ends = ("slac", "cern")
    rows = [
        OneWayFacts(1, *ends, *ends, before=None, after=there),
        OneWayFacts(2, *ends[::-1], *ends[::-1], before=None, after=back),
    ]
    side = [type("Side", (), {"path_id": number})() for number in (1, 2)]
    path = PathFacts(1, "slac → cern", "192.0.2.1", "192.0.2.2", 4, side[0], side[1], *ends)
    return Facts(NOW, None, (path,), (), (), (), (), (), one_way=tuple(rows))


@pytest.mark.parametrize("ratio", [0.003, 0.01, 0.05, 0.2])
def test_a_wrong_direction_is_stated_in_at_most_one_in_a_hundred(ratio):
    """Both ends measure each other for ten minutes to an hour."""
    generator, runs = np.random.default_rng(round(1000 * ratio)), 150
    opposite = {
        LostDirection.FORWARD: LostDirection.REVERSE,
        LostDirection.REVERSE: LostDirection.FORWARD,
    }
    for planted in LostDirection:
        stated = Counter()
        for _ in range(runs):
            of_run = int(generator.integers(10, 61))
            there = _counts(generator, planted, ratio, of_run)
            back = _counts(generator, opposite.get(planted, planted), ratio, of_run)
            told = counted_direction(_facts(there, back))
            stated[told.direction] += 1
            assert (told.toward is None) == (told.direction in (LostDirection.BOTH, LostDirection.UNKNOWN))
        wrong = runs - stated[planted] - stated[LostDirection.UNKNOWN]
        assert wrong <= 0.01 * runs, (planted, stated)
        if ratio >= 0.05:
            assert stated[planted] >= 0.95 * runs
