"""The kind `throughput`: a memory-to-memory transfer, reported by the client."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from probes.contract import FarEnd, Outcome, Probe, SlotKind
from probes.throughput.check import check_offered_server
from probes.throughput.limits import Iperf3ServerLimits, ThroughputLimits
from probes.throughput.spec import ServerReport, ThroughputRun, ThroughputSlot, ThroughputSpec, not_measured

if TYPE_CHECKING:
    from probes.throughput.iperf3 import ServerStatistics


def _probe() -> Probe[ThroughputSpec, ThroughputRun]:
    from probes.throughput.iperf3 import Iperf3Probe

    return Iperf3Probe()


def _far_end() -> FarEnd:
    from probes.throughput.iperf3 import Iperf3Server

    return Iperf3Server()


def _prepare(spec: ThroughputSpec) -> None:
    from probes.throughput import authentication

    authentication.prepare_keys(spec.one_time_key)


def _carried_bits(run: ThroughputRun, length_s: float) -> float | None:
    """Bits transferred by a test of this length, including the omitted part, which its figures leave out."""
    if run.sent_bytes is not None and run.duration_s:
        return 8.0 * run.sent_bytes / run.duration_s * length_s
    return None if run.throughput_bps is None else run.throughput_bps * length_s


def _forbids(limits: Any, spec: ThroughputSpec) -> str | None:
    rule: str | None = limits.section("throughput").forbids_load(spec.streams, spec.window_bytes)
    return rule


def _report(
    spec: ThroughputSpec, started_at: datetime, outcome: Outcome, detail: str, statistics: ServerStatistics | None
) -> ServerReport:
    report = ServerReport(family=spec.family, started_at=started_at, outcome=outcome, detail=detail, sends=spec.reverse)
    if statistics is None:
        return report
    return msgspec.structs.replace(
        report,
        wanted_ratio=statistics.wanted_ratio,
        kernel=statistics.kernel,
        inventory=msgspec.UNSET if statistics.inventory is None else statistics.inventory,
        load=msgspec.UNSET if statistics.load is None else statistics.load,
        metrics=msgspec.UNSET if statistics.metrics is None else statistics.metrics,
    )


KIND = SlotKind(
    name="throughput",
    task=ThroughputSlot,
    results=(ThroughputRun, ServerReport),
    hours="throughput",
    limits={"throughput": ThroughputLimits, "iperf3_server": Iperf3ServerLimits},
    probe=_probe,
    far_end=_far_end,
    not_measured=not_measured,
    carried_bits=_carried_bits,
    calls_again=True,
    forbids=_forbids,
    prepare=_prepare,
    report=_report,
    check=lambda limits, slots: check_offered_server(limits.iperf3_server, slots),
)
