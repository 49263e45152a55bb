"""What an incident says is of now: planted losses, an outage and their ends, evaluated every 20 s."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from monitor.alerts.evaluate import evaluate
from monitor.alerts.evidence import gather
from monitor.alerts.incidents import lifecycle, queries
from monitor.alerts.models import Incident, IncidentPath
from monitor.archive.models import Burst
from monitor.archive.upkeep import freshness
from monitor.mesh.models import MeasurementPeriod
from monitor.mesh.models import Test as MeshTest
from monitor.overview.mesh_state import load_mesh_state
from monitor.present import read
from monitor.present.conditions import Condition
from tests.db.alert_rows import make_mesh
from tests.db.copied_rows import copy_rows
from tests.db.finding_levels import level_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_worker")]
ONSET = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
CYCLE_S = 10


def at(seconds):
    return ONSET + timedelta(seconds=seconds)


@pytest.fixture
def paths():
    rules = {"loss": {"above_ratio": 0.01, "window_s": 120}, "unreachable": {}, "rtt": {}}
    paths = make_mesh(["slac", "cern", "niit"], at(-7200), **rules)
    MeshTest.objects.update(every_s=CYCLE_S)
    MeasurementPeriod.objects.update(every_s=CYCLE_S)
    for path in paths.values():
        plant(path, -1200, 0, lambda _: 0)
    return paths


def plant(path, since_s, until_s, lost_of, rtt_ms=20.0):
    """Cycles of 10 s with ten packets of each of two sizes; `lost_of(seconds)` are lost of each burst."""
    copy_rows(
        Burst(
            path_id=path.pk, packet_bytes=size, measured_at=at(seconds), outcome="measured", sent=10,
            received=10 - (lost := lost_of(seconds)), duplicates=0, reordered=0, during_test=False,
            rtts_ms=[None] * lost + [rtt_ms] * (10 - lost),
        )
        for seconds in range(since_s, until_s, CYCLE_S)
        for size in (100, 1000)
    )  # fmt: skip


def level_now(path, rule="loss"):
    row = IncidentPath.objects.filter(path=path, rule=rule, is_over=False).first()
    return None if row is None else level_of(row)


def test_after_an_outage_nothing_is_said_to_be_unreachable(paths):
    dead = [path for name, path in paths.items() if "cern" in name]
    for path in paths.values():
        plant(path, 0, 400, lambda seconds, lost=10 if path in dead else 0: lost if seconds < 300 else 0)
    for seconds in range(20, 301, 20):
        evaluate(at(seconds))
    (during,) = queries.open_incidents()
    assert "dead since" in during.title
    unreachable = IncidentPath.objects.filter(rule="unreachable")
    assert unreachable.filter(is_over=False).count() == len(dead)
    assert {row.rule for row in IncidentPath.objects.filter(is_over=False)} == {"loss", "unreachable"}

    for seconds in (320, 340):
        evaluate(at(seconds))

    (after,) = queries.open_incidents()
    assert abs((after.over_since - at(300)).total_seconds()) <= 1.0
    assert "dead since" not in after.title
    present = read.load({path.pk for path in dead})
    assert {path.condition for path in present.values()} == {Condition.NORMAL}
    assert {level_of(row).now for row in after.paths.all()} == {0.0}


def test_a_path_that_fails_again_joins_its_open_incident_again(paths):
    path, other = paths["slac → cern"], paths["cern → slac"]
    plant(path, 0, 700, lambda seconds: 10 if not 300 <= seconds < 400 else 0)
    plant(other, 0, 700, lambda _: 10)
    for seconds in (200, 220, 300, 340, 600):
        evaluate(at(seconds))
        if seconds == 340:
            lasting = IncidentPath.objects.filter(rule="unreachable", is_over=False)
            assert set(lasting.values_list("path_id", flat=True)) == {other.pk}

    (incident,) = Incident.objects.all()
    assert incident.paths.filter(rule="unreachable", is_over=False).count() == 2
    assert read.load({path.pk})[path.pk].condition is Condition.DEAD
    assert incident.summary.count("slac → cern: 100% loss") == 1


def test_a_steady_loss_is_shown_as_it_is_from_its_detection_on(paths):
    path = paths["slac → cern"]
    plant(path, 0, 500, lambda seconds: 1 if seconds < 400 else 0)
    shown = {}
    for seconds in range(20, 461, 20):
        evaluate(at(seconds))
        shown[seconds] = level_now(path)

    during = [level for seconds, level in shown.items() if level is not None and seconds <= 400]
    assert len(during) >= 10
    assert [level.now for level in during] == [pytest.approx(0.1, abs=0.02)] * len(during)
    assert shown[440].now == 0.0
    (incident,) = queries.open_incidents()
    assert abs((incident.over_since - at(400)).total_seconds()) <= CYCLE_S
    assert level_now(path).peak == pytest.approx(0.1, abs=0.02)


def _detected_at_10_then_40_percent(seconds):
    return 1 if seconds < 120 else 4 if seconds < 300 else 0


def test_a_path_that_loses_nothing_has_no_problems(paths):
    """Few clean packets do not prove the end of a loss: until then it goes on, with its newest figures."""
    lossy = paths["slac → cern"]
    for path in paths.values():
        plant(path, 0, 500, lambda _: 0) if path != lossy else plant(path, 0, 500, _detected_at_10_then_40_percent)
    seen = {}
    for seconds in range(20, 481, 20):
        evaluate(at(seconds))
        seen[seconds] = load_mesh_state(freshness.load(), at(seconds))

    assert seen[300].tally.with_problems == 1
    for seconds in range(360, 481, 20):
        tally, incidents = seen[seconds].tally, seen[seconds].incidents
        assert (tally.with_problems, tally.over, tally.normal) == (0, len(incidents), 6 - len(incidents))
        assert all(abs((each.over_since - at(300)).total_seconds()) <= CYCLE_S for each in incidents)


def test_the_time_of_a_level_covers_exactly_its_packets(paths):
    """By the archive's own bursts, while the loss rises, falls and ends; whenever the text is read."""
    path = paths["slac → cern"]
    plant(path, 0, 900, lambda seconds: 1 if seconds < 300 else 4 if seconds < 600 else seconds % 40 // 30)
    counted = 0
    for seconds in range(100, 900, 20):
        evaluate(at(seconds))
        level = level_now(path)
        if level is None or level.now is None:
            continue
        bursts = Burst.objects.filter(path_id=path.pk, measured_at__range=(level.since, level.newest_at))
        sent, received = (sum(bursts.values_list(name, flat=True)) for name in ("sent", "received"))
        # The onset is dated more exactly than the packets are counted.
        assert abs(level.sent - sent) <= 40, seconds
        assert level.now == pytest.approx((sent - received) / sent, abs=0.05), seconds
        counted += 1
    assert counted > 20


@pytest.mark.parametrize("seed", [1, 2])
def test_the_shown_loss_agrees_with_the_planted_of_its_window(paths, seed, monkeypatch):
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)
    rng, path = np.random.default_rng(seed), paths["slac → cern"]

    def planted(seconds):
        return 0.0 if seconds < 0 else 0.1 if seconds < 300 else 0.4 if seconds < 500 else 0.05

    plant(path, 0, 700, lambda seconds: int(rng.binomial(10, planted(seconds))))
    agrees = []
    for seconds in range(60, 701, 20):
        evaluate(at(seconds))
        level = level_now(path)
        if level is None:
            continue
        if level.now is None:
            continue
        began_s = round(seconds - level.window_s)
        truth = np.mean([planted(moment) for moment in range(began_s, seconds, CYCLE_S)])
        low, high = level.interval
        agrees.append(low <= truth <= high)
        if 400 <= seconds <= 500:
            assert level.now > 0.25, seconds
        if seconds >= 580:
            assert level.now < 0.2, seconds

    assert len(agrees) >= 25
    assert np.mean(agrees) >= 0.93


