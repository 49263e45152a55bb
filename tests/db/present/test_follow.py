"""The stored tracks of paths: what was planted, whatever came first, late, or in several processes."""

from datetime import timedelta

import pytest

from monitor.alerts.evaluate import evaluate
from monitor.alerts.scope import scope_now
from monitor.archive.models import Burst
from monitor.archive.periods import start_of
from monitor.mesh.models import Measurement, Test
from monitor.present import read
from monitor.present.conditions import Condition
from monitor.present.follow import Follower
from monitor.present.loss_tracks import TrackLimits
from monitor.present.models import PathTrack
from monitor.present.track import Signal
from tests.db.copied_rows import copy_rows
from tests.db.mesh_of_three import HOUR, NOW, batch, burst, delivered, make_mesh
from tests.db.pages_mesh import hour
from tests.db.planted_faults import ONSET, Planted, at, between, plant, site
from tests.deliveries import store

pytestmark = pytest.mark.django_db
LIMIT = 0.01


def planted(faults, until_s):
    """The paths by name, after bursts up to this time with these faults were stored."""
    paths, rows = plant(faults, until_s)
    copy_rows(rows)
    return paths


def limits(paths, **fields):
    return TrackLimits({path.pk: LIMIT for path in paths.values()}, **fields)


def present(paths):
    """The condition of each path by its name."""
    now = read.load()
    return {name: now[path.pk].condition for name, path in paths.items()}


def test_a_path_is_normal_once_its_packets_exclude_the_limit():
    paths = planted([], -400.0)  # 500 s of history
    Follower().follow(at(-400.0), limits(paths))
    assert {*present(paths).values()} == {Condition.NORMAL}


def test_few_packets_are_awaited():
    paths = planted([], -800.0)
    Follower().follow(at(-800.0), limits(paths))

    assert {*present(paths).values()} == {Condition.AWAITED}


def test_a_loss_is_bad_with_its_onset_and_is_over():
    paths = planted([Planted(between("cern", "slac"), 0.0, 300.0, lost_ratio=0.2)], 900.0)
    follower = Follower()
    follower.follow(at(200.0), limits(paths))
    bad = {name for name, condition in present(paths).items() if condition is Condition.BAD}
    track = read.load()[paths["cern → slac"].pk].track(Signal.LOSS)

    assert bad == {"cern → slac", "slac → cern"}
    assert track.onset is not None
    assert track.onset.earliest_s - 10.0 <= ONSET.timestamp() <= track.onset.latest_s + 10.0
    low, high = track.now.lost.interval
    assert low <= 0.2 <= high

    Follower().follow(at(900.0), limits(paths))
    track = read.load()[paths["cern → slac"].pk].track(Signal.LOSS)
    assert {*present(paths).values()} == {Condition.NORMAL}
    assert track.end is not None
    assert abs(track.end.at_s - at(300.0).timestamp()) <= 30.0
    low, high = track.trouble[-1].lost.interval
    assert low <= 0.2 <= high


def test_a_site_that_is_down_is_dead_since_its_last_replies():
    paths = planted([Planted(site("ornl"), 0.0, lost_ratio=1.0)], 120.0)
    Follower().follow(at(120.0), limits(paths))
    dead = {name for name, condition in present(paths).items() if condition is Condition.DEAD}

    assert dead == {name for name in paths if "ornl" in name}
    for name in dead:
        track = read.load()[paths[name].pk].track(Signal.LOSS)
        assert at(-2.0).timestamp() <= track.now.since.at_s <= ONSET.timestamp()


def test_a_path_that_flaps_is_said_to_flap():
    faults = [Planted(between("cern", "ornl"), 40.0 * number, 20.0, lost_ratio=1.0) for number in range(5)]
    paths = planted(faults, 200.0)
    Follower().follow(at(200.0), limits(paths))
    flapping = {name for name, condition in present(paths).items() if condition is Condition.FLAPS}

    assert flapping == {"cern → ornl", "ornl → cern"}


