"""Evidence for the cause of an incident: how many other paths are bad, and where.

In: the paths of an incident, all measured paths, and which of them are bad. Out: `Share`s: of the paths from and to
each site that all paths of the incident have in common, and of the rest. Paths without data, or with a problem of
another kind, are not counted. A path without an alarm is normal only if its packets exclude the incident's loss.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from monitor.mesh.queries import MeasuredPath
from probes.quantities import counted

ELSEWHERE = "elsewhere"

_AreaCounts = tuple[int, int, int]
"""Bad paths, all paths, unclear paths."""
_Beside = Callable[..., _AreaCounts]


@dataclass(frozen=True, slots=True)
class Share:
    """Of `known` paths in a place, `bad` are bad; of an incident that is over, when it was last bad. `unclear` of them
    have no alarm, and may have the same loss by their packets."""

    where: str
    bad: int
    known: int
    unclear: int = 0

    @property
    def text(self) -> str:
        """For example `paths to cern: normal (10 paths)`, `…: not clear yet for 2 of 10 paths, 8 normal`."""
        paths = counted(self.known, "path")
        if self.unclear:
            bad = f"{self.bad} of {paths} bad, " if self.bad else ""
            normal = self.known - self.bad - self.unclear
            of = self.unclear if self.bad else f"{self.unclear} of {paths}"
            return f"{self.where}: {bad}not clear yet for {of}" + (f", {normal} normal" if normal else "")
        if self.bad:
            return f"{self.where}: {self.bad} of {paths} bad"
        return f"all other paths normal ({paths})" if self.where == ELSEWHERE else f"{self.where}: normal ({paths})"


def shares_as_json(shares: Sequence[Share]) -> list[dict[str, Any]]:
    """As `Incident.shares` stores them: `unclear` only where there are any."""
    return [{key: value for key, value in asdict(share).items() if key != "unclear" or value} for share in shares]


class Shares:
    """Counts of all paths, made once for all incidents."""

    def __init__(self, paths: Mapping[int, MeasuredPath], bad: Collection[int], unknown: Collection[int]) -> None:
        self._paths = paths
        self._bad = frozenset(bad)
        self._unknown = frozenset(unknown)
        self._known_in, self._bad_in = Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
        for path_id, path in paths.items():
            self._count(path_id, path, self._known_in, self._bad_in)

    def without_alarm(self, path_ids: Collection[int]) -> list[int]:
        """The paths that count as normal, except these."""
        return [path_id for path_id in self._paths if path_id not in self._bad | self._unknown.union(path_ids)]

    def others(self, path_ids: Collection[int], unclear: Collection[int] = ()) -> list[Share]:
        """The shares of all paths except these; empty if none is measured. `unclear` are those without an alarm whose
        packets do not exclude the incident's loss."""
        own = {path_id: self._paths[path_id] for path_id in path_ids if path_id in self._paths}
        if not own:
            return []
        own_known, own_bad = Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
        for path_id, path in own.items():
            self._count(path_id, path, own_known, own_bad)
        ends = [{path.place.source, path.place.destination} for path in own.values()]
        common = sorted(set.intersection(*ends))

        unclear_in = Counter(area for path_id in unclear for area in _areas(self._paths[path_id]))

        def beside(*area: str) -> _AreaCounts:
            return self._bad_in[area] - own_bad[area], self._known_in[area] - own_known[area], unclear_in[area]

        shares = []
        for site in common:
            for way in ("from", "to"):
                other = "other " if own_known[way, site] else ""
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
        bad, paths, unclear = (sum(sign * counts[place] for sign, counts in parts) for place in range(3))
        return bad, paths, unclear

    def _count(
        self, path_id: int, path: MeasuredPath, paths_in: Counter[tuple[str, ...]], bad_in: Counter[tuple[str, ...]]
    ) -> None:
        if path_id in self._unknown:
            return
        areas = _areas(path)
        paths_in.update(areas)
        if path_id in self._bad:
            bad_in.update(areas)


def _areas(path: MeasuredPath) -> list[tuple[str, ...]]:
    """The places that a path counts in."""
    source, destination = path.place.source, path.place.destination
    return [("all",), ("from", source), ("to", destination), ("between", source, destination)]
