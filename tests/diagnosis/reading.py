"""A saved run of the probe, as in the fixtures of `tests/fixtures/iperf3/diagnosis`, converted to a `Recording`."""

from __future__ import annotations

from pathlib import Path

import msgspec

from monitor.analysis.transfer import Recording
from monitor.archive.diagnosis.findings import Background
from monitor.archive.diagnosis.findings import recording as of_run
from probes.transfers.spec import ThroughputRun


def read(path: Path) -> ThroughputRun:
    """A saved run."""
    return msgspec.json.decode(path.read_bytes(), type=ThroughputRun)


def recording(run: ThroughputRun) -> Recording:
    """A run in the form of the analysis, with nothing known about its path in advance."""
    return of_run(run, Background(0, run.started_at))
