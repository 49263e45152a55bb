"""Best settings of a path over the day, by its scheduled sweeps (`monitor.analysis.sweeps.best_setting`)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Any

from django.db.models import Q

from monitor.analysis.sweeps.best_setting import BestSettings, SettingTest, best_settings, sentences
from monitor.analysis.sweeps.sweet_spot import SettingResult, SweepSetting, segment_remarks
from monitor.archive.models import SweepCell, ThroughputSweep

# Days with tests to compare.
DAYS = 28
HISTORY = timedelta(days=DAYS)
# A hundred settings, a test a day.
LONGEST_ROUND = timedelta(days=100)


@dataclass(frozen=True, slots=True)
class ScheduledSettings:
    """Best settings of a path by a scheduled sweep; hours are in `zone`."""

    schedule: str
    since: datetime
    until: datetime
    zone: str
    round_id: int  # sweep of the newest round
    ended: int  # tested settings of the round
    cells: int
    problem: str | None  # why its next test could not be requested
    best: BestSettings | None  # None with too few tests
    sentences: tuple[str, ...]


def scheduled_settings(path_id: int, now: datetime, zone: tzinfo) -> list[ScheduledSettings]:
    since = now - HISTORY
    rows = SweepCell.objects.filter(
        Q(measured_at__gte=since) | Q(outcome=None) | Q(sweep__asked_at__gte=since),
        sweep__schedule__isnull=False,
        sweep__path_id=path_id,
        sweep__asked_at__gte=since - LONGEST_ROUND,
    ).select_related("sweep")
    by_schedule: dict[str, list[SweepCell]] = {}
    for row in rows.order_by("sweep__schedule", "sweep__asked_at", "sweep_id", "place"):
        by_schedule.setdefault(str(row.sweep.schedule), []).append(row)
    return [_of_schedule(name, cells, since, now, zone) for name, cells in by_schedule.items()]


def scheduled_tests(path_id: int, since: datetime, until: datetime) -> set[datetime]:
    rounds = ThroughputSweep.objects.filter(
        path_id=path_id, schedule__isnull=False, asked_at__gte=since - LONGEST_ROUND, asked_at__lt=until
    )
    cells = SweepCell.objects.filter(sweep__in=rounds, measured_at__gte=since, measured_at__lt=until)
    return {at for at in cells.values_list("measured_at", flat=True) if at is not None}


def scheduled_paths() -> list[tuple[str, int]]:
    rows = ThroughputSweep.objects.exclude(schedule=None).order_by("schedule", "path_id")
    return [(str(name), path_id) for name, path_id in rows.values_list("schedule", "path_id").distinct()]


def setting_of(parameters: dict[str, Any]) -> SweepSetting:
    return SweepSetting.create(
        parameters["streams"],
        parameters["window_bytes"],
        parameters["congestion_control"],
        parameters["mss_bytes"],
        parameters.get("block_bytes"),
    )


def _of_schedule(
    name: str, cells: list[SweepCell], since: datetime, until: datetime, zone: tzinfo
) -> ScheduledSettings:
    newest = cells[-1].sweep
    last = [cell for cell in cells if cell.sweep_id == newest.pk]
    grid = {setting_of(cell.parameters) for cell in last}
    best = best_settings(list(_tests(cells, since, zone)), grid)
    zone_name = until.astimezone(zone).tzname() or "UTC"
    said = (
        sentences(best, zone_name)
        if best is not None
        else [f"Cannot tell: fewer than two of the {len(grid)} settings have been measured."]
    )
    of_segments = segment_remarks(
        SettingResult(setting_of(cell.parameters), cell.throughput_bps, cell.outcome, cell.segment_bytes)
        for cell in cells
    )
    return ScheduledSettings(
        schedule=name,
        since=since,
        until=until,
        zone=zone_name,
        round_id=newest.pk,
        ended=sum(cell.outcome is not None for cell in last),
        cells=len(last),
        problem=newest.problem,
        best=best,
        sentences=(*said, *of_segments),
    )


def _tests(cells: Iterable[SweepCell], since: datetime, zone: tzinfo) -> Iterable[SettingTest]:
    for cell in cells:
        if cell.measured_at is not None and cell.measured_at >= since and cell.throughput_bps is not None:
            hour = cell.measured_at.astimezone(zone).hour
            yield SettingTest(setting_of(cell.parameters), hour, cell.throughput_bps)
