"""Hours of the day, in UTC, as limits.toml has them: "20:00-06:00"."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

from probes.limit_keys import HourList

DAY_MINUTES = 24 * 60


def contains(hours: HourList, begins_at: datetime, length: timedelta) -> bool:
    """Whether all of a period lies in the hours of the days that it touches."""
    midnight = begins_at.replace(hour=0, minute=0, second=0, microsecond=0)
    begins_min = (begins_at - midnight) / timedelta(minutes=1)
    ends_min = begins_min + length / timedelta(minutes=1)
    days = range(-1, math.ceil(ends_min / DAY_MINUTES))
    reached = begins_min
    for start, end in sorted(
        (day * DAY_MINUTES + start, day * DAY_MINUTES + end) for day in days for start, end in map(_minutes, hours)
    ):
        if start <= reached < end:
            reached = end
    return reached > begins_min and reached >= ends_min


def _minutes(text: str) -> tuple[int, int]:
    start, end = (int(part[:2]) * 60 + int(part[3:]) for part in text.split("-"))
    return start, end if end > start else end + DAY_MINUTES
