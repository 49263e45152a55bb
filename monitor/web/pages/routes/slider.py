"""Slider of the routes page; it sends seconds since the epoch, so that its form works without scripts."""

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
    """Place and height of a bar, in percent."""

    left: float
    height: float


@dataclass(frozen=True, slots=True)
class Slider:
    at: datetime | None  # None at present
    since: datetime
    until: datetime
    bars: list[Bar]
    changes: int
    earlier: datetime | None  # previous change within the slider, if any
    later: datetime | None  # next change within the slider, if any

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
    """Time of the address, None for the present. Raises Http404 for any other text."""
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
    period = parameters.choice(request, "last", HistoryPeriod, HistoryPeriod.DAY)
    if period not in PERIODS:
        raise Http404(f"last={period}: choose one of {', '.join(PERIODS)}")
    return period


def span(at: datetime | None, now: datetime, length: timedelta) -> tuple[datetime, datetime]:
    until = now.replace(second=0, microsecond=0)
    if at is not None and at < until - length:
        until = at.replace(second=0, microsecond=0) + length / 2
    return until - length, until


def slider(at: datetime | None, since: datetime, until: datetime, steps: list[ChangeStep]) -> Slider:
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
    # Rounded up, so that the change has happened by then.
    return at if at.microsecond == 0 else at.replace(microsecond=0) + timedelta(seconds=1)


def text(at: datetime) -> str:
    """Write a time for addresses, to the second in UTC."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
