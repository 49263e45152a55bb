"""Statements of now soon after the end of a planted loss: of packets of one side of the end only."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from monitor.alerts.evaluate import evaluate
from monitor.alerts.evidence.words import brief, headline
from monitor.alerts.incidents import lifecycle, queries, recovery
from monitor.archive.models import Burst
from monitor.mesh.models import MeasurementPeriod
from monitor.mesh.models import Test as MeshTest
from tests.db.alert_rows import make_mesh
from tests.db.copied_rows import copy_rows

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


def texts_of(seconds):
    evaluate(at(seconds))
    opened = queries.open_incidents()
    return [text for incident in opened for text in (headline(incident), brief(incident, at(seconds)))]


@pytest.mark.parametrize("seed", [1, 2])
def test_a_loss_that_has_ended_on_all_paths_has_no_mean_of_now(paths, seed):
    """15% on four paths until 5 s into a cycle: the four cycles after it prove the end, with 80 packets of a path."""
    rng, newest_s = np.random.default_rng(seed), 0
    for name, path in paths.items():
        newest_s = max(newest_s, plant(path, lambda s, name=name: 0.15 * ("cern" in name and 0 <= s < END_S), rng))
    for seconds in (60, 120, 180, 240, 300):
        during = texts_of(seconds)
    assert all("loss 1" in text and "no loss since" not in text for text in during), during

    for seconds in (330, 340, 350, 360):
        texts = texts_of(seconds)
        if seconds < 350:
            continue
        assert texts
        over = f"no loss since {at(newest_s):%H:%M:%S} UTC (below "
        assert all(over in text for text in texts), (seconds, texts)


def test_a_loss_that_goes_on_on_a_path_keeps_its_mean(paths):
    """A path that still loses 15% is named with it, whatever the others do."""
    rng = np.random.default_rng(3)
    for name, path in paths.items():
        until_s = 420 if name == "slac → cern" else END_S
        plant(path, lambda s, name=name, until_s=until_s: 0.15 if "cern" in name and 0 <= s < until_s else 0.0, rng)
    for seconds in (60, 120, 180, 240, 300, 320, 340, 360, 380):
        texts = texts_of(seconds)

    assert texts
    assert all("no loss since" not in text for text in texts), texts


@pytest.mark.parametrize("seed", range(4))
def test_both_paths_of_a_pair_are_back_to_normal_together(paths, seed):
    """20% one way, which the pings of both paths lose, until 5 s into a cycle."""
    rng = np.random.default_rng(seed)
    for name, path in paths.items():
        plant(path, lambda s, name=name: 0.2 if name in PAIR and 0 <= s < END_S else 0.0, rng)
    for seconds in range(60, 420, 10):
        evaluate(at(seconds))
        for incident in queries.open_incidents():
            normal = recovery.paths_back_to_normal(incident)
            assert len(normal) in (0, len({row.path_id for row in incident.paths.all()})), seconds
    assert normal


def test_a_path_that_answers_all_packets_after_an_outage_has_no_problem(paths):
    """All of 30 packets of each path are answered since: whatever share the rule found to be lost."""
    for name, path in paths.items():
        plant(path, lambda s, name=name: 1.0 if "cern" in name and 0 <= s < 120 else 0.0, np.random.default_rng(1))
    for seconds in (40, 60, 80, 100, 120, 130, 140, 150):
        evaluate(at(seconds))

    (incident,) = queries.open_incidents()

    assert recovery.is_back_to_normal(incident), headline(incident)
