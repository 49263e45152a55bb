"""The rules on RTT and jitter in each direction of paths with STAMP tests: steps of the network, of clocks, of both."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from monitor.alerts.detect import rtt_progress
from monitor.alerts.evaluate import Evaluation, evaluate
from monitor.alerts.evidence import words
from monitor.alerts.evidence.gather import gather_due
from monitor.alerts.incidents import levels, lifecycle, queries
from monitor.alerts.incidents.own_track import is_normal_again, normal_since
from monitor.alerts.models import Incident, JudgedDelays
from monitor.archive.models import DirectionBurst
from monitor.mesh import models
from monitor.mesh.models import KindName, Measurement
from monitor.present import read
from monitor.present.conditions import Condition
from monitor.present.models import PathTrack
from monitor.present.track import Signal
from tests.db.alert_rows import make_bursts, make_mesh
from tests.db.track_rows import delay, store_delays
from tests.facts import lacks

NOW = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
AFTER = 14
"""Cycles of a new level that prove a change."""
CLOCKS_MS = 5000.0
"""By so much the far clock is ahead."""

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def confirmed_at_once(monkeypatch):
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)


def path_with_stamp(**rules):
    """A path with pings, which all take 20 ms, and STAMP tests."""
    paths = make_mesh(["slac", "cern"], NOW - timedelta(days=40), **rules)
    test = models.Test.objects.create(
        name="oneway", kind=KindName.STAMP, every_s=60, parameters={"count": 10, "packet_bytes": 200}
    )
    for path in paths.values():
        Measurement.objects.create(path=path, test=test, started_at=NOW - timedelta(days=40))
        make_bursts(path, [0] * 120, NOW - 90 * MINUTE)
    path = paths["slac → cern"]
    rtt_progress.write({path.pk: (NOW - AFTER * MINUTE - MINUTE).timestamp()}, JudgedDelays)
    return path


def delays(path, forward_ms, reverse_ms, since, count, *, seed=1, bound_ms=None, jitter_ms=(0.1, 0.1), queue_ms=0.0):
    """STAMP cycles with these median delays; packets of a cycle wait alike on the way back, `queue_ms` on average. The
    clocks claim a bound of their offset, or none."""
    random = np.random.default_rng(seed)
    waits_ms = random.exponential(queue_ms, count) if queue_ms else np.zeros(count)
    noise_ms = random.exponential(0.1, (count, 2))
    lo_ms, hi_ms = (None, None) if bound_ms is None else (CLOCKS_MS - bound_ms, CLOCKS_MS + bound_ms)
    ahead = (forward_ms + CLOCKS_MS + noise_ms[:, 0]).tolist()
    back = (reverse_ms - CLOCKS_MS + noise_ms[:, 1] + waits_ms).tolist()
    DirectionBurst.objects.bulk_create(
        DirectionBurst(
            path_id=path.pk, measured_at=since + number * MINUTE, packet_bytes=200, test="oneway", outcome="measured",
            during_test=False, sent=10, received=10, undecided=0, dscp=0, forward_lost=0, reverse_lost=0,
            forward_min_ms=forward - 0.2, forward_median_ms=forward, forward_ipdv_ms=jitter_ms[0],
            reverse_min_ms=reverse - 0.2, reverse_median_ms=reverse, reverse_ipdv_ms=jitter_ms[1],
            offset_lo_ms=lo_ms, offset_hi_ms=hi_ms,
        )
        for number, (forward, reverse) in enumerate(zip(ahead, back, strict=True))
    )  # fmt: skip


def before_and_after(path, forward_ms, reverse_ms, **options):
    """An hour of 10 ms each way, then a new level of as many cycles as prove it."""
    delays(path, 10.0, 10.0, NOW - 60 * MINUTE - AFTER * MINUTE, 60, **options)
    delays(path, forward_ms, reverse_ms, NOW - AFTER * MINUTE, AFTER, **{**options, "seed": 2})


@pytest.mark.parametrize(
    ("delays_ms", "direction", "ends"),
    [((22.0, 10.0), "forward", ("slac", "cern")), ((10.0, 22.0), "reverse", ("cern", "slac"))],
    ids=["forward", "reverse"],
)
def test_a_step_one_way_is_an_incident_of_this_way(delays_ms, direction, ends):
    path = path_with_stamp(rtt={})
    before_and_after(path, *delays_ms)

    assert evaluate(NOW).opened == 1

    row = Incident.objects.get().paths.get()
    figures = row.figures
    assert (row.rule, figures["direction"], row.since) == ("rtt", direction, NOW - AFTER * MINUTE)
    assert figures["rise_ms"] == pytest.approx(12.0, abs=0.3)
    # Both ways of the STAMP packets together, without the clocks.
    assert (figures["before_ms"], figures["after_ms"]) == pytest.approx((20.2, 32.2), abs=0.3)
    assert lacks(row.sentence, f"one way, {ends[0]} → {ends[1]} by STAMP: delay +1", "RTT 32", "longer route") == []

    gather_due(NOW)
    evaluate(NOW + timedelta(seconds=10))
    incident = queries.incident_with_paths(row.incident_id)
    assert (incident.toward, incident.toward_by) == (f"{ends[0]} → {ends[1]}", "STAMP")
    assert lacks(words.headline(incident), f"{ends[0]} → {ends[1]}", "RTT 32.", "was 20.") == []


@pytest.mark.parametrize("bound_ms", [None, 0.5], ids=["no bounds", "wrong bounds"])
@pytest.mark.parametrize("step_ms", [3.0, 20.0, 400.0, -20.0])
def test_a_step_of_a_clock_never_alarms(step_ms, bound_ms):
    path = path_with_stamp(rtt={}, jitter={})
    before_and_after(path, 10.0 + step_ms, 10.0 - step_ms, bound_ms=bound_ms)

    assert evaluate(NOW) == Evaluation(opened=0, closed=0)


def test_a_drift_of_a_clock_never_alarms():
    path = path_with_stamp(rtt={})
    for number in range(74):
        delays(path, 10.0 + 3.0 * number, 10.0 - 3.0 * number, NOW - (74 - number) * MINUTE, 1, seed=number)

    assert evaluate(NOW).opened == 0


def test_a_step_both_ways_is_left_to_the_round_trips():
    path = path_with_stamp(rtt={})
    before_and_after(path, 22.0, 22.0)

    assert evaluate(NOW).opened == 0


def test_bounds_of_the_clocks_show_a_step_beside_a_queue_of_the_other_way():
    path = path_with_stamp(rtt={})
    before_and_after(path, 30.0, 10.0, queue_ms=6.0, bound_ms=2.0)

    assert evaluate(NOW).opened == 1
    assert Incident.objects.get().paths.get().figures["direction"] == "forward"


def test_without_bounds_such_a_step_might_be_that_of_a_clock():
    path = path_with_stamp(rtt={})
    before_and_after(path, 20.0, 10.0, queue_ms=10.0)

    assert evaluate(NOW).opened == 0


def test_a_finding_of_a_way_ends_with_its_rise():
    path = path_with_stamp(rtt={})
    before_and_after(path, 22.0, 10.0)
    evaluate(NOW)
    delays(path, 22.0, 10.0, NOW, 2)
    assert evaluate(NOW + 2 * MINUTE).closed == 0

    delays(path, 10.0, 10.0, NOW + 2 * MINUTE, AFTER)
    assert evaluate(NOW + (2 + AFTER) * MINUTE).closed == 1
    assert lacks(Incident.objects.get().closing, "slac → cern by STAMP: RTT 20.", "again") == []


def test_a_rise_of_a_way_that_pings_show_is_over_with_theirs():
    path = path_with_stamp(rtt={})
    before_and_after(path, 22.0, 10.0)
    evaluate(NOW)
    PathTrack.objects.filter(path=path, signal=Signal.RTT).delete()
    begun_s = NOW.timestamp() - 60.0 * AFTER
    store_delays(path, Condition.NORMAL, *(delay(at, begun_s + 300.0 * at) for at in (0, 1)), delay(0, begun_s + 600.0))
    PathTrack.objects.filter(path=path, signal=Signal.RTT).update(newest_at=NOW)
    row = Incident.objects.get().paths.get()
    assert not is_normal_again(row)

    levels.update_levels(queries.lasting_incidents(), read.load([path.pk]), None, {})  # only tests need a snapshot

    assert normal_since(Incident.objects.get().paths.get()) == datetime.fromtimestamp(begun_s + 600.0, UTC)


def test_each_cycle_is_judged_once():
    path = path_with_stamp(rtt={})
    before_and_after(path, 22.0, 10.0)
    evaluate(NOW)

    assert rtt_progress.read(JudgedDelays) == {path.pk: (NOW - MINUTE).timestamp()}
    Incident.objects.all().delete()
    assert evaluate(NOW + timedelta(seconds=10)).opened == 0


def test_jitter_one_way_is_that_of_this_way():
    path = path_with_stamp(jitter={})
    delays(path, 10.0, 10.0, NOW - 60 * MINUTE - AFTER * MINUTE, 60)
    delays(path, 10.0, 10.0, NOW - AFTER * MINUTE, AFTER, jitter_ms=(0.1, 15.0))

    assert evaluate(NOW).opened == 1
    row = Incident.objects.get().paths.get()
    assert (row.rule, row.figures["direction"]) == ("jitter", "reverse")
    assert row.figures["after_ms"] == pytest.approx(15.0)


def test_of_two_tests_that_with_the_smallest_packets_is_judged():
    """Large packets take 30 ms more; both tests run in each minute."""
    path = path_with_stamp(rtt={})
    delays(path, 10.0, 10.0, NOW - 74 * MINUTE, 74)
    rows = DirectionBurst.objects.filter(path_id=path.pk)
    DirectionBurst.objects.bulk_create(
        DirectionBurst(**{
            **{field.attname: getattr(row, field.attname) for field in DirectionBurst._meta.concrete_fields},
            "packet_bytes": 1400, "test": "large", "forward_median_ms": row.forward_median_ms + 30.0,
        })
        for row in rows if row.measured_at >= NOW - AFTER * MINUTE
    )  # fmt: skip

    assert evaluate(NOW).opened == 0
