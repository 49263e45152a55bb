"""Who is told of incidents: what `[[alerts.notify]]` of mesh.toml says, and which channels an incident goes to.

In: the [alerts] table as `document` has checked it, the severity of an incident and where its paths lie. Out: `Route`s.
mesh.toml has the names of channels; their URLs hold passwords and are in SOUNDINGS_NOTIFY_URLS alone.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings

from monitor.mesh.alert_rules import SEVERITIES, Place

NOTIFY = "notify"
_NAMED = re.compile(r"([a-z0-9](?:[a-z0-9._-]*[a-z0-9])?)=(\S+:\S*)")
DIGEST = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]")


@dataclass(frozen=True, slots=True)
class Route:
    """Incidents of at least this severity, on paths that `selector` takes in, go to `channel`: at once, or each day at
    `digest` in `zone`."""

    channel: str
    severity: str = SEVERITIES[0]
    digest: time | None = None
    zone: str = "UTC"
    selector: Mapping[str, Any] | None = None

    def takes(self, severity: str, places: Iterable[Place]) -> bool:
        """Whether an incident of this severity with paths at these places is for it."""
        if SEVERITIES.index(severity) < SEVERITIES.index(self.severity):
            return False
        return self.selector is None or any(place.is_in(self.selector) for place in places)

    def due_at(self, at: datetime) -> datetime:
        """When what happens at `at` is to be told: then, or at the next digest."""
        if self.digest is None:
            return at
        zone = ZoneInfo(self.zone)
        day = at.astimezone(zone).date()
        today = datetime.combine(day, self.digest, zone)
        return today if today > at else datetime.combine(day + timedelta(days=1), self.digest, zone)


def channels() -> dict[str, str]:
    """The configured channels: a name that is safe to store and show -> the URL."""
    return dict(named(word) for word in settings.NOTIFY_URLS)


def named(word: str) -> tuple[str, str]:
    """A channel's name and URL. Without a name of its own it is the URL's scheme and a digest: URLs hold passwords."""
    given = _NAMED.fullmatch(word)
    if given is not None:
        return given[1], given[2]
    return f"{word.partition(':')[0]}:{hashlib.sha256(word.encode()).hexdigest()[:12]}", word


def routes(alerts: Mapping[str, Any], channels: Iterable[str]) -> list[Route]:
    """The routes of the mesh; each of `channels` with everything, at once, where mesh.toml has none."""
    if NOTIFY not in alerts:
        return [Route(channel) for channel in channels]
    return [_route(one) for one in alerts[NOTIFY]]


def unknown_channels(alerts: Mapping[str, Any], channels: Collection[str]) -> list[str]:
    """The channels that mesh.toml names and that are not among `channels`, each once."""
    return [name for name in dict.fromkeys(one["channel"] for one in alerts.get(NOTIFY, ())) if name not in channels]


def chosen(of: Sequence[Route], severity: str, places: Sequence[Place]) -> dict[str, Route]:
    """By channel the route that an incident takes: where a channel has several, one that tells at once."""
    found: dict[str, Route] = {}
    for route in sorted(of, key=lambda one: one.digest is not None):
        if route.takes(severity, places):
            found.setdefault(route.channel, route)
    return found


def _route(table: Mapping[str, Any]) -> Route:
    selector = {key: value for key, value in table.items() if key not in ("channel", "severity", "digest", "zone")}
    digest = table.get("digest")
    return Route(
        channel=table["channel"],
        severity=table.get("severity", SEVERITIES[0]),
        digest=None if digest is None else time.fromisoformat(digest),
        zone=table.get("zone", "UTC"),
        selector=selector or None,
    )
