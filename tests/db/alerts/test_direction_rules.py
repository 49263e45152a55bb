"""Rules on each direction of a path: incidents of a loss that the round trips do not show, and of both together."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from monitor.alerts.detect.rules.by_direction import NOT_COUNTED
from monitor.alerts.evaluate import LONGEST_WAIT, Evaluation, evaluate
from monitor.alerts.evidence import words
from monitor.alerts.evidence.evidence import evidence
from monitor.alerts.evidence.gather import gather_due
from monitor.alerts.evidence.stated import Fault
from monitor.alerts.incidents import corrections, lifecycle, queries
from monitor.alerts.models import Incident
from monitor.archive.ingest.directions import store_directions
from monitor.archive.models import DirectionDay
from monitor.mesh import models
from monitor.mesh.models import KindName, Measurement
from monitor.present import read
from monitor.present.conditions import Condition
from monitor.present.follow import Follower
from monitor.present.loss_tracks import TrackLimits
from monitor.present.track import Signal
from tests.db.alert_rows import make_bursts, make_mesh
from tests.db.batch_rows import store_batch
from tests.db.finding_levels import level_of
from tests.db.stamp_rows import delivered_stamp, stamp_burst, store_cycles
from tests.facts import lacks

NOW = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
PACKETS = 100

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def confirmed_at_once(monkeypatch):
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)


def mesh(**rules):
    """Three sites, each path with pings and STAMP tests."""
    paths = make_mesh(["slac", "cern", "fnal"], NOW - timedelta(days=40), **rules)
    test = models.Test.objects.create(
        name="oneway", kind=KindName.STAMP, every_s=60, parameters={"count": PACKETS, "packet_bytes": 200}
    )
    for path in paths.values():
        Measurement.objects.create(path=path, test=test, started_at=NOW - timedelta(days=40))
    return paths


def cycles(path, lost, since, until, *, undecided=0):
    """A STAMP cycle a minute, with these packets lost forward and reverse."""
    forward, reverse = (None, None) if undecided else lost
    store_cycles(
        path, since, until, sent=PACKETS, received=PACKETS - sum(lost) - undecided, undecided=undecided,
        forward_lost=forward, reverse_lost=reverse,
    )  # fmt: skip


def past(path, forward_ratio=0.0, reverse_ratio=0.0):
    """Three weeks of summaries, with these shares of the cycles losing a packet."""
    bursts = 24 * 60
    forward, reverse = round(forward_ratio * bursts), round(reverse_ratio * bursts)
    DirectionDay.objects.bulk_create(
        DirectionDay(
            path_id=path.pk,
            day=(NOW - timedelta(days=days)).replace(hour=0),
            bursts=bursts,
            bursts_counted=bursts,
            bursts_delayed=0,
            sent=PACKETS * bursts,
            received=PACKETS * bursts - forward - reverse,
            counted=PACKETS * bursts,
            forward_lost=forward,
            forward_lossy=forward,
            reverse_lost=reverse,
            reverse_lossy=reverse,
        )
        for days in range(5, 26)
    )


def pings_without_loss(paths, since=NOW - HOUR, until=NOW):
    for path in paths:
        make_bursts(path, [0] * round((until - since) / MINUTE), since)


def test_loss_one_way_opens_an_incident_that_names_the_way():
    paths = mesh(loss={"above_ratio": 0.01, "window_s": 600})
    pings_without_loss(paths.values())
    for name, path in paths.items():
        cycles(path, (5 if name == "slac → cern" else 0, 5 if name == "cern → slac" else 0), NOW - 20 * MINUTE, NOW)

    assert evaluate(NOW) == Evaluation(opened=1, closed=0)

    (incident,) = queries.open_incidents()
    assert (incident.cause, incident.rule) == ("cern ↔ slac", "loss")
    rows = {str(row.path): row for row in incident.paths.all()}
    assert {name: row.figures["direction"] for name, row in rows.items()} == {
        "slac → cern": "forward",
        "cern → slac": "reverse",
    }
    for row in rows.values():
        assert lacks(row.sentence, "one way, slac → cern by STAMP: loss 5%", "threshold 1%") == []

    gather_due(NOW)
    evaluate(NOW + timedelta(seconds=10))
    incident = queries.incident_with_paths(incident.pk)
    cause = evidence(incident, NOW).cause
    assert (cause.fault, cause.toward, incident.toward) == (Fault.LOSS, ("slac", "cern"), "slac → cern")
    assert lacks(cause.sentence, "Loss from slac to cern: 5% of 4,000 packets slac → cern", "pings show no more") == []
    assert lacks(words.headline(incident), "slac → cern loses 5%") == []


def test_a_loss_in_the_round_trips_too_is_a_single_finding_of_the_way():
    paths = mesh(loss={"above_ratio": 0.01, "window_s": 600})
    path = paths["slac → cern"]
    make_bursts(path, [2] * 10, NOW - 10 * MINUTE)
    cycles(path, (20, 0), NOW - 10 * MINUTE, NOW)

    assert evaluate(NOW).opened == 1
    assert [row.figures["direction"] for row in Incident.objects.get().paths.all()] == ["forward"]
    assert evaluate(NOW + timedelta(seconds=10)) == Evaluation(opened=0, closed=0)
    assert Incident.objects.get().paths.count() == 1


def test_round_trips_that_fired_before_stay_the_only_finding():
    paths = mesh(loss={"above_ratio": 0.01, "window_s": 600})
    path = paths["slac → cern"]
    make_bursts(path, [2] * 10, NOW - 10 * MINUTE)
    evaluate(NOW)
    cycles(path, (20, 0), NOW - 10 * MINUTE, NOW)

    assert evaluate(NOW + timedelta(seconds=10)) == Evaluation(opened=0, closed=0)
    assert ["direction" in row.figures for row in Incident.objects.get().paths.all()] == [False]


def test_loss_both_ways_is_a_finding_of_the_round_trips():
    paths = mesh(loss={"above_ratio": 0.01, "window_s": 600})
    path = paths["slac → cern"]
    make_bursts(path, [2] * 10, NOW - 10 * MINUTE)
    cycles(path, (10, 10), NOW - 10 * MINUTE, NOW)

    evaluate(NOW)

    assert ["direction" in row.figures for row in Incident.objects.get().paths.all()] == [False]


def test_a_rise_hidden_by_the_usual_loss_of_the_reverse_way_is_found():
    """One packet in 100 is lost on the way back in 15 of 100 cycles always; forward none, then in 15 of 60."""
    paths = mesh(loss_regression={})
    path = paths["slac → cern"]
    pings_without_loss([path])
    past(path, reverse_ratio=0.15)
    for number in range(60):
        at = NOW - HOUR + number * MINUTE
        cycles(path, (number % 4 == 0, number % 7 == 0), at, at + MINUTE)

    # A rule may be surer than the track: such an incident opens after a wait.
    evaluate(NOW)
    assert evaluate(NOW + LONGEST_WAIT).opened == 1

    (row,) = Incident.objects.get().paths.all()
    assert (row.rule, row.figures["direction"]) == ("loss_regression", "forward")
    assert lacks(row.sentence, "one way, slac → cern by STAMP: loss", "was < 0.0001% (0 of ") == []


def test_a_finding_of_a_way_has_its_level_and_ends_with_its_loss():
    paths = mesh(loss={"above_ratio": 0.01, "window_s": 600})
    path = paths["slac → cern"]
    pings_without_loss([path], until=NOW + HOUR)
    cycles(path, (5, 0), NOW - 20 * MINUTE, NOW)
    evaluate(NOW)
    evaluate(NOW + timedelta(seconds=5))
    assert level_of(Incident.objects.get().paths.get()).now == pytest.approx(0.05)

    cycles(path, (0, 0), NOW, NOW + 20 * MINUTE)
    assert evaluate(NOW + 20 * MINUTE).closed == 1
    assert lacks(Incident.objects.get().closing, "slac → cern: normal since 2026-11-21 10:0") == []


def test_an_outage_neither_ends_a_finding_of_a_way_nor_opens_others():
    paths = mesh(loss={"above_ratio": 0.01, "window_s": 600})
    path = paths["slac → cern"]
    pings_without_loss([path], until=NOW + HOUR)
    cycles(path, (5, 0), NOW - 20 * MINUTE, NOW)
    evaluate(NOW)
    cycles(path, (0, 0), NOW, NOW + 30 * MINUTE, undecided=PACKETS)

    assert evaluate(NOW + 30 * MINUTE) == Evaluation(opened=0, closed=0)


def test_a_finding_of_a_way_ends_with_its_test():
    paths = mesh(loss={"above_ratio": 0.01, "window_s": 600})
    path = paths["slac → cern"]
    pings_without_loss([path])
    cycles(path, (5, 0), NOW - 20 * MINUTE, NOW)
    evaluate(NOW)
    Measurement.objects.filter(test__kind=KindName.STAMP).update(retired_at=NOW)

    assert evaluate(NOW + timedelta(seconds=10)).closed == 1
    assert NOT_COUNTED in Incident.objects.get().closing


def test_late_cycles_correct_a_finding_of_a_way():
    paths = mesh(loss={"above_ratio": 0.01, "window_s": 600})
    path = paths["slac → cern"]
    pings_without_loss([path])
    cycles(path, (5, 0), NOW - 6 * MINUTE, NOW)
    evaluate(NOW)
    assert corrections.correct(NOW) == 0

    cycles(path, (0, 0), NOW - 10 * MINUTE, NOW - 6 * MINUTE)
    assert corrections.correct(NOW) == 1
    assert lacks(Incident.objects.get().correction, "slac → cern by STAMP with late results loss 3%") == []


@pytest.mark.parametrize("rule", ["loss", "unreachable"])
def test_a_mesh_with_stamp_alone_alarms(rule):
    """Its round trips are the bursts of the path."""
    paths = mesh(**{rule: {}})
    Measurement.objects.filter(test__kind=KindName.PING).update(retired_at=NOW)
    path, lost = paths["slac → cern"], 10 if rule == "unreachable" else 2
    make_bursts(path, [0] * 5, NOW - 15 * MINUTE, packet_bytes=200)
    make_bursts(path, [lost] * 10, NOW - 10 * MINUTE, packet_bytes=200)

    assert evaluate(NOW).opened == 1
    assert Incident.objects.get().rule == rule


def test_delivered_stamp_results_alone_open_an_incident_of_the_way():
    paths = mesh(loss={"above_ratio": 0.01, "window_s": 600})
    Measurement.objects.filter(test__kind=KindName.PING).update(retired_at=NOW)
    results = [
        delivered_stamp(
            path,
            stamp_burst(
                at=NOW - number * MINUTE,
                forward_lost=2 * (name == "slac → cern"),
                reverse_lost=2 * (name == "cern → slac"),
                is_path_series=True,
            ),
            sequence=number,
        )
        for name, path in paths.items()
        for number in range(1, 11)
    ]
    store_directions(results, NOW)

    assert evaluate(NOW).opened == 1
    gather_due(NOW)

    incident = Incident.objects.get()
    assert (incident.cause, incident.toward, incident.toward_by) == ("cern ↔ slac", "slac → cern", "STAMP")
    assert {row.figures["direction"] for row in incident.paths.all()} == {"forward", "reverse"}


@pytest.mark.parametrize(("lost", "way"), [((5, 0), "forward"), ((0, 5), "reverse"), ((3, 3), ""), ((0, 0), "")])
def test_tracks_tell_the_way_that_loses(lost, way):
    """Of STAMP tests the packets of each way are followed, and the pings of the path do not show it."""
    path = mesh(loss={"above_ratio": 0.01, "window_s": 600})["slac → cern"]
    pings_without_loss([path])
    follower, limits = Follower(), TrackLimits({path.pk: 0.01})
    cycles(path, lost, NOW - 20 * MINUTE, NOW - 16 * MINUTE)
    follower.follow(NOW - 16 * MINUTE, limits)
    for number in range(1, 5):
        now = NOW - (16 - 4 * number) * MINUTE
        cycles(path, lost, now - 4 * MINUTE, now)
        store_batch(path.source.site, now, number, now - 4 * MINUTE)
        follower.follow(now, limits)

    present = read.load()[path.pk]
    tracks = {track.way: track for track in present.tracks if track.signal is Signal.LOSS}
    bad = {name for name, packets in zip(("forward", "reverse"), lost, strict=True) if packets}
    assert {name for name, track in tracks.items() if track.condition is Condition.BAD} == bad
    assert (present.condition, present.way) == (Condition.BAD if bad else Condition.NORMAL, way)
    for name in bad:
        assert tracks[name].now.lost.ratio == pytest.approx(max(lost) / PACKETS, rel=0.2)
        assert abs(tracks[name].onset.at_s - (NOW - 20 * MINUTE).timestamp()) <= 60.0