def test_the_shown_rtt_is_of_the_newest_bursts_since_its_step(paths):
    path = paths["slac → cern"]
    for since_s, until_s, rtt_ms in ((0, 400, 80.0), (400, 480, 20.0)):
        plant(path, since_s, until_s, lambda _: 0, rtt_ms)
    levels = {}
    for seconds in range(-20, 461, 20):
        evaluate(at(seconds))
        levels[seconds] = level_now(path, "rtt")

    during = [level.now for seconds, level in levels.items() if level is not None and seconds <= 400]
    assert during == [pytest.approx(80.0, abs=1.0)] * len(during)
    assert during
    assert levels[460] is None or levels[460].now == pytest.approx(20.0, abs=1.0)


def test_the_rtt_at_the_end_is_that_of_the_bursts_since(paths):
    path = paths["slac → cern"]
    for since_s, until_s, rtt_ms in ((0, 400, 80.0), (400, 600, 20.0)):
        plant(path, since_s, until_s, lambda _: 0, rtt_ms)
    for seconds in range(-20, 601, 10):
        evaluate(at(seconds))

    (row,) = IncidentPath.objects.filter(rule="rtt")
    assert row.is_over
    level = level_of(row)
    assert (level.now, level.peak) == (pytest.approx(20.0, abs=1.0), pytest.approx(80.0, abs=1.0))
    assert abs((level.over_since - at(400)).total_seconds()) <= CYCLE_S


