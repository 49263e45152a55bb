"""Request due tests of mesh.toml's [[sweep]] tables, one for each path in each period.

Rounds are in random order and at random times, so hour and setting are independent.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from django.db import transaction

from monitor.archive import throughput_sweeps
from monitor.archive.models import SweepCell, ThroughputSweep
from monitor.mesh.document.sweeps import SweepEntry, sweep_entry
from monitor.mesh.kinds.throughput import ThroughputSettings
from monitor.mesh.models import Mesh, Path
from monitor.mesh.queries import groups_of_sites, place_of
from monitor.mesh.schedule.on_demand import OnDemandError, ask, fault_of

# No requests at the end of a period: a slot begins later, and the task runs each minute.
MARGIN_S = 120
ASKED_BY = "mesh.toml"


def request_due(now: datetime) -> int:
    """Store results of ended scheduled sweeps and request due tests; return the number requested."""
    awaited = SweepCell.objects.filter(sweep__schedule__isnull=False, outcome=None, slot_id__isnull=False)
    for sweep_id in awaited.values_list("sweep_id", flat=True).distinct():
        throughput_sweeps.keep_results(sweep_id, now)
    mesh = Mesh.objects.first()
    sweeps: Mapping[str, Mapping[str, Any]] = {} if mesh is None else mesh.sweeps
    if not sweeps:
        return 0
    groups = groups_of_sites()
    paths = [path for path in Path.objects.in_use() if fault_of(path) is None]
    due = [
        (sweep_entry(keys), path) for keys in sweeps.values() for path in paths if place_of(path, groups).is_in(keys)
    ]
    return sum(_request(entry, path, now) for entry, path in due)


def grid_of(entry: SweepEntry) -> list[ThroughputSettings]:
    return throughput_sweeps.settings_of(
        ThroughputSettings(duration_s=entry.duration_s, omit_s=entry.omit_s),
        entry.window_bytes or (None,),
        entry.streams,
        entry.congestion_control,
        entry.mss_bytes,
        entry.block_bytes,
    )


def due_at(entry: SweepEntry, path_id: int, now: datetime) -> datetime:
    """Time in the present period when a path's test is due."""
    period = int(now.timestamp()) // entry.every_s
    latest_s = max(0, entry.every_s - entry.slot_s - MARGIN_S)
    offset_s = random.Random(f"{entry.name} {path_id} {period}").randrange(latest_s + 1)
    return datetime.fromtimestamp(period * entry.every_s + offset_s, UTC)


def _request(entry: SweepEntry, path: Path, now: datetime) -> bool:
    period_began = datetime.fromtimestamp(int(now.timestamp()) // entry.every_s * entry.every_s, UTC)
    rounds = ThroughputSweep.objects.filter(schedule=entry.name, path_id=path.pk)
    if now < due_at(entry, path.pk, now):
        return False
    if SweepCell.objects.filter(sweep__in=rounds, asked_at__gte=period_began).exists():
        return False
    with transaction.atomic():
        cell = _next_cell(entry, path, now)
        try:
            with transaction.atomic():
                slot = ask(path, ThroughputSettings(**cell.parameters), by=f"sweep {cell.sweep_id}", now=now)
        except OnDemandError as error:
            ThroughputSweep.objects.filter(pk=cell.sweep_id).update(problem=str(error))
            return False
        SweepCell.objects.filter(pk=cell.pk).update(slot_id=slot.pk, asked_at=now)
        ThroughputSweep.objects.filter(pk=cell.sweep_id).update(problem=None)
    return True


def _next_cell(entry: SweepEntry, path: Path, now: datetime) -> SweepCell:
    grid = grid_of(entry)
    rounds = ThroughputSweep.objects.select_for_update().filter(schedule=entry.name, path_id=path.pk)
    latest = rounds.order_by("-asked_at", "-pk").first()
    if latest is not None:
        waiting = latest.cells.filter(slot_id=None, outcome=None)
        tested = {ThroughputSettings(**parameters) for parameters in latest.cells.values_list("parameters", flat=True)}
        cell = waiting.order_by("place").first()
        if cell is not None and tested == set(grid):
            return cell
        waiting.delete()
    sweep_id = throughput_sweeps.create(
        path, grid, name=f"{entry.name}: {path}", by=ASKED_BY, now=now, schedule=entry.name
    )
    return SweepCell.objects.filter(sweep=sweep_id).order_by("place")[0]
