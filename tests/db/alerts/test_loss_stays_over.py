"""After the end of a loss the sentences stay: a packet lost by chance, in the other direction, is no loss again; while
it lasts none says that it is over."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from monitor.alerts.evaluate import evaluate
from monitor.alerts.incidents import lifecycle, queries
from monitor.alerts.models import Incident
from monitor.archive.models import Burst
from monitor.archive.upkeep import freshness
from monitor.mesh.models import MeasurementPeriod
from monitor.mesh.models import Test as MeshTest
from monitor.overview.mesh_state import load_mesh_state
from tests.db.alert_rows import make_mesh
from tests.db.copied_rows import copy_rows

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_worker")]
ONSET = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
END_S, STRAY_S, UNTIL_S = 160, 250, 420


def at(seconds):
    return ONSET + timedelta(seconds=seconds)


@pytest.fixture
def paths(monkeypatch):
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)
    paths = make_mesh(["ornl", "nersc", "slac"], at(-7200), loss={"above_ratio": 0.01, "window_s": 600})
    MeshTest.objects.update(every_s=10)
    MeasurementPeriod.objects.update(every_s=10)
    return paths


def plant(path, lost_of):
    """Cycles of 10 s with ten packets of each of two sizes."""
    copy_rows(
        Burst(
            path_id=path.pk, packet_bytes=size, measured_at=at(seconds), outcome="measured", sent=10,
            received=10 - (lost := lost_of(seconds)), duplicates=0, reordered=0, during_test=False,
            rtts_ms=[None] * lost + [20.0] * (10 - lost),
        )
        for seconds in range(-1200, UNTIL_S, 10)
        for size in (100, 1000)
    )  # fmt: skip


def looks(since_s, until_s):
    """The open incident and the state of the mesh, after each evaluation."""
    seen = {}
    for seconds in range(since_s, until_s, 10):
        evaluate(at(seconds))
        for incident in queries.open_incidents():
            state = load_mesh_state(freshness.load(), at(seconds))
            seen[seconds] = incident, state
            is_over = incident.over_since is not None
            assert (state.tally.with_problems == 0) == is_over, (seconds, incident.title, state.sentence)
            assert incident.title in state.sentence, seconds
            assert ("loses" in incident.title) != is_over, (seconds, incident.title)
    return seen


def test_a_stray_packet_after_the_end_is_no_loss_again(paths):
    """20% from ornl to nersc, which the pings of both paths lose; then a packet of each, lost on its way back."""
    rng, lost_s = np.random.default_rng(5), []
    for name, path in paths.items():
        is_pair = name in ("ornl → nersc", "nersc → ornl")

        def lost_of(seconds, is_pair=is_pair):
            if is_pair and 0 <= seconds < END_S:
                lost = int(rng.binomial(10, 0.2))
                lost_s.extend(range(seconds, seconds + lost))
                return lost
            return int(is_pair and seconds == STRAY_S)

        plant(path, lost_of)

    seen = looks(60, UNTIL_S)

    over = {seconds: incident.over_since for seconds, (incident, _) in seen.items()}
    assert not any(at_s for seconds, at_s in over.items() if seconds <= END_S), over
    after = [over[seconds] for seconds in sorted(over) if seconds > END_S]
    first = next(number for number, at_s in enumerate(after) if at_s is not None)
    assert first <= 8, "a minute and a half after the end"
    assert None not in after[first:], over
    assert all(abs((at_s - at(max(lost_s))).total_seconds()) <= 20.0 for at_s in after[first:]), over


def test_a_loss_that_comes_back_is_told(paths):
    """20% that ends for a minute and a half."""
    rng = np.random.default_rng(6)

    def lost_of(seconds):
        return int(rng.binomial(10, 0.2)) if 0 <= seconds < END_S or seconds >= STRAY_S else 0

    for name, path in paths.items():
        plant(path, lost_of if name == "ornl → nersc" else lambda _: 0)

    seen = looks(60, UNTIL_S)

    assert seen[STRAY_S][0].over_since is not None
    again = [incident for seconds, (incident, _) in seen.items() if seconds >= STRAY_S + 40]
    assert again
    assert {incident.over_since for incident in again} == {None}
    assert Incident.objects.count() == 1
