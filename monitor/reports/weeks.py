"""ISO weeks: Monday 00:00 to the next Monday 00:00, UTC, written `2026-W47`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

_WRITTEN = re.compile(r"(\d{4})-W(\d{2})")


@dataclass(frozen=True, slots=True, order=True)
class Week:
    """Week `number` (1 to 53) of ISO year `year`."""

    year: int
    number: int

    def __post_init__(self) -> None:
        date.fromisocalendar(self.year, self.number, 1)

    def __str__(self) -> str:
        return f"{self.year}-W{self.number:02d}"

    @classmethod
    def parse(cls, text: str) -> Week:
        """The week written as `2026-W47`. Raises ValueError with what to write instead."""
        written = _WRITTEN.fullmatch(text)
        if written is None:
            raise ValueError(f"{text!r} is not an ISO week; write the year and the week, as in 2026-W47")
        try:
            return cls(int(written[1]), int(written[2]))
        except ValueError as error:
            raise ValueError(f"{text!r}: there is no such ISO week; weeks are W01 to W52, in some years W53") from error

    @classmethod
    def of(cls, moment: datetime) -> Week:
        """The week that an aware moment lies in."""
        calendar = moment.astimezone(UTC).isocalendar()
        return cls(calendar.year, calendar.week)

    @property
    def since(self) -> datetime:
        return datetime.combine(date.fromisocalendar(self.year, self.number, 1), datetime.min.time(), UTC)

    @property
    def until(self) -> datetime:
        return self.since + timedelta(days=7)

    @property
    def before(self) -> Week:
        return Week.of(self.since - timedelta(days=1))
