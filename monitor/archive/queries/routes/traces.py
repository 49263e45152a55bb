"""Traces of a path with their hops: addresses of their routes, None where the trace had no reply."""

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
    """Entry of a label stack (RFC 4950)."""

    label: int
    traffic_class: int
    ttl: int


@dataclass(frozen=True, slots=True)
class TraceHop:
    """Hop of a trace, as `probes.trace.spec.Hop`; `rtts_ms` has None without a reply."""

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
    """Trace, without hops unless measured. `route_id` is None where no router replied."""

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
        """Hops with replies, without a router that ended the trace."""
        return trimmed([None if hop.error is not None else hop.address for hop in self.hops], reached=self.reached)


def traces_between(path_id: int, since: datetime, until: datetime) -> list[StoredTrace]:
    """All traces of any outcome, oldest first."""
    check_period(since, until)
    rows = select(TraceRow, "traces_between", path_id=path_id, since=since, until=until)
    return [_trace(row) for row in rows]


def traces_at(path_id: int, at: datetime) -> list[StoredTrace]:
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
    content: dict[str, Any] = {} if text is None else json.loads(text)
    return content