def look(paths, ratio_of, until_s, seed):
    """The incident of cern's four paths each minute, with the loss `ratio_of(name, seconds)` planted."""
    rng = np.random.default_rng(seed)
    for name, path in paths.items():
        plant(path, 0, until_s, lambda s, name=name: int(rng.binomial(10, ratio_of(name, s))))
    for seconds in range(30, until_s, 60):
        evaluate(at(seconds))
        gather.gather_due(at(seconds))
        yield from queries.open_incidents()[:1]


@pytest.mark.parametrize(("planted", "seed"), [(0.05, 1), (0.2, 2)])
def test_a_title_says_the_planted_loss_of_several_paths(paths, planted, seed, monkeypatch):
    """Four paths lose as much for twenty minutes, then two of them nothing more."""
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)

    def ratio_of(name, seconds):
        return planted if "cern" in name and (seconds < 1200 or "niit" not in name) else 0.0

    stated = []
    for incident in look(paths, ratio_of, 1500, seed):
        stated += [float(of[1]) / 100.0 for of in re.finditer(r"loses (?:about )?([\d.]+)%", incident.title)]
        of_niit = [level_of(row) for row in incident.paths.all() if "niit" in str(row.path) and row.level]

    assert len(stated) >= 15
    assert np.mean([abs(of - planted) <= 0.3 * planted for of in stated]) >= 0.9
    assert incident.over_since is None
    assert [level.over_since is not None for level in of_niit] == [True] * len(of_niit)


def test_the_level_of_a_path_that_is_worse_than_the_others(paths, monkeypatch):
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)

    def ratio_of(name, _):
        return 0.0 if "cern" not in name else 0.5 if name == "slac → cern" else 0.05

    (*_, incident) = look(paths, ratio_of, 500, 7)

    levels = {str(row.path): level_of(row).now for row in incident.paths.all() if row.level}
    assert levels.pop("slac → cern") == pytest.approx(0.5, abs=0.07)
    assert max(levels.values()) < 0.12


@pytest.mark.parametrize("seed", [1, 2])
def test_the_present_loss_rises_only_with_lost_packets(paths, seed, monkeypatch):
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)
    rng, path = np.random.default_rng(seed), paths["slac → cern"]
    plant(path, 0, 900, lambda s: int(rng.binomial(10, 0.1 if s < 300 else 0.0)))
    levels = []
    for seconds in range(60, 560, 20):
        evaluate(at(seconds))
        level = level_now(path)
        levels += [level] if level is not None else []
        if seconds > 320 and len(levels) > 1 and level is not None:
            assert levels[-1].now <= levels[-2].now + 1e-9

    assert len(levels) > 10
    assert levels[-1].now == 0.0
