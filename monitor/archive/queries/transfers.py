"""Throughput tests as they are stored: one of them with its intervals, and what was known of its path beforehand.

In: paths and times. Out: a `StoredTransfer`, a `Background`. What a test says was worked out by
`monitor.archive.diagnosis.findings` when it was stored, and is read again from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from monitor.archive.diagnosis.findings import Background, Findings
from monitor.archive.statements import ask, records
from probes.throughput.spec import Transfer


@dataclass(frozen=True, slots=True)
class StoredTransfer:
    """One test with its intervals. `findings` and `transfer` are None where nothing was to be said, or was kept."""

    path_id: int
    at: datetime
    test: str
    protocol: str
    outcome: str
    streams: int
    throughput_bps: float | None
    average_bps: float | None
    steady_s: float | None
    asked_bps: float | None
    retransmits: int | None
    congestion_control: str | None
    tool: str | None
    verdict: str | None
    sentence: str | None
    detail: str | None
    findings: Findings | None
    transfer: Transfer | None


def backgrounds(tests: Sequence[tuple[int, datetime]]) -> dict[tuple[int, datetime], Background]:
    """What was known of the path of each of these tests, given as path and start."""
    path_ids, starts = [path_id for path_id, _ in tests], [at for _, at in tests]
    found = records(Background, *ask("path_backgrounds", path_ids=path_ids, starts=starts))
    return {(one.path_id, one.at): one for one in found}


def transfer_of(path_id: int, at: datetime) -> StoredTransfer | None:
    """The test of a path that began at this moment; None where there is none."""
    names, rows = ask("transfer", path_id=path_id, at=at)
    if not rows:
        return None
    *plain, diagnosis, transfer = rows[0]
    findings = None if diagnosis is None else msgspec.json.decode(diagnosis, type=Findings)
    seen = None if transfer is None else msgspec.json.decode(transfer, type=Transfer)
    return records(StoredTransfer, (*names[:-2], "findings", "transfer"), [(*plain, findings, seen)])[0]
