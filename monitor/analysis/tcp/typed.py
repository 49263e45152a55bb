"""Figures of an estimate as typed into the command or the calculator page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from monitor.analysis.tcp.figures import FigureError, Loss, Rtt, TransferSettings
from monitor.analysis.tcp.models import CongestionControl

# Input names that differ from the names of their figures.
NAME_OF_FIGURE = {"capacity_bps": "capacity_mbps", "control": "cc"}

PINGS, RETRANSMITS = "pings", "retransmits"
# The two losses that may be typed, with their labels.
LOSS_SOURCES = {PINGS: "lost packets, by pings or devices", RETRANSMITS: "segments that TCP retransmitted"}


def from_typed(given: Mapping[str, Any]) -> tuple[Rtt, Loss, TransferSettings]:
    """Build the inputs of an estimate. `given` has rtt_ms, rtt_p10_ms, rtt_p90_ms, loss_ratio, loss_from, sent,
    capacity_mbps, mss_bytes, window_bytes, cc and streams, None where unknown. Raises `FigureError`, also without
    loss_from."""
    loss_ratio, sent, capacity_mbps = given["loss_ratio"], given["sent"], given["capacity_mbps"]
    loss = Loss(loss_ratio) if sent is None else Loss.of_sent(loss_ratio, sent)
    if loss.ratio > 0.0 and not given["loss_from"]:
        wanted = f"say which loss it is: {' or '.join(f'{name} ({label})' for name, label in LOSS_SOURCES.items())}"
        raise FigureError("loss_from", loss.ratio, wanted)
    return (
        Rtt(given["rtt_ms"], given["rtt_p10_ms"], given["rtt_p90_ms"]),
        replace(loss, is_retransmits=given["loss_from"] == RETRANSMITS),
        TransferSettings(
            mss_bytes=given["mss_bytes"],
            window_bytes=given["window_bytes"],
            capacity_bps=None if capacity_mbps is None else capacity_mbps * 1e6,
            control=CongestionControl(given["cc"]),
            streams=given["streams"],
        ),
    )
