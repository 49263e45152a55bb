"""Gauges of the newest request-response runs and aggregate tests, without missing figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily

from monitor.archive.queries.for_prometheus import NewestResponse
from monitor.archive.queries.throughput.aggregates import AggregateResult

RESPONSE_LABELS = ("host", "source", "source_site", "destination_site", "path", "test")


def of_responses(runs: Sequence[NewestResponse]) -> Iterator[Metric]:
    latency = GaugeMetricFamily(
        "soundings_request_response_latency_seconds",
        "Latency of the transactions of the newest request-response run of the last day",
        labels=(*RESPONSE_LABELS, "quantile"),
    )
    rate = GaugeMetricFamily(
        "soundings_request_response_transactions_per_second", "Transactions per second of it", labels=RESPONSE_LABELS
    )
    measured = GaugeMetricFamily(
        "soundings_request_response_measured_timestamp_seconds", "Its start", labels=RESPONSE_LABELS
    )
    for run in runs:
        labels = (run.host, run.source, run.source_site, run.destination_site, str(run.path_id), run.test)
        for quantile, value_ms in (("0.5", run.median_ms), ("0.95", run.p95_ms), ("0.99", run.p99_ms)):
            latency.add_metric((*labels, quantile), value_ms / 1000)
        rate.add_metric(labels, run.transactions_per_s)
        measured.add_metric(labels, run.measured_at.timestamp())
    yield from (latency, rate, measured)


def of_aggregates(runs: Sequence[AggregateResult]) -> Iterator[Metric]:
    """Leave out partial sums."""
    families = {
        "sum_bits_per_second": ("Sum of all members of the newest aggregate test of the last week", "sum_bps"),
        "fairness_ratio": ("Jain's index of its members", "fairness"),
        "members": ("Its members", "member_count"),
        "members_measured": ("Those of them with a rate", "measured"),
    }
    for name, (said, field) in families.items():
        family = GaugeMetricFamily(f"soundings_aggregate_{name}", said, labels=("test",))
        for run in runs:
            value = getattr(run, field)
            if value is not None:
                family.add_metric((run.test,), value)
        yield family
    started = GaugeMetricFamily("soundings_aggregate_started_timestamp_seconds", "Its start", labels=("test",))
    for run in runs:
        started.add_metric((run.test,), run.starts_at.timestamp())
    yield started
