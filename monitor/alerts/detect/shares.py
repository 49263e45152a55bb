"""Evidence for the cause of an incident: how many other paths are bad, and where.

In: the paths of an incident, all measured paths, and which of them are bad. Out: `Share`s: of the paths from and to
each site that all paths of the incident have in common, and of the rest. Paths without data, or with a problem of
another kind, are neither bad nor normal, and counted apart. A path without an alarm is normal only if it has packets of
now, and they exclude the incident's loss.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from monitor.mesh.queries import MeasuredPath
from probes.quantities import counted

ELSEWHERE = "elsewhere"

_AreaCounts = tuple[int, ...]
"""Paths of a place, as the fields of `Share`: bad, known, unclear, in other incidents, without data, overdue."""
_Beside = Callable[..., _AreaCounts]


@dataclass(frozen=True, slots=True)
class Share:
    """Of `known` paths in a place, `bad` are bad; of an incident that is over, when it was last bad. `unclear` of them
    have no alarm, and may have the same loss by their packets, or their newer data are `overdue`; of a resolved
    incident (`is_past`) nothing will tell any more. Not among the known are the paths of other incidents with a problem
    of another kind, and those without data."""

    where: str
    bad: int
    known: int
    unclear: int = 0
    in_other_incidents: int = 0
    without_data: int = 0
    overdue: int = 0
    is_past: bool = field(default=False, kw_only=True)

    @property
    def text(self) -> str:
        """For example `paths to cern: normal (10 paths)`, `…: not clear yet for 2 of 10 paths (no newer data), 8
        normal`."""
        apart = [f"{self.in_other_incidents} of other incidents"] if self.in_other_incidents else []
        apart += [f"{self.without_data} without data"] if self.without_data else []
        return self._known_text + (f", but for {' and '.join(apart)}" if apart else "")

    @property
    def _known_text(self) -> str:
        paths = counted(self.known, "path")
        if self.unclear:
            bad = f"{self.bad} of {paths} bad, " if self.bad else ""
            normal = self.known - self.bad - self.unclear
            of = self.unclear if self.bad else f"{self.unclear} of {paths}"
            yet = "" if self.is_past else " yet"
            why = "no newer data" if self.overdue == self.unclear else f"{self.overdue} without newer data"
            why = f" ({why})" if self.overdue else ""
            return f"{self.where}: {bad}not clear{yet} for {of}{why}" + (f", {normal} normal" if normal else "")
        if self.bad:
            return f"{self.where}: {self.bad} of {paths} bad"
        return f"all other paths normal ({paths})" if self.where == ELSEWHERE else f"{self.where}: normal ({paths})"


def shares_as_json(shares: Sequence[Share]) -> list[dict[str, Any]]:
    """As `Incident.shares` stores them: `unclear` paths, and those apart, only where there are any."""
    always = ("where", "bad", "known")
    return [{key: value for key, value in asdict(share).items() if key in always or value} for share in shares]


class Shares:
    """Counts of all paths, made once for all incidents. Of the `unknown` paths those `without_data` have none, the
    others another problem."""

    def __init__(
        self,
        paths: Mapping[int, MeasuredPath],
        bad: Collection[int],
        unknown: Collection[int],
        without_data: Collection[int] = (),
    ) -> None:
        self._paths = paths
        self._without_data = frozenset(without_data)
        self._bad = frozenset(bad)
        self._unknown = frozenset(unknown)
        self._all = self._counted(paths)

    def without_alarm(self, path_ids: Collection[int]) -> list[int]:
        """The paths that count as normal, except these."""
        return [path_id for path_id in self._paths if path_id not in self._bad | self._unknown.union(path_ids)]

    def others(
        self, path_ids: Collection[int], unclear: Collection[int] = (), overdue: Collection[int] = ()
    ) -> list[Share]:
        """The shares of all paths except these; empty if none is measured. `unclear` are those without an alarm whose
        packets do not exclude the incident's loss; of them, those `overdue` have none of now."""
        own = {path_id: self._paths[path_id] for path_id in path_ids if path_id in self._paths}
        if not own:
            return []
        of_own = self._counted(own)
        ends = [{path.place.source, path.place.destination} for path in own.values()]
        common = sorted(set.intersection(*ends))

        unclear_in, overdue_in = (
            Counter(area for path_id in of_kind for area in _areas(self._paths[path_id]))
            for of_kind in (unclear, overdue)
        )

        def beside(*area: str) -> _AreaCounts:
            bad, known, *apart = (of_all[area] - own_in[area] for of_all, own_in in zip(self._all, of_own, strict=True))
            return bad, known, unclear_in[area], *apart, overdue_in[area]

        shares = []
        for site in common:
            for way in ("from", "to"):
                other = "other " if of_own[1][way, site] else ""
                shares.append(Share(f"{other}paths {way} {site}", *beside(way, site)))
        shares.append(Share(ELSEWHERE if common else "other paths", *self._count_elsewhere(common, beside)))
        return [share for share in shares if share.known]

    @staticmethod
    def _count_elsewhere(common: Sequence[str], beside: _Beside) -> _AreaCounts:
        """All paths without an end at any of these sites."""
        parts = [(1, beside("all"))]
        parts += [(-1, beside(way, site)) for site in common for way in ("from", "to")]
        if len(common) == 2:
            parts += [(1, beside("between", *pair)) for pair in (common, common[::-1])]
        return tuple(sum(sign * counts[place] for sign, counts in parts) for place in range(6))

    def _counted(self, path_ids: Iterable[int]) -> tuple[Counter[tuple[str, ...]], ...]:
        """The bad, the known, those of other incidents and those without data of these paths, by place."""
        bad, known, in_others, silent = (Counter[tuple[str, ...]]() for _ in range(4))
        for path_id in path_ids:
            areas = _areas(self._paths[path_id])
            if path_id in self._unknown:
                (silent if path_id in self._without_data else in_others).update(areas)
                continue
            known.update(areas)
            if path_id in self._bad:
                bad.update(areas)
        return bad, known, in_others, silent


def _areas(path: MeasuredPath) -> list[tuple[str, ...]]:
    """The places that a path counts in."""
    source, destination = path.place.source, path.place.destination
    return [("all",), ("from", source), ("to", destination), ("between", source, destination)]
