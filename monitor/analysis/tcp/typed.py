"""Figures of an estimate as typed into the command or the calculator page, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monitor.analysis.tcp.figures import Loss, Rtt, TransferSettings
from monitor.analysis.tcp.models import CongestionControl

NAME_OF_FIGURE = {"capacity_bps": "capacity_mbps", "control": "cc"}
"""Input names that differ from the names of their figures."""


def from_typed(given: Mapping[str, Any]) -> tuple[Rtt, Loss, TransferSettings]:
    """Build the inputs of an estimate. `given` has rtt_ms, rtt_p10_ms, rtt_p90_ms, loss_ratio, sent, capacity_mbps,
    mss_bytes, window_bytes, cc and streams, None where unknown. Raises `FigureError`."""
    loss_ratio, sent, capacity_mbps = given["loss_ratio"], given["sent"], given["capacity_mbps"]
    return (
        Rtt(given["rtt_ms"], given["rtt_p10_ms"], given["rtt_p90_ms"]),
        Loss(loss_ratio) if sent is None else Loss.of_sent(loss_ratio, sent),
        TransferSettings(
            mss_bytes=given["mss_bytes"],
            window_bytes=given["window_bytes"],
            capacity_bps=None if capacity_mbps is None else capacity_mbps * 1e6,
            control=CongestionControl(given["cc"]),
            streams=given["streams"],
        ),
    )
