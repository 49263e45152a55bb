"""Group findings on many paths by their common cause (`monitor.analysis.alarms.grouping`), so that each cause has a
single incident.

RTT or loss, throughput and missing data are separate; low throughput joins bad RTT or loss of its path.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import chain
from types import MappingProxyType
from typing import Any

import numpy as np

from monitor.alerts.detect import troubles
from monitor.alerts.detect.route_places import CommonPlace, common_place
from monitor.alerts.detect.rules.by_direction import DIRECTION
from monitor.alerts.detect.rules.finding import RuleFinding, Trouble
from monitor.alerts.detect.shares import ELSEWHERE
from monitor.alerts.detect.snapshot import Key, Snapshot
from monitor.alerts.detect.suspects import PathSuspicion
from monitor.alerts.detect.troubles import BadTogether, LastingIncident, lasting_keys, trouble_of
from monitor.analysis.alarms.candidates import CauseKind, PathLocation, candidates
from monitor.analysis.alarms.grouping import LEAST_BAD, Cause, explain
from monitor.mesh.queries import MeasuredPath
from probes.quantities import counted

# Where the minimum RTT rose by this share of the median's rise, all packets take longer: the route, not a busy host.
SHARE_OF_FLOOR = 0.5


NO_TIMES: Mapping[int, float] = MappingProxyType({})

# Troubles that bad round trips of the same path explain.
SLOW_TRANSFERS = (Trouble.THROUGHPUT, Trouble.RESPONSES)

# Either may be first: two low tests show a fall of throughput, a queue or little loss takes up to an hour.
SAME_BEGIN = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class CauseGroup:
    """New findings of a single cause."""

    label: str
    findings: tuple[RuleFinding, ...]
    because: str  # reason for this cause, a sentence; empty for a single pair
    merged: frozenset[str] = frozenset()  # causes of lasting incidents that become part of this group
    moved: Mapping[Key, str] = field(default_factory=dict)  # causes of the incidents that some findings come from


def find_causes(
    findings: Sequence[RuleFinding],
    lasting: Sequence[LastingIncident],
    snapshot: Snapshot,
    lost_at_s: Mapping[int, float] = NO_TIMES,
    cut_s: Mapping[int, float] = NO_TIMES,
    onsets_s: Mapping[int, float] = NO_TIMES,
) -> list[CauseGroup]:
    """Group new findings by cause.

    By path: `lost_at_s` is the begin of the newest loss, `cut_s` the last answer before an outage, `onsets_s` the loss
    onset.
    """
    of_trouble = {
        trouble: [finding for finding in findings if trouble_of(finding.rule) == trouble] for trouble in Trouble
    }
    firing = frozenset(finding.path_id for finding in findings)
    groups = [
        group
        for together in troubles.bad_together(of_trouble[Trouble.ROUND_TRIPS], lasting, snapshot, lost_at_s, cut_s)
        for group in _group(Trouble.ROUND_TRIPS, together, lasting, snapshot, firing, onsets_s)
    ]
    explained = {
        path_id: incident.cause
        for incident in lasting
        for path_id, rule in incident.keys
        if trouble_of(rule) is Trouble.ROUND_TRIPS
    }
    explained |= {finding.path_id: group.label for group in groups for finding in group.findings}
    groups = [_with_slow_transfers(group, lasting, explained) for group in groups]
    already = lasting_keys(lasting)
    for trouble in SLOW_TRANSFERS:
        slow = []
        for finding in of_trouble[trouble]:
            if finding.path_id not in explained or finding.key in already:
                slow.append(finding)
            else:
                groups.append(CauseGroup(explained[finding.path_id], (finding,), ""))
        groups += _group(trouble, troubles.all_together(trouble, slow, lasting), lasting, snapshot, firing)
    without_data = troubles.all_together(Trouble.NO_DATA, of_trouble[Trouble.NO_DATA], lasting)
    return groups + _group(Trouble.NO_DATA, without_data, lasting, snapshot, firing)


def rejudge(
    lasting: Sequence[LastingIncident], snapshot: Snapshot, onsets_s: Mapping[int, float] = NO_TIMES
) -> list[CauseGroup]:
    """Give a lasting incident a narrower cause if its cause covers paths without an alarm; findings outside move to
    another."""
    wide = [incident for incident in lasting if incident.may_be_narrower]
    scopes = _scopes(snapshot.paths) if wide else {}
    groups, taken = [], {incident.cause for incident in lasting}
    for incident in wide:
        scope, path_ids = scopes.get(incident.cause, frozenset()), incident.path_ids
        if not scope - path_ids:
            continue
        others = [other for other in lasting if other is not incident]
        elsewhere = {path_id for path_id, _ in lasting_keys(others)} - path_ids
        together = troubles.all_together(Trouble.ROUND_TRIPS, incident.findings, others)
        explained = _explain(Trouble.ROUND_TRIPS, together, others, snapshot, elsewhere, onsets_s=onsets_s)
        if not explained:
            continue  # its paths are no longer measured
        main, label, because = max(explained, key=lambda cause: len(cause[0].path_ids))
        if label in taken or len(main.path_ids) < LEAST_BAD or not scopes.get(label, main.path_ids) < scope:
            continue
        taken.add(label)
        groups.append(CauseGroup(label, (), because, frozenset({incident.cause})))
        for cause, name, text in explained:
            strays = tuple(
                finding for finding in incident.findings if finding.path_id in cause.path_ids - main.path_ids
            )
            if strays:
                groups.append(CauseGroup(name, strays, text, moved={stray.key: label for stray in strays}))
    return groups


def _with_slow_transfers(
    group: CauseGroup, lasting: Sequence[LastingIncident], explained: Mapping[int, str]
) -> CauseGroup:
    """Merge slow-transfer incidents into a group that has all their paths and began at about the same time."""
    began = min(finding.since for finding in group.findings)
    slow = {
        incident.cause
        for incident in lasting
        if incident.since is not None
        and abs(incident.since - began) <= SAME_BEGIN
        and all(trouble_of(rule) in SLOW_TRANSFERS for _, rule in incident.keys)
        and {explained.get(path_id) for path_id, _ in incident.keys} == {group.label}
    }
    if not slow:
        return group
    own = {incident.cause for incident in lasting} & {group.label}
    return replace(group, merged=group.merged | slow | own)


def _group(
    trouble: Trouble,
    together: BadTogether,
    lasting: Sequence[LastingIncident],
    snapshot: Snapshot,
    firing: frozenset[int],
    onsets_s: Mapping[int, float] = NO_TIMES,
) -> list[CauseGroup]:
    if not together.new:
        return []
    paths = trouble.paths_of(snapshot)
    groups = []
    for cause, label, because in _explain(trouble, together, lasting, snapshot, firing=firing, onsets_s=onsets_s):
        of_cause = tuple(finding for finding in together.new if finding.path_id in cause.path_ids)
        if not of_cause:
            continue
        held = Counter(together.holder[path_id] for path_id in cause.path_ids if path_id in together.holder)
        pairs = _pair_names(trouble, [paths[path_id] for path_id in cause.path_ids])
        merged = _mergeable(held.keys(), cause, label, pairs, lasting, _scopes(paths) if held else {})
        name = label if merged or not held else held.most_common(1)[0][0]
        back = {key: relapsed for key, relapsed in together.relapsed.items() if key[0] in cause.path_ids}
        if not held:
            name = _own_name(of_cause, back.values(), lasting) or name
        stay = {key for key, relapsed in back.items() if relapsed == name or relapsed in merged}
        moved = {key: relapsed for key, relapsed in back.items() if key not in stay}
        of_cause = tuple(finding for finding in of_cause if finding.key not in stay)
        if of_cause:
            groups.append(CauseGroup(name, of_cause, because, merged, moved))
    return groups


def _explain(
    trouble: Trouble,
    together: BadTogether,
    lasting: Sequence[LastingIncident],
    snapshot: Snapshot,
    elsewhere: Collection[int] = (),
    firing: frozenset[int] = frozenset(),
    onsets_s: Mapping[int, float] = NO_TIMES,
) -> list[tuple[Cause, str, str]]:
    paths = trouble.paths_of(snapshot)
    findings, bad, unknown = together.findings, together.path_ids, frozenset(elsewhere)
    unknown |= together.apart - bad
    evidence = None
    if trouble is Trouble.ROUND_TRIPS:
        unknown |= paths_without_bursts(snapshot) - bad
        keys = frozenset(together.keys)
        evidence = PathSuspicion(findings, keys, snapshot, troubles.settled_s(lasting, snapshot), onsets_s)
    lines = [_line(path) for path in paths.values()]
    ways = {finding.path_id: finding.figures[DIRECTION] for finding in findings if DIRECTION in finding.figures}
    place = None if evidence is None else common_place(snapshot, bad, unknown, evidence, ways)
    places = {} if place is None else {place.name: place.path_ids}
    troubled = ((_not_normal(lasting) | firing) - bad) & (paths.keys() | unknown)
    scopes = _scopes(paths) if troubled else {}
    causes = []
    for cause in explain(lines, bad & paths.keys(), unknown, _links(paths.values()), evidence, places):
        of_cause = [finding for finding in together.new if finding.path_id in cause.path_ids]
        own = _agent_trouble(trouble, cause, of_cause, snapshot)
        label = f"agent of {cause.name}" if own else _label(trouble, cause.kind, cause.name, paths)
        in_others = troubled - cause.covered - scopes.get(label, frozenset())
        causes.append((cause, label, _evidence_text(trouble, cause, own, place, in_others, in_others - unknown)))
    return causes


def _not_normal(lasting: Sequence[LastingIncident]) -> frozenset[int]:
    return frozenset(
        path_id
        for incident in lasting
        for path_id, rule in incident.keys
        if (path_id, rule) not in incident.recovered_s
    )


def _own_name(
    findings: Sequence[RuleFinding], relapsed: Iterable[str], lasting: Sequence[LastingIncident]
) -> str | None:
    names, path_ids = set(relapsed), {finding.path_id for finding in findings}
    whole = (incident for incident in lasting if incident.cause in names)
    return next((incident.cause for incident in whole if path_ids <= {path_id for path_id, _ in incident.keys}), None)


def _scopes(paths: Mapping[int, MeasuredPath]) -> dict[str, frozenset[int]]:
    every = candidates([_line(path) for path in paths.values()], _links(paths.values()), {})
    return {
        _label(Trouble.ROUND_TRIPS, candidate.kind, candidate.name, paths): candidate.path_ids for candidate in every
    }


def _mergeable(
    held: Collection[str],
    cause: Cause,
    label: str,
    pairs: Collection[str],
    lasting: Sequence[LastingIncident],
    scopes: Mapping[str, frozenset[int]],
) -> frozenset[str]:
    """Causes of incidents in `held` that `cause` explains completely; empty unless they may merge."""
    explained = frozenset(
        incident.cause for incident in lasting if incident.cause in held and incident.path_ids <= cause.path_ids
    )
    is_taken = label in {incident.cause for incident in lasting} - explained
    is_wider = cause.kind not in (CauseKind.PATH, CauseKind.PAIR) and explained <= set(pairs)
    scope = scopes.get(label)
    is_narrower = scope is not None and all(scope < scopes.get(name, frozenset()) for name in explained)
    return explained if len(explained) > (0 if is_wider or is_narrower else 1) and not is_taken else frozenset()


def _pair_names(trouble: Trouble, paths: Sequence[MeasuredPath]) -> set[str]:
    arrows = (f"{path.source} → {path.destination}" for path in paths)
    both = (" ↔ ".join(sorted((path.source, path.destination))) for path in paths)
    return {f"{trouble.prefix}{name}" for name in chain(arrows, both)}


def paths_without_bursts(snapshot: Snapshot) -> frozenset[int]:
    ids = np.array(list(snapshot.paths), dtype=np.int64)
    return frozenset(ids[snapshot.recent["bursts"].sum(axis=1) == 0].tolist()) if len(ids) else frozenset()


def _line(path: MeasuredPath) -> PathLocation:
    place = path.place
    ends = (path.source, path.destination, place.source, place.destination)
    return PathLocation(path.path_id, *ends, path.family, *path.regions)


def _links(paths: Iterable[MeasuredPath]) -> dict[str, set[int]]:
    links: dict[str, set[int]] = defaultdict(set)
    for path in paths:
        for uplink in path.uplinks:
            links[uplink].add(path.path_id)
    return links


def _label(trouble: Trouble, kind: CauseKind, name: str, paths: Collection[int]) -> str:
    scope = {
        CauseKind.OUTBOUND: f"{name} outbound",
        CauseKind.INBOUND: f"{name} inbound",
        CauseKind.HOST: f"host {name}",
        CauseKind.LINK: f"uplink {name}",
        CauseKind.ALL: f"all {len(paths)} paths",
    }.get(kind, name)
    if trouble is Trouble.NO_DATA and kind is CauseKind.OUTBOUND:
        return f"agent of {name}"
    if trouble is not Trouble.ROUND_TRIPS:
        return f"{trouble.prefix}{scope}"
    # A round trip crosses both directions, so loss in either may show on the reverse path a little later.
    return " ↔ ".join(sorted(scope.split(" → "))) if kind is CauseKind.PATH else scope


def _is_outbound_alone(cause: Cause) -> bool:
    """Whether measurements from a site are bad and those to it normal."""
    is_normal = bool(cause.reverse_known) and not cause.reverse_bad and not cause.reverse_unclear
    return cause.kind is CauseKind.OUTBOUND and is_normal


def _agent_trouble(
    trouble: Trouble, cause: Cause, findings: Sequence[RuleFinding], snapshot: Snapshot
) -> tuple[str, ...]:
    """Troubles that the agent itself reported, if only its outbound measurements are bad."""
    # Not if the minimum RTT rose too, since a busy host delays only some packets.
    if trouble is not Trouble.ROUND_TRIPS or not _is_outbound_alone(cause):
        return ()
    if any(_minimum_rose(finding.figures) for finding in findings):
        return ()
    return snapshot.measuring_troubles.get(cause.name, ())


def _minimum_rose(figures: Mapping[str, Any]) -> bool:
    rise_ms = figures.get("after_ms", 0.0) - figures.get("before_ms", 0.0)
    return bool(rise_ms > 0.0 and figures.get("minimum_rise_ms", 0.0) >= SHARE_OF_FLOOR * rise_ms)


def _evidence_text(
    trouble: Trouble,
    cause: Cause,
    own: Sequence[str] = (),
    place: CommonPlace | None = None,
    in_others: frozenset[int] = frozenset(),
    measured_in_others: frozenset[int] = frozenset(),
) -> str:
    if cause.kind in (CauseKind.PATH, CauseKind.PAIR):
        return ""
    name = {CauseKind.OUTBOUND: f"{cause.name} outbound", CauseKind.INBOUND: f"{cause.name} inbound"}.get(
        cause.kind, cause.name
    )
    parts = [f"{name or 'everywhere'}: {cause.bad} of {cause.measured} paths"]
    if cause.kind is CauseKind.PLACE and place is not None:
        parts.append(f"by their routes {place.text}")
    if cause.suspected:
        parts.append(f"{cause.suspected} more likely")
    if cause.kind in (CauseKind.OUTBOUND, CauseKind.INBOUND):
        reverse = "inbound" if cause.kind is CauseKind.OUTBOUND else "outbound"
        parts.append(_share(reverse, cause.reverse_bad, cause.reverse_known, cause.reverse_unclear))
    if cause.elsewhere_known:
        rest = cause.elsewhere_known - len(measured_in_others)
        apart = f"{len(in_others)} of other incidents"
        share = _share(ELSEWHERE, cause.elsewhere_bad, rest)
        parts.append((f"{share}, but for {apart}" if rest else f"elsewhere {apart}") if in_others else share)
    if own:
        parts.append(f"it is the agent of {cause.name} itself: {', '.join(own)}")
    elif trouble is Trouble.ROUND_TRIPS and _is_outbound_alone(cause):
        parts.append(
            f"pings from other sites to {cause.name} cross the same network and are normal, so check the agent of "
            f"{cause.name} and its host first"
        )
    return ", ".join(parts[:-1]) + f"; {parts[-1]}" if len(parts) > 3 else ", ".join(parts)


def _share(where: str, bad: int, paths: int, unclear: int = 0) -> str:
    if bad or unclear:
        return f"{where} {bad} of {paths}" + (f" ({unclear} unclear)" if unclear else "")
    return f"{'all other paths' if where == ELSEWHERE else where} normal ({counted(paths, 'path')})"
