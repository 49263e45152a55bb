"""Find contradictions between a result's fields; their bounds are in `probes.bounds`."""

from __future__ import annotations

import itertools

from monitor.archive.addresses import is_address
from probes.contract import Outcome
from probes.packets.spec import Burst
from probes.trace.spec import Hop, TraceRun
from probes.transfers.spec import ReceivedIntervals, SentIntervals, ServerReport, ThroughputRun

MEASURED = Outcome.MEASURED


def in_burst(burst: Burst) -> str | None:
    """Reason to refuse a burst, or None; a consistent burst passes a single condition."""
    rtts_ms, sent = burst.rtts_ms, burst.sent
    lost = rtts_ms.count(None)
    if (
        len(rtts_ms) != sent
        or burst.received + lost != sent
        or burst.late > lost
        or (burst.outcome is MEASURED) != (sent > 0)
        or not (burst.loaded_rtts_ms is None or sent > 0)
        or not (burst.address is None or is_address(burst.address))
        or not (burst.source_address is None or is_address(burst.source_address))
        or not (burst.clock_source is None or "\0" not in burst.clock_source)
        or burst.errors
    ):
        return at_result(_reason_in_burst(burst, lost))
    return None


def _reason_in_burst(burst: Burst, lost: int) -> str | None:
    if burst.received > burst.sent:
        return f"received {burst.received} is more than sent {burst.sent}"
    if len(burst.rtts_ms) != burst.sent:
        return f"{len(burst.rtts_ms)} RTTs for {burst.sent} sent"
    if burst.outcome is MEASURED and burst.sent == 0:
        return "measured, but nothing was sent"
    if burst.outcome is not MEASURED and burst.sent > 0:
        return f"{burst.outcome}, but {burst.sent} were sent"
    if burst.loaded_rtts_ms is not None and burst.sent == 0:
        return f"{burst.outcome}, but with loaded_rtts_ms"
    if burst.received != burst.sent - lost:
        return f"received {burst.received}, but {burst.sent - lost} RTTs"
    if burst.late > lost:
        return f"late {burst.late} is more than the {lost} lost"
    if burst.address is not None and not is_address(burst.address):
        return f"address {burst.address!r} is not an IP address"
    if burst.source_address is not None and not is_address(burst.source_address):
        return f"source_address {burst.source_address!r} is not an IP address"
    if burst.clock_source is not None and "\0" in burst.clock_source:
        return "clock_source holds a NUL character"
    return _reason_in_errors(burst)


def _reason_in_errors(burst: Burst) -> str | None:
    for error in burst.errors:
        if error.count > burst.sent:
            return f"{error.count} times the ICMP error {error.name!r} for {burst.sent} sent"
        if not is_address(error.router):
            return f"an ICMP error came from {error.router!r}, which is not an IP address"
    return None


def in_throughput(run: ThroughputRun | ServerReport) -> str | None:
    if isinstance(run, ServerReport):
        return None
    measured = run.outcome is MEASURED
    if measured and run.throughput_bps is None:
        return at_result("measured, but without throughput_bps")
    if not measured and run.throughput_bps is not None:
        return at_result(f"{run.outcome}, but with throughput_bps {run.throughput_bps}")
    if run.transfer is None:
        return None
    for end, intervals in (("sent", run.transfer.sent), ("received", run.transfer.received)):
        reason = None if intervals is None else _reason_in_intervals(intervals)
        if reason is not None:
            return f"{reason} - at `$.result.transfer.{end}`"
    return None


def _reason_in_intervals(intervals: SentIntervals | ReceivedIntervals) -> str | None:
    """Reason to refuse intervals: times run backwards, or columns differ in length."""
    end_s = intervals.end_s
    if any(later < earlier for earlier, later in itertools.pairwise(end_s)):
        return "end_s runs backwards"
    for name in intervals.__struct_fields__:
        column = getattr(intervals, name)
        if column is not None and len(column) != len(end_s):
            return f"{len(column)} values of {name} for {len(end_s)} intervals"
    return None


def in_trace(run: TraceRun) -> str | None:
    return at_result(_reason_in_trace(run))


def _reason_in_trace(run: TraceRun) -> str | None:
    hops = run.hops
    if run.outcome is not MEASURED and (hops or run.reached):
        return f"{run.outcome}, but with {len(hops)} hops"
    if run.reached and (not hops or hops[-1].address is None or hops[-1].error is not None):
        return "reached, but without the address of the last hop"
    if run.address is not None and not is_address(run.address):
        return f"address {run.address!r} is not an IP address"
    for ttl, hop in enumerate(hops, 1):
        reason = f"ttl {hop.ttl} is the {ttl}. hop" if hop.ttl != ttl else _reason_in_hop(hop)
        if reason is not None:
            return reason
    return None


def _reason_in_hop(hop: Hop) -> str | None:
    if hop.address is None and any(rtt_ms is not None for rtt_ms in hop.rtts_ms):
        return f"hop {hop.ttl} replied, but without an address"
    for address in (*hop.others, *(() if hop.address is None else (hop.address,))):
        if not is_address(address):
            return f"hop {hop.ttl}: address {address!r} is not an IP address"
    if hop.error is not None and "\0" in hop.error:
        return f"hop {hop.ttl}: error holds a NUL character"
    return None


def at_result(reason: str | None) -> str | None:
    """Add the place to a reason, as msgspec does for a field."""
    return None if reason is None else f"{reason} - at `$.result`"
