"""Throughput tests by the probe in the lab (tests/fixtures/iperf3/diagnosis), stored as their agent delivers them."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path as FilePath

import msgspec

from monitor.archive.diagnosis.pending import diagnose_awaited
from monitor.mesh.models import Path
from probes.transfers.spec import ThroughputRun
from tests.db.mesh_of_three import batch, delivered
from tests.deliveries import store
from tests.diagnosis.reading import read

RUNS = FilePath(__file__).parents[1] / "fixtures" / "iperf3" / "diagnosis"


def lab_run(name: str) -> ThroughputRun:
    return read(RUNS / f"{name}.json")


def store_lab_run(path: Path, name: str, at: datetime, now: datetime) -> None:
    """Store the run as of `at`, with its diagnosis."""
    run = msgspec.structs.replace(lab_run(name), started_at=at, target="x", address="192.0.2.1")
    receipt = store(path.source.site_id, batch(delivered(path, run), number=at.minute), now)
    assert receipt.refused == ()
    diagnose_awaited(now)
