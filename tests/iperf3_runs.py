"""Throughput tests with iperf3; a failure is a result too, as the agent's runner stores it."""

from __future__ import annotations

from datetime import UTC, datetime

from probes.contract import Deadline, ProbeError
from probes.throughput.probe import Iperf3Probe
from probes.transfers.spec import ThroughputRun, ThroughputSpec, not_measured


def measure(spec: ThroughputSpec, deadline: Deadline) -> ThroughputRun:
    """Run the client of a test."""
    started_at = datetime.now(UTC)
    try:
        return Iperf3Probe().run(spec, deadline)
    except ProbeError as error:
        return not_measured(spec, started_at, error.outcome, str(error))
