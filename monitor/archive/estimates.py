"""Mathis throughput estimate from rows of counts: loss and mean RTT in, None where undefined."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from monitor.analysis.tcp import mathis_estimate

Estimate = tuple[float | None, bool | None]


def estimates(rtt_avg_ms: Sequence[float | None], sent: Sequence[int], received: Sequence[int]) -> list[Estimate]:
    """(estimate_bps, estimate_is_floor) of each row, computed for all rows at once."""
    rates_bps, floors = mathis_estimate(np.array(rtt_avg_ms, dtype=np.float64), sent, received)
    return [
        (None, None) if undefined else (rate_bps, is_floor)
        for rate_bps, is_floor, undefined in zip(
            rates_bps.tolist(), floors.tolist(), np.isnan(rates_bps).tolist(), strict=True
        )
    ]
