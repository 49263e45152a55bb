"""The UTC times in a sentence, converted to a time zone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo

_DAY, _CLOCK = r"\d{4}-\d\d-\d\d", r"\d\d:\d\d(?::\d\d)?"
# A time or span in a sentence, or a time of the last 24 hours in a title; with one zone.
_SENTENCE_TIME = re.compile(
    rf"{_DAY} {_CLOCK}(?: to (?:{_DAY} )?{_CLOCK})? UTC(?: \(95% CI (?:{_DAY} )?{_CLOCK}–(?:{_DAY} )?{_CLOCK})?"
    r"|(?<!\S)\d\d:\d\d:\d\d UTC"
)
_MOMENT = re.compile(rf"(?:({_DAY}) )?({_CLOCK})")


@dataclass(frozen=True, slots=True)
class SentencePart:
    text: str
    at: datetime | None = None  # where it is a time


def in_zone(text: str, zone: tzinfo, now: datetime) -> str:
    return "".join(part.text for part in parts_in_zone(text, zone, now))


def parts_in_zone(text: str, zone: tzinfo, now: datetime) -> list[SentencePart]:
    """Split a sentence at its times; a time without a day is the newest before `now`."""
    parts, done = [], 0
    for match in _SENTENCE_TIME.finditer(text):
        times = _times(match[0], zone, now)
        if times:
            parts += [SentencePart(text[done : match.start()]), *times]
            done = match.end()
    return [*parts, SentencePart(text[done:])]


def zone_label(at: datetime) -> str:
    """CEST; without abbreviation the offset, as UTC+5:45."""
    name = at.tzname() or ""
    if name.isalpha():
        return name
    minutes = round((at.utcoffset() or timedelta()).total_seconds() / 60)
    hours, rest = divmod(abs(minutes), 60)
    return f"UTC{'−' if minutes < 0 else '+'}{hours}{f':{rest:02d}' if rest else ''}"


def _times(written: str, zone: tzinfo, now: datetime) -> list[SentencePart]:
    """Convert a time or span; empty if invalid."""
    # A day is repeated only as before, or where it changes.
    parts: list[SentencePart] = []
    done, day_utc, day_shown, label = 0, None, None, ""
    for match in _MOMENT.finditer(written):
        try:
            day_utc = date.fromisoformat(match[1]) if match[1] else day_utc
            at = _newest(match[2], now) if day_utc is None else datetime.fromisoformat(f"{day_utc} {match[2]}Z")
            local = at.astimezone(zone)
        except (ValueError, OverflowError):
            return []
        parts.append(SentencePart(written[done : match.start()].replace("UTC", label)))
        shown = f"{local:%H:%M:%S}" if len(match[2]) > len("12:00") else f"{local:%H:%M}"
        if day_utc is not None and (match[1] or local.date() != day_shown):
            shown = f"{local:%Y-%m-%d} {shown}"
        parts.append(SentencePart(shown, at))
        done, day_shown, label = match.end(), local.date(), zone_label(local)
    return [*parts, SentencePart(written[done:].replace("UTC", label))]


def _newest(clock: str, now: datetime) -> datetime:
    """Newest moment with this UTC time of day that is not in the future."""
    at = datetime.combine(now.astimezone(UTC), time.fromisoformat(clock), UTC)
    return at if at <= now else at - timedelta(days=1)
