"""Sweeps: a grid of settings on one path, each cell a test that is asked for, run one after the other.

In: a path and settings; the number of a sweep. Out: a `Sweep` with what its cells got. A sweep may be stopped and taken
up again at any time: what has ended is kept with the sweep, what was not asked for or was taken back is asked for next.
Where the knee lies is told by `monitor.analysis.transfer.sweep`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from itertools import product
from typing import Any

from django.db import transaction
from django.utils import timezone

from monitor.analysis.transfer.sweep import Cell, Setting
from monitor.archive.models import SweepCell, ThroughputSweep
from monitor.archive.queries import on_demand
from monitor.archive.queries.on_demand import OnDemand, State
from monitor.archive.queries.transfers import backgrounds, transfer_of
from monitor.mesh.models import Path
from monitor.mesh.on_demand import OnDemandError, Settings, ask, cancel, faults
from probes.contract import Deadline, Outcome

AHEAD = 2
"""Tests asked for at a time: the next one is with the agents while one runs, and few are in the way of the plan."""
MOST_CELLS = 400
NOBODY_REPORTS = timedelta(minutes=15)
"""After the end of a test; by then the centre's worker, where one runs, has called it missed."""
POLL_S = 1.0


@dataclass(frozen=True, slots=True)
class SweptCell:
    """A cell with its test. Its times and figures are None as those of `monitor.archive.queries.on_demand.OnDemand`
    are."""

    place: int
    setting: Setting
    slot_id: int | None
    state: State | None
    outcome: str | None
    detail: str | None
    measured_at: datetime | None
    throughput_bps: float | None
    idle_rtt_ms: float | None
    verdict: str | None
    sentence: str | None

    @property
    def cell(self) -> Cell:
        return Cell(self.setting, self.throughput_bps, self.outcome)


@dataclass(frozen=True, slots=True)
class Sweep:
    """A sweep as it stands. `rtt_ms` is the idle round trip: the least of its tests, else of the pings before it."""

    id: int
    name: str
    path_id: int
    asked_at: datetime
    asked_by: str
    rtt_ms: float | None
    cells: tuple[SweptCell, ...]

    @property
    def ended(self) -> int:
        return sum(cell.outcome is not None for cell in self.cells)

    @property
    def grid(self) -> list[Cell]:
        return [swept.cell for swept in self.cells]


def settings_of(
    base: Settings,
    windows_bytes: Sequence[int],
    streams: Sequence[int],
    controls: Sequence[str] = (),
    msss_bytes: Sequence[int] = (),
) -> list[Settings]:
    """All of the grid; nothing given of congestion controls or MSS leaves them as in `base`. Raises `OnDemandError`."""
    given = asdict(base)
    own_controls: Sequence[str | None] = controls or [base.congestion_control]
    own_msss: Sequence[int | None] = msss_bytes or [base.mss_bytes]
    axes = product(own_controls, own_msss, streams, windows_bytes)
    found = [
        Settings(**{**given, "congestion_control": cc, "mss_bytes": mss, "streams": number, "window_bytes": window})
        for cc, mss, number, window in dict.fromkeys(axes)
    ]
    if not found or len(found) > MOST_CELLS:
        raise OnDemandError(f"that is a grid of {len(found)} cells; give 1 to {MOST_CELLS}")
    wrong = dict.fromkeys(fault for one in found for fault in faults(one))
    if wrong:
        raise OnDemandError("; ".join(wrong))
    return found


def create(path: Path, settings: Sequence[Settings], *, name: str, by: str, now: datetime) -> int:
    """A new sweep, of which nothing has run. Its number.

    The order is random, so that a path that changes meanwhile does not look like what a setting does.
    """
    with transaction.atomic():
        sweep = ThroughputSweep.objects.create(path_id=path.pk, name=name, asked_at=now, asked_by=by)
        ordered = random.Random(sweep.pk).sample(settings, len(settings))
        SweepCell.objects.bulk_create(
            SweepCell(sweep=sweep, place=place, parameters=asdict(one)) for place, one in enumerate(ordered)
        )
    return sweep.pk


def load(sweep_id: int, now: datetime) -> Sweep | None:
    """The sweep as it stands; None where there is none of this number."""
    sweep = ThroughputSweep.objects.filter(pk=sweep_id).first()
    if sweep is None:
        return None
    cells = tuple(_swept(row, now) for row in sweep.cells.order_by("place"))
    idle_ms = [cell.idle_rtt_ms for cell in cells if cell.idle_rtt_ms is not None]
    return Sweep(
        id=sweep.pk,
        name=sweep.name,
        path_id=sweep.path_id,
        asked_at=sweep.asked_at,
        asked_by=sweep.asked_by,
        rtt_ms=min(idle_ms) if idle_ms else _pinged_ms(sweep.path_id, sweep.asked_at),
        cells=cells,
    )


def newest(limit: int, path_id: int | None = None) -> list[tuple[int, str, int, datetime]]:
    """(id, name, path, asked at) of the sweeps asked for last, newest first."""
    rows = ThroughputSweep.objects.all() if path_id is None else ThroughputSweep.objects.filter(path_id=path_id)
    return list(rows.order_by("-asked_at", "-pk").values_list("pk", "name", "path_id", "asked_at")[:limit])


