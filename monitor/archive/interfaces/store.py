"""Check and store interface use and mark its weeks dirty, in the batch's transaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import cast

from monitor.archive.ingest.rows import row_of
from monitor.archive.models import InterfaceResult, InterfaceWeek
from monitor.archive.periods import week_of
from probes.contract import Outcome
from probes.interface.spec import InterfaceRun
from probes.site.wire import Delivered


def store_interfaces(runs: Sequence[Delivered], now: datetime) -> None:
    """Store new readings; existing rows stay unchanged."""
    ordered = sorted(runs, key=lambda delivered: (delivered.path_id, delivered.result.started_at))
    InterfaceResult.objects.bulk_create(
        [row_of(InterfaceResult, delivered) for delivered in ordered], ignore_conflicts=True
    )
    weeks = {
        (delivered.path_id, delivered.test, week_of(delivered.result.started_at))
        for delivered in ordered
        if cast("InterfaceRun", delivered.result).in_bps is not None
    }
    InterfaceWeek.objects.bulk_create(
        [InterfaceWeek(path_id=path_id, test=test, week=week, is_dirty=True) for path_id, test, week in sorted(weeks)],
        update_conflicts=True,
        unique_fields=["path_id", "test", "week"],
        update_fields=["is_dirty"],
    )


def in_interface(run: InterfaceRun) -> str | None:
    """Reason to refuse contradicting fields."""
    figures = (run.interval_s, run.in_bps, run.out_bps)
    reason = None
    if run.outcome is not Outcome.MEASURED and any(figure is not None for figure in figures):
        reason = f"{run.outcome}, but with figures"
    elif len({figure is None for figure in figures}) > 1:
        reason = "interval and rates are not all given"
    elif run.outcome is Outcome.MEASURED and run.in_bps is None and run.detail is None:
        reason = "measured, but with neither figures nor a reason"
    return None if reason is None else f"{reason} - at `$.result`"
