"""Times and distances as people read them. Figures themselves are worded in `monitor.analysis.figures`.

Times are in the reader's time zone, which the middleware `monitor.web.request.preferences` makes the current one of
`django.utils.timezone`: UTC unless chosen otherwise. They always name it. Addresses, the API and downloads are in UTC.
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
_SENTENCE_TIME = re.compile(
    rf"{_DAY} {_CLOCK}(?: to (?:{_DAY} )?{_CLOCK})? UTC(?: \(95% CI (?:{_DAY} )?{_CLOCK}–(?:{_DAY} )?{_CLOCK})?"
    r"|(?<!\S)\d\d:\d\d:\d\d UTC"
)
"""A time or a span in a sentence, as rules, evidence and actions write it, or a time of the last 24 hours in a title;
the zone belongs to all of it."""
_MOMENT = re.compile(rf"(?:({_DAY}) )?({_CLOCK})")


def age(at: datetime | None, now: datetime) -> str:
    """How long ago: "12 s ago"."""
    return NEVER if at is None else f"{figures.duration(max(0.0, (now - at).total_seconds()))} ago"


def zone_label(at: datetime) -> str:
    """Abbreviation of the zone of an aware time, as CEST; its offset where it has none, as UTC+5:45."""
    name = at.tzname() or ""
    if name.isalpha():
        return name
    minutes = round((at.utcoffset() or timedelta()).total_seconds() / 60)
    hours, rest = divmod(abs(minutes), 60)
    return f"UTC{'−' if minutes < 0 else '+'}{hours}{f':{rest:02d}' if rest else ''}"


def _with_zone(at: datetime, pattern: str) -> str:
    """A moment in the reader's zone, with the zone's name."""
    local = timezone.localtime(at)
    return f"{local.strftime(pattern)} {zone_label(local)}"


def day_second(at: datetime) -> str:
    """A moment of this year to the second, for narrow columns: "11-22 10:00:12 UTC"."""
    return _with_zone(at, "%m-%d %H:%M:%S")


def minute(at: datetime) -> str:
    """A moment to the minute."""
    return _with_zone(at, "%Y-%m-%d %H:%M")


def second(at: datetime) -> str:
    """A moment to the second."""
    return _with_zone(at, "%Y-%m-%d %H:%M:%S")


def clock_minute(at: datetime) -> str:
    """A moment of today to the minute."""
    return _with_zone(at, "%H:%M")


def clock_second(at: datetime) -> str:
    """A moment of today to the second."""
    return _with_zone(at, "%H:%M:%S")


def clock_of(at_s: float, now: datetime) -> str:
    """A moment in seconds since the epoch: to the second, of another day than that of reading to the minute."""
    at = datetime.fromtimestamp(at_s, UTC)
    return clock_second(at) if timezone.localtime(at).date() == timezone.localtime(now).date() else minute(at)


def clock(at: datetime) -> SafeString:
    """A moment of today to the second, as markup."""
    return marked(at, clock_second(at))


def span(since: datetime, until: datetime) -> str:
    """A span to the minute, one of less than ten minutes to the second: "2026-11-20 12:00 to 13:00 UTC"."""
    first, last = timezone.localtime(since), timezone.localtime(until)
    zone = "" if zone_label(first) == zone_label(last) else f" {zone_label(first)}"
    clock = figures.clock_format(since, until)
    end = last.strftime(clock if last.date() == first.date() else f"%Y-%m-%d {clock}")
    return f"{first.strftime(f'%Y-%m-%d {clock}')}{zone} to {end} {zone_label(last)}"


def marked(at: datetime, text: str) -> SafeString:
    """Markup of a time, to which a script adds other zones."""
    return format_html('<time datetime="{}">{}</time>', at.isoformat(), text)


def in_zone(text: str) -> str:
    """A sentence with the UTC times in it put into the reader's zone."""
    return "".join(part.text for part in _parts(text))


def in_zone_marked(text: str) -> SafeString:
    """The same as markup, with each time marked."""
    parts = (part.text if part.at is None else marked(part.at, part.text) for part in _parts(text))
    return format_html_join("", "{}", ((part,) for part in parts))


@dataclass(frozen=True, slots=True)
class ChartZone:
    """The offset from UTC on a chart's time axis, the same over all of it, and its name. An axis cannot change its
    offset in the middle, so where clocks change within the chart all of it has the offset of its end."""

    offset: timedelta
    label: str

    @property
    def offset_ms(self) -> int:
        return round(self.offset.total_seconds() * 1000)


def chart_zone(until: datetime) -> ChartZone:
    """The zone of a chart that ends then."""
    local = timezone.localtime(until)
    return ChartZone(local.utcoffset() or timedelta(), zone_label(local))


def distance(kilometres: float) -> str:
    """8750.3 is "8,750 km"."""
    return f"{kilometres:,.0f} km" if kilometres >= 10 else f"{kilometres:.1f} km"


@dataclass(frozen=True, slots=True)
class _Part:
    """A piece of a sentence; `at` where it is a time."""

    text: str
    at: datetime | None = None


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
    """The parts of a time or span, converted; none where it is no valid time. A day is repeated only where it was, or
    where it changes."""
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
    """The newest moment with this time of day in UTC that is not in the future."""
    now = timezone.now()
    at = datetime.combine(now.astimezone(UTC), time.fromisoformat(clock), UTC)
    return at if at <= now else at - timedelta(days=1)
