"""Find the place of an incident's trouble by traces: a route change, or the link where loss begins
(`monitor.analysis.routes`)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from statistics import median

from monitor.alerts.evidence.comparison import loss_rose
from monitor.alerts.evidence.facts import Direction, Facts, PathFacts
from monitor.alerts.evidence.one_way.stated import counted_direction
from monitor.alerts.evidence.routes.traced import RouteFacts, RouteSwitch, TracedHop, TracedRoute
from monitor.alerts.evidence.tested_direction import Ends, tested_direction
from monitor.analysis.routes import wording
from monitor.analysis.routes.compare import RouteHops, is_compatible, merge
from monitor.analysis.routes.effects import SLACK_S
from monitor.analysis.routes.hops import hop_figures
from monitor.analysis.routes.onset import HopCounts, LossOnset, by_as, find_onset
from monitor.analysis.routes.wording import AsLabels
from monitor.archive.queries.routes.effects import LONGEST_UNSEEN, MeasuredChange, distinct_changes, effects_of
from monitor.archive.queries.routes.periods import RouteChange, changes_between, routes_between
from monitor.archive.queries.routes.traces import StoredTrace, traces_between
from monitor.routes.places import HopName, as_text, of_addresses

# Traces before the beginning show which routers limit their replies.
HISTORY = timedelta(hours=6)
PATHS_TRACED = 4
SLACK = timedelta(seconds=SLACK_S)
# Probability that packets are lost in the direction that throughput tests name.
MEASURED_DIRECTION = 0.95


@dataclass(frozen=True, slots=True)
class _Traced:
    """A direction of a path with its ping-flow traces, in time order."""

    direction: Direction
    traces: tuple[StoredTrace, ...]
    before: tuple[StoredTrace, ...]
    after: tuple[StoredTrace, ...]
    route_before: RouteHops | None  # merges the newest agreeing traces; None if no hop is shown
    route_after: RouteHops | None  # likewise, since the beginning

    @property
    def whole_route(self) -> RouteHops | None:
        """The present route to the destination, if traced."""
        if self.route_after is None:
            return None
        if self.route_after.reached:
            return self.route_after
        earlier = self.route_before
        is_same = earlier is not None and earlier.reached and is_compatible(earlier, self.route_after)
        return merge(self.route_after, earlier) if is_same and earlier is not None else None

    @property
    def is_unchanged(self) -> bool:
        """Whether no trace since the beginning contradicts the route before."""
        before = self.route_before
        return (
            before is not None and bool(self.after) and all(is_compatible(before, trace.route) for trace in self.after)
        )

    @property
    def is_whole(self) -> bool:
        """Whether traces since the beginning reach as far as before."""
        before, after = self.route_before, self.route_after
        return before is not None and after is not None and (after.reached or len(after.hops) >= len(before.hops))


class AddressPlaces:
    def __init__(self, addresses: Iterable[str]) -> None:
        self._names: Mapping[str, HopName] = of_addresses(addresses)
        as_names = {name.asn: name.as_name for name in self._names.values() if name.asn is not None}
        self.labels = AsLabels(self.as_of, as_names.get)

    def as_of(self, address: str) -> int | None:
        name = self._names.get(address)
        return None if name is None else name.asn

    def place(self, address: str | None) -> str | None:
        """Name the place of an address, as in "AS 20965 GEANT", or the purpose of a special range."""
        name = None if address is None else self._names.get(address)
        if name is None:
            return None
        number = None if name.asn is None else as_text(name.asn, name.as_name)
        purpose = name.special if name.network is None else None
        parts = [part for part in (name.network, number, name.ixp, purpose) if part]
        return ", ".join(parts) or None


def collect_routes(facts: Facts, since: datetime, until: datetime) -> tuple[RouteFacts, ...]:
    """Collect routes of the first paths with traces before `until`; `since` is the earliest begin."""
    paths = facts.paths[:PATHS_TRACED]
    ids = [direction.path_id for path in paths for direction in (path.there, path.back) if direction is not None]
    periods = routes_between(ids, since - HISTORY, until)
    if not periods:
        return ()
    began = facts.began
    earliest = since if began is None or began.earliest is None else began.earliest
    began_at = since if began is None else began.at
    # An outage began at the last reply or soon after.
    latest = max(began_at if began is None or not began.is_outage else began.latest or began_at, earliest)
    changes = changes_between(earliest - LONGEST_UNSEEN, min(latest + LONGEST_UNSEEN, until), ids)
    at_onset = [
        change
        for change in distinct_changes(changes)
        if change.last_before_at - SLACK <= latest and earliest <= change.at + SLACK
    ]
    measured = defaultdict(list)
    for change in effects_of(at_onset, until):
        measured[change.path_id].append(change)
    traced_ids = {period.path_id for period in periods}
    traced = {
        direction.path_id: _traced(direction, earliest, latest, since, until)
        for path in paths
        for direction in (path.there, path.back)
        if direction is not None and direction.path_id in traced_ids
    }
    names = AddressPlaces(_addresses(traced.values(), at_onset))
    counted = counted_direction(facts)
    toward = (None if counted is None else counted.toward) or tested_direction(facts).toward
    routes = (_of_path(path, traced, measured, names, toward) for path in paths)
    return tuple(sorted((of_path for of_path in routes if of_path is not None), key=lambda entry: not entry.is_certain))


def _traced(direction: Direction, earliest: datetime, latest: datetime, since: datetime, until: datetime) -> _Traced:
    traces = [
        trace for trace in traces_between(direction.path_id, since - HISTORY, until) if not trace.route.is_unknown
    ]
    flows = Counter((trace.protocol, trace.flow) for trace in traces)
    usual = max(flows, key=lambda flow: flows[flow], default=None)
    traces = [trace for trace in traces if (trace.protocol, trace.flow) == usual]
    before = tuple(trace for trace in traces if trace.at <= earliest)
    after = tuple(trace for trace in traces if trace.at >= latest and trace.at > earliest)
    return _Traced(direction, tuple(traces), before, after, _newest_route(before), _newest_route(after))


def _newest_route(traces: Sequence[StoredTrace]) -> RouteHops | None:
    route: RouteHops | None = None
    for trace in reversed(traces):
        if route is None:
            route = trace.route
        elif not is_compatible(route, trace.route):
            break
        else:
            route = merge(route, trace.route)
    return route


def _addresses(traced: Iterable[_Traced], changes: Iterable[RouteChange]) -> set[str]:
    hops = [hop.address for direction in traced for trace in direction.traces for hop in trace.hops]
    hops += [address for change in changes for address in (*change.before_hops, *change.after_hops)]
    return {address for address in hops if address is not None}


def _of_path(
    path: PathFacts,
    traced: Mapping[int, _Traced],
    measured: Mapping[int, Sequence[MeasuredChange]],
    names: AddressPlaces,
    toward: Ends | None,
) -> RouteFacts | None:
    ends = [traced[side.path_id] for side in (path.there, path.back) if side is not None and side.path_id in traced]
    changes = [change for end in ends for change in measured.get(end.direction.path_id, ())]
    change = max(changes, key=_weight, default=None)
    onset = _loss_onset(path, traced, names, toward) if any(loss_rose(end.direction) for end in ends) else None
    if change is not None:
        end = next(end for end in ends if end.direction.path_id == change.path_id)
        return _changed(change, end, onset, names)
    if not ends or not any(end.after for end in ends):
        return None
    end = ends[0]
    if onset is not None:
        end = next((side for side in ends if side.direction.name == onset.path), end)
    where = f"where: {wording.CANNOT_TELL}" if onset is None else onset.text
    return RouteFacts(
        path_id=end.direction.path_id,
        path=end.direction.name,
        sentence=_unchanged(end, ends, where) if all(side.is_unchanged for side in ends) else where,
        is_certain=onset is not None and onset.is_certain,
        before=_as_route(end.before[-1:], end.before, names),
        after=_as_route(end.after[:1], end.after, names),
    )


def _unchanged(end: _Traced, ends: Sequence[_Traced], where: str) -> str:
    """State that routes did not change, as far as traces show."""
    if end.is_whole or end.route_after is None:
        return wording.route_unchanged(where, has_reverse=len(ends) > 1 and all(side.is_whole for side in ends))
    return wording.route_unchanged(where, up_to=len(end.route_after.hops))


def _weight(change: MeasuredChange) -> tuple[bool, float]:
    return change.effect is not None, abs(change.rtt_shift_ms or 0.0)


def _changed(change: MeasuredChange, end: _Traced, onset: _Place | None, names: AddressPlaces) -> RouteFacts:
    raw, effect = change.change, change.effect
    at = raw.at
    if effect is not None and effect.rtt is not None:
        at = min(max(datetime.fromtimestamp(effect.rtt.at_s, UTC), raw.last_before_at), raw.at)
    old = [trace for trace in end.traces if trace.at <= raw.last_before_at]
    new = [trace for trace in end.traces if trace.at >= raw.at]
    sentence = wording.route_change(at, raw.before, raw.after, names.labels, effect)
    if onset is not None and onset.is_certain:
        on_path = "" if onset.path == end.direction.name else f" on {onset.path}"
        sentence = f"{sentence}; {onset.text}{on_path}"
    elif effect is None:
        sentence = f"{sentence}, {wording.NO_EFFECT}"
    return RouteFacts(
        path_id=end.direction.path_id,
        path=end.direction.name,
        sentence=sentence,
        is_certain=effect is not None or (onset is not None and onset.is_certain),
        before=_as_route(old[-1:], old, names),
        after=_as_route(new[:1], new, names),
        changed_at=at,
        has_effect=effect is not None,
        rtt_shift_ms=change.rtt_shift_ms,
        switch=RouteSwitch(raw.protocol, raw.flow, raw.before_id, raw.after_id, raw.at, sentence),
    )


@dataclass(frozen=True, slots=True)
class _Place:
    """Where on the route of `path` loss begins, in words."""

    path: str
    text: str
    is_certain: bool


def _loss_onset(
    path: PathFacts, traced: Mapping[int, _Traced], names: AddressPlaces, toward: Ends | None
) -> _Place | None:
    there = traced.get(path.there.path_id)
    back = None if path.back is None else traced.get(path.back.path_id)
    route = None if there is None else there.whole_route
    if there is None or route is None:
        return None
    reverse = None if back is None else back.whole_route
    counts = _counts(there, route), () if back is None or reverse is None else _counts(back, reverse)
    mirror = None
    if reverse is not None:
        # The last hop of each route is the end at which the other begins.
        nodes = [[None, *_numbers(route, names)], [None, *_numbers(reverse, names)]]
        nodes[0][0], nodes[1][0] = nodes[1][-1], nodes[0][-1]
        mirror = by_as(*nodes)
    onset: LossOnset | None = find_onset(*counts, mirror, _forward_probability(path, toward))
    if onset is None:
        return None
    if onset.is_of_reverse and onset.is_certain and reverse is not None and path.back is not None:
        of_reverse = wording.loss_onset(replace(onset, is_of_reverse=False), reverse, None, names.labels)
        return _Place(path.back.name, of_reverse, True)
    return _Place(path.there.name, wording.loss_onset(onset, route, reverse, names.labels), onset.is_certain)


def _numbers(route: RouteHops, names: AddressPlaces) -> list[int | None]:
    return [None if address is None else names.as_of(address) for address in route.hops]


def _forward_probability(path: PathFacts, toward: Ends | None) -> float:
    if toward is None:
        return 0.5
    hosts = path.name.split(" → ")
    sources, destinations = ({"", path.source_site, hosts[0]}, {"", path.destination_site, hosts[-1]})
    begins, ends = (set(group.split(", ")) for group in toward)  # a host or site, or those on either side of a link
    if begins & sources and ends & destinations:
        return MEASURED_DIRECTION
    return 1.0 - MEASURED_DIRECTION if begins & destinations and ends & sources else 0.5


def _counts(end: _Traced, route: RouteHops) -> list[HopCounts]:
    after, before = _probes(end.after, route), _probes(end.before, route)
    counts = [HopCounts(*after[ttl], *before[ttl]) for ttl in range(1, len(route.hops))]
    was, is_now = end.direction.before, end.direction.after
    (sent, lost), (sent_before, lost_before) = after[len(route.hops)], before[len(route.hops)]
    return [
        *counts, HopCounts(sent + is_now.sent, lost + is_now.lost, sent_before + was.sent, lost_before + was.lost)
    ]  # fmt: skip


def _probes(traces: Iterable[StoredTrace], route: RouteHops) -> dict[int, tuple[int, int]]:
    sums = dict.fromkeys(range(1, len(route.hops) + 1), (0, 0))
    for trace in traces:
        if not is_compatible(trace.route, route):
            continue
        for hop in trace.hops:
            if hop.ttl in sums and hop.error is None:
                sent, lost = sums[hop.ttl]
                sums[hop.ttl] = sent + hop.sent, lost + hop.sent - hop.received
    return sums


def _as_route(shown: Sequence[StoredTrace], around: Sequence[StoredTrace], names: AddressPlaces) -> TracedRoute | None:
    """Convert the first trace, or None; the traces `around` it reveal rate limits."""
    return next((_route_table(trace, around, names) for trace in shown), None)


def _route_table(trace: StoredTrace, around: Sequence[StoredTrace], names: AddressPlaces) -> TracedRoute:
    along = [other for other in around if is_compatible(other.route, trace.route)]
    limited = {of.ttl for of in hop_figures([[hop.rtts_ms for hop in other.hops] for other in along]) if of.is_limited}
    hops = []
    for hop in trace.hops:
        rtts_ms = [rtt for rtt in hop.rtts_ms if rtt is not None]
        lost = hop.sent - hop.received
        rtt_ms = median(rtts_ms) if rtts_ms else None
        is_limited = hop.ttl in limited and lost > 0
        hops.append(TracedHop(hop.ttl, hop.address, names.place(hop.address), hop.sent, lost, rtt_ms, is_limited))
    return TracedRoute(trace.at, trace.reached, tuple(hops), None if trace.reached else trace.detail)
