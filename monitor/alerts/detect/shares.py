"""Evidence for the cause of an incident: how many other paths are bad, and where.

A path without an alarm is normal only if its present packets exclude the incident's loss.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from monitor.arrays import Bools
from monitor.mesh.queries import MeasuredPath
from probes.quantities import counted

ELSEWHERE = "elsewhere"
# Unclear paths of a place that are listed, besides being counted.
MOST_LISTED = 100


@dataclass(frozen=True, slots=True)
class Share:
    """Bad paths among the `known` paths in a place."""

    where: str
    bad: int  # of a past incident, when it was last bad
    known: int
    unclear: int = 0  # no alarm, but packets may show the same loss
    in_other_incidents: int = 0  # another kind of problem; not among the known
    without_data: int = 0  # not among the known
    overdue: int = 0  # unclear for lack of newer data
    unclear_paths: list[int] = field(default_factory=list, kw_only=True)  # path IDs, not overdue, MOST_LISTED at most
    is_past: bool = field(default=False, kw_only=True)  # resolved: unclear paths stay unclear

    @property
    def text(self) -> str:
        """As in `paths to cern: normal (10 paths)`, `…: not clear yet for 2 of 10 paths (no newer data), 8 normal`."""
        apart = [f"{self.in_other_incidents} of other incidents"] if self.in_other_incidents else []
        apart += [f"{self.without_data} without data"] if self.without_data else []
        if not self.known:
            other = self.where.removeprefix("other ").removeprefix("paths ")
            return f"other paths {other}: {' and '.join(apart)}" if apart else f"no other path {other}"
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
    """Convert to JSON for `Incident.shares`, without zero counts of unclear and separate paths."""
    always = ("where", "bad", "known")
    return [{key: value for key, value in asdict(share).items() if key in always or value} for share in shares]


class Shares:
    """Which paths are bad, known or `unknown` (without data, or another problem), as masks of shape (paths,)."""

    def __init__(
        self,
        paths: Mapping[int, MeasuredPath],
        bad: Collection[int],
        unknown: Collection[int],
        without_data: Collection[int] = (),
    ) -> None:
        self._rows = {path_id: row for row, path_id in enumerate(paths)}
        self._ids = np.fromiter(paths, dtype=np.int64)
        self._sites = sorted({site for path in paths.values() for site in (path.place.source, path.place.destination)})
        number = {site: place for place, site in enumerate(self._sites)}
        ends = [(number[path.place.source], number[path.place.destination]) for path in paths.values()]
        self._sources, self._destinations = np.array(ends, dtype=np.int32).reshape(-1, 2).T.copy()
        is_unknown, silent = self.mask(unknown), self.mask(without_data)
        self._known, self._silent = ~is_unknown, is_unknown & silent
        self._bad, self._in_others = self.mask(bad) & self._known, is_unknown & ~silent

    def mask(self, path_ids: Iterable[int]) -> Bools:
        """Mask these paths; unmeasured ids are ignored."""
        mask = np.zeros(len(self._rows), dtype=np.bool_)
        mask[self._rows_of(path_ids)] = True
        return mask

    def is_without_alarm(self, path_id: int) -> bool:
        row = self._rows.get(path_id)
        return row is not None and bool(self._known[row] and not self._bad[row])

    def without_alarm(self, path_ids: Collection[int]) -> Bools:
        is_normal: Bools = self._known & ~self._bad
        is_normal[self._rows_of(path_ids)] = False
        return is_normal

    def others(
        self, path_ids: Collection[int], unclear: Bools | None = None, overdue: Bools | None = None
    ) -> list[Share]:
        """The shares of the other paths at common sites and elsewhere; empty if no other path is measured."""
        own = self._rows_of(path_ids)
        if not own:
            return []
        none, beside = np.zeros(len(self._rows), dtype=np.bool_), np.ones(len(self._rows), dtype=np.bool_)
        beside[own] = False
        if not (beside & self._known).any():
            return []
        unclear, overdue = (none if mask is None else mask for mask in (unclear, overdue))
        kinds = (self._bad, self._known, unclear, self._in_others, self._silent, overdue)

        def share(where: str, area: Bools) -> Share:
            listed = self._ids[np.flatnonzero(area & unclear & ~overdue)[:MOST_LISTED]].tolist()
            return Share(where, *(int(np.count_nonzero(area & kind)) for kind in kinds), unclear_paths=listed)

        shares, elsewhere = [], beside
        ends = zip(self._sources[own].tolist(), self._destinations[own].tolist(), strict=True)
        common = sorted(set.intersection(*map(set, ends)))
        for site in common:
            for way, at in (("from", self._sources), ("to", self._destinations)):
                is_here = at == site
                other = "other " if (is_here & self._known)[own].any() else ""
                shares.append(share(f"{other}paths {way} {self._sites[site]}", beside & is_here))
                elsewhere = elsewhere & ~is_here
        rest = share(ELSEWHERE if common else "other paths", elsewhere)
        return [*shares, rest] if rest.known else shares

    def _rows_of(self, path_ids: Iterable[int]) -> list[int]:
        return [self._rows[path_id] for path_id in path_ids if path_id in self._rows]
