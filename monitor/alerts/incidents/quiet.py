"""The paths silenced or in maintenance at a moment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from django.db.models import F, Q

from monitor.alerts.models import QuietPeriod
from monitor.mesh.document.alert_rules import Place
from monitor.mesh.queries import MeasuredPath


@dataclass(frozen=True, slots=True)
class QuietPaths:
    """Paths without new incidents or notifications."""

    in_maintenance: frozenset[int]
    silenced: frozenset[int]  # superset of `in_maintenance`

    def silences(self, path_ids: Iterable[int]) -> bool:
        """Whether an incident on these paths is muted: all of them are silenced."""
        return self.silenced.issuperset(path_ids)


def quiet_paths_at(now: datetime, paths: Mapping[int, MeasuredPath]) -> QuietPaths:
    lasting = in_force(now)
    maintenance = (_paths_of(quiet, paths) for quiet in lasting if quiet.kind == QuietPeriod.Kind.MAINTENANCE)
    return QuietPaths(
        in_maintenance=frozenset().union(*maintenance),
        silenced=frozenset().union(*(_paths_of(quiet, paths) for quiet in lasting)),
    )


def maintained_s(since: datetime, now: datetime, paths: Mapping[int, MeasuredPath]) -> dict[int, float]:
    """End of each path's last maintenance after `since`, in seconds since the epoch; `now` during maintenance."""
    ended_s: dict[int, float] = {}
    for quiet in _begun_maintenance(since, now):
        held_until = quiet.held_until(now)
        if held_until > since:
            for path_id in _paths_of(quiet, paths):
                ended_s[path_id] = max(ended_s.get(path_id, 0.0), held_until.timestamp())
    return ended_s


def maintenance_times(
    since: datetime, now: datetime, places: Mapping[int, Place]
) -> Iterator[tuple[int, datetime, datetime]]:
    """Path, begin and end (`now` at most) of each maintenance in force after `since`."""
    for quiet in _begun_maintenance(since, now):
        stretches = list(_stretches(quiet, since, now))
        for path_id, place in places.items():
            if covers(quiet, path_id, place):
                yield from ((path_id, begin, end) for begin, end in stretches)


def _stretches(quiet: QuietPeriod, since: datetime, now: datetime) -> Iterator[tuple[datetime, datetime]]:
    latest = min(end for end in (now, quiet.until, quiet.ended_at) if end is not None)
    begin, lasts = quiet.starts_at, quiet.ends_at - quiet.starts_at
    every = None if quiet.every_s is None else timedelta(seconds=quiet.every_s)
    if every is not None and begin + lasts <= since:
        begin += (since - begin) // every * every
    while begin < latest:
        if begin + lasts > since:
            yield max(begin, since), min(begin + lasts, latest)
        begin = latest if every is None else begin + every


def _begun_maintenance(since: datetime, now: datetime) -> Iterable[QuietPeriod]:
    begun = QuietPeriod.objects.filter(kind=QuietPeriod.Kind.MAINTENANCE, starts_at__lte=now)
    begun = begun.exclude(ended_at__lte=F("starts_at"))  # cancelled before it began
    return begun.filter(Q(every_s__isnull=False) | Q(ends_at__gt=since)).select_related("site", "group")


def in_force(now: datetime) -> list[QuietPeriod]:
    return [quiet for quiet in _candidates(now) if quiet.holds_at(now)]


class QuietState(StrEnum):
    """The state of a silence or maintenance at a moment."""

    IN_FORCE = "in force"
    TO_COME = "to come"
    OVER = "over"
    ENDED = "ended"


def quiet_state(quiet: QuietPeriod, now: datetime) -> QuietState:
    """The state at `now`: TO_COME also between repetitions, ENDED if it was ended early."""
    if quiet.holds_at(now):
        return QuietState.IN_FORCE
    if quiet.ended_at is not None and quiet.ended_at <= now:
        return QuietState.ENDED
    return QuietState.OVER if next_time(quiet, now) is None else QuietState.TO_COME


def next_time(quiet: QuietPeriod, now: datetime) -> tuple[datetime, datetime] | None:
    """The present or next time of a silence or maintenance; None if there is none."""
    starts_at, lasts = quiet.starts_at, quiet.ends_at - quiet.starts_at
    if quiet.every_s is not None and now >= quiet.ends_at:
        every = timedelta(seconds=quiet.every_s)
        starts_at += (now - quiet.ends_at) // every * every + every
    ends_at = min([starts_at + lasts, *(end for end in (quiet.until, quiet.ended_at) if end is not None)])
    return None if ends_at <= max(now, starts_at) else (starts_at, ends_at)


def _candidates(now: datetime) -> Iterable[QuietPeriod]:
    started = QuietPeriod.objects.filter(starts_at__lte=now, ended_at=None) | QuietPeriod.objects.filter(
        starts_at__lte=now, ended_at__gt=now
    )
    lasting = started.filter(every_s=None, ends_at__gt=now) | started.filter(every_s__isnull=False)
    return lasting.select_related("site", "group")


def covers(quiet: QuietPeriod, path_id: int, place: Place) -> bool:
    if quiet.path_id is not None:
        return quiet.path_id == path_id
    if quiet.site is not None:
        return quiet.site.name in (place.source, place.destination)
    return quiet.group is None or quiet.group.name in place.groups


def _paths_of(quiet: QuietPeriod, paths: Mapping[int, MeasuredPath]) -> frozenset[int]:
    if quiet.path_id is not None:
        return frozenset({quiet.path_id})
    return frozenset(path_id for path_id, path in paths.items() if covers(quiet, path_id, path.place))
