"""Tests of slow start after idle of a path over a period."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from monitor.archive.statements import check_period, select


@dataclass(frozen=True, slots=True)
class IdleRestartPoint:
    """A test; figures as in `probes.idle_restart.spec.IdleRestartRun`, None where not measured. `restarted` is whether
    the window was reduced in the pause, None where that cannot be told; `sentence` says it."""

    at: datetime
    test: str
    outcome: str
    restarted: bool | None
    before_bps: float | None
    is_steady: bool | None
    cwnd_before: int | None
    cwnd_after: int | None
    timeout_s: float | None
    rtt_ms: float | None
    pause_s: float | None
    duration_s: float | None
    rise_s: float | None
    back_s: float | None
    setting: str | None
    sentence: str | None
    detail: str | None


def idle_restart_series(path_id: int, since: datetime, until: datetime) -> list[IdleRestartPoint]:
    """All tests of slow start after idle of a path that began in the period, oldest first, whatever their outcome."""
    check_period(since, until)
    return select(IdleRestartPoint, "idle_restart_series", path_id=path_id, since=since, until=until)
