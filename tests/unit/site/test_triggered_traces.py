"""Occasions on which the agent traces a path at once."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from probes.contract import Outcome
from probes.packets.spec import Burst
from probes.site.limits.limits import Limits
from probes.site.runner.cycle import Cycles
from probes.site.runner.own_tests import OwnTests
from probes.site.runner.permit import Permit
from probes.site.runner.triggered_traces import QUIET_S, TriggeredTraces
from probes.site.spool.spool import Spool
from probes.site.wire import Delivered
from probes.trace import kind as trace
from probes.trace.spec import TraceReason, TraceRun, TraceSpec, TraceTarget, TraceTask
from tests.unit.site.test_spool import next_batch

NOW = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
TASK = TraceTask(
    test="routes",
    every_s=600,
    spec=TraceSpec(targets=tuple(TraceTarget(address=f"192.0.2.{n}", path_id=n) for n in (1, 2, 3))),
)
PLAN = SimpleNamespace(of=lambda kind: (TASK,) if kind.name == "trace" else ())


class Recorder:
    """Traces with a clock of the test, on which `traced` has the paths and the reason of each round."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.traced: list[tuple[list[int], TraceReason]] = []
        self.over_flows: list[tuple[float, list[int]]] = []
        self.triggers = TriggeredTraces(self.trace_now, lambda: PLAN, now_s=lambda: self.now_s)
        # The test runs the requests itself.
        self.triggers._thread = SimpleNamespace()

    def trace_now(self, kind, task, targets, reason) -> None:
        path_ids = [target.path_id for target in targets]
        if task.spec.flows > 1:
            self.over_flows.append((self.now_s, path_ids))
        else:
            self.traced.append((path_ids, reason))

    def bursts(self, **ttls: int | None) -> None:
        self.triggers.note([burst(int(name.removeprefix("path")), ttl) for name, ttl in ttls.items()])
        self.triggers.trace_requested()


def burst(path_id: int, ttl: int | None, size: int = 100, rtt_ms: float | None = None) -> Delivered:
    result = Burst(
        target="192.0.2.1",
        address="192.0.2.1",
        family=4,
        packet_bytes=size,
        started_at=NOW,
        outcome=Outcome.MEASURED,
        ttl=ttl,
        rtts_ms=(rtt_ms,) * 10,
    )
    return Delivered(sequence=0, path_id=path_id, test="pinger", result=result)


@pytest.fixture
def recorder():
    return Recorder()


def test_a_change_of_the_replies_ttl_is_traced_at_once(recorder):
    recorder.bursts(path1=57, path2=50)
    recorder.bursts(path1=57, path2=49)

    assert recorder.traced == [([2], TraceReason.TTL_CHANGED)]


def test_total_loss_is_no_change_of_ttl(recorder):
    for ttl in (57, None, 57):
        recorder.bursts(path1=ttl)

    assert recorder.traced == []


def test_paths_that_change_together_are_traced_together(recorder):
    recorder.bursts(path1=57, path2=57, path3=57)
    recorder.bursts(path1=56, path2=57, path3=56)

    assert recorder.traced == [([1, 3], TraceReason.TTL_CHANGED)]


def test_a_flapping_path_is_traced_once_a_minute(recorder):
    for second in range(0, 600, 10):
        recorder.now_s = 1000.0 + second
        recorder.bursts(path1=57 - second // 10 % 2)

    assert 600 / QUIET_S - 1 <= len(recorder.traced) <= 600 / QUIET_S


@pytest.mark.parametrize(("role", "path_ids"), [("client", [3]), ("server", [2])])
def test_a_throughput_test_is_traced_from_both_ends(recorder, role, path_ids):
    recorder.triggers.note_slot(SimpleNamespace(role=role, path_id=3, spec=SimpleNamespace(source="192.0.2.2")))
    recorder.triggers.trace_requested()

    assert recorder.traced == [(path_ids, TraceReason.THROUGHPUT_TEST)]


def test_a_path_that_the_plan_does_not_trace_is_left_alone(recorder):
    recorder.triggers.request([99], TraceReason.TTL_CHANGED)
    recorder.triggers.trace_requested()

    assert recorder.traced == []


def test_requests_are_run_by_a_thread_of_their_own():
    recorder = Recorder()
    recorder.triggers._thread = None
    recorder.triggers.request([2], TraceReason.TTL_CHANGED)
    until_s = time.monotonic() + 20
    while not recorder.traced and time.monotonic() < until_s:
        time.sleep(0.02)

    assert recorder.traced == [([2], TraceReason.TTL_CHANGED)]


def test_every_path_is_traced_over_flows_once_a_day(recorder):
    for cycle in range(2 * 24 * 6):
        recorder.now_s = 1000.0 + 600 * cycle
        recorder.triggers.note_cycle(TASK)
        recorder.triggers.trace_requested()

    path_ids = [path_id for _, paths in recorder.over_flows for path_id in paths]
    assert sorted(path_ids) == [1, 1, 2, 2, 3, 3]
    # One path at a time, so that the rate stays low.
    assert all(len(paths) == 1 for _, paths in recorder.over_flows)


def test_a_change_is_traced_over_flows_once_an_hour(recorder):
    for minute in range(180):
        recorder.now_s = 1000.0 + 60 * minute
        recorder.bursts(path1=57 - minute % 2, path2=50)

    assert [paths for _, paths in recorder.over_flows] == [[1]] * 3
    assert len(recorder.traced) > 100


def test_an_incident_or_test_is_not_traced_over_flows(recorder):
    recorder.triggers.note_slot(SimpleNamespace(role="client", path_id=3, spec=SimpleNamespace(source="192.0.2.2")))
    recorder.triggers.trace_requested()

    assert recorder.over_flows == []


def test_a_step_of_the_rtt_is_traced_at_once(recorder):
    for rtt_ms in [20.0] * 10 + [35.0] * 3:
        recorder.triggers.note([burst(2, 57, rtt_ms=rtt_ms)])
        recorder.triggers.trace_requested()

    assert recorder.traced == [([2], TraceReason.RTT_STEP)]


class FakeProbe:
    def can_run(self, spec):
        return []

    def run(self, spec, deadline):
        return tuple(
            TraceRun(target=target.address, address=target.address, family=4, started_at=NOW, outcome=Outcome.MEASURED)
            for target in spec.targets
        )


def test_triggered_traces_are_spooled_with_their_reason(tmp_path):
    spool = Spool(tmp_path / "spool.sqlite3")
    kind = replace(trace.KIND, probe=FakeProbe)
    cycles = Cycles(spool, Permit(Limits()), OwnTests())

    cycles.run_besides(kind, TASK, trace.KIND.targets(TASK)[:2], TraceReason.TTL_CHANGED)

    results = next_batch(spool, max_results=10).results
    assert [(each.path_id, each.test, each.result.reason) for each in results] == [
        (1, "routes", TraceReason.TTL_CHANGED),
        (2, "routes", TraceReason.TTL_CHANGED),
    ]
    assert {each.cycle for each in results} == {None}
