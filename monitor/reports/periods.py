"""Periods of reports: an ISO week, or any days, in the reader's time zone, from whole hours of UTC."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo, available_timezones

from monitor.overview.moments import day_in_bounds

_WRITTEN = re.compile(r"(\d{4})-W(\d{2})")
# 52 weeks: a year, to the same weekday.
YEAR_DAYS = 364

LONGEST_DAYS = 366


@dataclass(frozen=True, slots=True, order=True)
class Week:
    """ISO week `number` (1 to 53) of ISO year `year`, Monday to Sunday, written `2026-W47`."""

    year: int
    number: int

    def __post_init__(self) -> None:
        date.fromisocalendar(self.year, self.number, 1)

    def __str__(self) -> str:
        return f"{self.year}-W{self.number:02d}"

    @classmethod
    def parse(cls, text: str) -> Week:
        """Parse a week such as `2026-W47`. Raises ValueError with the expected format."""
        written = _WRITTEN.fullmatch(text)
        if written is None:
            raise ValueError(f"{text!r} is not an ISO week; write the year and the week, as in 2026-W47")
        try:
            week = cls(int(written[1]), int(written[2]))
        except ValueError as error:
            raise ValueError(f"{text!r}: there is no such ISO week; weeks are W01 to W52, in some years W53") from error
        day_in_bounds(week.monday)
        return week

    @classmethod
    def of_day(cls, day: date) -> Week:
        calendar = day.isocalendar()
        return cls(calendar.year, calendar.week)

    @classmethod
    def containing(cls, moment: datetime, zone: ZoneInfo) -> Week:
        return cls.of_day(moment.astimezone(zone).date())

    @property
    def monday(self) -> date:
        return date.fromisocalendar(self.year, self.number, 1)

    @property
    def before(self) -> Week:
        return Week.of_day(self.monday - timedelta(days=1))

    @property
    def year_before(self) -> Week:
        """The same week number a year before; for a week 53 without counterpart, 52 weeks earlier."""
        try:
            return Week(self.year - 1, self.number)
        except ValueError:
            return Week.of_day(self.monday - timedelta(days=YEAR_DAYS))


@dataclass(frozen=True, slots=True)
class Period:
    """Days from `first` in a time zone."""

    first: date
    days: int
    zone: ZoneInfo
    week: Week | None = None  # set if they are an ISO week

    @classmethod
    def of_week(cls, week: Week, zone: ZoneInfo) -> Period:
        return cls(week.monday, 7, zone, week)

    @classmethod
    def between(cls, first: date, last: date, zone: ZoneInfo) -> Period:
        """The period from the first day to the last, both included. Raises ValueError."""
        days = (last - first).days + 1
        if not 1 <= days <= LONGEST_DAYS:
            raise ValueError(
                f"{first} to {last} is {days} days; give the first day and the last, at most {LONGEST_DAYS} days"
            )
        week = Week.of_day(first)
        return cls(first, days, zone, week if days == 7 and week.monday == first else None)

    @classmethod
    def named(cls, name: str, zone: ZoneInfo) -> Period:
        """Parse the name of a period, as from `str`. Raises ValueError."""
        first, is_days, last = name.partition("_")
        if is_days:
            return cls.between(date.fromisoformat(first), date.fromisoformat(last), zone)
        return cls.of_week(Week.parse(name), zone)

    def __str__(self) -> str:
        return f"{self.first}_{self.last}" if self.week is None else str(self.week)

    @property
    def words(self) -> str:
        """`2026-W47`, `2026-11-16` or `2026-11-01 to 2026-11-30`."""
        return str(self.first) if self.days == 1 else str(self).replace("_", " to ")

    @property
    def last(self) -> date:
        return self.first + timedelta(days=self.days - 1)

    @property
    def since(self) -> datetime:
        return _midnight(self.first, self.zone)

    @property
    def until(self) -> datetime:
        return _midnight(self.first + timedelta(days=self.days), self.zone)

    @property
    def hours(self) -> int:
        """Hours of the period: 168 in a week, except when clocks change."""
        return round((self.until - self.since).total_seconds() / 3600)

    def precedes(self, data_since: datetime | None) -> bool:
        return data_since is None or data_since >= self.until

    @property
    def before(self) -> Period:
        """The period of the same length directly before."""
        if self.week is not None:
            return Period.of_week(self.week.before, self.zone)
        return Period(self.first - timedelta(days=self.days), self.days, self.zone)

    @property
    def year_before(self) -> Period:
        """A year before: the week of the same number, or the days 52 weeks earlier."""
        if self.week is not None:
            return Period.of_week(self.week.year_before, self.zone)
        return Period(self.first - timedelta(days=YEAR_DAYS), self.days, self.zone)


def zone_named(name: str) -> ZoneInfo:
    """The time zone of this name. Raises ValueError with an example."""
    if name not in available_timezones():
        close = difflib.get_close_matches(name, sorted(available_timezones()), n=1)
        hint = f'did you mean "{close[0]}"?' if close else 'write it as in "Europe/Zurich", or "UTC"'
        raise ValueError(f'"{name}" is not a time zone; {hint}')
    return ZoneInfo(name)


def _midnight(day: date, zone: ZoneInfo) -> datetime:
    """The first whole hour of UTC of a day."""
    at = datetime.combine(day, time.min, zone).astimezone(UTC)
    hour = at.replace(minute=0, second=0, microsecond=0)
    return hour if hour == at else hour + timedelta(hours=1)
