"""Times and distances as text.

Times name their zone, which `monitor.web.request.preferences` sets. Addresses, the API and downloads are in UTC.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from monitor.analysis import figures
from monitor.analysis.sentence_times import SentencePart, parts_in_zone, zone_label

NEVER = "never"


def age(at: datetime | None, now: datetime) -> str:
    """`12 s ago`."""
    return NEVER if at is None else f"{figures.duration(max(0.0, (now - at).total_seconds()))} ago"


def _with_zone(at: datetime, pattern: str) -> str:
    local = timezone.localtime(at)
    return f"{local.strftime(pattern)} {zone_label(local)}"


def day_second(at: datetime) -> str:
    """Time within a year: "11-22 10:00:12 UTC"."""
    return _with_zone(at, "%m-%d %H:%M:%S")


def minute(at: datetime) -> str:
    return _with_zone(at, "%Y-%m-%d %H:%M")


def second(at: datetime) -> str:
    return _with_zone(at, "%Y-%m-%d %H:%M:%S")


def clock_minute(at: datetime) -> str:
    return _with_zone(at, "%H:%M")


def clock_second(at: datetime) -> str:
    return _with_zone(at, "%H:%M:%S")


def clock_of(at_s: float, now: datetime) -> str:
    """Time to the second, of another day to the minute."""
    at = datetime.fromtimestamp(at_s, UTC)
    return clock_second(at) if timezone.localtime(at).date() == timezone.localtime(now).date() else minute(at)


def clock(at: datetime) -> SafeString:
    return marked(at, clock_second(at))


def span(since: datetime, until: datetime) -> str:
    """`2026-11-20 12:00 to 13:00 UTC`; below ten minutes to the second."""
    first, last = timezone.localtime(since), timezone.localtime(until)
    zone = "" if zone_label(first) == zone_label(last) else f" {zone_label(first)}"
    clock = figures.clock_format(since, until)
    end = last.strftime(clock if last.date() == first.date() else f"%Y-%m-%d {clock}")
    return f"{first.strftime(f'%Y-%m-%d {clock}')}{zone} to {end} {zone_label(last)}"


def marked(at: datetime, text: str) -> SafeString:
    # A script adds other zones.
    return format_html('<time datetime="{}">{}</time>', at.isoformat(), text)


def in_zone(text: str) -> str:
    """Convert the UTC times in a sentence to the reader's zone."""
    return "".join(part.text for part in _parts(text))


def in_zone_marked(text: str) -> SafeString:
    parts = (part.text if part.at is None else marked(part.at, part.text) for part in _parts(text))
    return format_html_join("", "{}", ((part,) for part in parts))


@dataclass(frozen=True, slots=True)
class ChartZone:
    """Constant over a time axis: clock changes inside take the offset of its end."""

    offset: timedelta
    label: str

    @property
    def offset_ms(self) -> int:
        return round(self.offset.total_seconds() * 1000)


def chart_zone(until: datetime) -> ChartZone:
    local = timezone.localtime(until)
    return ChartZone(local.utcoffset() or timedelta(), zone_label(local))


def distance(kilometres: float) -> str:
    """8750.3 is "8,750 km"."""
    return f"{kilometres:,.0f} km" if kilometres >= 10 else f"{kilometres:.1f} km"


def _parts(text: str) -> list[SentencePart]:
    return parts_in_zone(text, timezone.get_current_timezone(), timezone.now())
