"""Traces of a path with their hops.

In: a path and a period, as aware times, half open. Out: records. A trace has the addresses of its route, None at a TTL
where it had no reply itself.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from monitor.analysis.routes.compare import RouteHops, trimmed
from monitor.archive.queries.routes.flow_effects import flow_effect_of
from monitor.archive.statements import check_period, select
from probes.trace.spec import FlowEffect

SHORTEST = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class MplsEntry:
    """An entry of a label stack (RFC 4950)."""

    label: int
    traffic_class: int
    ttl: int


@dataclass(frozen=True, slots=True)
class TraceHop:
    """A hop of a trace: `rtts_ms` has an entry for each probe, None without a reply. Fields as in
    `probes.trace.spec.Hop`."""

    ttl: int
    address: str | None
    rtts_ms: list[float | None]
    mpls: list[MplsEntry]
    error: str | None
    is_inferred: bool
    others: list[str]

    @property
    def sent(self) -> int:
        return len(self.rtts_ms)

    @property
    def received(self) -> int:
        return self.sent - self.rtts_ms.count(None)


@dataclass(frozen=True, slots=True)
class TraceRow:
    """A row of `trace` with the hops of its route; `mpls`, `errors`, `others` and `flow_effect` are JSON."""

    path_id: int
    at: datetime
    test: str
    outcome: str
    reason: str
    protocol: str
    flow: int | None
    reached: bool
    route_id: int | None
    route_hops: list[str | None] | None
    sent: list[int]
    rtts_ms: list[float | None]
    unknown_ttls: list[int] | None
    inferred_ttls: list[int] | None
    mpls: str | None
    errors: str | None
    others: str | None
    flow_effect: str | None
    address: str | None
    during_test: bool
    detail: str | None


@dataclass(frozen=True, slots=True)
class StoredTrace:
    """A trace; without hops unless `outcome` is `measured`. `route_id` is None where no router replied."""

    path_id: int
    at: datetime
    test: str
    outcome: str
    reason: str
    protocol: str
    flow: int | None
    address: str | None
    reached: bool
    route_id: int | None
    hops: list[TraceHop]
    during_test: bool
    detail: str | None
    flow_effect: FlowEffect | None = None

    @property
    def route(self) -> RouteHops:
        """The hops that this trace saw; a router that ended it with an error is none."""
        return trimmed([None if hop.error is not None else hop.address for hop in self.hops], reached=self.reached)


def traces_between(path_id: int, since: datetime, until: datetime) -> list[StoredTrace]:
    """All traces of a path that began in the period, oldest first, whatever their outcome."""
    check_period(since, until)
    rows = select(TraceRow, "traces_between", path_id=path_id, since=since, until=until)
    return [_trace(row) for row in rows]


def traces_at(path_id: int, at: datetime) -> list[StoredTrace]:
    """The traces of a path that began at this moment, of several flows each."""
    return traces_between(path_id, at, at + SHORTEST)


def _trace(row: TraceRow) -> StoredTrace:
    names: Any = (field for field in StoredTrace.__slots__ if field not in ("hops", "flow_effect"))
    values = {name: getattr(row, name) for name in names}
    effect = None if row.flow_effect is None else flow_effect_of(row.flow_effect)
    return StoredTrace(**values, hops=_hops(row), flow_effect=effect)


def _hops(row: TraceRow) -> list[TraceHop]:
    hops, first = [], 0
    unknown, inferred = set(row.unknown_ttls or ()), set(row.inferred_ttls or ())
    all_mpls, errors, all_others = (_by_ttl(text) for text in (row.mpls, row.errors, row.others))
    for ttl, sent in enumerate(row.sent, 1):
        key, rtts_ms = str(ttl), row.rtts_ms[first : first + sent]
        first += sent
        error, address = errors.get(key, (None, None))
        if ttl not in unknown and row.route_hops is not None:
            address = row.route_hops[ttl - 1]
        mpls = [MplsEntry(*entry) for entry in all_mpls.get(key, [])]
        hops.append(TraceHop(ttl, address, rtts_ms, mpls, error, ttl in inferred, all_others.get(key, [])))
    return hops


def _by_ttl(text: str | None) -> dict[str, Any]:
    """The content of a JSON column, by TTL."""
    content: dict[str, Any] = {} if text is None else json.loads(text)
    return content
