"""Cycles of ten packets each 10 s on the paths of three sites, and the tracks that an evaluation leaves of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from monitor.alerts import evaluate
from monitor.alerts.incidents import lifecycle
from monitor.archive.models import Burst
from monitor.archive.upkeep import freshness
from monitor.archive.upkeep.freshness import RecurringWork
from monitor.mesh.models import MeasurementPeriod, Path
from monitor.mesh.models import Test as MeshTest
from monitor.present.loss_tracks import TrackLimits
from tests.db.alert_rows import make_mesh
from tests.db.copied_rows import copy_rows

NOW = datetime(2026, 11, 21, 12, 30, tzinfo=UTC)
LIMIT = 0.01
CYCLE_S = 10


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def paths_of_three_sites(monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Paths with cycles of 10 s, whose incidents open at once."""
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)
    paths = make_mesh(["slac", "ornl", "fnal"], at(-7200), loss={"above_ratio": LIMIT, "window_s": 120}, rtt={})
    MeshTest.objects.update(every_s=CYCLE_S)
    MeasurementPeriod.objects.update(every_s=CYCLE_S)
    return paths


def plant(
    path: Path,
    since_s: int,
    until_s: int,
    lost_of: Callable[[int], int] = lambda _: 0,
    rtts_of: Callable[[int], Sequence[float]] = lambda _: [20.0] * 10,
    packet_bytes: int = 100,
    *,
    is_scattered: bool = False,
) -> None:
    """Cycles with ten packets, a second apart, of which the first are lost, or any if `is_scattered`."""
    rows, random = [], np.random.default_rng(path.pk)
    for seconds in range(since_s, until_s, CYCLE_S):
        lost = lost_of(seconds)
        gone = random.permutation(10)[:lost] if is_scattered else range(lost)
        rows.append(
            Burst(
                path_id=path.pk,
                packet_bytes=packet_bytes,
                measured_at=at(seconds),
                outcome="measured",
                sent=10,
                received=10 - lost,
                duplicates=0,
                reordered=0,
                during_test=False,
                rtts_ms=[None if number in gone else rtt for number, rtt in enumerate(rtts_of(seconds))],
            )
        )
    copy_rows(rows)


def follow(now: datetime = NOW, limit: float = LIMIT) -> None:
    """Follow the losses of all paths up to `now`, bad above this limit; RTTs need an evaluation."""
    evaluate.Follower().follow(now, TrackLimits(dict.fromkeys(Path.objects.values_list("pk", flat=True), limit)))
    freshness.note(RecurringWork.EVALUATION, now)
