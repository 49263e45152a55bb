"""The kind `aggregate`: a throughput test whose pairs of hosts send at the same time.

Everything but the names of its slots and results is that of `probes.throughput`. The limit
`throughput.max_parallel_tests` bounds how many members run here at once.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from probes.aggregate.spec import (
    AggregateSlot,
    MemberRun,
    MemberServerReport,
    member_not_measured,
    member_run,
    member_server_report,
)
from probes.contract import Deadline, Outcome, Probe, SlotKind
from probes.throughput.kind import KIND as THROUGHPUT
from probes.throughput.kind import server_report
from probes.transfers.spec import ThroughputRun, ThroughputSpec

if TYPE_CHECKING:
    from probes.transfers.iperf3.transfer import ServerStatistics


class MemberProbe:
    """The end of a member that connects."""

    def __init__(self, transfer: Probe[ThroughputSpec, ThroughputRun]) -> None:
        self._transfer = transfer

    def can_run(self, spec: ThroughputSpec) -> list[str]:
        return self._transfer.can_run(spec)

    def run(self, spec: ThroughputSpec, deadline: Deadline) -> MemberRun:
        return member_run(self._transfer.run(spec, deadline))


def _probe() -> Probe[Any, Any]:
    return MemberProbe(THROUGHPUT.probe())


def _report(
    spec: ThroughputSpec, started_at: datetime, outcome: Outcome, detail: str, statistics: ServerStatistics | None
) -> MemberServerReport:
    return member_server_report(server_report(spec, started_at, outcome, detail, statistics))


KIND = SlotKind(
    name="aggregate",
    task=AggregateSlot,
    results=(MemberRun, MemberServerReport),
    hours=THROUGHPUT.hours,
    probe=_probe,
    far_end=THROUGHPUT.far_end,
    not_measured=member_not_measured,
    carried_bits=THROUGHPUT.carried_bits,
    calls_again=True,
    forbids=THROUGHPUT.forbids,
    prepare=THROUGHPUT.prepare,
    report=_report,
)
