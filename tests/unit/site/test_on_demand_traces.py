"""On-demand traces of an agent: all of a plan together, within the limits, delivered as results with their reason."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from probes.contract import Outcome
from probes.site.limits.limits import Limits
from probes.site.limits.networks import Networks
from probes.site.runner import on_demand_traces
from probes.site.runner.cycle import Cycles
from probes.site.runner.on_demand_traces import OnDemandTraces
from probes.site.runner.own_tests import OwnTests
from probes.site.runner.permit import Permit
from probes.site.spool.spool import Spool
from probes.site.wire import OnDemandTrace
from probes.trace.kind import KIND
from probes.trace.spec import Hop, TraceReason, TraceRun, TraceSpec, TraceTarget
from tests.unit.site.test_spool import next_batch

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


class Probe:
    """Reaches every target at the first hop."""

    def __init__(self):
        self.specs: list[TraceSpec] = []

    def can_run(self, spec):
        return []

    def run(self, spec, deadline):
        self.specs.append(spec)
        return tuple(
            TraceRun(
                target=target.address,
                address=target.address,
                family=4,
                started_at=NOW,
                outcome=Outcome.MEASURED,
                flow=1,
                reached=True,
                hops=(Hop(ttl=1, address=target.address, rtts_ms=(1.0,)),),
            )
            for target in spec.targets
        )


@pytest.fixture
def probe(monkeypatch):
    probe = Probe()
    monkeypatch.setattr(on_demand_traces, "KIND", replace(KIND, probe=lambda: probe))
    return probe


@pytest.fixture
def spool(tmp_path):
    return Spool(tmp_path / "spool.db")


def request(number, *, reason=TraceReason.ON_DEMAND, after_s=60, **settings):
    target = TraceTarget(address=f"192.0.2.{number}", path_id=number)
    return OnDemandTrace(
        run_id=number,
        reason=reason,
        begin_by=NOW + timedelta(seconds=after_s),
        spec=TraceSpec(targets=(target,), **settings),
    )


def run(spool, *requests, forbidden=()):
    limits = Limits(networks=Networks(forbidden=forbidden))
    cycles = Cycles(spool, Permit(limits), OwnTests())
    OnDemandTraces(cycles, now=lambda: NOW).run(requests)
    batch = next_batch(spool, max_results=1000)
    return [] if batch is None else sorted(batch.results, key=lambda delivered: delivered.path_id)


def test_traces_of_an_occasion_run_together(spool, probe):
    delivered = run(spool, *(request(number, reason=TraceReason.INCIDENT_OPENED) for number in (1, 2, 3)))

    (spec,) = probe.specs
    assert len(spec.targets) == 3
    assert [(result.path_id, result.test, result.result.reason) for result in delivered] == [
        (number, "on-demand", "incident_opened") for number in (1, 2, 3)
    ]
    assert {(result.cycle, result.every_s) for result in delivered} == {(None, None)}, "no scheduled cycle"


def test_traces_with_other_settings_run_by_themselves(spool, probe):
    run(spool, request(1), request(2, attempts=1), request(3, reason=TraceReason.RTT_STEP))

    assert sorted(len(spec.targets) for spec in probe.specs) == [1, 1, 1]


def test_a_trace_that_is_too_late_is_dropped(spool, probe):
    assert run(spool, request(1, after_s=-1)) == []
    assert probe.specs == []


def test_a_forbidden_trace_ends_with_its_reason(spool, probe):
    (delivered,) = run(spool, request(1, reason=TraceReason.INCIDENT_CLOSED), forbidden=("192.0.2.0/24",))

    assert (delivered.result.outcome, delivered.result.reason) == ("not_permitted", "incident_closed")
    assert probe.specs == []
