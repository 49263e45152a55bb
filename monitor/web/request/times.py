"""Times and distances as people read them. Figures themselves are worded in `monitor.analysis.figures`."""

from __future__ import annotations

from datetime import datetime

from django.utils.html import format_html
from django.utils.safestring import SafeString

from monitor.analysis import figures

NEVER = "never"


def age(at: datetime | None, now: datetime) -> str:
    """How long ago: "12 s ago"."""
    return NEVER if at is None else f"{figures.duration(max(0.0, (now - at).total_seconds()))} ago"


def minute(at: datetime) -> str:
    """A moment in UTC, to the minute."""
    return f"{at:%Y-%m-%d %H:%M} UTC"


def marked(at: datetime, text: str) -> SafeString:
    """Markup of a time, to which a script adds the local time."""
    return format_html('<time datetime="{}">{}</time>', at.isoformat(), text)


def clock(at: datetime) -> SafeString:
    """A moment of today in UTC, to the second, as markup."""
    return marked(at, f"{at:%H:%M:%S} UTC")


def second(at: datetime) -> str:
    """A moment in UTC, to the second."""
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def distance(kilometres: float) -> str:
    """8750.3 is "8,750 km"."""
    return f"{kilometres:,.0f} km" if kilometres >= 10 else f"{kilometres:.1f} km"
