"""The time of the page of routes: `at` in the address, a slider over the time around it, and steps between changes.

The slider's `at` is in seconds since the epoch, so that its form works without a script; links have it as text.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.http import Http404, HttpRequest

from monitor.archive.queries.routes.mesh_routes import ChangeStep
from monitor.overview.grid import HistoryPeriod
from monitor.overview.moments import in_bounds
from monitor.web.request import parameters, window

MINUTE = timedelta(minutes=1)
STEPS = 96
PERIODS = (HistoryPeriod.DAY, HistoryPeriod.WEEK, HistoryPeriod.MONTH)


@dataclass(frozen=True, slots=True)
class Bar:
    """Changes in a step of the slider's time: its place and height, of 100 each."""

    left: float
    height: float


@dataclass(frozen=True, slots=True)
class Slider:
    """The slider from `since` to `until`; `at` is None at present. `earlier` and `later` are the times of the changes
    next to it within the slider's time, None without."""

    at: datetime | None
    since: datetime
    until: datetime
    bars: list[Bar]
    changes: int
    earlier: datetime | None
    later: datetime | None

    @property
    def first_s(self) -> int:
        return int(self.since.timestamp())

    @property
    def last_s(self) -> int:
        return int(self.until.timestamp())

    @property
    def value_s(self) -> int:
        return self.last_s if self.at is None else int(self.at.timestamp())


def moment_of(request: HttpRequest, now: datetime) -> datetime | None:
    """The time that the address names, None for the present. Raises Http404 for any other text."""
    given = request.GET.get("at", "")
    if given.isascii() and given.isdigit() and len(given) <= 10:
        try:
            at = in_bounds(datetime.fromtimestamp(int(given), UTC))
        except ValueError as error:
            raise Http404(f"at={given}: {error}") from error
    else:
        named = window.moment(request, "at")
        if named is None:
            return None
        at = named
    return at if at < now - MINUTE else None


def period_of(request: HttpRequest) -> HistoryPeriod:
    """The length of the slider."""
    period = parameters.choice(request, "last", HistoryPeriod, HistoryPeriod.DAY)
    if period not in PERIODS:
        raise Http404(f"last={period}: choose one of {', '.join(PERIODS)}")
    return period


def span(at: datetime | None, now: datetime, length: timedelta) -> tuple[datetime, datetime]:
    """The slider's time: up to now, or around a moment of before."""
    until = now.replace(second=0, microsecond=0)
    if at is not None and at < until - length:
        until = at.replace(second=0, microsecond=0) + length / 2
    return until - length, until


def slider(at: datetime | None, since: datetime, until: datetime, steps: list[ChangeStep]) -> Slider:
    """The slider with the changes in its time."""
    most = max((step.changes for step in steps), default=1)
    times = sorted({_whole_second(time) for step in steps for time in (step.first_at, step.last_at)})
    return Slider(
        at,
        since,
        until,
        [Bar(step.step * 100 / STEPS, max(18.0, step.changes * 100 / most)) for step in steps],
        sum(step.changes for step in steps),
        max((time for time in times if at is None or time < at), default=None),
        min((time for time in times if at is not None and time > at), default=None),
    )


def _whole_second(at: datetime) -> datetime:
    """Rounded up, so that the change has happened by then."""
    return at if at.microsecond == 0 else at.replace(microsecond=0) + timedelta(seconds=1)


def text(at: datetime) -> str:
    """A moment as addresses have it, to the second in UTC."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
