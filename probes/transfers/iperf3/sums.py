"""Sums of a whole test at both ends, and its rate, if consistent."""

from __future__ import annotations

from typing import Any

import msgspec

from probes.bounds import Amount, Count, LargeCount
from probes.transfers.iperf3.document import Json
from probes.transfers.iperf3.errors import ToolFailure
from probes.transfers.iperf3.figures import kept
from probes.transfers.spec import Protocol

# Upper bound on received bytes, as a multiple of sent bytes: iperf3 ends its sums at the two ends apart.
MARGIN = 1.1
# Beyond the interfaces and the memory of any host.
MOST_RATE_BPS = 1e13


class EndSum(msgspec.Struct, frozen=True, kw_only=True):
    """The sum of an end; missing or damaged figures are None."""

    transferred_bytes: LargeCount | None = None
    seconds: Amount | None = None
    rate_bps: Amount | None = None
    retransmits: Count | None = None


def ends_of(end: Json, started: Json, protocol: Protocol) -> tuple[EndSum, EndSum]:
    """The sender's and the receiver's sums.

    Some versions report only the sender's for UDP: received bytes are then datagrams times their constant size.
    """
    if "sum_received" in end:
        return _end_sum(end.get("sum_sent")), _end_sum(end["sum_received"])
    if protocol == "tcp":
        raise KeyError("sum_received")
    total = end["sum"]
    received_bytes = (total["packets"] - total["lost_packets"]) * started["blksize"]
    rate_bps = received_bytes * 8 / total["seconds"] if total["seconds"] > 0 else 0.0
    received = {"bytes": received_bytes, "seconds": total["seconds"], "bits_per_second": rate_bps}
    return _end_sum(total), _end_sum(received)


def _end_sum(part: Any) -> EndSum:
    figures = part if isinstance(part, dict) else {}
    return kept(
        EndSum,
        transferred_bytes=figures.get("bytes"),
        seconds=figures.get("seconds"),
        rate_bps=figures.get("bits_per_second"),
        retransmits=figures.get("retransmits"),
    )


def measured_bps(sent: EndSum, received: EndSum, omitted_bytes: int | None, where: str) -> float:
    """The receiver's rate. Raises `ToolFailure` if nothing arrived, or more than was sent, omitted part included."""
    rate_bps = received.rate_bps
    by_bytes_bps = _rate_bps(received.transferred_bytes, received.seconds)
    rate_bps = by_bytes_bps if rate_bps is None else rate_bps
    if rate_bps is None:
        raise ToolFailure(f"{where}: its report has no rate of the receiver")
    if not rate_bps or received.transferred_bytes == 0:
        raise ToolFailure(f"{where}: connected, but no data arrived")
    if by_bytes_bps is not None and not by_bytes_bps / MARGIN <= rate_bps <= by_bytes_bps * MARGIN:
        raise ToolFailure(
            f"{where}: its report has {received.transferred_bytes:,} bytes in {received.seconds:g} s, and a rate of"
            f" {rate_bps:.4g} bit/s"
        )
    if rate_bps > MOST_RATE_BPS:
        raise ToolFailure(f"{where}: its report has a rate of {rate_bps:.4g} bit/s, which no host can receive")
    if sent.transferred_bytes is not None:
        most_bytes = MARGIN * (sent.transferred_bytes + (omitted_bytes or 0))
        most_bps = _rate_bps(most_bytes, sent.seconds)
        if (received.transferred_bytes or 0) > most_bytes or (most_bps is not None and rate_bps > most_bps):
            raise ToolFailure(
                f"{where}: its report has more received ({_said(received)}) than sent ({_said(sent)}), so one of"
                " the two ends counted wrongly"
            )
    return rate_bps


def _rate_bps(transferred_bytes: float | None, seconds: float | None) -> float | None:
    return None if transferred_bytes is None or not seconds else 8.0 * transferred_bytes / seconds


def _said(end: EndSum) -> str:
    transferred = "unknown bytes" if end.transferred_bytes is None else f"{end.transferred_bytes:,} bytes"
    return transferred if end.seconds is None else f"{transferred} in {end.seconds:g} s"
