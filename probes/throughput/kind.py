"""The kind `throughput`: a memory-to-memory transfer, reported by the client."""

from __future__ import annotations

from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec

from probes.contract import Command, FarEnd, Outcome, Probe, SlotKind
from probes.throughput.check import check_offered_server, check_socket_buffers
from probes.throughput.limits import Iperf3ServerLimits, ThroughputLimits
from probes.throughput.spec import ThroughputSlot
from probes.transfers.spec import CapturedHeaders, ServerReport, ThroughputRun, ThroughputSpec, not_measured

if TYPE_CHECKING:
    from probes.transfers.iperf3.transfer import ServerStatistics

NO_ROOM = "left out: results that wait for delivery take a quarter of the agent's disk space"


def _probe() -> Probe[ThroughputSpec, ThroughputRun]:
    from probes.throughput.probe import Iperf3Probe

    return Iperf3Probe()


def _far_end() -> FarEnd:
    from probes.throughput.probe import Iperf3Server

    return Iperf3Server()


def _prepare(spec: ThroughputSpec) -> None:
    from probes.transfers.iperf3 import authentication

    authentication.prepare_keys(spec.one_time_key)


def _carried_bits(run: ThroughputRun, length_s: float) -> float | None:
    """Transferred bits including the omitted part, which figures leave out."""
    if run.sent_bytes is not None and run.duration_s:
        return 8.0 * run.sent_bytes / run.duration_s * length_s
    return None if run.throughput_bps is None else run.throughput_bps * length_s


def _forbids(limits: Any, spec: ThroughputSpec) -> str | None:
    rule: str | None = limits.section("throughput").forbids_load(spec.streams, spec.window_bytes)
    return rule


def _permitted(spec: ThroughputSpec, limits: Any) -> ThroughputSpec:
    """Reduce the capture to the limits."""
    # A test needs no capture.
    if isinstance(spec.capture_packets, msgspec.UnsetType):
        return spec
    most = int(limits.section("throughput").max_capture_packets)
    return msgspec.structs.replace(spec, capture_packets=min(spec.capture_packets, most))


def server_report(
    spec: ThroughputSpec, started_at: datetime, outcome: Outcome, detail: str, statistics: ServerStatistics | None
) -> ServerReport:
    """Make a server's report; `statistics` is None if nothing was served."""
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
        capture=msgspec.UNSET if statistics.capture is None else statistics.capture,
    )


def _lightened(result: ThroughputRun | ServerReport) -> ThroughputRun | ServerReport:
    if isinstance(result.capture, msgspec.UnsetType) or not result.capture.packets:
        return result
    return msgspec.structs.replace(result, capture=CapturedHeaders(reason=NO_ROOM))


KIND = SlotKind(
    name="throughput",
    task=ThroughputSlot,
    results=(ThroughputRun, ServerReport),
    hours="throughput",
    limits={"throughput": ThroughputLimits, "iperf3_server": Iperf3ServerLimits},
    probe=_probe,
    command=Command("probes.throughput.command", "measure TCP throughput to an iperf3 server, without a centre"),
    far_end=_far_end,
    not_measured=not_measured,
    carried_bits=_carried_bits,
    calls_again=True,
    forbids=_forbids,
    permitted=_permitted,
    prepare=_prepare,
    report=server_report,
    lightened=_lightened,
    check=lambda limits, slots: chain(check_offered_server(limits.iperf3_server, slots), check_socket_buffers(slots)),
)
