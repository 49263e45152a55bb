"""A loss is said to be of a packet size, or of a way, only where the packets of the other exclude it."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import numpy as np
import pytest

from monitor.archive.models import Burst
from monitor.mesh.models import MeasurementPeriod, Test
from monitor.present import read
from monitor.present.conditions import Condition
from monitor.present.follow import Follower
from monitor.present.loss_tracks import TrackLimits
from monitor.present.track import Signal
from tests.db.alert_rows import make_mesh
from tests.db.batch_rows import store_batch
from tests.db.copied_rows import copy_rows
from tests.db.planted_faults import DELIVERED, ONSET, at

pytestmark = pytest.mark.django_db
SIZES = (100, 1000)
PACKETS, EVERY_S, LASTS_S = 5, 10, 480
LOOKS_S = range(0, LASTS_S, EVERY_S)


def sizes_told(ratios, seed, late_s=range(0)):
    """What each look at a path with these losses, by size, tells: the packet size that loses packets, 0 for all. None
    without a trouble, as where nothing is delivered, which is so at the looks of `late_s`."""
    for present in looks(ratios, seed, late_s):
        yield present.worst.packet_bytes_lost if present.condition.is_trouble else None


def looks(ratios, seed, late_s=range(0), lasts_s=LASTS_S):
    """The present of a path with these losses, which end after `lasts_s`, at each look."""
    path = make_mesh(["cern", "slac"], ONSET - timedelta(days=2), loss={})["cern → slac"]
    Test.objects.update(every_s=EVERY_S, parameters={"count": PACKETS, "packet_bytes": [*SIZES], "spacing_s": 1.0})
    MeasurementPeriod.objects.update(every_s=EVERY_S, packet_bytes=[*SIZES])
    random, follower, limits, taken = np.random.default_rng(seed), Follower(), TrackLimits({path.pk: 0.01}), -1e9
    rows = [
        burst(path, size, at_s, random.random(PACKETS) < (ratio if 0 <= at_s < lasts_s else 0.0))
        for at_s in range(-1800, LASTS_S, EVERY_S)
        for size, ratio in zip(SIZES, ratios, strict=True)
    ]
    for at_s in LOOKS_S:
        until_s = taken if at_s in late_s else at_s - DELIVERED.total_seconds()
        arrived = [row for row in rows if at(taken) <= row.measured_at < at(until_s)]
        copy_rows(arrived)
        if arrived:
            store_batch(path.source.site, at(at_s), at_s, arrived[0].measured_at)
        taken = until_s
        follower.follow(at(at_s), limits)
        yield read.load([path.pk])[path.pk]


def burst(path, size, at_s, lost):
    received = int((~lost).sum())
    return Burst(
        path_id=path.pk, packet_bytes=size, measured_at=at(at_s), outcome="measured", sent=PACKETS, received=received,
        duplicates=0, reordered=0, during_test=False, ttl=54 if received else None,
        rtts_ms=[None if gone else 20.0 for gone in lost.tolist()],
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("ratio", [0.03, 0.2])
def test_a_loss_of_all_packets_is_not_said_to_be_of_a_size(ratio, seed):
    told = [size for size in sizes_told((ratio, ratio), seed) if size is not None]

    assert len(told) > 10
    assert set(told) == {0}


@pytest.mark.parametrize(("ratio", "within_s"), [(1.0, 60), (0.3, 240)])
def test_a_loss_of_large_packets_is_said_to_be_of_these(ratio, within_s):
    told = [*sizes_told((0.0, ratio), 0)]

    assert set(told[within_s // EVERY_S :]) == {1000}


@pytest.mark.parametrize("ratio", [1.0, 0.3])
def test_the_end_of_a_loss_of_large_packets_is_told_of_these_and_of_the_whole_path_at_once(ratio):
    lasts_s = 240
    told = [*zip(LOOKS_S, looks((0.0, ratio), 0, lasts_s=lasts_s), strict=True)]

    ended = [present for at_s, present in told if at_s > lasts_s and not present.condition.is_trouble]
    ends_s = {track.end.at_s - ONSET.timestamp() for present in ended if (track := present.track(Signal.LOSS)).end}
    assert len(ended) > 10
    assert {present.track(Signal.LOSS).packet_bytes_lost for present in ended} == {1000}
    assert all(lasts_s - EVERY_S <= end_s <= lasts_s + 2 * EVERY_S for end_s in ends_s), ends_s
    for present in ended:
        large, whole = present.track(Signal.LOSS, 1000), present.track(Signal.LOSS)
        assert whole.end == large.end
        assert Condition.AWAITED not in {track.condition for track in present.tracks}
    is_bad = [present.condition.is_trouble for _, present in told]
    assert sum(before != after for before, after in pairwise(is_bad)) == 2  # told once, ended once


def test_the_size_is_still_told_once_late_packets_have_arrived():
    late_s = range(240, 310)

    told = dict(zip(LOOKS_S, sizes_told((0.0, 1.0), 0, late_s), strict=True))

    assert None in {told[at_s] for at_s in late_s if at_s in told}
    assert {told[at_s] for at_s in LOOKS_S if at_s >= late_s.stop} == {1000}


@pytest.mark.parametrize("seed", range(3))
def test_no_size_is_normal_while_all_packets_together_lose(seed):
    """Of half of the packets alone less is proven, and their track may be over by chance."""
    for present in looks((0.03, 0.03), seed):
        sizes = [track.condition for track in present.tracks if track.packet_bytes]
        if present.condition.is_trouble and not any(of.is_trouble for of in sizes):
            assert Condition.NORMAL not in sizes
