"""One incident for one cause: what was found on many paths is brought together, with a name and the reason for it.

In: what fires now, and the incidents that last. Out: for each cause what is new of it, under the name of the incident
that it belongs to. What explains paths best is decided in `monitor.analysis.alarms.grouping`, for each of three kinds
of trouble by itself: bad round trips, low throughput, nothing measured. Low throughput on a path whose round trips are
bad belongs to the incident that has those: loss and delay are what holds a transfer. A path whose bursts say nothing
now speaks neither for nor against a cause of bad round trips.

A cause that reaches a lasting incident joins it: an incident grows, and keeps its name. Where one cause explains all
paths of several that last, they become one, under the name of that cause.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from monitor.alerts.detect.rules.finding import Finding
from monitor.alerts.detect.snapshot import Key, Sweep
from monitor.analysis.alarms.grouping import Cause, Kind, Line, explain
from monitor.mesh.queries import MeasuredPath

THROUGHPUT = "throughput"
NO_DATA = "no_data"
ROUND_TRIPS = "round trips"


@dataclass(frozen=True, slots=True)
class Held:
    """An incident that lasts, as far as grouping asks: its name, and the path and rule of all that is not over."""

    cause: str
    keys: frozenset[Key]


@dataclass(frozen=True, slots=True)
class Named:
    """A cause, what is new of it, and in one sentence why it is this one; empty where a single pair is concerned.

    `merged` are the lasting incidents, by their causes, which become one of this cause.
    """

    label: str
    findings: tuple[Finding, ...]
    because: str
    merged: frozenset[str] = frozenset()


def of(found: Sequence[Finding], lasting: Sequence[Held], sweep: Sweep) -> list[Named]:
    """The causes of what was found and is in no lasting incident."""
    of_trouble = {
        trouble: [one for one in found if trouble_of(one.rule) == trouble]
        for trouble in (ROUND_TRIPS, THROUGHPUT, NO_DATA)
    }
    names = _of_trouble(ROUND_TRIPS, of_trouble[ROUND_TRIPS], lasting, sweep)
    explained = {path_id: one.cause for one in lasting for path_id, rule in one.keys if trouble_of(rule) == ROUND_TRIPS}
    explained |= {finding.path_id: one.label for one in names for finding in one.findings}
    known = frozenset[Key]().union(*(one.keys for one in lasting))
    slow = [one for one in of_trouble[THROUGHPUT] if one.path_id not in explained or (one.path_id, one.rule) in known]
    names += [
        Named(explained[one.path_id], (one,), "")
        for one in of_trouble[THROUGHPUT]
        if one.path_id in explained and (one.path_id, one.rule) not in known
    ]
    names += _of_trouble(THROUGHPUT, slow, lasting, sweep)
    return names + _of_trouble(NO_DATA, of_trouble[NO_DATA], lasting, sweep)


def _of_trouble(trouble: str, found: Sequence[Finding], lasting: Sequence[Held], sweep: Sweep) -> list[Named]:
    holder = {path_id: one.cause for one in lasting for path_id, rule in one.keys if trouble_of(rule) == trouble}
    known = frozenset[Key]().union(*(one.keys for one in lasting))
    new = [finding for finding in found if (finding.path_id, finding.rule) not in known]
    if not new:
        return []
    paths = sweep.tested_paths if trouble == THROUGHPUT else sweep.paths
    bad = holder.keys() | {finding.path_id for finding in found}
    unknown = without_bursts(sweep) - bad if trouble == ROUND_TRIPS else frozenset()
    lines = [_line(path) for path in paths.values()]
    named = []
    for cause in explain(lines, bad & paths.keys(), unknown, _links(paths.values())):
        of_cause = tuple(finding for finding in new if finding.path_id in cause.path_ids)
        if of_cause:
            own = _own_trouble(trouble, cause, sweep)
            label = f"agent of {cause.name}" if own else _label(trouble, cause, paths)
            held = Counter(holder[path_id] for path_id in cause.path_ids if path_id in holder)
            merged = _whole(held.keys(), cause, label, lasting)
            name = label if merged or not held else held.most_common(1)[0][0]
            named.append(Named(name, of_cause, _because(trouble, cause, own), merged))
    return named


def _whole(held: Collection[str], cause: Cause, label: str, lasting: Sequence[Held]) -> frozenset[str]:
    """Of these incidents those of which the cause explains every path; none where it is only one, or where another that
    lasts has the cause's name."""
    explained = (one for one in lasting if one.cause in held and {path_id for path_id, _ in one.keys} <= cause.path_ids)
    found = frozenset(one.cause for one in explained)
    is_taken = label in {one.cause for one in lasting} - found
    return found if len(found) > 1 and not is_taken else frozenset()


