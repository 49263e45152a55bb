"""Count other paths, as evidence for the causes of incidents."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from monitor.alerts.detect import causes, suspects, troubles
from monitor.alerts.detect.rules.catalogue import rule_of
from monitor.alerts.detect.rules.finding import Effect, RuleFinding, Trouble
from monitor.alerts.detect.shares import Share, Shares
from monitor.alerts.detect.silence import paths_without_newer_data
from monitor.alerts.detect.snapshot import Key, Snapshot
from monitor.alerts.incidents.own_track import is_bad_now, is_normal_again
from monitor.alerts.models import Incident
from monitor.arrays import Bools
from monitor.present.read import paths_without_condition

# Incidents of an evaluation with packets since their onset read: a storm has thousands.
MOST_INCIDENTS = 20


class OtherPaths:
    """Counts the paths outside an incident; counts that incidents share are made once."""

    def __init__(
        self,
        firing: list[RuleFinding],
        lasting: list[Incident],
        snapshot: Snapshot,
        suspected: Collection[int] = (),
    ) -> None:
        """`suspected` are the paths that lose packets by their tracks."""
        self._firing, self._lasting, self._snapshot, self._suspected = firing, lasting, snapshot, suspected
        self._counted: dict[tuple[Trouble, frozenset[bool]], Shares] = {}
        self._read = 0

    def shares(self, keys: Sequence[Key], earlier: Sequence[Key] = (), onset: datetime | None = None) -> list[Share]:
        """Count paths beside an incident's with the rules of `keys`; from `onset` packets may exclude its loss."""
        trouble, are_losses = troubles.trouble_of(keys[0][1]), frozenset(_is_loss(rule) for _, rule in keys)
        if (trouble, are_losses) not in self._counted:
            counts = _shares(trouble, are_losses, self._firing, self._lasting, self._snapshot)
            self._counted[trouble, are_losses] = counts
        of_kind = self._counted[trouble, are_losses]
        path_ids = {path_id for path_id, _ in [*keys, *earlier]} | self._ended([*keys, *earlier])
        if trouble is Trouble.ROUND_TRIPS and are_losses == {False}:
            # A round trip crosses both directions: a delay may be on the reverse paths too, without an alarm.
            reverse = {self._reverse[path_id] for path_id in path_ids if path_id in self._reverse}
            path_ids |= {path_id for path_id in reverse if of_kind.is_without_alarm(path_id)}
        without_alarm = of_kind.without_alarm(path_ids)
        unclear = self._unclear([*keys, *earlier])
        overdue = self._without_newer_data if trouble.is_of_pings else np.zeros_like(unclear)
        if trouble is Trouble.ROUND_TRIPS:
            open_questions = unclear & without_alarm & ~self._possible_losses & ~overdue
            clear = self._clear_since(onset, [*keys, *earlier], open_questions)
            unclear = (unclear & ~clear) | self._possible_losses | self._without_condition
        unclear, overdue = (without_alarm & self._of_paths(trouble, mask) for mask in (unclear | overdue, overdue))
        return of_kind.others(path_ids, unclear, overdue)

    @cached_property
    def _path_ids(self) -> NDArray[np.int64]:
        return np.fromiter(self._snapshot.paths, dtype=np.int64)

    @cached_property
    def _reverse(self) -> dict[int, int]:
        return suspects.reverse_paths(self._snapshot.paths.values())

    @cached_property
    def _possible_losses(self) -> Bools:
        told = {row.path_id for of in self._lasting for row in of.paths.all() if _is_loss(row.rule) and not row.is_over}
        told |= {finding.path_id for finding in self._firing if _is_loss(finding.rule)}
        return self._mask(key for key in self._suspected if key in self._snapshot.rows and key not in told)

    @cached_property
    def _without_condition(self) -> Bools:
        return self._mask(paths_without_condition() & self._snapshot.rows.keys())

    @cached_property
    def _incidents(self) -> dict[Key, Incident]:
        return {(row.path_id, row.rule): of for of in self._lasting for row in of.paths.all() if not row.is_over}

    def _ended(self, keys: Iterable[Key]) -> set[int]:
        """The paths of these findings' incidents that are over, and in no other incident."""
        held = {path_id for path_id, _ in self._incidents}
        own = {self._incidents[key] for key in keys if key in self._incidents}
        return {row.path_id for incident in own for row in incident.paths.all()} - held

    @cached_property
    def _without_newer_data(self) -> Bools:
        return self._mask(paths_without_newer_data(self._snapshot))

    @cached_property
    def _suspicion(self) -> suspects.PathSuspicion:
        lasting = [(row.path_id, row.rule) for incident in self._lasting for row in incident.paths.all()]
        return suspects.PathSuspicion(self._firing, lasting, self._snapshot)

    def _unclear(self, keys: Sequence[Key]) -> Bools:
        lossy = {path_id for path_id, rule in keys if _is_loss(rule)}
        return self._suspicion.may_lose(lossy, is_outage=_is_outage(keys)) if lossy else self._mask(())

    def _clear_since(self, onset: datetime | None, keys: Sequence[Key], unclear: Bools) -> Bools:
        """The `unclear` paths with packets since the onset that exclude this loss."""
        if onset is None or not 0 < np.count_nonzero(unclear) <= suspects.MOST_READ or self._read == MOST_INCIDENTS:
            return self._mask(())
        self._read += 1
        lossy = sorted({path_id for path_id, rule in keys if _is_loss(rule) and path_id in self._snapshot.rows})
        others = self._path_ids[unclear].tolist()
        return self._mask(suspects.clear_since(onset, lossy, others, self._snapshot, is_outage=_is_outage(keys)))

    def _mask(self, path_ids: Iterable[int]) -> Bools:
        mask = np.zeros(len(self._snapshot.paths), dtype=np.bool_)
        mask[[self._snapshot.rows[path_id] for path_id in path_ids]] = True
        return mask

    def _of_paths(self, trouble: Trouble, mask: Bools) -> Bools:
        if trouble.is_of_pings:
            return mask
        rows = [self._snapshot.rows.get(path_id, len(mask)) for path_id in trouble.paths_of(self._snapshot)]
        of_paths: Bools = np.append(mask, False)[rows]
        return of_paths


def _shares(
    trouble: Trouble,
    are_losses: frozenset[bool],
    firing: list[RuleFinding],
    lasting: list[Incident],
    snapshot: Snapshot,
) -> Shares:
    """Count paths with this trouble: with loss, without, or either."""
    rows = {(row.path_id, row.rule): row for incident in lasting for row in incident.paths.all() if not row.is_over}
    keys = {(finding.path_id, finding.rule) for finding in firing} | rows.keys()
    keys -= {key for key, row in rows.items() if is_normal_again(row)}
    of_trouble = [(path_id, rule) for path_id, rule in keys if troubles.trouble_of(rule) == trouble]
    now_bad = [key for key in of_trouble if key not in rows or is_bad_now(rows[key])]
    bad = {path_id for path_id, rule in now_bad if _is_loss(rule) in are_losses}
    others = {path_id for path_id, _ in keys} - bad
    silent = causes.paths_without_bursts(snapshot) - bad - others if trouble is Trouble.ROUND_TRIPS else frozenset()
    return Shares(trouble.paths_of(snapshot), bad, others | silent, silent)


def _is_outage(keys: Iterable[Key]) -> bool:
    return any(rule_of(rule).effect is Effect.UNREACHABLE for _, rule in keys)


def _is_loss(rule: str) -> bool:
    return rule_of(rule).effect in (Effect.LOSS, Effect.UNREACHABLE)