def test_a_path_without_newer_results_is_overdue():
    paths = planted([], 0.0)
    Follower().follow(at(20.0), limits(paths))
    assert {*present(paths).values()} == {Condition.NORMAL}

    Follower().follow(at(60.0), limits(paths))
    assert {*present(paths).values()} == {Condition.OVERDUE}


def test_a_path_in_maintenance_is_set_aside():
    paths = planted([Planted(site("ornl"), 0.0, lost_ratio=1.0)], 120.0)
    Follower().follow(at(120.0), limits(paths, set_aside={paths["cern → ornl"].pk}))

    assert present(paths)["cern → ornl"] is Condition.SET_ASIDE
    assert present(paths)["ornl → cern"] is Condition.DEAD


def test_the_counts_are_those_of_the_conditions():
    paths = planted([Planted(site("ornl"), 0.0, lost_ratio=1.0)], 120.0)
    Follower().follow(at(120.0), limits(paths))

    def counted(now, first=()):
        return {(of.condition, of.is_old, of.part): of.paths for of in read.counts(now, first)}

    assert counted(at(120.0)) == {(Condition.DEAD, False, 0): 6, (Condition.NORMAL, False, 0): 6}
    dead = {path.pk for name, path in paths.items() if name.startswith("ornl")}
    assert counted(at(800.0), dead) == {
        (Condition.DEAD, True, 1): 3,
        (Condition.DEAD, True, 0): 3,
        (Condition.NORMAL, True, 0): 6,
    }
    assert {*read.load(least=Condition.SUSPECT)} == {path.pk for name, path in paths.items() if "ornl" in name}


def pinged_mesh():
    mesh = make_mesh()
    test = Test.objects.create(
        name="pinger", kind="ping", every_s=60, parameters={"count": 10, "packet_bytes": [100], "spacing_s": 1.0}
    )
    for path in (mesh.slac_cern, mesh.slac_anl, mesh.cern_slac):
        Measurement.objects.create(path=path, test=test, started_at=HOUR - timedelta(days=1))
    return mesh


def deliver(mesh, first, numbers, rtts_ms, number):
    """Store a batch of bursts of slac → cern, by their number of minutes after the hour."""
    results = [
        delivered(mesh.slac_cern, burst(*rtts_ms, at=HOUR + minute * timedelta(minutes=1)), first + place)
        for place, minute in enumerate(numbers)
    ]
    store(mesh.slac.pk, batch(*results, number=number), NOW)


def tracks():
    return [row.track for row in PathTrack.objects.order_by("path", "signal", "packet_bytes")]


@pytest.mark.parametrize("late", [False, True])
def test_bursts_that_arrive_in_batches_give_the_same_tracks(late):
    mesh, follower = pinged_mesh(), Follower()
    of = {mesh.slac_cern.pk: LIMIT}
    answered, lost = (20.0,) * 10, (20.0, None) * 5
    first = [0, 1, 2, 4, 5] if late else [0, 1, 2, 3, 4, 5]
    deliver(mesh, 1, first, answered, 1)
    follower.follow(HOUR + timedelta(minutes=6), TrackLimits(of))
    deliver(mesh, 20, [6, 7, 8], lost, 2)
    follower.follow(HOUR + timedelta(minutes=8, seconds=30), TrackLimits(of))
    if late:
        deliver(mesh, 40, [3], answered, 3)
    deliver(mesh, 50, [9, 10], lost, 4)
    follower.follow(HOUR + timedelta(minutes=11), TrackLimits(of))
    in_batches = tracks()
    PathTrack.objects.all().delete()
    Follower().follow(HOUR + timedelta(minutes=11), TrackLimits(of))

    assert in_batches == tracks()
    [track] = [track for track in in_batches if track.path_id == mesh.slac_cern.pk]
    assert track.condition is Condition.BAD
    assert track.newest_s == (HOUR + timedelta(minutes=10)).timestamp()