def trouble_of(rule: str) -> str:
    return rule if rule in (THROUGHPUT, NO_DATA) else ROUND_TRIPS


def without_bursts(sweep: Sweep) -> frozenset[int]:
    """The paths without a measured burst in the last hour."""
    ids = np.array(list(sweep.paths), dtype=np.int64)
    return frozenset(ids[sweep.recent["bursts"].sum(axis=1) == 0].tolist()) if len(ids) else frozenset()


def _line(path: MeasuredPath) -> Line:
    place = path.place
    return Line(path.path_id, path.source, path.destination, place.source, place.destination, path.family)


def _links(paths: Iterable[MeasuredPath]) -> dict[str, set[int]]:
    """The paths that cross each uplink which mesh.toml names."""
    found: dict[str, set[int]] = defaultdict(set)
    for path in paths:
        for uplink in path.uplinks:
            found[uplink].add(path.path_id)
    return found


def _label(trouble: str, cause: Cause, paths: Collection[int]) -> str:
    what = {
        Kind.OUTBOUND: f"{cause.name} outbound",
        Kind.INBOUND: f"{cause.name} inbound",
        Kind.HOST: f"host {cause.name}",
        Kind.LINK: f"uplink {cause.name}",
        Kind.ALL: f"all {len(paths)} paths",
    }.get(cause.kind, cause.name)
    if trouble == NO_DATA:
        return f"agent of {cause.name}" if cause.kind is Kind.OUTBOUND else f"no data: {what}"
    if trouble == THROUGHPUT:
        return f"throughput: {what}"
    # A round trip crosses both directions: what one loses the other may lose a little later.
    return " ↔ ".join(sorted(what.split(" → "))) if cause.kind is Kind.PATH else what


def _own_trouble(trouble: str, cause: Cause, sweep: Sweep) -> tuple[str, ...]:
    """What an agent told of itself that explains why what it measures is bad, while others reach its site well."""
    if trouble != ROUND_TRIPS or cause.kind is not Kind.OUTBOUND or cause.reverse_bad or not cause.reverse_known:
        return ()
    return sweep.troubles.get(cause.name, ())


def _because(trouble: str, cause: Cause, own: Sequence[str] = ()) -> str:
    """The figures that speak for a cause, and against the others; what they say of the agent."""
    if cause.kind in (Kind.PATH, Kind.PAIR):
        return ""
    name = {Kind.OUTBOUND: f"{cause.name} outbound", Kind.INBOUND: f"{cause.name} inbound"}.get(cause.kind, cause.name)
    parts = [f"{name or 'everywhere'}: {cause.bad} of {cause.known} paths"]
    if cause.kind in (Kind.OUTBOUND, Kind.INBOUND):
        reverse = "inbound" if cause.kind is Kind.OUTBOUND else "outbound"
        parts.append(_share(reverse, cause.reverse_bad, cause.reverse_known))
    if cause.elsewhere_known:
        parts.append(_share("elsewhere", cause.elsewhere_bad, cause.elsewhere_known))
    if own:
        parts.append(f"it is the agent of {cause.name} itself: {', '.join(own)}")
    elif trouble == ROUND_TRIPS and cause.kind is Kind.OUTBOUND and cause.reverse_known and not cause.reverse_bad:
        parts.append(
            f"the round trips of others to {cause.name} cross the same network and are well, so look at the agent of "
            f"{cause.name} and its host first"
        )
    return ", ".join(parts[:-1]) + f"; {parts[-1]}" if len(parts) > 3 else ", ".join(parts)


def _share(where: str, bad: int, known: int) -> str:
    return f"{where} clean ({known} paths)" if bad == 0 else f"{where} {bad} of {known}"
