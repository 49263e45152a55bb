"""Diagnose the throughput tests in `undiagnosed_test`, each removed in the transaction that stores its diagnosis."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Set
from dataclasses import replace
from datetime import datetime
from typing import Any

import msgspec
import numpy as np
from django.db import transaction

from monitor.archive.diagnosis.findings import Background, HostPair, RunDiagnosis, diagnose_run
from monitor.archive.ingest.binary_copy import microseconds
from monitor.archive.ingest.jsonb import for_jsonb
from monitor.archive.ingest.store_results import INVENTORY_ID, mark_dirty
from monitor.archive.models import StoredInventory, ThroughputTest, UndiagnosedTest
from monitor.archive.queries.throughput.transfers import backgrounds
from monitor.mesh.document.service_levels import settings_for
from monitor.mesh.models import Mesh, Path, Slot
from monitor.mesh.queries import groups_of_sites, place_of
from probes.contract import Outcome
from probes.transfers.hosts.spec import HostInventory
from probes.transfers.spec import ServerReport, ThroughputRun, Transfer, merge_server_report

log = logging.getLogger(__name__)

# Tests diagnosed in a transaction; each takes about 10 ms.
AT_ONCE = 20


def diagnose_awaited(now: datetime, most: int = AT_ONCE) -> int:
    """Diagnose the oldest pending tests; return their number. Safe to run concurrently."""
    with transaction.atomic():
        awaited = UndiagnosedTest.objects.select_for_update(skip_locked=True).order_by("measured_at", "path_id")[:most]
        keys = sorted((pending.path_id, pending.measured_at) for pending in awaited)
        if not keys:
            return 0
        background_of = backgrounds(keys)
        promised_of = _promised_rates({path_id for path_id, _ in keys})
        tests = {(test.path_id, test.measured_at): test for test in ThroughputTest.objects.filter(pk__in=keys)}
        served = _server_reports([test.slot_id for test in tests.values() if test.slot_id is not None])
        inventory_of = _inventories(tests.values(), [number for _, number in served.values()])
        for key, test in tests.items():
            far_end = None if test.slot_id is None else served.get(test.slot_id)
            background = replace(background_of[key], promised_bps=promised_of.get(test.path_id))
            _diagnose(test, background, far_end, inventory_of)
        mark_dirty(
            np.array([path_id for path_id, _ in keys], np.int64),
            np.array([microseconds(at) for _, at in keys], np.int64),
            now,
        )
        UndiagnosedTest.objects.filter(pk__in=keys).delete()
    return len(keys)


def _promised_rates(path_ids: Set[int]) -> Mapping[int, float | None]:
    levels = Mesh.objects.values_list("service_levels", flat=True).first()
    if not levels:
        return {}
    groups = groups_of_sites()
    paths = Path.objects.filter(pk__in=path_ids).select_related("source__site", "destination__site")
    return {path.pk: settings_for(levels, place_of(path, groups)).promised_bps for path in paths}


def _server_reports(slot_ids: list[int]) -> Mapping[int, tuple[ServerReport, int | None]]:
    rows = Slot.objects.filter(pk__in=slot_ids).exclude(served=None).values_list("pk", "served")
    return {slot_id: (msgspec.convert(said, ServerReport), said.get(INVENTORY_ID)) for slot_id, said in rows if said}


def _inventories(tests: Iterable[ThroughputTest], of_servers: Iterable[int | None]) -> Mapping[int, HostInventory]:
    of_tests = [number for test in tests for number in (test.sender_inventory_id, test.receiver_inventory_id)]
    numbers = {number for number in (*of_tests, *of_servers) if number is not None}
    rows = StoredInventory.objects.filter(pk__in=numbers).values_list("pk", "inventory") if numbers else ()
    return {number: msgspec.convert(inventory, HostInventory) for number, inventory in rows}


def _diagnose(
    test: ThroughputTest,
    background: Background,
    far_end: tuple[ServerReport, int | None] | None,
    inventory_of: Mapping[int, HostInventory],
) -> None:
    served, inventory_id = (None, None) if far_end is None else far_end
    run = _run_of(test, served)
    inventory_ids = {
        "sender_inventory_id": test.sender_inventory_id,
        "receiver_inventory_id": test.receiver_inventory_id,
    }
    if served is not None and inventory_id is not None:
        inventory_ids["sender_inventory_id" if served.sends else "receiver_inventory_id"] = inventory_id
    hosts = HostPair(*(None if number is None else inventory_of.get(number) for number in inventory_ids.values()))
    said = _diagnose_run(run, background, hosts)
    changed: dict[str, Any] = {"transfer": for_jsonb(run.transfer), **inventory_ids}
    if said is not None:
        has_rate = said.steady_bps is not None
        changed |= {
            "throughput_bps": said.steady_bps if has_rate else test.average_bps,
            "steady_s": said.steady_s if has_rate else None,
            "verdict": said.verdict.value,
            "sentence": said.sentence,
            "diagnosis": for_jsonb(said.findings),
        }
    ThroughputTest.objects.filter(pk=(test.path_id, test.measured_at)).update(**changed)


def _diagnose_run(run: ThroughputRun, background: Background, hosts: HostPair) -> RunDiagnosis | None:
    # Store an exception as reason, to keep the queue moving.
    try:
        return diagnose_run(run, background, hosts)
    except Exception as error:
        log.exception("test of path %d at %s cannot be diagnosed", background.path_id, background.at.isoformat())
        return RunDiagnosis.not_possible(f"{type(error).__name__}: {error}")


def _run_of(test: ThroughputTest, served: ServerReport | None) -> ThroughputRun:
    transfer = None if test.transfer is None else msgspec.convert(test.transfer, Transfer)
    return ThroughputRun(
        target="",
        address=None,
        family=4,
        started_at=test.measured_at,
        outcome=Outcome(test.outcome),
        protocol="udp" if test.protocol == "udp" else "tcp",
        streams=test.streams,
        asked_bps=test.asked_bps,
        duration_s=test.duration_s,
        throughput_bps=test.average_bps,
        received_bytes=test.received_bytes,
        congestion_control=test.congestion_control,
        tool=test.tool,
        transfer=transfer if transfer is None or served is None else merge_server_report(transfer, served),
    )
