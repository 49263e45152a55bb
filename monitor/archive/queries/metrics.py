"""Metrics as SQL expressions over `monitor.archive.models.BurstSummary` columns, null where undefined; oracle:
`tests/oracles/pinger.py`."""

from __future__ import annotations

from enum import StrEnum


class Metric(StrEnum):
    LOSS = "loss_ratio"
    LOSS_MAX = "loss_max_ratio"
    LOSS_FLOOR = "loss_floor_ratio"
    RTT_MIN = "rtt_min_ms"
    RTT_P25 = "rtt_p25_ms"
    RTT_MEDIAN = "rtt_median_ms"
    RTT_P75 = "rtt_p75_ms"
    RTT_P90 = "rtt_p90_ms"
    RTT_P95 = "rtt_p95_ms"
    RTT_MAX = "rtt_max_ms"
    RTT_AVG = "rtt_avg_ms"
    RTT_IQR = "rtt_iqr_ms"
    IPDV = "ipdv_ms"
    CONDITIONAL_LOSS = "conditional_loss_ratio"
    MEAN_LOSS_BURST = "mean_loss_burst_packets"
    DUPLICATES = "duplicates_ratio"
    OUT_OF_ORDER = "out_of_order_ratio"
    LATE = "late_ratio"
    UNREACHABILITY = "unreachability_ratio"
    ZERO_LOSS = "zero_loss_ratio"
    UNPREDICTABILITY = "unpredictability_ratio"
    ESTIMATE = "estimate_bps"
    THROUGHPUT = "throughput_median_bps"
    MOS = "mos"
    ALPHA = "alpha"
    COVERAGE = "coverage_ratio"

    @property
    def sql(self) -> str:
        """SQL for a row `summary` with `distance_km` and `throughput_median_bps`."""
        return _SQL.get(self, self.value)

    @property
    def lower_is_worse(self) -> bool:
        return self in _LOWER_IS_WORSE


_LOSS = "((sent - received)::double precision / nullif(sent, 0))"
_STEADINESS = "nullif(rate_avg_per_ms / nullif(rate_max_per_ms, 'Infinity'), 'NaN')"
_SUCCESS = "(received_avg_ratio / nullif(received_max_ratio, 0))"

_SQL = {
    Metric.LOSS: _LOSS,
    Metric.LOSS_FLOOR: "CASE WHEN received = sent THEN reporting.loss_bound_ratio(sent) END",
    Metric.CONDITIONAL_LOSS: "losses_paired::double precision / nullif(losses_followed, 0)",
    Metric.MEAN_LOSS_BURST: "losses_followed::double precision / nullif(losses_followed - losses_paired, 0)",
    Metric.DUPLICATES: "bursts_duplicated::double precision / nullif(bursts, 0)",
    Metric.OUT_OF_ORDER: "bursts_reordered::double precision / nullif(bursts, 0)",
    Metric.LATE: "late::double precision / nullif(sent, 0)",
    Metric.UNREACHABILITY: "bursts_all_lost::double precision / nullif(bursts, 0)",
    Metric.ZERO_LOSS: "bursts_none_lost::double precision / nullif(bursts, 0)",
    Metric.UNPREDICTABILITY: f"sqrt(((1 - {_STEADINESS}) ^ 2 + (1 - {_SUCCESS}) ^ 2) / 2)",
    Metric.ESTIMATE: "reporting.mathis_estimate_bps(rtt_avg_ms, sent, received)",
    Metric.MOS: f"reporting.mos(rtt_avg_ms, ipdv_ms, {_LOSS})",
    Metric.ALPHA: "distance_km / (100 * nullif(rtt_min_ms, 0))",
    Metric.COVERAGE: (
        "CASE WHEN bursts_planned > 0 "
        "THEN least(reporting.bursts_measured(bursts, bursts_during_test) / bursts_planned, 1) END"
    ),
}
_LOWER_IS_WORSE = {
    Metric.ZERO_LOSS,
    Metric.ESTIMATE,
    Metric.THROUGHPUT,
    Metric.MOS,
    Metric.ALPHA,
    Metric.COVERAGE,
}
