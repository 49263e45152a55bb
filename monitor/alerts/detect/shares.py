"""What speaks for the cause of an incident and against others: how many paths are bad beside those that it has.

In: the paths of an incident, all measured paths, and which of them are bad. Out: `Share`s: of the paths from and to
each site that all paths of the incident have in common, and of the rest. Paths of which nothing is known count nowhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from monitor.mesh.queries import MeasuredPath

_Beside = Callable[..., tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Share:
    """Of `known` paths somewhere, `bad` were bad when the incident was found."""

    where: str
    bad: int
    known: int

    @property
    def text(self) -> str:
        """As in `paths to cern: clean (10 paths)`."""
        paths = f"{self.known} path{'' if self.known == 1 else 's'}"
        return f"{self.where}: {f'clean ({paths})' if self.bad == 0 else f'{self.bad} of {paths} bad'}"


class Shares:
    """Counts all paths once; then asks little for each incident."""

    def __init__(self, paths: Mapping[int, MeasuredPath], bad: Collection[int], unknown: Collection[int]) -> None:
        self._paths = paths
        self._bad = frozenset(bad)
        self._unknown = frozenset(unknown)
        self._known_in, self._bad_in = Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
        for path_id, path in paths.items():
            self._count(path_id, path, self._known_in, self._bad_in)

    def of(self, path_ids: Collection[int]) -> list[Share]:
        """What lies beside these paths; empty where none is measured."""
        own = {path_id: self._paths[path_id] for path_id in path_ids if path_id in self._paths}
        if not own:
            return []
        own_known, own_bad = Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
        for path_id, path in own.items():
            self._count(path_id, path, own_known, own_bad)
        ends = [{path.place.source, path.place.destination} for path in own.values()]
        common = sorted(set.intersection(*ends))

        def beside(*area: str) -> tuple[int, int]:
            return self._bad_in[area] - own_bad[area], self._known_in[area] - own_known[area]

        found = []
        for site in common:
            for way in ("from", "to"):
                other = "other " if own_known[way, site] else ""
                found.append(Share(f"{other}paths {way} {site}", *beside(way, site)))
        found.append(Share("elsewhere" if common else "other paths", *self._elsewhere(common, beside)))
        return [share for share in found if share.known]

    @staticmethod
    def _elsewhere(common: Sequence[str], beside: _Beside) -> tuple[int, int]:
        """All that has no end at any of these sites."""
        parts = [(1, beside("all"))]
        parts += [(-1, beside(way, site)) for site in common for way in ("from", "to")]
        if len(common) == 2:
            parts += [(1, beside("between", *pair)) for pair in (common, common[::-1])]
        return sum(sign * bad for sign, (bad, _) in parts), sum(sign * known for sign, (_, known) in parts)

    def _count(
        self, path_id: int, path: MeasuredPath, known: Counter[tuple[str, ...]], bad: Counter[tuple[str, ...]]
    ) -> None:
        if path_id in self._unknown:
            return
        source, destination = path.place.source, path.place.destination
        areas = [("all",), ("from", source), ("to", destination), ("between", source, destination)]
        known.update(areas)
        if path_id in self._bad:
            bad.update(areas)
