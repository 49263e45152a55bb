"""Run sweeps: grids of settings on a path, each cell an on-demand test; they can be resumed."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import product
from typing import Any

from django.db import transaction
from django.utils import timezone
from msgspec import structs

from monitor.analysis.sweeps.sweet_spot import SettingResult, SweepSetting
from monitor.archive.models import SweepCell, ThroughputSweep
from monitor.archive.queries.throughput import on_demand
from monitor.archive.queries.throughput.on_demand import OnDemand, TestState
from monitor.archive.queries.throughput.transfers import backgrounds, transfer_of
from monitor.archive.scheduled_settings import setting_of
from monitor.mesh.models import Path
from monitor.mesh.schedule.on_demand import OnDemandError, Settings, ask, cancel, faults
from probes.contract import Deadline, Outcome

# Requested tests at a time: the next reaches agents while another runs, and scheduled tests are rarely delayed.
AHEAD = 2
MOST_CELLS = 400
# Time after the end of a test; by then the centre's worker, if running, has marked it missed.
NOBODY_REPORTS = timedelta(minutes=15)
POLL_S = 1.0
# Fields of an ended cell.
FIGURES = (
    "outcome", "detail", "measured_at", "throughput_bps", "idle_rtt_ms", "segment_bytes", "verdict", "sentence",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SweepCellResult:
    """Cell with its test; None as in `monitor.archive.queries.throughput.on_demand.OnDemand`."""

    place: int
    setting: SweepSetting
    slot_id: int | None
    state: TestState | None
    outcome: str | None
    detail: str | None
    measured_at: datetime | None
    throughput_bps: float | None
    idle_rtt_ms: float | None
    segment_bytes: int | None
    verdict: str | None
    sentence: str | None

    @property
    def cell(self) -> SettingResult:
        return SettingResult(self.setting, self.throughput_bps, self.outcome, self.segment_bytes)


@dataclass(frozen=True, slots=True)
class Sweep:
    id: int
    name: str
    path_id: int
    asked_at: datetime
    asked_by: str
    rtt_ms: float | None  # idle RTT: minimum of its tests, else of earlier pings
    cells: tuple[SweepCellResult, ...]
    schedule: str | None = None
    problem: str | None = None

    @property
    def ended(self) -> int:
        return sum(cell.outcome is not None for cell in self.cells)

    @property
    def grid(self) -> list[SettingResult]:
        return [result.cell for result in self.cells]


def settings_of(
    base: Settings,
    windows_bytes: Sequence[int | None],
    streams: Sequence[int],
    controls: Sequence[str] = (),
    msss_bytes: Sequence[int] = (),
    blocks_bytes: Sequence[int] = (),
) -> list[Settings]:
    """Combine the grid; `base` fills in missing dimensions. Raises `OnDemandError`."""
    given = structs.asdict(base)
    own_controls: Sequence[str | None] = controls or [base.congestion_control]
    own_msss: Sequence[int | None] = msss_bytes or [base.mss_bytes]
    own_blocks: Sequence[int | None] = blocks_bytes or [base.block_bytes]
    names = ("congestion_control", "mss_bytes", "block_bytes", "streams", "window_bytes")
    axes = product(own_controls, own_msss, own_blocks, streams, windows_bytes)
    grid = [Settings(**{**given, **dict(zip(names, cell, strict=True))}) for cell in dict.fromkeys(axes)]
    if not grid or len(grid) > MOST_CELLS:
        raise OnDemandError(f"the grid has {len(grid)} cells; allowed are 1 to {MOST_CELLS}")
    wrong = dict.fromkeys(fault for cell in grid for fault in faults(cell))
    if wrong:
        raise OnDemandError("; ".join(wrong))
    return grid


def create(
    path: Path, settings: Sequence[Settings], *, name: str, by: str, now: datetime, schedule: str | None = None
) -> int:
    """Create a sweep, or a scheduled round; return its id.

    The order is random, so path changes are not attributed to a setting.
    """
    with transaction.atomic():
        sweep = ThroughputSweep.objects.create(path_id=path.pk, name=name, asked_at=now, asked_by=by, schedule=schedule)
        ordered = random.Random(sweep.pk).sample(settings, len(settings))
        SweepCell.objects.bulk_create(
            SweepCell(sweep=sweep, place=place, parameters=structs.asdict(setting))
            for place, setting in enumerate(ordered)
        )
    return sweep.pk


def load(sweep_id: int, now: datetime) -> Sweep | None:
    sweep = ThroughputSweep.objects.filter(pk=sweep_id).first()
    if sweep is None:
        return None
    cells = tuple(_cell_result(row, now) for row in sweep.cells.order_by("place"))
    idle_ms = [cell.idle_rtt_ms for cell in cells if cell.idle_rtt_ms is not None]
    return Sweep(
        id=sweep.pk,
        name=sweep.name,
        path_id=sweep.path_id,
        asked_at=sweep.asked_at,
        asked_by=sweep.asked_by,
        rtt_ms=min(idle_ms) if idle_ms else _ping_rtt_ms(sweep.path_id, sweep.asked_at),
        cells=cells,
        schedule=sweep.schedule,
        problem=sweep.problem,
    )


def newest(limit: int, path_id: int | None = None, *, scheduled: bool = True) -> list[tuple[int, str, int, datetime]]:
    rows = ThroughputSweep.objects.all() if path_id is None else ThroughputSweep.objects.filter(path_id=path_id)
    if not scheduled:
        rows = rows.filter(schedule=None)
    return list(rows.order_by("-asked_at", "-pk").values_list("pk", "name", "path_id", "asked_at")[:limit])


def run(sweep_id: int, tell: Callable[[Sweep], None]) -> Sweep:
    """Run remaining cells, calling `tell` about each second.

    Raises `OnDemandError` where a test cannot be requested, and `LookupError` for an unknown sweep or path.
    """
    while True:
        keep_results(sweep_id, timezone.now())
        sweep = load(sweep_id, timezone.now())
        if sweep is None:
            raise LookupError(f"sweep {sweep_id} not found")
        tell(sweep)
        open_cells = [cell for cell in sweep.cells if cell.outcome is None]
        if not open_cells:
            # A test can end after `keep_results`, and its diagnosis wait again when the other end delivers its half.
            if _requested_slots(sweep_id):
                continue
            return sweep
        running = [cell.slot_id for cell in open_cells if cell.slot_id is not None]
        if len(running) < min(AHEAD, len(open_cells)):
            _ask_next(sweep)
        else:
            on_demand.wait(on_demand.on_demand, running[0], Deadline(POLL_S))


def stop(sweep_id: int, now: datetime) -> None:
    """Cancel tests that no agent has started; running tests end normally."""
    for cell_id, slot_id in _requested_slots(sweep_id):
        if cancel(slot_id, now):
            SweepCell.objects.filter(pk=cell_id, outcome=None).update(slot_id=None)


def forget_failures(sweep_id: int) -> int:
    """Reset failed cells to run again; return their number."""
    failed = SweepCell.objects.filter(sweep=sweep_id).exclude(outcome=None).exclude(outcome=Outcome.MEASURED.value)
    return failed.update(outcome=None, detail=None, slot_id=None, verdict=None, sentence=None)


def keep_results(sweep_id: int, now: datetime) -> None:
    """Copy results of ended tests to the sweep, which outlives them."""
    for cell_id, slot_id in _requested_slots(sweep_id):
        test = on_demand.on_demand(slot_id, now)
        if test is None:
            fields: dict[str, Any] = {"slot_id": None}
        elif test.state is TestState.ENDED:
            fields = _figures(test)
        elif now > test.ends_at + NOBODY_REPORTS:
            fields = {"outcome": Outcome.MISSED.value, "detail": "no agent has reported it; is the centre's worker up?"}
        else:
            continue
        SweepCell.objects.filter(pk=cell_id, outcome=None).update(**fields)


def _requested_slots(sweep_id: int) -> list[tuple[int, int]]:
    rows = SweepCell.objects.filter(sweep=sweep_id, outcome=None).order_by("place").values_list("pk", "slot_id")
    return [(cell_id, slot_id) for cell_id, slot_id in rows if slot_id is not None]


def _ask_next(sweep: Sweep) -> None:
    """Request the next test. Raises `OnDemandError` and `LookupError`."""
    path = Path.objects.with_hosts().filter(pk=sweep.path_id).first()
    if path is None:
        raise LookupError(f"path {sweep.path_id} of sweep {sweep.id} no longer exists")
    with transaction.atomic():
        waiting = SweepCell.objects.select_for_update().filter(sweep=sweep.id, slot_id=None, outcome=None)
        row = waiting.order_by("place")[0]
        slot = ask(path, Settings(**row.parameters), by=f"sweep {sweep.id}", now=timezone.now())
        SweepCell.objects.filter(pk=row.pk).update(slot_id=slot.pk)


def _cell_result(row: SweepCell, now: datetime) -> SweepCellResult:
    fields: dict[str, Any] = {name: getattr(row, name) for name in FIGURES}
    state = None if row.outcome is None else TestState.ENDED
    if row.outcome is None and row.slot_id is not None:
        test = on_demand.on_demand(row.slot_id, now)
        state = None if test is None else test.state
        if test is not None and test.state is TestState.ENDED:
            fields |= _figures(test)
    return SweepCellResult(
        place=row.place, setting=setting_of(row.parameters), slot_id=row.slot_id, state=state, **fields
    )


def _figures(test: OnDemand) -> dict[str, Any]:
    stored = None if test.measured_at is None else transfer_of(test.path_id, test.measured_at)
    findings = None if stored is None else stored.findings
    kernel = None if stored is None or stored.transfer is None else stored.transfer.kernel
    return {
        "outcome": test.outcome,
        "detail": test.detail,
        "measured_at": test.measured_at,
        "throughput_bps": test.throughput_bps,
        "idle_rtt_ms": None if findings is None else findings.idle_rtt_ms,
        "segment_bytes": None if kernel is None else kernel.segment_bytes,
        "verdict": test.verdict,
        "sentence": test.sentence,
    }


def _ping_rtt_ms(path_id: int, at: datetime) -> float | None:
    return backgrounds([(path_id, at)])[path_id, at].idle_rtt_ms