@pytest.mark.parametrize("begins_anew", [False, True])
def test_a_suspected_loss_is_suspected_until_its_packets_speak_against_it(begins_anew):
    mesh, follower, seen = pinged_mesh(), Follower(), []
    usual = TrackLimits({mesh.slac_cern.pk: 0.3}, {mesh.slac_cern.pk: 0.05})
    deliver(mesh, 1, range(8), (20.0,) * 10, 1)
    for minute, lost in enumerate((3, 2, 2, 1, 0, 1, 0, 1, 0, 0), start=8):  # 90% at one look and 87% at the next
        deliver(mesh, 10 * minute, [minute], (20.0,) * (10 - lost) + (None,) * lost, minute - 6)
        follower = Follower() if begins_anew and minute == 12 else follower
        follower.follow(HOUR + timedelta(minutes=minute, seconds=30), usual)
        seen.append(PathTrack.objects.get(path=mesh.slac_cern, signal=Signal.LOSS, packet_bytes=0).condition)

    assert seen == [Condition.NORMAL] * 2 + [Condition.SUSPECT] * 8


def test_a_longer_rtt_is_told_and_over():
    paths, rows = plant([Planted(between("cern", "slac"), 0.0, 300.0, delay_ms=60.0)], 700.0)
    rules = scope_now()
    follower = Follower()
    seen = []
    for until_s in range(-60, 700, 30):
        now = at(until_s)
        arrived = [row for row in rows if row.measured_at < now]
        copy_rows(arrived)
        rows = rows[len(arrived) :]
        evaluate(now, scope=rules, follower=follower)
        track = read.load([paths["cern → slac"].pk])[paths["cern → slac"].pk].track(Signal.RTT)
        seen.append((until_s, track.condition))
    told = [until_s for until_s, condition in seen if condition >= Condition.SUSPECT]

    assert 0 < told[0] <= 60
    assert 300 <= told[-1] <= 360
    assert Condition.BAD in {condition for _, condition in seen}
    [longer] = track.trouble
    assert abs(longer.since.at_s - ONSET.timestamp()) <= 10.0
    assert longer.median_ms == pytest.approx(80.2, abs=0.5)
    assert abs(track.end.at_s - at(300.0).timestamp()) <= 20.0


def test_an_rtt_that_is_usual_at_this_hour_is_not_suspect():
    paths, rows = plant([Planted(between("cern", "slac"), 0.0, delay_ms=60.0)], 100.0)
    for days in range(1, 8):
        hour(paths["cern → slac"], 3000, 3000, 80.0, hour=start_of("hour", ONSET) - timedelta(days=days))
    rules, follower = scope_now(), Follower()
    for until_s in (-10, 30, 60, 90):
        copy_rows([row for row in rows if row.measured_at < at(until_s)])
        rows = [row for row in rows if row.measured_at >= at(until_s)]
        evaluate(at(until_s), scope=rules, follower=follower)

    stored = {of.path_id: of.condition for of in PathTrack.objects.filter(signal=Signal.RTT)}
    assert stored[paths["slac → cern"].pk] == Condition.SUSPECT
    assert stored[paths["cern → slac"].pk] == Condition.NORMAL


def test_another_process_goes_on_with_what_is_stored(monkeypatch):
    mesh, of = pinged_mesh(), {}
    of[mesh.slac_cern.pk] = LIMIT
    answered, lost = (20.0,) * 10, (20.0, None) * 5
    deliver(mesh, 1, range(30), answered, 1)
    Follower().follow(HOUR + timedelta(minutes=30), TrackLimits(of))
    # What the first process has read is not read again.
    Burst.objects.filter(measured_at__lt=HOUR + timedelta(minutes=29)).delete()
    deliver(mesh, 40, [30, 31, 32], lost, 2)
    Follower().follow(HOUR + timedelta(minutes=33), TrackLimits(of))

    [track] = [track for track in tracks() if track.path_id == mesh.slac_cern.pk]
    assert track.condition is Condition.BAD
    clean, lossy = track.segments
    assert (clean.since.at_s, clean.lost.sent) == (HOUR.timestamp(), 300)
    assert lossy.lost.sent == 30
