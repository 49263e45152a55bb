"""Notification routes: [[alerts.notify]] of mesh.toml, and the channels of an incident.

Channel URLs contain passwords and are only in SOUNDINGS_NOTIFY_URLS.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Annotated, Any
from zoneinfo import ZoneInfo, available_timezones

from django.conf import settings

from monitor.mesh.document.alert_rules import SEVERITIES, Place, Selectors, Severity
from probes.toml.keys import Text, alternatives, check, meaning, must_be

NOTIFY = "notify"
_NAMED = re.compile(r"([a-z0-9](?:[a-z0-9._-]*[a-z0-9])?)=(\S+:\S*)")
_CHANNEL = must_be(
    'the name of a channel in SOUNDINGS_NOTIFY_URLS, as "oncall"; its URL stays there, since it holds secrets',
    r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?",
    is_secret=True,
)
_TIME_OF_DAY = must_be('a time of day, as "07:00"', r"([01][0-9]|2[0-3]):[0-5][0-9]")


def _zone_fault(zone: str) -> str | None:
    return None if zone in available_timezones() else 'is not known; write it as "Europe/Zurich"'


def _channel_example() -> str:
    # A URL without a name cannot be written in mesh.toml.
    names = [name for name in channels() if ":" not in name]
    if names:
        return f"{alternatives(names)} (a name in SOUNDINGS_NOTIFY_URLS)"
    return '"…" (a name in SOUNDINGS_NOTIFY_URLS, which has none: add oncall=URL there)'


class NotifyKeys(Selectors, frozen=True):
    """An [[alerts.notify]] table."""

    channel: Annotated[
        str,
        _CHANNEL,
        meaning("Name of a channel in SOUNDINGS_NOTIFY_URLS.", _channel_example),
    ]
    severity: Annotated[Severity, meaning("Minimum severity of the incidents.")] = "notice"
    digest: (
        Annotated[str, _TIME_OF_DAY, meaning('Time of day, such as "07:00", of a daily digest. Default: immediately.')]
        | None
    ) = None
    zone: Annotated[Text, check(_zone_fault), meaning("Time zone of `digest`.")] = "UTC"


@dataclass(frozen=True, slots=True)
class NotifyRoute:
    """Route of incidents of at least this severity, on paths matching `selector`, to `channel`: immediately, or daily
    at `digest` in `zone`."""

    channel: str
    severity: str = SEVERITIES[0]
    digest: time | None = None
    zone: str = "UTC"
    selector: Mapping[str, Any] | None = None

    def takes(self, severity: str, places: Iterable[Place]) -> bool:
        if SEVERITIES.index(severity) < SEVERITIES.index(self.severity):
            return False
        return self.selector is None or any(place.is_in(self.selector) for place in places)

    def due_at(self, at: datetime) -> datetime:
        """Time to send: at once, or at the next digest."""
        if self.digest is None:
            return at
        zone = ZoneInfo(self.zone)
        day = at.astimezone(zone).date()
        today = datetime.combine(day, self.digest, zone)
        return today if today > at else datetime.combine(day + timedelta(days=1), self.digest, zone)


def channels() -> dict[str, str]:
    """Configured channels: name, safe to store and show -> URL."""
    return dict(named(word) for word in settings.NOTIFY_URLS)


def named(word: str) -> tuple[str, str]:
    """Name and URL of a channel; an unnamed URL, containing passwords, is named by scheme and digest."""
    given = _NAMED.fullmatch(word)
    if given is not None:
        return given[1], given[2]
    return f"{word.partition(':')[0]}:{hashlib.sha256(word.encode()).hexdigest()[:12]}", word


def routes(alerts: Mapping[str, Any], channels: Iterable[str]) -> list[NotifyRoute]:
    """Routes of the mesh; without any, everything to each of `channels` immediately."""
    if NOTIFY not in alerts:
        return [NotifyRoute(channel) for channel in channels]
    return [_route(table) for table in alerts[NOTIFY]]


def unknown_channels(alerts: Mapping[str, Any], channels: Collection[str]) -> list[str]:
    """Distinct channels in mesh.toml that are not among `channels`."""
    return [
        name for name in dict.fromkeys(table["channel"] for table in alerts.get(NOTIFY, ())) if name not in channels
    ]


def chosen(of: Sequence[NotifyRoute], severity: str, places: Sequence[Place]) -> dict[str, NotifyRoute]:
    """Route of an incident for each channel, preferring immediate routes to digests."""
    by_channel: dict[str, NotifyRoute] = {}
    for route in sorted(of, key=lambda route: route.digest is not None):
        if route.takes(severity, places):
            by_channel.setdefault(route.channel, route)
    return by_channel


def _route(table: Mapping[str, Any]) -> NotifyRoute:
    selector = {key: value for key, value in table.items() if key not in ("channel", "severity", "digest", "zone")}
    digest = table.get("digest")
    return NotifyRoute(
        channel=table["channel"],
        severity=table.get("severity", SEVERITIES[0]),
        digest=None if digest is None else time.fromisoformat(digest),
        zone=table.get("zone", "UTC"),
        selector=selector or None,
    )
