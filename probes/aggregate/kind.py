"""The kind `aggregate`: a throughput test of several pairs of hosts at the same time, otherwise as its members' kind
(`probes.kinds`).

The limit `throughput.max_parallel_tests` bounds the members that run here at once.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from probes.aggregate.spec import AggregateSlot, MemberRun, MemberServerReport, member_run, member_server_report
from probes.contract import Deadline, Outcome, Probe, Result, SlotKind
from probes.transfers.spec import ServerReport, ThroughputRun, ThroughputSpec


class MemberProbe:
    """Measures the connecting end of a member."""

    def __init__(self, transfer: Probe[ThroughputSpec, ThroughputRun]) -> None:
        self._transfer = transfer

    def can_run(self, spec: ThroughputSpec) -> list[str]:
        return self._transfer.can_run(spec)

    def run(self, spec: ThroughputSpec, deadline: Deadline) -> MemberRun:
        return member_run(self._transfer.run(spec, deadline))


def aggregate_of(single: SlotKind) -> SlotKind:
    """The kind with members that are tests of the kind `single`."""
    report_of_single = single.report
    assert report_of_single is not None

    def report(spec: ThroughputSpec, started_at: datetime, outcome: Outcome, detail: str, seen: Any) -> Result:
        served = report_of_single(spec, started_at, outcome, detail, seen)
        assert isinstance(served, ServerReport)
        return member_server_report(served)

    return SlotKind(
        name="aggregate",
        task=AggregateSlot,
        results=(MemberRun, MemberServerReport),
        hours=single.hours,
        probe=lambda: MemberProbe(single.probe()),
        far_end=single.far_end,
        not_measured=lambda *ended: member_run(single.not_measured(*ended)),
        carried_bits=single.carried_bits,
        calls_again=True,
        forbids=single.forbids,
        prepare=single.prepare,
        report=report,
    )
