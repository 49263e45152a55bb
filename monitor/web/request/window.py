"""Period that a page shows, in its address: `period=day`, or `since=…&until=…` in UTC or in `zone=…`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from django.http import Http404, HttpRequest

from monitor.accounts.preferences import UTC_NAME, is_zone
from monitor.analysis import figures
from monitor.archive.statements import LONGEST_RAW
from monitor.overview.grid import GridPeriod, HistoryPeriod
from monitor.overview.moments import in_bounds
from monitor.web.request import parameters, times

LEAST = timedelta(minutes=1)
MOST = timedelta(days=5 * 366)
# The parameters of the address that choose the period.
PERIOD_NAMES = ("since", "until", "zone", "period")
MOST_BARS = 170
# Lengths that pool packets where single steps have too few: enough to show a loss of a few percent.
BAR_S = (300, 900, 3600, 6 * 3600, 86_400, 7 * 86_400, 28 * 86_400)


@dataclass(frozen=True, slots=True)
class ShownPeriod:
    """Half open [since, until), in UTC."""

    since: datetime
    until: datetime
    period: HistoryPeriod | None  # None where the address names the ends

    @property
    def length(self) -> timedelta:
        return self.until - self.since

    @property
    def has_bursts(self) -> bool:
        return self.length <= LONGEST_RAW

    @property
    def words(self) -> str:
        """`the last day`, or `the time from 12:00 to 13:00 UTC`."""
        if self.period is not None:
            return f"the last {self.period}"
        return f"the time from {times.span(self.since, self.until)}"

    @property
    def query(self) -> str:
        if self.period is not None:
            return urlencode({"period": self.period})
        return urlencode({"since": minute(self.since), "until": minute(self.until)})

    @property
    def exact_words(self) -> str:
        """`2026-11-20 12:00 to 2026-11-21 12:00 UTC (24 h)`."""
        return f"{times.span(self.since, self.until)} ({figures.duration(self.length.total_seconds())})"

    @property
    def grid_period(self) -> GridPeriod:
        if self.period in (None, HistoryPeriod.MONTH):
            return GridPeriod.WEEK
        return GridPeriod.NOW if self.period is HistoryPeriod.HOUR else GridPeriod(self.period.value)

    @property
    def bar_s(self) -> int:
        least_s = self.length.total_seconds() / MOST_BARS
        return next((step for step in BAR_S if step >= least_s), BAR_S[-1])


def minute(at: datetime) -> str:
    """Minute in UTC, for addresses and date fields."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M")


def shown_period(request: HttpRequest, now: datetime) -> ShownPeriod:
    since, until = moment(request, "since"), moment(request, "until")
    if since is None and until is None:
        period = parameters.choice(request, "period", HistoryPeriod, HistoryPeriod.DAY)
        return ShownPeriod(now - period.length, now, period)
    if since is None:
        raise Http404("until without since: say where the time begins, like since=2026-11-20T12:00")
    until = now if until is None else until
    if not LEAST <= until - since <= MOST:
        raise Http404(
            f"since={minute(since)}&until={minute(until)}: show one minute to five years, the first end first"
        )
    return ShownPeriod(since, until, None)


@dataclass(frozen=True, slots=True)
class TimeLink:
    label: str
    query: str | None  # None where there is no such period


def time_links(request: HttpRequest, shown: ShownPeriod, now: datetime) -> tuple[TimeLink, ...]:
    """Links to the previous, next, doubled and present period."""
    length = shown.length
    wider = min(2 * length, MOST)
    until = min(shown.until + (wider - length) / 2, now)
    live = None if shown.period is not None else _with(request, {"period": _nearest(length)})
    return (
        TimeLink("← earlier", _to(request, shown.since, length)),
        TimeLink("later →", None if shown.until >= now else _to(request, min(shown.until + length, now), length)),
        TimeLink("zoom out", None if wider == length else _to(request, until, wider)),
        TimeLink("back to live", live),
    )


def _to(request: HttpRequest, until: datetime, length: timedelta) -> str | None:
    try:
        in_bounds(until - length)
    except ValueError:
        return None
    return _with(request, {"since": minute(until - length), "until": minute(until)})


def _with(request: HttpRequest, changed: dict[str, str]) -> str:
    kept = {name: value for name, value in request.GET.dict().items() if name not in PERIOD_NAMES}
    return urlencode({**kept, **changed})


def _nearest(length: timedelta) -> HistoryPeriod:
    return next((period for period in HistoryPeriod if period.length >= length), HistoryPeriod.MONTH)


def moment(request: HttpRequest, name: str) -> datetime | None:
    """Parse a time; without offset it is in the address's zone, by default UTC."""
    given = request.GET.get(name, "")
    if given == "":
        return None
    try:
        at = datetime.fromisoformat(given)
        return in_bounds(at.replace(tzinfo=_zone(request)) if at.tzinfo is None else at)
    except ValueError as error:
        raise Http404(f"{name}={given}: give a moment in UTC, like {name}=2026-11-20T12:00") from error


def _zone(request: HttpRequest) -> tzinfo:
    given = request.GET.get("zone", UTC_NAME)
    if not is_zone(given):
        raise Http404(f"zone={given}: give the name of a time zone, like zone=Europe/Zurich")
    return ZoneInfo(given)
