"""Summaries of the rows that a test has stored, as computed by the roll-up in time."""

from datetime import timedelta

from monitor.analysis.sketches import RTT_MS, Sketches
from monitor.archive.models import Burst, BurstHour, DirtyHour, DirtySummary
from monitor.archive.periods import start_of
from monitor.archive.rollup.recompute import TIERS, merge, roll_up


def roll_up_raw(now):
    """The hours of all raw bursts, as the worker computes them within seconds; days and longer summaries are only
    marked."""
    hours = {(path_id, start_of("hour", at)) for path_id, at in Burst.objects.values_list("path_id", "measured_at")}
    DirtyHour.objects.bulk_create(
        (DirtyHour(path_id=path_id, hour=hour, marked_at=now) for path_id, hour in hours), ignore_conflicts=True
    )
    while roll_up(now):
        continue


def merge_hours(now):
    """Merge all existing hours, marked or not."""
    days = {(path_id, start_of("day", hour)) for path_id, hour in BurstHour.objects.values_list("path_id", "hour")}
    DirtySummary.objects.bulk_create(
        (DirtySummary(tier="day", path_id=path_id, starts_at=day, marked_at=now) for path_id, day in days),
        ignore_conflicts=True,
    )
    merge_all(now)


def merge_all(now):
    """Merge all marked summaries, however fresh the mark."""
    for tier in TIERS:
        while merge(tier, now, patience=timedelta(0)):
            continue


def sketch_of(rtt_ms, received):
    """The sketch of a number of equal RTTs."""
    return Sketches.of_values([0] * received, [rtt_ms] * received, 1, RTT_MS).to_bytes()[0]
