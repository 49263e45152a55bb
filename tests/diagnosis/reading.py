"""A test as the probe left it, which is what a fixture in `tests/fixtures/iperf3/diagnosis` holds, as a `Recording`."""

from __future__ import annotations

from pathlib import Path

import msgspec

from monitor.analysis.transfer import Recording
from monitor.archive.diagnosis.findings import Background
from monitor.archive.diagnosis.findings import recording as of_run
from probes.throughput.spec import ThroughputRun


def read(path: Path) -> ThroughputRun:
    """A saved run."""
    return msgspec.json.decode(path.read_bytes(), type=ThroughputRun)


def recording(run: ThroughputRun) -> Recording:
    """A run as the analysis takes it, with nothing known of its path beforehand."""
    return of_run(run, Background(0, run.started_at))
