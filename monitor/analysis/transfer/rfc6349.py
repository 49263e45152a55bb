"""The three figures of RFC 6349 for a test, None without data."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from monitor.analysis.tcp import buffer_delay_ratio, efficiency_ratio, transfer_time_ratio
from monitor.analysis.transfer.record import IntervalSeries, Recording


@dataclass(frozen=True, slots=True)
class Rfc6349:
    """RFC 6349, sections 4.1 to 4.3."""

    transfer_time_ratio: float | None  # needs the capacity
    efficiency_ratio: float | None  # needs the retransmissions
    buffer_delay_ratio: float | None  # relative to the idle RTT, or the test's minimum


def rfc6349(recording: Recording, series: IntervalSeries) -> Rfc6349:
    """The figures of the whole test, its start included, as in the RFC."""
    duration_s = float(series.width_s.sum())
    ideal_s = float(series.delivered_bytes.sum()) * 8.0 / (recording.capacity_bps or math.nan)
    counted = any(sample.retransmits is not None for sample in recording.samples)
    resent_bytes = float(series.retransmits.sum()) * recording.mss_bytes if counted else math.nan
    defined = ~np.isnan(series.rtt_ms)
    rtt_ms = float(np.average(series.rtt_ms[defined], weights=series.width_s[defined])) if defined.any() else math.nan
    return Rfc6349(
        _none_if_nan(float(transfer_time_ratio(duration_s, ideal_s))),
        _none_if_nan(float(efficiency_ratio(series.total_delivered_bytes + resent_bytes, resent_bytes))),
        _none_if_nan(float(buffer_delay_ratio(rtt_ms, series.base_rtt_ms))),
    )


def _none_if_nan(value: float) -> float | None:
    return None if math.isnan(value) else value
