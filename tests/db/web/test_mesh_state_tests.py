"""What the sentence on the mesh says of throughput: not normal before a rule judges it, and no slow test that another
trouble explains."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from monitor.alerts.evaluate import evaluate
from monitor.alerts.incidents import lifecycle
from monitor.alerts.models import Incident, IncidentPath
from monitor.alerts.slow_tests.slow_paths import low_tests
from monitor.archive.models import Burst, ThroughputTest
from monitor.archive.upkeep import freshness
from monitor.mesh.models import KindName, Measurement, Mesh
from monitor.mesh.models import Test as MeshTest
from monitor.overview.mesh_state import load_mesh_state
from monitor.present import read
from monitor.present.conditions import Condition
from monitor.present.track import Signal
from monitor.web.pages.status.load import load_status
from tests.db.alert_rows import make_bursts, make_mesh, only
from tests.db.copied_rows import copy_rows
from tests.facts import lacks

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 21, 12, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
SLOW_AGO = 10 * MINUTE
USUAL = [30.2, 29.7, 31.4, 28.8, 30.9, 30.4, 29.1, 32.0, 30.0, 27.9]


@pytest.fixture
def paths(monkeypatch):
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)
    paths = make_mesh(["nersc", "cern"], NOW - timedelta(days=60), throughput={}, throughput_drop={})
    tcp = MeshTest.objects.create(name="tcp", kind=KindName.THROUGHPUT, every_s=3600)
    for path in paths.values():
        Measurement.objects.create(path=path, test=tcp, started_at=NOW - timedelta(days=60))
    return paths


def measure(path, rates_mbps, *, test="tcp", newest_ago=MINUTE):
    """An hour apart, the last a minute ago."""
    ThroughputTest.objects.bulk_create(
        ThroughputTest(
            path_id=path.pk, measured_at=NOW - newest_ago - ago * HOUR, test=test, outcome="measured",
            streams=1, throughput_bps=rate * 1e6,
        )
        for ago, rate in enumerate(reversed(rates_mbps))
    )  # fmt: skip


def state_of(paths, newest_s=50, looks=2):
    """Without loss, until so many seconds ago, after so many evaluations."""
    copy_rows(
        Burst(
            path_id=path.pk, packet_bytes=100, measured_at=NOW - timedelta(seconds=ago_s), outcome="measured", sent=10,
            received=10, duplicates=0, reordered=0, during_test=False, rtts_ms=[20.0] * 10,
        )
        for path in paths.values()
        for ago_s in range(newest_s, newest_s + 1900, 60)
    )  # fmt: skip
    for _ in range(looks):
        evaluate(NOW)
    return load_mesh_state(freshness.load(), NOW)


def is_told(paths):
    """Whether nersc → cern is suspect of a low throughput."""
    (path,) = read.load([paths["nersc → cern"].pk]).values()
    rate = path.track(Signal.RATE)
    return rate is not None and rate.condition is Condition.SUSPECT


def test_enough_tests_are_judged(paths):
    for path in paths.values():
        measure(path, USUAL[:8])

    assert state_of(paths).sentence == "All 2 paths are normal."


@pytest.mark.parametrize("newest_s", [300, 1200])
def test_a_slow_test_is_named_without_newer_pings(paths, newest_s):
    """A test a minute ago needs no ping; the pings of both paths are overdue, or older than any current data."""
    measure(paths["nersc → cern"], [*USUAL, 3.1])
    measure(paths["cern → nersc"], USUAL)

    state = state_of(paths, newest_s)

    assert lacks(state.sentence, "1 of 2 paths is being checked: nersc → cern") == []
    tally = state.tally
    assert (tally.checked, tally.overdue + tally.silent, tally.normal, state.style) == (1, 1, 0, "unknown")


@pytest.mark.parametrize("rates", [[30.2, 29.7, 3.1], [30.2, 29.7, 31.4, 3.1, 2.9], [*USUAL, 3.1]])
def test_a_test_at_a_tenth_is_being_checked(paths, rates):
    """The rule needs eight tests before, and a second low test."""
    measure(paths["nersc → cern"], rates)
    measure(paths["cern → nersc"], USUAL)

    state = state_of(paths)

    assert lacks(state.title, "1 of 2 paths is being checked: nersc → cern: low throughput") == []
    assert (state.rest, state.style, state.tally.checked) == ("1 normal.", "unknown", 1)
    assert lacks(load_status(NOW).state, "1 of 2 paths is being checked") == []
    assert "nersc" not in load_status(NOW).state


def test_a_low_test_that_was_followed_by_a_usual_one_is_not_checked(paths):
    for path in paths.values():
        measure(path, [*USUAL[:8], 3.1, 30.4])

    assert state_of(paths).sentence == "All 2 paths are normal."


def test_the_incident_says_it_once_it_is_open(paths):
    measure(paths["nersc → cern"], [*USUAL, 3.1, 3.3])
    measure(paths["cern → nersc"], USUAL)

    state = state_of(paths)

    assert lacks(state.title, "1 of 2 paths has a problem: nersc → cern", "Mbit/s (was") == []
    assert (state.tally.with_problems, state.tally.checked) == (1, 0)


def test_a_second_low_test_is_told_by_the_evaluation_that_judges_it(paths):
    measure(paths["nersc → cern"], [*USUAL, 3.1, 3.3])
    measure(paths["cern → nersc"], USUAL)

    state = state_of(paths, looks=1)

    assert state.tally.with_problems + state.tally.checked == 1


@pytest.mark.parametrize(
    ("rates", "low"),
    [
        ([3, 30, 30], 1),
        ([3, 2, 30, 31], 2),
        ([3, 30], 0),
        ([16, 30, 31], 0),
        ([30, 3, 30, 30], 0),
        ([3, *[30] * 9], 1),
        ([3, 3, *[30] * 8], 0),
        ([3, 3, *[30] * 7], 2),
    ],
)
def test_low_tests_are_those_that_no_rule_judges(rates, low):
    row = np.full((1, 10), np.nan)
    row[0, : len(rates)] = rates

    assert low_tests(row, np.array([0.5])).tolist() == [low]


def state_with_losses(paths, lost_by_minute=None):
    """Without loss on the way back, and on the way there with this many lost packets of ten in each of the minutes
    ago."""
    for name, path in paths.items():
        lost = (lost_by_minute or {}) if name == "nersc → cern" else {}
        make_bursts(path, [lost.get(ago, 0) for ago in range(60, 0, -1)], NOW - 60 * MINUTE)
    # Tests are judged by the tracks that the evaluation before has stored.
    evaluate(NOW - timedelta(seconds=10))
    evaluate(NOW)
    return load_mesh_state(freshness.load(), NOW)


def ended_incident(path, rule, began_ago, ended_ago):
    incident = Incident.objects.create(
        rule=rule, cause=f"{rule} {path}", summary="planted", closing="back to normal",
        opened_at=NOW - began_ago + MINUTE, began_at=NOW - began_ago,
        ended_at=NOW - ended_ago, closed_at=NOW - ended_ago + MINUTE,
    )  # fmt: skip
    IncidentPath.objects.create(
        incident=incident, path=path, rule=rule, sentence="planted", figures={}, is_over=True,
        added_at=incident.opened_at, since=incident.began_at,
    )  # fmt: skip


@pytest.mark.parametrize("rule", ["loss", "unreachable", "rtt"])
@pytest.mark.parametrize(("began", "ended", "told"), [(12, 8, False), (30, 15, True), (8, 3, True)])
def test_a_test_in_an_incident_is_not_told_after_it(paths, rule, began, ended, told):
    """Began and ended so many minutes ago; the test ran 10 minutes ago."""
    measure(paths["nersc → cern"], [*USUAL, 3.1], newest_ago=SLOW_AGO)
    measure(paths["cern → nersc"], USUAL, newest_ago=SLOW_AGO)
    ended_incident(paths["nersc → cern"], rule, began * MINUTE, ended * MINUTE)

    state = state_with_losses(paths)

    assert is_told(paths) is told
    assert state.tally.checked == told


@pytest.mark.parametrize("slow", [1, 2])
def test_slow_tests_before_the_incident_are_told_as_before(paths, slow):
    """The newest ran in the incident: those before it are judged without it."""
    measure(paths["nersc → cern"], [*USUAL[:3], *[3.1] * slow, 2.2], newest_ago=SLOW_AGO)
    measure(paths["cern → nersc"], USUAL, newest_ago=SLOW_AGO)
    ended_incident(paths["nersc → cern"], "loss", 12 * MINUTE, 8 * MINUTE)

    state_with_losses(paths)

    assert is_told(paths)


@pytest.mark.parametrize(
    ("minutes", "told"),
    [
        pytest.param(range(15, 5, -1), False, id="while it ran"),
        pytest.param(range(50, 35, -1), True, id="and over before"),
        pytest.param(range(8, 4, -1), True, id="after it"),
    ],
)
def test_a_test_in_a_loss_that_became_no_incident_is_not_told(paths, minutes, told, monkeypatch):
    """Two of ten packets are lost in these minutes, which the minutes after them exclude by now."""
    Mesh.objects.update(alerts=only(throughput={}, throughput_drop={}, loss={}))
    measure(paths["nersc → cern"], [*USUAL, 3.1], newest_ago=SLOW_AGO)
    measure(paths["cern → nersc"], USUAL, newest_ago=SLOW_AGO)

    monkeypatch.setattr(lifecycle, "CONFIRM_S", 3600)

    state_with_losses(paths, dict.fromkeys(minutes, 2))
    evaluate(NOW + timedelta(seconds=10))  # with the tracks of the first

    assert is_told(paths) is told


@pytest.mark.parametrize(
    ("rate", "ago", "told"), [(29.4, 2, False), (29.4, 20, True), (3.3, 2, True)], ids=["usual", "older", "low"]
)
def test_a_newer_usual_test_on_demand_ends_it(paths, rate, ago, told):
    measure(paths["nersc → cern"], [*USUAL, 3.1], newest_ago=SLOW_AGO)
    measure(paths["nersc → cern"], [rate], test="on-demand", newest_ago=ago * MINUTE)
    measure(paths["cern → nersc"], USUAL, newest_ago=SLOW_AGO)

    state = state_with_losses(paths)

    assert is_told(paths) is told
    assert (state.sentence == "All 2 paths are normal.") is not told
