"""State of on-demand pings (`monitor.mesh.schedule.on_demand_pings`): waiting, fetched, running, ended, per direction.

In: the number of a request, or a path. Out: `PingsState`, with the replies so far and their figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from statistics import median

from monitor.mesh.models import Path, PingRequest, PingRun
from monitor.mesh.schedule.on_demand_pings import COUNT, missed_deadline
from probes.contract import Outcome


class RunState(StrEnum):
    """State of a direction: `waiting` for its agent, `fetched` by it, `running`, or `ended`."""

    WAITING = "waiting"
    FETCHED = "fetched"
    RUNNING = "running"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class PingRunState:
    """A direction. `rtts_ms` has an entry for each request sent, None without a reply; `awaited` are the indices of
    those that may still be answered. `outcome` is None until it ended."""

    path: Path
    state: RunState
    count: int
    rtts_ms: tuple[float | None, ...]
    awaited: tuple[int, ...]
    outcome: str | None
    detail: str | None
    started_at: datetime | None
    ended_at: datetime | None

    @property
    def sent(self) -> int:
        return len(self.rtts_ms)

    @property
    def replies_ms(self) -> list[float]:
        return [rtt_ms for rtt_ms in self.rtts_ms if rtt_ms is not None]

    @property
    def received(self) -> int:
        return len(self.replies_ms)

    @property
    def lost(self) -> int:
        """Requests without a reply in time; those that may still be answered are not lost."""
        return self.sent - self.received - len(self.awaited)

    @property
    def rtt_min_ms(self) -> float | None:
        return min(self.replies_ms, default=None)

    @property
    def rtt_median_ms(self) -> float | None:
        return median(self.replies_ms) if self.replies_ms else None

    @property
    def rtt_max_ms(self) -> float | None:
        return max(self.replies_ms, default=None)

    @property
    def is_measured(self) -> bool:
        return self.outcome == Outcome.MEASURED


@dataclass(frozen=True, slots=True)
class PingsState:
    """On-demand pings of a path: the runs are those of the path and, where it has an agent, of the other end."""

    id: int
    path_id: int
    asked_at: datetime
    asked_by: str
    runs: tuple[PingRunState, ...]

    @property
    def is_running(self) -> bool:
        return any(run.state is not RunState.ENDED for run in self.runs)


def pings_of(request_id: int, now: datetime) -> PingsState | None:
    """Load on-demand pings; None where there are none of this number."""
    request = PingRequest.objects.filter(pk=request_id).first()
    return None if request is None else _state(request, now)


def latest_pings(path_id: int, now: datetime, since: datetime) -> PingsState | None:
    """The newest on-demand pings requested since then that cover this path: requested for it, or for the path back."""
    run = (
        PingRun.objects.filter(path=path_id, request__asked_at__gte=since)
        .select_related("request")
        .order_by("request__asked_at", "pk")
        .last()
    )
    return None if run is None else _state(run.request, now)


def _state(request: PingRequest, now: datetime) -> PingsState:
    runs = request.runs.select_related("request", "path__source__site", "path__destination__site").order_by("pk")
    return PingsState(
        id=request.pk,
        path_id=request.path_id,
        asked_at=request.asked_at,
        asked_by=request.asked_by,
        runs=tuple(_run_state(run, now) for run in runs),
    )


def _run_state(run: PingRun, now: datetime) -> PingRunState:
    outcome, detail = missed_deadline(run, now) or (run.outcome, run.detail)
    is_over = outcome is not None
    if is_over:
        state = RunState.ENDED
    elif run.started_at is not None:
        state = RunState.RUNNING
    else:
        state = RunState.WAITING if run.fetched_at is None else RunState.FETCHED
    return PingRunState(
        path=run.path,
        state=state,
        count=COUNT,
        rtts_ms=tuple(run.rtts_ms),
        awaited=() if is_over else tuple(run.awaited),
        outcome=outcome,
        detail=detail or None,
        started_at=run.started_at,
        ended_at=run.ended_at,
    )
