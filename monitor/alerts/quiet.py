"""When to be quiet: which paths are silenced or in maintenance at a moment.

In: the rows of `Quiet` and the paths in use. Out: sets of paths. A quiet time for a site holds for every path to or
from it, one for a group for every path within it, one that names nothing for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from monitor.alerts.models import Quiet
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
    in_force = [one for one in _candidates(now) if one.holds_at(now)]
    maintenance = (_paths_of(one, paths) for one in in_force if one.kind == Quiet.Kind.MAINTENANCE)
    return QuietPaths(
        in_maintenance=frozenset().union(*maintenance),
        silenced=frozenset().union(*(_paths_of(one, paths) for one in in_force)),
    )


def _candidates(now: datetime) -> Iterable[Quiet]:
    started = Quiet.objects.filter(starts_at__lte=now, ended_at=None) | Quiet.objects.filter(
        starts_at__lte=now, ended_at__gt=now
    )
    lasting = started.filter(every_s=None, ends_at__gt=now) | started.filter(every_s__isnull=False)
    return lasting.select_related("site", "group")


def _paths_of(quiet: Quiet, paths: Mapping[int, MeasuredPath]) -> frozenset[int]:
    if quiet.path_id is not None:
        return frozenset({quiet.path_id})
    if quiet.site is not None:
        name = quiet.site.name
        return frozenset(key for key, one in paths.items() if name in (one.place.source, one.place.destination))
    if quiet.group is not None:
        group = quiet.group.name
        return frozenset(path_id for path_id, one in paths.items() if group in one.place.groups)
    return frozenset(paths)
