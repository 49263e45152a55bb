"""After the end of a loss the sentences stay: a packet lost by chance, in the other direction, is no loss again; while
it lasts none says that it is over."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import numpy as np
import pytest

from monitor.alerts.evaluate import evaluate
from monitor.alerts.evidence.words import brief, headline
from monitor.alerts.incidents import lifecycle, queries, recovery
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


def statements(since_s, until_s):
    """The state of the mesh and the texts of its incident, after each evaluation."""
    texts = {}
    for seconds in range(since_s, until_s, 10):
        evaluate(at(seconds))
        Incident.objects.update(toward="ornl → nersc", toward_by="STAMP")
        for incident in queries.open_incidents():
            state = load_mesh_state(freshness.load(), at(seconds)).sentence
            texts[seconds] = (state, headline(incident), brief(incident, at(seconds)))
            assert recovery.is_back_to_normal(incident) == ("over, waiting to close" in state)
    return texts


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

    texts = statements(60, UNTIL_S)

    during = [text for seconds, said in texts.items() if seconds <= END_S for text in said]
    assert during
    assert [text for text in during if "no loss" in text or "over since" in text or "over, waiting" in text] == []
    over = ["over, waiting to close" in texts[seconds][0] for seconds in sorted(texts) if seconds > END_S]
    assert over.index(True) <= 5, "a minute after the end"
    assert not any(is_over and not stays for is_over, stays in pairwise(over)), texts
    end = f"{at(max(lost_s)):%H:%M:%S} UTC"
    for text in texts[STRAY_S - 10]:
        assert f"no loss since {end} (below " in text, text
    for text in texts[STRAY_S + 30]:
        assert f"loss over since {end} (" in text, text
        assert "packets lost)" in text, text


def test_a_loss_that_comes_back_is_told(paths):
    """20% that ends for a minute and a half."""
    rng = np.random.default_rng(6)

    def lost_of(seconds):
        return int(rng.binomial(10, 0.2)) if 0 <= seconds < END_S or seconds >= STRAY_S else 0

    for name, path in paths.items():
        plant(path, lost_of if name == "ornl → nersc" else lambda _: 0)

    texts = statements(60, UNTIL_S)

    assert "waiting to close" in texts[STRAY_S][0]
    again = [texts[seconds] for seconds in texts if seconds >= STRAY_S + 30]
    assert again
    for state, title, short in again:
        assert "has problems: ornl → nersc loss " in state, state
        for text in (title, short):
            assert "no loss" not in text, text
            assert "over since" not in text, text


@pytest.mark.parametrize("first", ["ornl → nersc", "nersc → ornl"])
def test_the_packets_since_an_end_do_not_become_fewer(paths, first):
    """A packet of one path is lost by chance after the loss; then the finding of either path ends before the other."""
    rng = np.random.default_rng(7)
    for name, path in paths.items():
        is_pair, is_stray = name in ("ornl → nersc", "nersc → ornl"), name == "nersc → ornl"

        def lost_of(seconds, is_pair=is_pair, is_stray=is_stray):
            lost = int(rng.binomial(10, 0.2)) if 0 <= seconds < 60 else 0
            return lost * is_pair + int(is_stray and seconds == 100)

        plant(path, lost_of)
    texts = statements(40, 130)
    incident = Incident.objects.get()
    lifecycle.end_findings(incident.pk, {(paths[first].pk, "loss"): "no loss"}, at(125))
    texts |= statements(130, 180)

    told = r"loss over since (\S+) UTC \((\d+) of (\d+) packets lost\)"
    for number in range(3):
        found = [re.search(told, said[number]) for seconds, said in texts.items() if seconds >= 110]
        assert len({of[1] for of in found}) == 1, "the same end"
        assert {int(of[2]) for of in found} == {2}, "of both sizes"
        sent = [int(of[3]) for of in found]
        assert sent == sorted(sent), sent
        assert sent[-1] > sent[0]
    assert all("problems of 2 of 6 paths are over" in texts[seconds][0] for seconds in range(110, 180, 10))
    assert all("4 normal" in texts[seconds][0] for seconds in range(110, 180, 10))
