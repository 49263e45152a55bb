"""When to be quiet: which paths are silenced or in maintenance at a moment.

In: the rows of `Quiet` and the paths in use. Out: sets of paths. A quiet time for a site holds for every path to or
from it, one for a group for every path within it, one that names nothing for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from django.db.models import F, Q

from monitor.alerts.models import Quiet
from monitor.mesh.alert_rules import Place
from monitor.mesh.queries import MeasuredPath


@dataclass(frozen=True, slots=True)
class QuietPaths:
    """The paths in maintenance, on which nothing opens; and those of which nobody is told, which has these too."""

    in_maintenance: frozenset[int]
    silenced: frozenset[int]

    def silences(self, path_ids: Iterable[int]) -> bool:
        """Whether nobody is to be told of an incident on these paths: all of them are silenced."""
        return self.silenced.issuperset(path_ids)


def at(now: datetime, paths: Mapping[int, MeasuredPath]) -> QuietPaths:
    """The quiet paths at `now`."""
    lasting = in_force(now)
    maintenance = (_paths_of(one, paths) for one in lasting if one.kind == Quiet.Kind.MAINTENANCE)
    return QuietPaths(
        in_maintenance=frozenset().union(*maintenance),
        silenced=frozenset().union(*(_paths_of(one, paths) for one in lasting)),
    )


def maintained_s(since: datetime, now: datetime, paths: Mapping[int, MeasuredPath]) -> dict[int, float]:
    """When the last maintenance of each path ended, in seconds since the epoch; `now` where one lasts. Left out are
    paths that had none since `since`."""
    begun = Quiet.objects.filter(kind=Quiet.Kind.MAINTENANCE, starts_at__lte=now)
    begun = begun.exclude(ended_at__lte=F("starts_at"))  # called off before it began
    found: dict[int, float] = {}
    for one in begun.filter(Q(every_s__isnull=False) | Q(ends_at__gt=since)).select_related("site", "group"):
        held_until = one.held_until(now)
        if held_until > since:
            for path_id in _paths_of(one, paths):
                found[path_id] = max(found.get(path_id, 0.0), held_until.timestamp())
    return found


def in_force(now: datetime) -> list[Quiet]:
    """The silences and maintenances that hold at `now`."""
    return [one for one in _candidates(now) if one.holds_at(now)]


class Standing(StrEnum):
    """What a silence or maintenance is at a moment."""

    IN_FORCE = "in force"
    TO_COME = "to come"
    OVER = "over"
    ENDED = "ended"


def standing(quiet: Quiet, now: datetime) -> Standing:
    """What it is at `now`: between two times it is to come, and ended where somebody ended it early."""
    if quiet.holds_at(now):
        return Standing.IN_FORCE
    if quiet.ended_at is not None and quiet.ended_at <= now:
        return Standing.ENDED
    return Standing.OVER if next_time(quiet, now) is None else Standing.TO_COME


def next_time(quiet: Quiet, now: datetime) -> tuple[datetime, datetime] | None:
    """From when to when it holds now, or next; None where it never will again."""
    starts_at, lasts = quiet.starts_at, quiet.ends_at - quiet.starts_at
    if quiet.every_s is not None and now >= quiet.ends_at:
        every = timedelta(seconds=quiet.every_s)
        starts_at += (now - quiet.ends_at) // every * every + every
    ends_at = min([starts_at + lasts, *(one for one in (quiet.until, quiet.ended_at) if one is not None)])
    return None if ends_at <= max(now, starts_at) else (starts_at, ends_at)


def _candidates(now: datetime) -> Iterable[Quiet]:
    started = Quiet.objects.filter(starts_at__lte=now, ended_at=None) | Quiet.objects.filter(
        starts_at__lte=now, ended_at__gt=now
    )
    lasting = started.filter(every_s=None, ends_at__gt=now) | started.filter(every_s__isnull=False)
    return lasting.select_related("site", "group")


def covers(quiet: Quiet, path_id: int, place: Place) -> bool:
    """Whether it is for that path."""
    if quiet.path_id is not None:
        return quiet.path_id == path_id
    if quiet.site is not None:
        return quiet.site.name in (place.source, place.destination)
    return quiet.group is None or quiet.group.name in place.groups


def _paths_of(quiet: Quiet, paths: Mapping[int, MeasuredPath]) -> frozenset[int]:
    if quiet.path_id is not None:
        return frozenset({quiet.path_id})
    return frozenset(path_id for path_id, one in paths.items() if covers(quiet, path_id, one.place))
