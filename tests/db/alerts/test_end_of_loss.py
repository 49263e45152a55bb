"""Statements of now soon after the end of a planted loss: of packets of one side of the end only."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from monitor.alerts.evaluate import evaluate
from monitor.alerts.incidents import lifecycle, queries
from monitor.archive.models import Burst
from monitor.archive.upkeep import freshness
from monitor.mesh.models import MeasurementPeriod
from monitor.mesh.models import Test as MeshTest
from monitor.overview.mesh_state import load_mesh_state
from tests.db.alert_rows import make_mesh
from tests.db.copied_rows import copy_rows
from tests.db.finding_levels import level_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_worker")]
ONSET = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
PAIR = ("slac → cern", "cern → slac")
END_S = 304.7
"""Within a cycle, whose first packets are lost by chance."""


def at(seconds):
    return ONSET + timedelta(seconds=seconds)


@pytest.fixture
def paths(monkeypatch):
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)
    paths = make_mesh(["slac", "cern", "niit"], at(-7200), loss={"above_ratio": 0.01, "window_s": 120})
    MeshTest.objects.update(every_s=10)
    MeasurementPeriod.objects.update(every_s=10)
    return paths


def plant(path, ratio_of, rng):
    """Cycles of 10 s, a packet of each of two sizes a second, each lost with the ratio of its time; when the newest was
    lost, in seconds."""
    rows, newest_s = [], 0
    for begin_s in range(-1200, 420, 10):
        for size in (100, 1000):
            lost = [rng.random() < ratio_of(begin_s + number) for number in range(10)]
            newest_s = max([newest_s, *(begin_s + number for number in range(10) if lost[number])])
            rows.append(
                Burst(
                    path_id=path.pk, packet_bytes=size, measured_at=at(begin_s), outcome="measured", sent=10,
                    received=10 - sum(lost), duplicates=0, reordered=0, during_test=False,
                    rtts_ms=[None if is_lost else 20.0 for is_lost in lost],
                )
            )  # fmt: skip
    copy_rows(rows)
    return newest_s


def look(seconds):
    """The open incidents after an evaluation."""
    evaluate(at(seconds))
    return queries.open_incidents()


def levels(incident):
    return [level_of(row) for row in incident.paths.all() if not row.is_over]


@pytest.mark.parametrize("seed", [1, 2])
def test_a_loss_that_has_ended_on_all_paths_has_no_level_of_now(paths, seed):
    """15% on four paths until 5 s into a cycle: the four cycles after it prove the end, with 80 packets of a path."""
    rng, newest_s = np.random.default_rng(seed), 0
    for name, path in paths.items():
        newest_s = max(newest_s, plant(path, lambda s, name=name: 0.15 * ("cern" in name and 0 <= s < END_S), rng))
    for seconds in (60, 120, 180, 240, 300):
        during = look(seconds)
    assert during
    for incident in during:
        assert incident.over_since is None
        losses = [level.now for level in levels(incident) if level.over_since is None]
        assert len(losses) >= 3, "a path of four may answer 40 packets in a row by chance"
        assert abs(np.mean(losses) - 0.15) < 0.05 < min(losses), incident.title

    for seconds in (330, 340, 350, 360):
        incidents = look(seconds)
    assert incidents
    for incident in incidents:
        assert abs((incident.over_since - at(newest_s)).total_seconds()) <= 15.0, incident.title
        assert max(level.now for level in levels(incident)) < 0.02
        assert f"{incident.over_since:%H:%M:%S} UTC" in incident.title


def test_a_loss_that_goes_on_on_a_path_keeps_its_level(paths):
    """A path that still loses 15% is in trouble, whatever the others do."""
    rng = np.random.default_rng(3)
    for name, path in paths.items():
        until_s = 420 if name == "slac → cern" else END_S
        plant(path, lambda s, name=name, until_s=until_s: 0.15 if "cern" in name and 0 <= s < until_s else 0.0, rng)
    for seconds in (60, 120, 180, 240, 300, 320, 340, 360, 380):
        incidents = look(seconds)

    (incident,) = [each for each in incidents if "slac → cern" in map(str, (row.path for row in each.paths.all()))]
    (own,) = [level_of(row) for row in incident.paths.all() if str(row.path) == "slac → cern"]
    assert incident.over_since is own.over_since is None
    assert own.interval[0] < 0.15 < own.interval[1]
    assert "loses" in incident.title


@pytest.mark.parametrize("seed", range(4))
def test_both_paths_of_a_pair_are_normal_again_soon_after(paths, seed):
    """20% one way, which the pings of both paths lose, until 5 s into a cycle."""
    rng = np.random.default_rng(seed)
    for name, path in paths.items():
        plant(path, lambda s, name=name: 0.2 if name in PAIR and 0 <= s < END_S else 0.0, rng)
    over_s = {}
    for seconds in range(60, 420, 10):
        for incident in look(seconds):
            for row in incident.paths.all():
                assert seconds > END_S or level_of(row) is None or level_of(row).over_since is None, seconds
                if level_of(row) is not None and level_of(row).over_since is not None:
                    over_s.setdefault(str(row.path), seconds)

    assert set(over_s) <= set(PAIR)
    assert over_s
    assert max(over_s.values()) <= END_S + 60.0
    assert max(over_s.values()) - min(over_s.values()) <= 30.0


def test_a_path_that_answers_all_packets_after_an_outage_has_no_problem(paths):
    """All of 30 packets of each path are answered since: whatever share the rule found to be lost."""
    for name, path in paths.items():
        plant(path, lambda s, name=name: 1.0 if "cern" in name and 0 <= s < 120 else 0.0, np.random.default_rng(1))
    for seconds in (40, 60, 80, 100, 120, 130, 140, 150):
        evaluate(at(seconds))

    (incident,) = queries.open_incidents()

    assert abs((incident.over_since - at(120)).total_seconds()) <= 1.0, incident.title
    assert load_mesh_state(freshness.load(), at(150)).tally.with_problems == 0
