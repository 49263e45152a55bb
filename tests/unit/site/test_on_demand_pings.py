"""On-demand pings of an agent: within the limits, reported while they run; with fake probes in place of the network."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from probes.contract import Outcome
from probes.packets.engine.packet_outcomes import PacketTable, SendPattern
from probes.packets.spec import Burst, PingSpec, PingTarget
from probes.ping.limits import PingLimits
from probes.ping.live import live_replies
from probes.ping.spec import PingTask
from probes.site.delivery.centre import CentreError
from probes.site.limits.limits import Limits
from probes.site.limits.networks import Networks
from probes.site.runner import on_demand_pings
from probes.site.runner.on_demand_pings import OnDemandPings
from probes.site.runner.own_tests import OwnTests
from probes.site.runner.permit import Permit
from probes.site.wire import OnDemandPing
from tests.facts import lacks

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
MS = 1_000_000
REQUEST = OnDemandPing(run_id=7, path_id=3, address="192.0.2.1", family=4, begin_by=NOW + timedelta(seconds=30))


def so_far(sent, replies_ms, now_ms, spacing_ms=200):
    """Results of a session that has sent `sent` requests, those of `replies_ms` answered, at `now_ms`."""
    table = PacketTable(1, SendPattern((100,), 20, spacing_ms / 1000, 2.0))
    table.next = sent
    for number in range(sent):
        table.called_ns[number] = (1 + number * spacing_ms) * MS
    for number, rtt_ms in replies_ms.items():
        table.replies[number] = 1
        table.arrived_ns[number] = table.called_ns[number] + rtt_ms * MS
    return live_replies(table.results(np.zeros(1, np.int64), 2000 * MS, 0), 2.0, now_ms * MS)


def test_a_reply_is_shown_before_an_earlier_request_times_out():
    replies = so_far(3, {0: 12, 2: 13}, now_ms=450)

    assert (replies.rtts_ms, replies.awaited) == ((12.0, None, 13.0), (1,))


def test_a_request_is_lost_once_its_timeout_has_passed():
    replies = so_far(3, {0: 12, 2: 13}, now_ms=2300)

    assert (replies.rtts_ms, replies.awaited) == ((12.0, None, 13.0), ())


class Probe:
    """Answers every request; tells `progress` first."""

    def __init__(self):
        self.specs: list[PingSpec] = []

    def can_run(self, spec):
        return []

    def run(self, spec, deadline, load_periods, progress):
        self.specs.append(spec)
        (target,) = spec.targets
        return (
            Burst(
                target=target.address,
                address=target.address,
                family=4,
                packet_bytes=100,
                started_at=NOW,
                outcome=Outcome.MEASURED,
                sent=2,
                received=1,
                rtts_ms=(5.0, None),
            ),
        )


@pytest.fixture
def probe(monkeypatch):
    monkeypatch.setattr("probes.packets.burst.PING", probe := Probe())
    return probe


def run(limits=None, planned=(), send=None, now=NOW):
    reports = []
    limits = Limits() if limits is None else limits
    pings = OnDemandPings(Permit(limits), OwnTests(), send or reports.append, now=lambda: now)
    pings.run(REQUEST, planned)
    return reports


def test_the_last_report_has_the_rtts_and_an_outcome(probe):
    last = run()[-1]

    assert (last.run_id, last.rtts_ms, last.outcome, last.awaited) == (7, (5.0, None), Outcome.MEASURED, ())
    (spec,) = probe.specs
    assert (spec.count, spec.spacing_s, spec.packet_bytes, spec.check_rate_limit) == (20, 0.2, (100,), False)


@pytest.mark.parametrize(
    ("limits", "rule"),
    [
        (Limits(networks=Networks(forbidden=("192.0.2.0/24",))), "networks.forbidden"),
        (Limits(ping=PingLimits(min_spacing_s=0.5)), "ping.min_spacing_s"),
        (Limits(ping=PingLimits(max_packets_per_s=4)), "ping.max_packets_per_s"),
    ],
)
def test_a_limit_of_the_site_forbids_them_with_its_rule(probe, limits, rule):
    (last,) = run(limits)

    assert (last.outcome, probe.specs) == (Outcome.NOT_PERMITTED, [])
    assert last.detail.startswith(rule)


def scheduled(spacing_s):
    spec = PingSpec(targets=(PingTarget(address="192.0.2.1", path_id=3),), spacing_s=spacing_s)
    return PingTask(test="pinger", every_s=60, spec=spec)


def test_they_leave_room_for_the_scheduled_pings(probe):
    """5 requests a second beside 5 keep the spacing of 0.1 s, beside 10 they would not: a cycle would be refused."""
    assert run(planned=(scheduled(0.2),))[-1].outcome is Outcome.MEASURED

    (last,) = run(planned=(scheduled(0.1),))

    assert last.outcome is Outcome.NOT_PERMITTED
    assert lacks(last.detail, "ping.min_spacing_s", "scheduled pings included") == []


def test_a_request_that_comes_too_late_is_not_run(probe):
    assert run(now=REQUEST.begin_by + timedelta(seconds=1)) == []
    assert probe.specs == []


def test_the_last_report_is_retried_until_the_centre_has_it(probe, monkeypatch):
    monkeypatch.setattr(on_demand_pings, "RETRY_S", 0.01)
    reports, failures = [], [CentreError("no answer")] * 4

    def send(report):
        if failures:
            raise failures.pop()
        reports.append(report)

    run(send=send)

    assert [report.outcome for report in reports] == [Outcome.MEASURED]


def test_a_report_that_the_centre_refuses_is_not_retried(probe, monkeypatch):
    monkeypatch.setattr(on_demand_pings, "RETRY_S", 60.0)
    reports = []

    def send(report):
        reports.append(report)
        raise CentreError("it is over", status=410)

    run(send=send)

    assert reports[-1].outcome is Outcome.MEASURED
