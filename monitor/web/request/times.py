"""Times and distances as text.

Times name their zone, which `monitor.web.request.preferences` sets. Addresses, the API and downloads are in UTC.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from monitor.analysis import figures

NEVER = "never"
_DAY, _CLOCK = r"\d{4}-\d\d-\d\d", r"\d\d:\d\d(?::\d\d)?"
# A time or span in a sentence, or a time of the last 24 hours in a title; with one zone.
_SENTENCE_TIME = re.compile(
    rf"{_DAY} {_CLOCK}(?: to (?:{_DAY} )?{_CLOCK})? UTC(?: \(95% CI (?:{_DAY} )?{_CLOCK}–(?:{_DAY} )?{_CLOCK})?"
    r"|(?<!\S)\d\d:\d\d:\d\d UTC"
)
_MOMENT = re.compile(rf"(?:({_DAY}) )?({_CLOCK})")


def age(at: datetime | None, now: datetime) -> str:
    """`12 s ago`."""
    return NEVER if at is None else f"{figures.duration(max(0.0, (now - at).total_seconds()))} ago"


def zone_label(at: datetime) -> str:
    """CEST; without abbreviation the offset, as UTC+5:45."""
    name = at.tzname() or ""
    if name.isalpha():
        return name
    minutes = round((at.utcoffset() or timedelta()).total_seconds() / 60)
    hours, rest = divmod(abs(minutes), 60)
    return f"UTC{'−' if minutes < 0 else '+'}{hours}{f':{rest:02d}' if rest else ''}"


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


@dataclass(frozen=True, slots=True)
class _Part:
    text: str
    at: datetime | None = None  # where it is a time


def _parts(text: str) -> list[_Part]:
    zone = timezone.get_current_timezone()
    parts, done = [], 0
    for match in _SENTENCE_TIME.finditer(text):
        times = _times(match[0], zone)
        if times:
            parts += [_Part(text[done : match.start()]), *times]
            done = match.end()
    return [*parts, _Part(text[done:])]


def _times(written: str, zone: tzinfo) -> list[_Part]:
    """Convert a time or span; empty if invalid."""
    # A day is repeated only as before, or where it changes.
    parts: list[_Part] = []
    done, day_utc, day_shown, label = 0, None, None, ""
    for match in _MOMENT.finditer(written):
        try:
            day_utc = date.fromisoformat(match[1]) if match[1] else day_utc
            at = _newest(match[2]) if day_utc is None else datetime.fromisoformat(f"{day_utc} {match[2]}Z")
            local = at.astimezone(zone)
        except (ValueError, OverflowError):
            return []
        parts.append(_Part(written[done : match.start()].replace("UTC", label)))
        shown = f"{local:%H:%M:%S}" if len(match[2]) > len("12:00") else f"{local:%H:%M}"
        if day_utc is not None and (match[1] or local.date() != day_shown):
            shown = f"{local:%Y-%m-%d} {shown}"
        parts.append(_Part(shown, at))
        done, day_shown, label = match.end(), local.date(), zone_label(local)
    return [*parts, _Part(written[done:].replace("UTC", label))]


def _newest(clock: str) -> datetime:
    """Newest moment with this UTC time of day that is not in the future."""
    now = timezone.now()
    at = datetime.combine(now.astimezone(UTC), time.fromisoformat(clock), UTC)
    return at if at <= now else at - timedelta(days=1)
