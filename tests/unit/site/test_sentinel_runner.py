"""The agent's sentinels: which paths get them, within limits and budget; and the packets left for traces."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace

import msgspec
import pytest

from probes.contract import Outcome
from probes.kinds import KINDS
from probes.packets.spec import Burst, PingSpec, PingTarget
from probes.ping.spec import PingTask
from probes.site.limits.limits import Limits
from probes.site.runner.permit import Permit
from probes.site.runner.sentinels import Sentinels
from probes.site.runner.trace_budget import FORGET_S, TraceBudget, echo_requests_per_hour
from probes.site.runner.triggered_traces import RttSteps
from probes.site.spool.blocks import figures_of
from probes.site.wire import Delivered
from probes.trace.kind import KIND
from probes.trace.limits import TraceLimits
from probes.trace.spec import TraceReason, TraceSpec, TraceTarget, TraceTask

NOW = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
TASK = TraceTask(
    test="routes",
    every_s=600,
    spec=TraceSpec(targets=tuple(TraceTarget(address=f"198.18.0.{n}", path_id=n) for n in (1, 2, 3))),
)
LIMITS = Limits()


def burst(path_id: int, *, received: int = 10, rtt_ms: float = 20.0) -> Delivered:
    result = Burst(
        target="198.18.0.1",
        address="198.18.0.1",
        family=4,
        packet_bytes=100,
        started_at=NOW,
        outcome=Outcome.MEASURED,
        sent=10,
        received=received,
        rtts_ms=tuple(rtt_ms if place < received else None for place in range(10)),
        ttl=57,
    )
    return Delivered(sequence=0, path_id=path_id, test="pinger", result=result)


class Site:
    """Sentinels whose sends stand in `sent`; those to `changed` addresses tell of a change."""

    def __init__(self, limits: Limits = LIMITS, task: TraceTask = TASK, planned_per_hour: float = 0.0) -> None:
        self.sent: list[tuple[list[int | None], int]] = []
        self.requested: list[tuple[list[int], TraceReason]] = []
        self.changed: set[int] = set()
        self.packets = 0
        self.now_s = 0.0
        self.budget = TraceBudget(lambda: self.packets, lambda: planned_per_hour, now_s=lambda: self.now_s)
        plan = SimpleNamespace(of=lambda kind: (task,) if kind.name == "trace" else ())
        self.sentinels = Sentinels(
            self.send,
            Permit(limits, now=lambda: NOW),
            lambda: plan,
            self.budget,
            lambda paths, reason: self.requested.append((list(paths), reason)),
        )
        # The test runs them itself.
        self.sentinels._thread = SimpleNamespace()

    def send(self, spec, deadline, most_packets):
        paths = [target.path_id for target in spec.targets]
        self.sent.append((paths, most_packets))
        self.packets += min(2 * len(paths), most_packets)
        return tuple(index for index, path_id in enumerate(paths) if path_id in self.changed)

    def cycle(self, *bursts: Delivered) -> None:
        self.sentinels.note(bursts)
        self.sentinels.send_waiting()


@pytest.fixture
def any_network(monkeypatch):
    monkeypatch.setattr(Limits, "forbids_address", lambda self, address: None)


@pytest.mark.usefixtures("any_network")
def test_a_changed_route_is_traced_after_the_cycle_of_pings():
    site = Site()
    site.changed = {2}
    site.cycle(*[burst(path_id) for path_id in (1, 2, 3)] * 2)

    assert [paths for paths, _ in site.sent] == [[1, 2, 3]]
    assert site.requested == [([2], TraceReason.SENTINEL)]


@pytest.mark.usefixtures("any_network")
def test_only_paths_that_reply_and_are_traced_get_sentinels():
    site = Site()
    site.cycle(*[burst(1)] * 9, burst(2, received=0), burst(99))

    assert [paths for paths, _ in site.sent] == [[1]]


@pytest.mark.usefixtures("any_network")
def test_traces_over_udp_have_no_sentinels():
    spec = msgspec.structs.replace(TASK.spec, protocol="udp")
    site = Site(task=msgspec.structs.replace(TASK, spec=spec))
    site.cycle(*[burst(1)] * 9)

    assert site.sent == []


def test_the_limits_of_the_site_hold_for_sentinels():
    private = TraceSpec(targets=(TraceTarget(address="10.0.0.1", path_id=1),))
    site = Site(task=msgspec.structs.replace(TASK, spec=private))
    site.cycle(*[burst(1)] * 9)

    assert site.sent == []


@pytest.mark.usefixtures("any_network")
def test_traces_switched_off_switch_off_sentinels():
    site = Site(Limits(trace=TraceLimits(max_packets_per_s=0)))
    site.cycle(*[burst(1)] * 9)

    assert site.sent == []


@pytest.mark.usefixtures("any_network")
def test_traces_and_sentinels_stay_below_15_percent_of_the_pings():
    """The default mesh: 20 pings to a path every minute and traces every 10 minutes, of 12 hops with 3 attempts."""
    site, pings = Site(), 0
    for minute in range(1, 24 * 60):
        site.now_s += 60
        site.cycle(*[burst(path_id) for path_id in (1, 2, 3)] * 2)
        pings += 3 * 2 * 10
        if minute % 10 == 0:
            task = site.budget.within(KIND, TASK)
            assert isinstance(task, TraceTask)
            site.packets += 3 * max(12, min(36, task.spec.max_packets or 0))

    assert 0.12 < site.packets / pings <= 0.15
    assert len(site.sent) > 0.7 * 24 * 60


@pytest.mark.usefixtures("any_network")
def test_sentinels_begin_with_the_first_cycle_and_stay_below_15_percent_of_an_hour():
    """As above, with an agent that traces all paths before its first pings."""
    site, pings, begun_at = Site(planned_per_hour=3 * 2 * 10 * 60.0), 0, None
    for minute in range(60):
        if minute % 10 == 0:
            task = site.budget.within(KIND, TASK)
            assert isinstance(task, TraceTask)
            most = 0 if task.spec.max_packets is None else task.spec.max_packets
            site.packets += 3 * max(12, min(36, most))
        site.cycle(*[burst(path_id) for path_id in (1, 2, 3)] * 2)
        pings += 3 * 2 * 10
        begun_at = minute if site.sent and begun_at is None else begun_at
        site.now_s += 60

    assert begun_at == 0
    assert 0.10 < site.packets / pings <= 0.15


def test_the_requests_of_an_hour_are_those_of_all_tests():
    targets = (PingTarget(address="198.18.0.1"), PingTarget(address="198.18.0.2"))
    often = PingTask(test="often", every_s=60, spec=PingSpec(targets=targets, count=10, priming_bytes=None))
    seldom = PingTask(test="seldom", every_s=600, spec=PingSpec(targets=targets[:1], packet_bytes=(100,), count=4))
    plan = SimpleNamespace(of=lambda kind: (often, seldom) if kind.name == "ping" else ())

    assert echo_requests_per_hour(plan) == 2 * 20 * 60 + 5 * 6
    assert echo_requests_per_hour(None) == 0


def test_a_debt_is_forgotten_in_time_and_never_negative():
    site = Site()
    site.budget.note_pings(100)
    site.packets = 10_000

    assert site.budget.left() == 0
    site.now_s += 20 * FORGET_S
    site.budget.note_pings(1000)
    assert site.budget.left() == 149


def test_a_site_without_pings_traces_with_all_attempts():
    site = Site()

    assert site.budget.within(KIND, TASK) is TASK
    site.budget.note_pings(100)
    assert site.budget.within(KIND, TASK).spec.max_packets == 15 // 3


def test_other_kinds_have_no_budget():
    site = Site()
    site.budget.note_pings(100)
    task = PingTask(test="pinger", every_s=60, spec=None)

    assert site.budget.within(KINDS["ping"], task) is task


def stepped(*rtts_ms: float) -> list[int]:
    """The places in a series of bursts at which a step is found."""
    steps = RttSteps()
    return [place for place, rtt_ms in enumerate(rtts_ms) if steps.paths(figures_of([burst(1, rtt_ms=rtt_ms)]))]


@pytest.mark.parametrize("after", [26.0, 14.0])
def test_a_step_is_found_at_its_second_burst_and_once(after):
    assert stepped(*[20.0] * 10, *[after] * 30) == [11]


@pytest.mark.parametrize(
    "series",
    [
        [20.0] * 40,
        [*[20.0] * 10, 80.0, *[20.0] * 20],  # a single burst
        [20.0 + 3 * (place % 4) for place in range(60)],  # noise
        [*[20.0] * 10, *[20.5] * 20],  # below a millisecond
        [20.0, 20.0, 20.0, 90.0, 90.0, 90.0],  # too little known before
    ],
    ids=["none", "single", "noise", "small", "early"],
)
def test_noise_is_no_step_of_the_rtt(series):
    assert stepped(*series) == []


def test_a_step_back_is_a_step():
    assert stepped(*[20.0] * 8, *[60.0] * 8, *[20.0] * 8) == [9, 17]
