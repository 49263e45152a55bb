"""What the sentence on the mesh says of throughput: not normal before a rule judges it, and no slow test that another
trouble explains."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from monitor.alerts.evaluate import evaluate
from monitor.alerts.incidents import lifecycle
from monitor.alerts.models import Incident, IncidentPath
from monitor.api.centre.state import state_fields
from monitor.archive.models import Burst, ThroughputTest
from monitor.archive.queries.metrics import Metric
from monitor.archive.upkeep import freshness
from monitor.archive.upkeep.freshness import RecurringWork
from monitor.mesh.models import KindName, Measurement, Mesh
from monitor.mesh.models import Test as MeshTest
from monitor.overview.grid import GridPeriod, load_grid
from monitor.overview.mesh_state import load_mesh_state, load_path_now
from monitor.overview.now.newest_tests import low_tests
from monitor.web.pages.status.load import load_status
from monitor.web.request.judged_grid import judge
from tests.db.alert_rows import make_bursts, make_mesh, only
from tests.db.copied_rows import copy_rows
from tests.facts import lacks

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 21, 12, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
SLOW_AGO = 10 * MINUTE
TOLD = "1 path with a much slower throughput test, being checked (nersc → cern: "
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


def state_of(paths, newest_s=50):
    """Without loss, until so many seconds ago."""
    copy_rows(
        Burst(
            path_id=path.pk, packet_bytes=100, measured_at=NOW - timedelta(seconds=ago_s), outcome="measured", sent=10,
            received=10, duplicates=0, reordered=0, during_test=False, rtts_ms=[20.0] * 10,
        )
        for path in paths.values()
        for ago_s in range(newest_s, newest_s + 550, 60)
    )  # fmt: skip
    evaluate(NOW)
    freshness.note(RecurringWork.EVALUATION, NOW)
    return load_mesh_state(freshness.load(), NOW)


def test_a_throughput_with_few_tests_is_not_called_normal(paths):
    measure(paths["nersc → cern"], USUAL[:7])
    measure(paths["cern → nersc"], USUAL[:8])

    state = state_of(paths)

    assert state.title == "All 2 paths are normal as far as judged."
    assert state.rest == "Throughput of 1 path not judged yet: fewer than 8 tests."
    assert state.style == "calm"
    assert "as far as judged" in load_status(NOW).state


def test_enough_tests_are_judged(paths):
    for path in paths.values():
        measure(path, USUAL[:8])

    assert state_of(paths).sentence == "All 2 paths are normal."


def test_a_path_with_a_slow_test_and_few_before_is_not_judged_either(paths):
    """The one has a slow test that is being checked, the other none; both have too few."""
    measure(paths["nersc → cern"], [30.2, 29.7, 3.1])
    measure(paths["cern → nersc"], USUAL[:3])

    state = state_of(paths)

    assert lacks(state.title, "1 path with a much slower throughput test, being checked (nersc → cern: ") == []
    assert lacks(state.rest, "1 normal as far as judged", "Throughput of 2 paths not judged yet") == []


@pytest.mark.parametrize(
    ("newest_s", "other"), [(300, "1 path without newer data since 12:25:00 UTC"), (1200, "1 without data for more")]
)
def test_a_slow_test_is_named_without_newer_pings(paths, newest_s, other):
    """A test a minute ago needs no ping; the pings of both paths are overdue, or older than any current data."""
    measure(paths["nersc → cern"], [*USUAL, 3.1])
    measure(paths["cern → nersc"], USUAL)

    state = state_of(paths, newest_s)

    slow = "1 path with a much slower throughput test, being checked (nersc → cern: "
    assert lacks(state.sentence, slow, "3.1 Mbit/s at 12:29 UTC, before 27.9 Mbit/s)", other) == []
    got = state_fields(state)
    states = ("with_problems", "in_maintenance", "normal", "being_checked", "overdue", "awaited", "without_data")
    assert sum(got[name] for name in states) == got["paths"] == 2
    assert (got["being_checked"], got["normal"], state.style) == (1, 0, "unknown")


def test_tests_on_demand_are_no_past(paths):
    for path in paths.values():
        measure(path, USUAL, test="on-demand")

    assert "Throughput of 2 paths not judged yet" in state_of(paths).rest


@pytest.mark.parametrize(
    ("rates", "is_judged"), [([30.2, 29.7, 3.1], False), ([30.2, 29.7, 31.4, 3.1, 2.9], False), ([*USUAL, 3.1], True)]
)
def test_a_test_at_a_tenth_is_being_checked(paths, rates, is_judged):
    """The rule needs eight tests before, and a second low test."""
    measure(paths["nersc → cern"], rates)
    measure(paths["cern → nersc"], USUAL)

    state = state_of(paths)

    facts = "1 path with a much slower throughput test, being checked (nersc → cern: ", "bit/s)."
    assert lacks(state.title, *facts) == []
    assert lacks(state.title, f": {rates[-1]:g} Mbit/s at 12:29 UTC") == []
    few = "" if is_judged else " Throughput of 1 path not judged yet: fewer than 8 tests."
    assert (state.rest, state.style, state.checked.paths) == (f"1 normal.{few}", "unknown", 1)
    assert lacks(load_status(NOW).state, "1 path with a much slower throughput test") == []
    assert "nersc" not in load_status(NOW).state


def test_a_low_test_that_was_followed_by_a_usual_one_is_not_checked(paths):
    for path in paths.values():
        measure(path, [*USUAL[:8], 3.1, 30.4])

    assert state_of(paths).sentence == "All 2 paths are normal."


def test_the_incident_says_it_once_it_is_open(paths):
    measure(paths["nersc → cern"], [*USUAL, 3.1, 3.3])
    measure(paths["cern → nersc"], USUAL)

    state = state_of(paths)

    assert "1 of 2 paths has problems: " in state.title
    assert "being checked" not in state.sentence


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
    freshness.note(RecurringWork.EVALUATION, NOW)
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


def test_the_newest_rate_before_is_named_not_the_lowest(paths):
    measure(paths["nersc → cern"], [5.44, 15.4, 1.91])
    measure(paths["cern → nersc"], USUAL)

    state = state_with_losses(paths)

    assert lacks(state.title, f"{TOLD}1.91 Mbit/s at 12:29 UTC, before 15.4 Mbit/s)") == []
    words = load_path_now(paths["nersc → cern"].pk, None, freshness.load(), NOW).checked.words_of(
        paths["nersc → cern"].pk
    )
    assert words == "A much slower throughput test, being checked: 1.91 Mbit/s at 12:29 UTC, before 15.4 Mbit/s"


def test_a_slow_test_of_an_earlier_day_has_its_date(paths):
    measure(paths["nersc → cern"], [*USUAL, 3.1], newest_ago=timedelta(hours=13))
    measure(paths["cern → nersc"], USUAL)

    assert lacks(state_with_losses(paths).title, "3.1 Mbit/s at 2026-11-20 23:30 UTC, before 27.9 Mbit/s") == []


@pytest.mark.parametrize("rule", ["loss", "unreachable", "rtt"])
@pytest.mark.parametrize(("began", "ended", "is_told"), [(12, 8, False), (30, 15, True), (8, 3, True)])
def test_a_test_in_an_incident_is_not_told_after_it(paths, rule, began, ended, is_told):
    """Began and ended so many minutes ago; the test ran 10 minutes ago."""
    measure(paths["nersc → cern"], [*USUAL, 3.1], newest_ago=SLOW_AGO)
    measure(paths["cern → nersc"], USUAL, newest_ago=SLOW_AGO)
    ended_incident(paths["nersc → cern"], rule, began * MINUTE, ended * MINUTE)

    state = state_with_losses(paths)

    assert (TOLD in state.title) is is_told
    assert state.checked.paths == is_told


@pytest.mark.parametrize("slow", [1, 2])
def test_slow_tests_before_the_incident_are_told_as_before(paths, slow):
    """The newest ran in the incident: those before it are judged without it."""
    measure(paths["nersc → cern"], [*USUAL[:3], *[3.1] * slow, 2.2], newest_ago=SLOW_AGO)
    measure(paths["cern → nersc"], USUAL, newest_ago=SLOW_AGO)
    ended_incident(paths["nersc → cern"], "loss", 12 * MINUTE, 8 * MINUTE)

    assert lacks(state_with_losses(paths).title, f"{TOLD}3.1 Mbit/s at 11:20 UTC, before 31.4 Mbit/s") == []


@pytest.mark.parametrize(
    ("minutes", "is_told"),
    [
        pytest.param(range(15, 5, -1), False, id="while it ran"),
        pytest.param(range(50, 35, -1), True, id="and over before"),
        pytest.param(range(8, 4, -1), True, id="after it"),
    ],
)
def test_a_test_in_a_loss_that_became_no_incident_is_not_told(paths, minutes, is_told):
    """Two of ten packets are lost in these minutes, which the minutes after them exclude by now."""
    Mesh.objects.update(alerts=only(throughput={}, throughput_drop={}, loss={}))
    measure(paths["nersc → cern"], [*USUAL, 3.1], newest_ago=SLOW_AGO)
    measure(paths["cern → nersc"], USUAL, newest_ago=SLOW_AGO)

    state = state_with_losses(paths, dict.fromkeys(minutes, 2))

    assert state.checked.above_rules == {}
    assert (TOLD in state.title) is is_told


@pytest.mark.parametrize(
    ("rate", "ago", "is_told"), [(29.4, 2, False), (29.4, 20, True), (3.3, 2, True)], ids=["usual", "older", "low"]
)
def test_a_newer_usual_test_on_demand_ends_it(paths, rate, ago, is_told):
    measure(paths["nersc → cern"], [*USUAL, 3.1], newest_ago=SLOW_AGO)
    measure(paths["nersc → cern"], [rate], test="on-demand", newest_ago=ago * MINUTE)
    measure(paths["cern → nersc"], USUAL, newest_ago=SLOW_AGO)

    state = state_with_losses(paths)

    assert ("3.1 Mbit/s at 12:20 UTC" in state.title) is is_told
    assert (state.sentence == "All 2 paths are normal.") is not is_told


@pytest.mark.parametrize(
    ("metric", "is_marked"), [(Metric.LOSS, False), (Metric.RTT_MEDIAN, False), (Metric.THROUGHPUT, True)]
)
def test_a_slow_test_is_marked_in_the_grid_of_throughput(paths, metric, is_marked):
    path = paths["nersc → cern"]
    measure(path, [*USUAL, 3.1])
    measure(paths["cern → nersc"], USUAL)
    assert TOLD in state_with_losses(paths).title

    grid = judge(load_grid(metric, GridPeriod.NOW, NOW), NOW).grid

    assert grid.is_being_checked(path.pk) is is_marked