def run(sweep_id: int, tell: Callable[[Sweep], None]) -> Sweep:
    """Run what has not ended, and `tell` how it stands about each second. Raises `OnDemandError` where a test cannot be
    asked for, as over a budget, and `LookupError` for an unknown sweep or path; what has ended is kept."""
    while True:
        keep(sweep_id, timezone.now())
        found = load(sweep_id, timezone.now())
        if found is None:
            raise LookupError(f"there is no sweep {sweep_id}")
        tell(found)
        open_cells = [cell for cell in found.cells if cell.outcome is None]
        if not open_cells:
            # A test can end after `keep`, and be awaited again when the other end's half of it comes.
            if _asked_for(sweep_id):
                continue
            return found
        running = [cell.slot_id for cell in open_cells if cell.slot_id is not None]
        if len(running) < min(AHEAD, len(open_cells)):
            _ask_next(found)
        else:
            on_demand.wait(running[0], Deadline(POLL_S))


def stop(sweep_id: int, now: datetime) -> None:
    """Take back what no agent has in hand yet; the rest ends by itself, and is kept when the sweep is next run."""
    for cell_id, slot_id in _asked_for(sweep_id):
        if cancel(slot_id, now):
            SweepCell.objects.filter(pk=cell_id, outcome=None).update(slot_id=None)


def forget_failures(sweep_id: int) -> int:
    """Have the cells run again that were not measured; how many."""
    failed = SweepCell.objects.filter(sweep=sweep_id).exclude(outcome=None).exclude(outcome=Outcome.MEASURED.value)
    return failed.update(outcome=None, detail=None, slot_id=None, verdict=None, sentence=None)


def keep(sweep_id: int, now: datetime) -> None:
    """Note with the sweep what its tests ended in, so that it outlives them."""
    for cell_id, slot_id in _asked_for(sweep_id):
        test = on_demand.on_demand(slot_id, now)
        if test is None:
            fields: dict[str, Any] = {"slot_id": None}
        elif test.state is State.ENDED:
            fields = _figures(test)
        elif now > test.ends_at + NOBODY_REPORTS:
            fields = {"outcome": Outcome.MISSED.value, "detail": "no agent has reported it; is the centre's worker up?"}
        else:
            continue
        SweepCell.objects.filter(pk=cell_id, outcome=None).update(**fields)


def _asked_for(sweep_id: int) -> list[tuple[int, int]]:
    """(cell, slot) of what was asked for and has not ended, as far as is kept."""
    rows = SweepCell.objects.filter(sweep=sweep_id, outcome=None).order_by("place").values_list("pk", "slot_id")
    return [(cell_id, slot_id) for cell_id, slot_id in rows if slot_id is not None]


def _ask_next(sweep: Sweep) -> None:
    """Raises `OnDemandError`, and `LookupError` where the path is gone."""
    path = Path.objects.with_hosts().filter(pk=sweep.path_id).first()
    if path is None:
        raise LookupError(f"there is no path {sweep.path_id} any more, on which sweep {sweep.id} runs")
    with transaction.atomic():
        waiting = SweepCell.objects.select_for_update().filter(sweep=sweep.id, slot_id=None, outcome=None)
        row = waiting.order_by("place")[0]
        slot = ask(path, Settings(**row.parameters), by=f"sweep {sweep.id}", now=timezone.now())
        SweepCell.objects.filter(pk=row.pk).update(slot_id=slot.pk)


def _swept(row: SweepCell, now: datetime) -> SweptCell:
    fields: dict[str, Any] = {
        name: getattr(row, name)
        for name in ("outcome", "detail", "measured_at", "throughput_bps", "idle_rtt_ms", "verdict", "sentence")
    }
    state = None if row.outcome is None else State.ENDED
    if row.outcome is None and row.slot_id is not None:
        test = on_demand.on_demand(row.slot_id, now)
        state = None if test is None else test.state
        if test is not None and test.state is State.ENDED:
            fields |= _figures(test)
    setting = Setting.of(
        row.parameters["streams"],
        row.parameters["window_bytes"],
        row.parameters["congestion_control"],
        row.parameters["mss_bytes"],
    )
    return SweptCell(place=row.place, setting=setting, slot_id=row.slot_id, state=state, **fields)


def _figures(test: OnDemand) -> dict[str, Any]:
    """What a sweep keeps of a test that has ended."""
    return {
        "outcome": test.outcome,
        "detail": test.detail,
        "measured_at": test.measured_at,
        "throughput_bps": test.throughput_bps,
        "idle_rtt_ms": _idle_ms(test),
        "verdict": test.verdict,
        "sentence": test.sentence,
    }


def _idle_ms(test: OnDemand) -> float | None:
    stored = None if test.measured_at is None else transfer_of(test.path_id, test.measured_at)
    return None if stored is None or stored.findings is None else stored.findings.idle_rtt_ms


def _pinged_ms(path_id: int, at: datetime) -> float | None:
    return backgrounds([(path_id, at)])[path_id, at].idle_rtt_ms
