"""The hop, link, AS or border common to the routes of bad paths, as a candidate cause."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from monitor.alerts.detect.rules.catalogue import rule_of
from monitor.alerts.detect.rules.finding import RuleFinding, Trouble
from monitor.alerts.detect.snapshot import Key, MeshRoutes, Snapshot
from monitor.alerts.detect.sources import STORED, Source
from monitor.analysis.alarms.grouping import LEAST_EVIDENCE, OtherPathsEvidence
from monitor.analysis.directions import LostDirection
from monitor.analysis.routes.common_part import LEAST_BAD, find_common_part
from monitor.analysis.routes.crossings import Hops, MeshPath
from monitor.routes.places import of_addresses


@dataclass(frozen=True, slots=True)
class CommonPlace:
    """A common part of routes, with the paths across it."""

    name: str
    path_ids: frozenset[int]
    text: str  # its probability in words


def with_routes(
    snapshot: Snapshot, findings: Sequence[RuleFinding], lasting: Collection[Key], source: Source = STORED
) -> Snapshot:
    """Add routes of all paths if new findings' causes depend on them."""
    new = [finding for finding in findings if (finding.path_id, finding.rule) not in lasting]
    bad = {path_id for path_id, rule in lasting if rule_of(rule).trouble is Trouble.ROUND_TRIPS}
    bad |= {finding.path_id for finding in findings if rule_of(finding.rule).trouble is Trouble.ROUND_TRIPS}
    if len(bad) < LEAST_BAD or not any(rule_of(finding.rule).trouble is Trouble.ROUND_TRIPS for finding in new):
        return snapshot
    by_path = source.routes(list(snapshot.paths), snapshot.now)
    if not by_path:
        return snapshot
    addresses = {address for route in by_path.values() for address in route.hops if address is not None}
    names = of_addresses(sorted(addresses))
    as_of = {address: name.asn for address, name in names.items() if name.asn is not None}
    ends = {snapshot.paths[path_id].destination: route.hops[-1] for path_id, route in by_path.items() if route.reached}
    as_of |= {host: as_of[address] for host, address in ends.items() if address in as_of}
    as_names = {name.asn: name.as_name for name in names.values() if name.asn is not None and name.as_name is not None}
    return replace(snapshot, routes=MeshRoutes(by_path, as_of, as_names))


def common_place(
    snapshot: Snapshot,
    bad: AbstractSet[int],
    unknown: Collection[int],
    evidence: OtherPathsEvidence,
    directions: Mapping[int, str],
) -> CommonPlace | None:
    """The common part of the bad paths' routes; None if unknown."""
    routes = snapshot.routes.by_path
    if len(bad & routes.keys()) < LEAST_BAD:
        return None
    others = sorted(routes.keys() - bad - set(unknown))
    factors = evidence.log_factors(bad, others)
    unclear = {path_id for path_id, factor in zip(others, factors.tolist(), strict=True) if factor > -LEAST_EVIDENCE}
    reverse = {(path.source, path.destination): path_id for path_id, path in snapshot.paths.items()}
    ids, paths = [], []
    for path_id, path in snapshot.paths.items():
        if path_id not in routes or path_id in unknown:
            continue
        path_back = reverse.get((path.destination, path.source))
        hops_back = _between(snapshot, path_back) if path_back in routes else ()
        ids.append(path_id)
        is_bad = None if path_id in unclear else path_id in bad
        hops, direction = _between(snapshot, path_id), directions.get(path_id) if is_bad else None
        if direction == LostDirection.REVERSE and hops_back:
            paths.append(MeshPath(is_bad, path.destination, path.source, hops_back))
        else:
            back = () if direction == LostDirection.FORWARD else hops_back
            paths.append(MeshPath(is_bad, path.source, path.destination, hops, back))
    part = find_common_part(paths, snapshot.routes.labels)
    if part is None:
        return None
    return CommonPlace(part.name, frozenset(ids[place] for place in part.crossing), part.text)


def _between(snapshot: Snapshot, path_id: int | None) -> Hops:
    """Hops between both ends; the end is unknown if a route did not reach."""
    if path_id is None:
        return ()
    route = snapshot.routes.by_path[path_id]
    return route.hops[:-1] if route.reached else (*route.hops, None)
