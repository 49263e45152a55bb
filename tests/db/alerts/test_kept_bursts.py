"""The bursts that the worker keeps are those of a reading of all, in whichever batches they were delivered."""

import random
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from monitor.alerts.detect.past import kept_bursts
from monitor.alerts.detect.past.kept_bursts import PLACES, WHOLE_EVERY
from monitor.alerts.detect.rtt_windows import SPARE_CYCLES, WINDOW, trip_windows
from monitor.alerts.detect.sources import STORED, SourceOfWorker
from monitor.archive.models import Burst
from monitor.mesh.document.alert_rules import Place
from monitor.mesh.queries import MeasuredPath
from tests.db.alert_rows import make_mesh
from tests.db.copied_rows import copy_rows

pytestmark = pytest.mark.django_db
BEGAN = datetime(2026, 11, 21, 9, 58, 20, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def burst(path_id, at, rtts_ms, *, size=100, ttl=57, during_test=False):
    received = sum(rtt is not None for rtt in rtts_ms)
    return Burst(
        path_id=path_id, packet_bytes=size, measured_at=at, outcome="measured", sent=len(rtts_ms), received=received,
        duplicates=0, reordered=0, ttl=ttl, during_test=during_test, rtts_ms=rtts_ms,
    )  # fmt: skip


def bursts_of(chance, path_id, every_s):
    """Bursts of two hours; some lose packets or all, some are of another size or in our own test."""
    first_s, level_ms = chance.uniform(0, every_s), 20.0
    for number in range(int(2 * 3600 / every_s)):
        level_ms += chance.choice([0, 0, 0, 0, 0, 0, 0, 30])
        at = BEGAN + timedelta(seconds=round(first_s + (number + chance.uniform(0, 0.3)) * every_s, 6))
        lost = chance.choice([0, 0, 0, 0.2, 1])
        packets = chance.choice([10, 10, 10, 3])
        rtts_ms = [None if chance.random() < lost else level_ms + chance.expovariate(1) for _ in range(packets)]
        for size in (100, 1000):
            ttl = chance.choice([None, 57, 60])
            yield burst(path_id, at, rtts_ms, size=size, ttl=ttl, during_test=chance.random() < 0.1)


def measured(path_id, every_s, size=100):
    return MeasuredPath(path_id, "slac", "cern", 4, Place("slac", "cern"), every_s, size, BEGAN)


def shown(trips):
    """All that rules read of windows and bursts."""
    windows = [(int(path_id), trips.window(number)) for number, path_id in enumerate(trips.path_id.tolist())]
    by_path = [(path_id, trips.bursts_of(path_id)) for path_id in sorted(trips.spans)]
    gaps, places = trips.with_gaps()
    return {
        "windows": [(path_id, columns_of(bursts)) for path_id, bursts in windows],
        "figures": {name: trips.values_ms(name).tolist() for name in trips.bursts.values_ms},
        "bursts": [(path_id, columns_of(bursts)) for path_id, bursts in by_path],
        "gaps": (gaps.tolist(), trips.bursts.at_s[places].tolist()),
        "judged_s": trips.judged_s,
    }


def columns_of(bursts):
    rtts_ms = [[rtt for rtt in of_burst if not np.isnan(rtt)] for of_burst in bursts.rtts_ms.tolist()]
    figures = {name: column.tolist() for name, column in bursts.values_ms.items()}
    return bursts.at_s.tolist(), np.nan_to_num(bursts.ttl).tolist(), figures, rtts_ms


def windows_at(source, now, paths, judged_s, watched=frozenset(), *, with_rtts=True):
    answered_s = dict(
        Burst.objects.filter(received__gt=0, measured_at__lt=now, path_id__in=paths)
        .order_by("measured_at")
        .values_list("path_id", "measured_at")
    )
    answered_s = {path_id: at.timestamp() for path_id, at in answered_s.items()}
    return trip_windows(now, paths, answered_s, judged_s, set(watched), source, with_rtts=with_rtts)


@pytest.mark.parametrize("seed", range(4))
def test_kept_bursts_are_those_of_a_reading_of_all(seed, monkeypatch):
    """Agents deliver oldest first, at times after an hour of silence, and repeat batches; the worker restarts."""
    chance = random.Random(seed)
    monkeypatch.setattr(kept_bursts, "MOST_PATH_S", chance.choice([1_000, 24_000_000]))
    monkeypatch.setattr(kept_bursts, "PLACES", chance.choice([PLACES, 43, 8]))
    path_ids = [path.pk for path in make_mesh(["slac", "cern", "fnal"], BEGAN).values()]
    every_s = {path_id: chance.choice([20, 60, 300]) for path_id in path_ids}
    paths = {path_id: measured(path_id, every_s[path_id]) for path_id in path_ids}
    waiting = {path_id: list(bursts_of(chance, path_id, every_s[path_id])) for path_id in path_ids}
    silent_until = dict.fromkeys(waiting, BEGAN)
    source, judged_s, now, windows = SourceOfWorker(), {}, BEGAN, 0
    while now < BEGAN + 120 * MINUTE:
        now += timedelta(seconds=chance.choice([7, 31.25, 60, 60, 150, 400]))
        for path_id, bursts in waiting.items():
            if now < silent_until[path_id]:
                continue
            ended = sum(of.measured_at < now - timedelta(seconds=12) for of in bursts)
            batch, waiting[path_id] = bursts[:ended], bursts[ended:]
            if chance.random() < 0.05:
                silent_until[path_id] = now + chance.uniform(1, 80) * MINUTE
                batch, waiting[path_id] = batch[: len(batch) // 2], [*batch[len(batch) // 2 :], *waiting[path_id]]
            copy_rows(batch)
        Burst.objects.bulk_create(batch, ignore_conflicts=True)
        if chance.random() < 0.05:
            source = SourceOfWorker()
        if chance.random() < 0.05:
            changed = chance.choice(path_ids)
            paths[changed] = measured(changed, chance.choice([20, 60, 300]), chance.choice([100, 1000]))
        watched = {path_id for path_id in path_ids if chance.random() < 0.1}

        ours, theirs = (windows_at(of, now, paths, judged_s, watched) for of in (source, STORED))

        assert shown(ours) == shown(theirs)
        missing = {path_id: path for path_id, path in paths.items() if path_id not in theirs.spans}
        whole = [
            trips.with_bursts_of(trip_windows(now, missing, {}, {}, set(missing), of, with_rtts=True))
            for trips, of in ((ours, source), (theirs, STORED))
        ]
        assert shown(whole[0]) == shown(whole[1])
        judged_s, windows = judged_s | theirs.judged_s, windows + len(theirs.path_id)
    assert windows > 100


def test_only_the_newest_bursts_are_read_again():
    path, now = measured(1, 60), BEGAN + 60 * MINUTE
    make = [burst(1, BEGAN + number * MINUTE, [20.0, 21.0]) for number in range(60)]
    source, read = counted(SourceOfWorker())
    copy_rows(make)
    windows_at(source, now, {1: path}, {1: make[-2].measured_at.timestamp()})
    copy_rows([burst(1, now, [20.0, 21.0])])

    trips = windows_at(source, now + MINUTE, {1: path}, {1: make[-1].measured_at.timestamp()})

    cycles = WINDOW + SPARE_CYCLES
    assert read == [cycles + 2, 3]
    assert (trips.bursts_of(1).at_s[0], len(trips.bursts_of(1).at_s)) == (make[-1 - cycles].measured_at.timestamp(), 42)


def test_a_burst_out_of_order_is_found_after_some_readings():
    """It began long before bursts that are stored already, as of an agent whose clock was set back."""
    path, now = measured(1, 60), BEGAN + 50 * MINUTE
    bursts = [burst(1, BEGAN + number * MINUTE, [20.0, 21.0]) for number in range(50 + WHOLE_EVERY)]
    late = bursts.pop(45)
    copy_rows(bursts)
    source = SourceOfWorker()
    windows_at(source, now, {1: path}, {1: (now - 1.5 * MINUTE).timestamp()})
    late.save(force_insert=True)

    found = []
    for minute in range(1, WHOLE_EVERY + 1):
        trips = windows_at(source, now + minute * MINUTE, {1: path}, {1: (now + (minute - 1.5) * MINUTE).timestamp()})
        found.append(late.measured_at.timestamp() in trips.bursts_of(1).at_s)

    assert (found[0], found[-1]) == (False, True)


def test_round_trips_are_kept_where_a_rule_needs_them():
    path, now = measured(1, 60), BEGAN + 50 * MINUTE
    copy_rows([burst(1, BEGAN + number * MINUTE, [20.1, None, 21.0]) for number in range(50)])
    source = SourceOfWorker()

    without, with_rtts = (windows_at(source, now, {1: path}, {}, with_rtts=with_rtts) for with_rtts in (False, True))

    assert without.bursts_of(1).rtts_ms.shape == (40, 0)
    assert without.bursts_of(1).values_ms["minimum"].tolist() == with_rtts.bursts_of(1).values_ms["minimum"].tolist()
    expected = STORED.recent_round_trips([1], [100], [BEGAN.timestamp() + 600.0], now).rtts_ms
    np.testing.assert_array_equal(with_rtts.bursts_of(1).rtts_ms, expected)


def test_paths_that_nobody_asks_for_are_forgotten_in_a_day():
    source = SourceOfWorker()
    copy_rows([burst(path_id, BEGAN, [20.0]) for path_id in (1, 2)])
    windows_at(source, BEGAN + MINUTE, {1: measured(1, 60)}, {})

    windows_at(source, BEGAN + timedelta(days=1, minutes=2), {2: measured(2, 60)}, {})

    assert source._bursts._ids.tolist() == [2]


def counted(source):
    """The source, and the numbers of bursts that it has read."""
    numbers, read = [], source._bursts._read

    def reading(*of):
        trips = read(*of)
        numbers.append(len(trips.at_s))
        return trips

    source._bursts._read = reading
    return source, numbers
