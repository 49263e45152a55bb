"""The statement that a loss is over, over many simulated runs: while it lasts, and after its end, when a packet of
either direction is lost now and then."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

import numpy as np
import pytest

from monitor.alerts.detect.packet_times import PathBursts
from monitor.alerts.incidents.finding_level import FindingLevel, LevelUnit, with_ends
from monitor.alerts.models import IncidentPath
from monitor.analysis.changes.ended_loss import clean_run, end_is_proven, loss_again
from monitor.mesh.models import Path
from tests.unit.analysis.loss_of_paths import LONGEST_S, PACKETS, WatchedPath, bursts

STRAY = 0.002
"""Loss of a healthy path, as the lab's scenario has it in one direction."""
LASTS_S, AFTER_S = 600.0, 480.0


def _time(at_s):
    return datetime.fromtimestamp(at_s, UTC)


class Watched:
    """A path of an incident, whose levels are stored as the evaluation stores them."""

    def __init__(self, columns, detected_s, planted):
        figures = {"sent": 100, "lost": round(100 * planted), "threshold_ratio": 0.01}
        path = Path(source_id=1, destination_id=2)
        self.row, self.path = IncidentPath(rule="loss", figures=figures, path=path), WatchedPath(columns, detected_s)
        self.columns, self.has_changed, self.worst = columns, False, None

    def level(self, now_s):
        loss = self.path.evaluate(now_s)
        self.has_changed = loss.has_changed if loss.changed_s else self.has_changed
        if self.worst is None or not self.has_changed:
            self.worst = loss.stretch
        return FindingLevel(
            LevelUnit.LOSS_RATIO, loss.now.ratio, self.worst.ratio, sent=round(loss.now.sent),
            window_s=now_s - loss.since_s, has_changed=self.has_changed, together=loss.now.together,
            since=_time(max(self.path.began_s, loss.since_s)), stretch=loss.stretch, worst=self.worst, clean=loss.clean,
        )  # fmt: skip

    def bursts(self, now_s):
        at_s, sent, received = self.columns
        chosen = (at_s < now_s) & (at_s >= now_s - LONGEST_S)
        return PathBursts(at_s[chosen], sent[chosen], received[chosen])


def store(row, level):
    row.level = {
        name: value
        for name in ("unit", "now", "peak", "sent", "is_ended", "recovered_at", "since")
        if (value := getattr(level, name)) is not None
    }


def statements(planted, paths, seed):
    """Whether the paths were said to be without loss, at each evaluation: while it lasted, and after it."""
    rng, detected_s = np.random.default_rng([seed, paths]), max(60.0, 3.0 / planted)
    end_s = detected_s + LASTS_S
    columns = [bursts(rng, [(-700.0, STRAY), (0.0, planted), (end_s, STRAY)], end_s + AFTER_S) for _ in range(paths)]
    every = [Watched(of_path, detected_s, planted) for of_path in columns]
    during, after = [], []
    for now_s in np.arange(detected_s + 10.0, end_s + AFTER_S, 10.0):
        levels = with_ends(
            [path.row for path in every],
            [path.level(now_s) for path in every],
            [path.bursts(now_s) for path in every],
            _time(now_s),
        )
        for path, level in zip(every, levels, strict=True):
            store(path.row, level)
            if level.began_at is not None:
                path.path.began_s = max(path.path.began_s, level.began_at.timestamp())
        (during if now_s <= end_s else after).append(any(level.is_ended for level in levels))
    return during, after


@pytest.mark.parametrize("paths", [1, 2])
@pytest.mark.parametrize("planted", [0.2, 0.1, 0.05])
def test_a_loss_is_called_over_after_its_end_and_stays_so(planted, paths):
    said, back, delays = [], 0, []
    for seed in range(8):
        during, after = statements(planted, paths, seed)
        said += during
        assert any(after), (planted, paths, seed)
        delays.append(10.0 * after.index(True))
        back += sum(is_over and not stays for is_over, stays in pairwise(after))

    assert np.mean(said) < 0.01
    assert back == 0
    # So many packets without a loss are improbable at half of the loss, 20 a cycle.
    assert np.median(delays) <= 4.61 / -np.log1p(-planted / 2.0) / PACKETS * 10.0 + 60.0


def test_an_end_is_proven_by_packets_that_exclude_half_of_the_loss():
    """Of a loss of 20%: 0.9 to the power of 44 is 1%."""
    at_s, sent = np.arange(12.0), np.full(12, 10.0)
    received = np.array([8.0] * 10 + [10.0, 10.0])
    few = clean_run(at_s, sent, received, 1.0)
    more = clean_run(np.arange(13.0), np.append(sent, 30.0), np.append(received, 30.0), 1.0)

    assert (few.sent, more.sent, few.since_s) == (20.0, 50.0, 10.0)
    assert end_is_proven([few], [0.2]) == [False]
    assert end_is_proven([more], [0.2]) == [True]
    assert end_is_proven([more], [0.1]) == [False]
    assert end_is_proven([few, few], [0.2] * 2) == [False, False]
    assert end_is_proven([few] * 3, [0.2] * 3) == [True] * 3
    assert end_is_proven([few, few, few, None], [0.2] * 4) == [False] * 4


@pytest.mark.parametrize(
    ("lost", "first"), [([0] * 30, None), ([0] * 20 + [1] + [0] * 9, None), ([0] * 28 + [2, 3], 28)]
)
def test_a_loss_begins_again_by_more_than_a_stray_packet(lost, first):
    sent = np.full(30, 10.0)

    assert loss_again(sent, sent - np.array(lost), 0.01, 1.0) == first
    assert loss_again([], [], 0.01, 1.0) is None
