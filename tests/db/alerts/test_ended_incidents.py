"""Statements about an incident while its fault lasts, after the fault has ended, and after it is resolved: the cause,
its figures, and a single duration. Faults of known length are planted as bursts and evaluated every minute."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from monitor.agents.models import AgentHealth
from monitor.alerts.evaluate import evaluate
from monitor.alerts.evidence import gather, words
from monitor.alerts.evidence.evidence import evidence
from monitor.alerts.evidence.stated import Fault
from monitor.alerts.evidence.ticket import ticket_text
from monitor.alerts.incidents import queries
from monitor.alerts.models import Incident
from monitor.archive.models import Burst, ThroughputTest
from monitor.archive.queries.operation.uptime import UptimeStep, incident_shares
from monitor.mesh.models import MeasurementPeriod, Site, Test
from tests.db.alert_rows import make_mesh
from tests.db.copied_rows import copy_rows
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_worker")]
ONSET = datetime(2026, 11, 21, 15, 6, 6, tzinfo=UTC)
SITES = ("cern", "slac", "ornl")
EVERY = timedelta(seconds=10)
MINUTE = timedelta(minutes=1)
SETTLED = timedelta(minutes=4)
LOSS = {"above_ratio": 0.01, "window_s": 600}
OUTAGE = timedelta(minutes=3, seconds=51)
BEFORE, AFTER = timedelta(minutes=30), timedelta(minutes=40)


@pytest.fixture
def paths():
    return make(SITES)


@pytest.fixture
def pair():
    return make(("cern", "slac"))


def make(sites):
    """A mesh of these sites that pings every 10 s."""
    paths = make_mesh(sites, ONSET - timedelta(days=2), unreachable={}, no_data={}, loss=LOSS, rtt={})
    Test.objects.update(every_s=10, parameters={"count": 10, "packet_bytes": [100]})
    MeasurementPeriod.objects.update(every_s=10, packet_bytes=[100])
    return paths


def plant(paths, burst_of):
    """Ten packets each 10 s on each path, at staggered times; `burst_of(path, seconds since the onset, number)` returns
    the lost packets and the RTT."""
    rows = []
    for place, (name, path) in enumerate(paths.items()):
        first = ONSET - BEFORE + timedelta(seconds=place % 10 + 0.5)
        for number in range(int((BEFORE + AFTER) / EVERY)):
            at = first + number * EVERY
            lost, rtt_ms = burst_of(name, (at - ONSET).total_seconds(), number)
            rtts = [None] * lost + [rtt_ms + 0.1 * (packet % 3) for packet in range(10 - lost)]
            rows.append(
                Burst(
                    path_id=path.pk, packet_bytes=100, measured_at=at, outcome="measured", sent=10, received=10 - lost,
                    duplicates=0, reordered=0, during_test=False, ttl=54, rtts_ms=rtts,
                )
            )  # fmt: skip
    copy_rows(rows)


@pytest.fixture
def by_minute(monkeypatch):
    """Evaluates every minute with the bursts that have arrived by then, and gathers the evidence: at each time with an
    incident the time, its state, and its evidence."""

    def run(until=AFTER, reporting=lambda now: SITES):
        rows = list(Burst.objects.order_by("measured_at"))
        Burst.objects.all().delete()
        seen, number, now = [], 0, ONSET - 2 * MINUTE
        while now < ONSET + until and not (seen and seen[-1][1].closed_at and now - seen[-1][1].closed_at > SETTLED):
            now += MINUTE
            arrived = [row for row in rows[number:] if row.measured_at < now - timedelta(seconds=2)]
            number += len(arrived)
            copy_rows(arrived)
            report(now, reporting(now))
            evaluate(now)
            gather.gather_due(now)
            for incident in Incident.objects.filter(is_pending=False):
                loaded = queries.incident_with_paths(incident.pk)
                seen.append((now, loaded, evidence(loaded, now)))
        return seen

    return run


def report(now, sites):
    for site in Site.objects.filter(name__in=sites):
        AgentHealth.objects.update_or_create(
            site=site,
            defaults={"accepted_at": now - timedelta(seconds=5), "agent_version": "1", "queued": 0, "dropped": 0},
        )


def test_an_outage_keeps_its_cause_after_recovery(paths, by_minute):
    plant(paths, lambda name, at_s, _: (10 if "cern" in name and 0 <= at_s < OUTAGE.total_seconds() else 0, 20.0))

    seen = by_minute()

    assert len({incident.pk for _, incident, _ in seen}) == 1
    assert seen[-1][1].closed_at is not None
    for now, _, found in seen:
        if now > ONSET + OUTAGE and found.gathered_at is not None:
            assert found.cause.fault is Fault.INTERRUPTED, now
            assert "100% loss of pings from both ends" in found.likely, (now, found.likely)
            assert "reverse direction works" not in found.likely
            for path in found.paths:
                assert path.there.after.loss_ratio > 0.95, now

    closed, found = seen[-1][1:]
    ended = ONSET + OUTAGE
    assert ended - EVERY <= closed.ended_at <= ended + EVERY
    duration = (closed.ended_at - words.since(closed)).total_seconds()
    assert words.lasted_s(closed, closed.closed_at + MINUTE) == duration == pytest.approx(231, abs=12)
    said = re.search(r"from 2026-11-21 (15:0[56]:\d\d) to (15:(?:09|10):\d\d) UTC", words.headline(closed))
    assert said, words.headline(closed)
    began, over = (datetime.fromisoformat(f"2026-11-21T{clock}Z") for clock in said.groups())
    assert (over - began).total_seconds() == pytest.approx(duration, abs=1.0)
    assert "Next step" not in ticket_text(closed, found)
    down_s = max(share.incident_s / share.paths for share in shares(closed.closed_at + MINUTE))
    assert down_s == pytest.approx(231, abs=20)


def shares(now):
    return incident_shares(UptimeStep.DAY, ONSET - timedelta(hours=15, minutes=6), now, now, {})


def test_a_site_that_was_down_is_still_called_that_after_its_return(paths, by_minute):
    is_down = lambda at_s: 0 <= at_s < 400  # noqa: E731
    plant(paths, lambda name, at_s, _: (10 if "cern" in name and is_down(at_s) else 0, 20.0))
    outbound = [path.pk for name, path in paths.items() if name.startswith("cern")]
    until = ONSET + timedelta(seconds=400)
    Burst.objects.filter(path_id__in=outbound, measured_at__gte=ONSET, measured_at__lt=until).delete()

    seen = by_minute(
        until=timedelta(minutes=12),
        reporting=lambda now: [site for site in SITES if site != "cern" or not is_down((now - ONSET).total_seconds())],
    )

    unreachable = [entry for entry in seen if any(row.rule == "unreachable" for row in entry[1].paths.all())]
    unreachable = [entry for entry in unreachable if entry[0] > until]
    assert unreachable
    named = [(now, found.likely) for now, _, found in unreachable if found.cause.fault is not Fault.SITE_DOWN]
    assert named == []


def test_the_loss_of_a_closed_incident_is_that_while_it_lasted(pair, by_minute):
    until_s = 600
    plant(pair, lambda name, at_s, n: (n % 3 if name == "slac → cern" and 0 <= at_s < until_s else 0, 20.0))

    seen = by_minute()

    closed, found = seen[-1][1:]
    assert closed.closed_at is not None
    assert {entry[2].cause.fault for entry in seen if entry[2].gathered_at is not None} == {Fault.LOSS}
    (path,) = found.paths
    there = next(side for side in (path.there, path.back) if side.name == "slac → cern").after
    assert there.loss_ratio == pytest.approx(0.1, abs=0.005)
    assert abs(closed.ended_at - ONSET - timedelta(seconds=until_s)) <= 3 * EVERY
    assert f"{there.lost} of {there.sent}" in found.likely


@pytest.mark.parametrize(("until_s", "peak_ms"), [(600, 0.0), (220, 20.0)])
def test_the_rise_of_the_rtt_is_that_while_it_lasted(pair, by_minute, until_s, peak_ms):
    """Also with a burst at a higher RTT two minutes before the onset."""
    usual_ms = lambda at_s: 20.0 + (peak_ms if -120 <= at_s < -110 else 0.0)  # noqa: E731
    plant(pair, lambda _, at_s, __: (0, 80.0 if 0 <= at_s < until_s else usual_ms(at_s)))

    seen = by_minute()

    closed, found = seen[-1][1:]
    assert closed.closed_at is not None
    assert {entry[2].cause.fault for entry in seen if entry[2].gathered_at is not None} == {Fault.ROUTE}
    assert found.paths[0].there.after.rtt_p95_ms == pytest.approx(80.1, abs=0.2)
    assert found.paths[0].there.after.rtt_min_ms == pytest.approx(80.0, abs=0.1)
    assert abs(closed.ended_at - ONSET - timedelta(seconds=until_s)) <= 2 * EVERY
    assert abs(found.began.at - ONSET) <= EVERY
    (path,) = found.paths
    for side in (path.there, path.back):
        assert abs(side.after.since - found.began.at) <= EVERY
    assert lacks(found.likely, "the minimum RTT rose by 60.0 ms, the median by 60.0 ms") == []


def test_tcp_tests_after_the_end_tell_nothing_of_the_direction(pair, by_minute):
    """Loss for ten minutes; a test of each direction before and a slow one of the reverse direction after it."""
    plant(pair, lambda name, at_s, n: (n % 3 if name == "slac → cern" and 0 <= at_s < 600 else 0, 20.0))
    tests = [("slac → cern", -600, 2.7e7), ("slac → cern", 300, 2.6e7)]
    tests += [("cern → slac", -500, 2.7e7), ("cern → slac", 660, 4e5)]
    ThroughputTest.objects.bulk_create(
        ThroughputTest(
            path_id=pair[name].pk, measured_at=ONSET + timedelta(seconds=at_s), duration_s=10, outcome="measured",
            throughput_bps=rate_bps, protocol="tcp", test="tcp", streams=1,
        )
        for name, at_s, rate_bps in tests
    )  # fmt: skip

    seen = by_minute()

    assert seen[-1][1].closed_at is not None
    for now, _, found in seen:
        if now > ONSET + 5 * MINUTE and found.gathered_at is not None:
            assert "400 kbit/s" not in found.likely, now
    said = ("slac → cern 26 Mbit/s (was 27 Mbit/s)", "no test of cern → slac while it lasted")
    assert lacks(seen[-1][2].likely, *said) == []
