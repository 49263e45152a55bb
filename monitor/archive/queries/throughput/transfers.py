"""Stored throughput tests with intervals, and the state of their paths beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from monitor.archive.diagnosis.findings import Background, Findings
from monitor.archive.queries.throughput.inventories import decoded_inventory
from monitor.archive.statements import columns, records, run_statement
from probes.transfers.hosts.spec import HostInventory
from probes.transfers.spec import Transfer


@dataclass(frozen=True, slots=True)
class StoredTransfer:
    """Test with its intervals; `findings` and later fields are None where not available."""

    path_id: int
    at: datetime
    test: str
    slot_id: int | None
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
    sender_inventory: HostInventory | None
    receiver_inventory: HostInventory | None


def backgrounds(tests: Sequence[tuple[int, datetime]]) -> dict[tuple[int, datetime], Background]:
    path_ids, starts = [path_id for path_id, _ in tests], [at for _, at in tests]
    rows = records(Background, *run_statement("path_backgrounds", path_ids=path_ids, starts=starts))
    return {(row.path_id, row.at): row for row in rows}


def transfer_of(path_id: int, at: datetime) -> StoredTransfer | None:
    names, rows = run_statement("transfer", columns(StoredTransfer), path_id=path_id, at=at)
    if not rows:
        return None
    *plain, findings, transfer, sender, receiver = rows[0]
    decoded = (
        None if findings is None else msgspec.json.decode(findings, type=Findings),
        None if transfer is None else msgspec.json.decode(transfer, type=Transfer),
        *(None if inventory is None else decoded_inventory(inventory) for inventory in (sender, receiver)),
    )
    return records(StoredTransfer, names, [(*plain, *decoded)])[0]
