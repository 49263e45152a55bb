"""The reflector of an agent follows plan and limits; a cycle of the kind measures to it over loopback."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from probes.contract import Deadline, LoadedPeriods, NotPermitted, Outcome
from probes.kinds import KINDS
from probes.packets.egress import Egress
from probes.stamp import check
from probes.stamp.limits import StampLimits
from probes.stamp.probe import STAMP
from probes.stamp.reflector import service
from probes.stamp.reflector.arrivals import PeerArrivals
from probes.stamp.reflector.service import ReflectorService
from probes.stamp.spec import AnsweredPeer, ClockBound, ReflectorPlan, StampBurst, StampSpec, StampTarget, StampTask

KEY = "a2tra2tra2tra2tra2tra2tra2tra2tr"
OTHER_KEY = "eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4"


def free_port() -> int:
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
        probe.bind(("::", 0))
        port: int = probe.getsockname()[1]
        return port


class Agent:
    """A reflector service with a plan that the test changes."""

    def __init__(
        self, limits: StampLimits, forbids: Callable[[str], str | None], arrivals: PeerArrivals | None = None
    ) -> None:
        self.port = free_port()
        self.plan: ReflectorPlan | None = None
        self.service = ReflectorService(lambda: self.plan, limits, forbids, arrivals)

    def follow(self, plan: ReflectorPlan | None) -> None:
        self.plan = plan
        self.service.refresh()

    def peers(self, key: str | None = KEY) -> ReflectorPlan:
        return ReflectorPlan(
            peers=(AnsweredPeer(address="127.0.0.1", key=key), AnsweredPeer(address="::1", family=6, key=key)),
            port=self.port,
        )


@pytest.fixture
def make_agent() -> Iterator[Callable[..., Agent]]:
    agents: list[Agent] = []

    def make(
        *,
        forbids: Callable[[str], str | None] = lambda address: None,
        arrivals: PeerArrivals | None = None,
        **limits: Any,
    ) -> Agent:
        agents.append(Agent(StampLimits(**limits), forbids, arrivals))
        return agents[-1]

    yield make
    for agent in agents:
        agent.follow(None)


def cycle(port: int, key: str | None = KEY, **options: Any) -> tuple[StampBurst, ...]:
    """A cycle of the kind, as an agent runs it."""
    kind: Any = KINDS["stamp"]
    targets = (
        StampTarget(address="127.0.0.1", path_id=1, port=port, key=key),
        StampTarget(address="::1", family=6, path_id=2, port=port, key=key, is_path_series=True),
    )
    spec = StampSpec(targets=targets, **{"count": 3, "spacing_s": 0.02, "timeout_s": 0.3, "late_s": 0.0} | options)
    task = StampTask(test="way", every_s=60, spec=spec)
    limits = SimpleNamespace(stamp=StampLimits(min_spacing_s=0.01))
    planned = kind.spec(task, kind.targets(task), limits)
    bursts: tuple[StampBurst, ...] = kind.run(kind.probe(), planned, Deadline(kind.longest_s(planned)), LoadedPeriods)
    return bursts


@pytest.mark.parametrize("pattern", [msgspec.UNSET, "even"])
def test_a_cycle_measures_to_the_reflector_of_an_agent(make_agent: Callable[..., Agent], pattern: Any) -> None:
    agent = make_agent()
    agent.follow(agent.peers())

    four, six = cycle(agent.port, pattern=pattern)

    for burst in (four, six):
        assert (burst.outcome, burst.sent, burst.received) == (Outcome.MEASURED, 3, 3)
        assert (burst.forward.lost, burst.reverse.lost, burst.undecided) == (0, 0, 0)
        assert burst.is_authenticated
        assert burst.packet_bytes == 200
    assert (four.is_path_series, six.is_path_series) == (False, True)
    assert (four.source_address, six.source_address) == ("127.0.0.1", "::1")
    assert (six.path_burst.rtts_ms, six.path_burst.source_address) == (six.rtts_ms, "::1")


def test_cycles_tell_the_packets_of_the_far_end_since_the_one_before(make_agent: Callable[..., Agent]) -> None:
    """Both ends are this host: what it sends arrives at its own reflector."""
    agent = make_agent(arrivals=STAMP.arrivals)
    before, _ = cycle(agent.port)
    agent.follow(agent.peers())

    first, _ = cycle(agent.port)
    counted = [cycle(agent.port) for _ in range(2)]
    with_wrong_key = [cycle(agent.port, OTHER_KEY)[0] for _ in range(2)]
    agent.follow(None)
    afterwards, _ = cycle(agent.port)

    assert (before.peer_packets, first.peer_packets, afterwards.peer_packets) == (None, None, None)
    # On a busy machine the reflector may count a packet after the cycle that sent it.
    for family in zip(*counted, strict=True):
        assert sum(burst.peer_packets or 0 for burst in family) >= 3
    assert with_wrong_key[-1].peer_packets == 0


def test_a_reader_of_arrivals_has_those_since_it_asked_last() -> None:
    arrivals, counts = PeerArrivals(), {b"\x7f\0\0\1": 4}

    assert arrivals.since_last("a", ["127.0.0.1"]) == {}
    arrivals.begin(counts)
    assert arrivals.since_last("a", ["127.0.0.1", "192.0.2.1", "::1"]) == {}
    counts[b"\x7f\0\0\1"] = 9
    assert arrivals.since_last("b", ["127.0.0.1"]) == {}
    assert arrivals.since_last("a", ["127.0.0.1"]) == {"127.0.0.1": 5}
    assert arrivals.since_last("a", ["127.0.0.1"]) == {"127.0.0.1": 0}


def test_the_reflector_takes_up_a_new_key_and_ends_without_peers(make_agent: Callable[..., Agent]) -> None:
    agent = make_agent()
    agent.follow(agent.peers())
    agent.follow(agent.peers(OTHER_KEY))

    with_old_key, _ = cycle(agent.port)
    with_new_key, _ = cycle(agent.port, OTHER_KEY)
    agent.follow(None)
    afterwards, _ = cycle(agent.port)

    assert (with_old_key.received, with_old_key.undecided) == (0, 3)
    assert with_new_key.received == 3
    assert afterwards.outcome is Outcome.REFUSED


def test_a_cycle_in_which_the_reflector_starts_is_no_measurement(make_agent: Callable[..., Agent]) -> None:
    """Nobody knows whether a packet without a reply came too early or was lost."""
    agent = make_agent()
    bursts: list[StampBurst] = []
    measuring = threading.Thread(target=lambda: bursts.extend(cycle(agent.port, count=100, spacing_s=0.05)))
    measuring.start()
    time.sleep(1.0)
    agent.follow(agent.peers())
    measuring.join()

    for burst in bursts:
        assert burst.outcome is Outcome.REFUSED
        assert burst.detail is not None
        assert "started or stopped within the cycle" in burst.detail
    assert len(bursts) == 2


def test_limits_can_forbid_the_reflector(make_agent: Callable[..., Agent]) -> None:
    agent = make_agent(reflect=False, peers=("127.0.0.0/8",))
    agent.follow(agent.peers())

    assert cycle(agent.port)[0].outcome is Outcome.REFUSED


def test_a_peer_that_limits_forbid_is_not_answered(make_agent: Callable[..., Agent]) -> None:
    agent = make_agent(forbids=lambda address: "networks.forbidden" if ":" in address else None)
    agent.follow(agent.peers())

    four, six = cycle(agent.port)

    assert (four.received, six.received) == (3, 0)


def test_a_port_that_cannot_be_opened_is_told_and_tried_again(
    make_agent: Callable[..., Agent], monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = make_agent()
    opened = service.open_channels

    def refuse(port: int, egress: Egress, *, shares_port: bool) -> None:
        raise NotPermitted("no permission to open UDP port 862")

    monkeypatch.setattr(service, "open_channels", refuse)
    agent.follow(agent.peers())
    refused = agent.service.problem
    monkeypatch.setattr(service, "open_channels", opened)
    agent.follow(agent.plan)

    assert refused == "no permission to open UDP port 862"
    assert agent.service.problem is None
    assert cycle(agent.port)[0].received == 3


def test_a_missing_namespace_keeps_only_its_own_reflector_from_running(make_agent: Callable[..., Agent]) -> None:
    agent = make_agent()
    elsewhere = AnsweredPeer(address="192.0.2.1", key=KEY, egress=Egress(namespace="nonesuch"))
    agent.follow(msgspec.structs.replace(agent.peers(), peers=(*agent.peers().peers, elsewhere)))

    assert "no network namespace 'nonesuch'" in str(agent.service.problem)
    assert cycle(agent.port)[0].received == 3


TASK = StampTask(test="way", every_s=60, spec=StampSpec(targets=()))


@pytest.mark.parametrize(("error_ms", "is_good"), [(0.5, True), (None, False)])
def test_doctor_tells_the_state_of_the_clock(
    error_ms: float | None, is_good: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound = ClockBound(is_synchronised=error_ms is not None, error_ms=error_ms, source="kernel")
    monkeypatch.setattr(check, "own_clock", lambda: bound)

    (clock,) = check.check_stamp(StampLimits(reflect=False), [TASK])

    assert (clock.check, clock.is_good) == ("clock", is_good)


def test_doctor_is_silent_without_stamp_tests() -> None:
    assert list(check.check_stamp(StampLimits(), [])) == []


@pytest.mark.parametrize("is_taken", [False, True])
def test_doctor_checks_the_port_of_the_plan(is_taken: bool) -> None:
    plan = ReflectorPlan(peers=(AnsweredPeer(address="192.0.2.1"),), port=free_port())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        if is_taken:
            other.bind(("", plan.port))
        (port,) = check.check_reflector(StampLimits(), plan)

    assert (port.check, port.is_good) == (f"UDP port {plan.port}", True)
    assert ("in use" if is_taken else "free") in port.detail
    assert list(check.check_reflector(StampLimits(reflect=False), plan)) == []
    assert list(check.check_reflector(StampLimits(), None)) == []


def test_limits_forbid_a_rate_that_is_too_high() -> None:
    limits = StampLimits(min_spacing_s=0.1, max_packets_per_s=25)
    addresses = ["192.0.2.1", "192.0.2.2", "192.0.2.3"]

    fast = limits.forbids_targets(StampSpec(targets=(), spacing_s=0.05), addresses, 0)
    many = limits.forbids_targets(StampSpec(targets=(), spacing_s=0.1), addresses, 0)

    assert all(rule is not None and rule.startswith("stamp.min_spacing_s") for rule in fast)
    assert [rule is None for rule in many] == [True, True, False]
