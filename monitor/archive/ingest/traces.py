"""Store traces with their routes, in their batch's transaction; existing rows stay unchanged.

A router that cannot forward answers in place of the next hop, so an ICMP error's hop is left out.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from ipaddress import ip_address
from typing import Any, cast

import msgspec
from django.db import connection

from monitor.analysis.routes.compare import trimmed
from monitor.analysis.routes.timeline import Flow, RouteTrace
from monitor.archive.models import NO_FLOW, Trace
from monitor.archive.routes.keep import keep_routes
from monitor.archive.statements import run_statement
from monitor.mesh.schedule.requests import ask_where_scheduled
from monitor.prepared import array_text
from probes.free_text import cleaned
from probes.site.wire import Delivered
from probes.trace.spec import ON_DEMAND_TEST, Hop, TraceReason, TraceRun

# Changes seen by the agent at the source, and perhaps not at the destination.
SEEN_AT_THE_SOURCE = (TraceReason.SENTINEL, TraceReason.TTL_CHANGED, TraceReason.RTT_STEP)
# A trace of the reverse path this much later would mislead.
OUTDATED = timedelta(minutes=2)

COPY_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
COLUMNS = tuple(column.name for column in Trace._meta.concrete_fields)

Key = tuple[int, datetime, Flow]


def store_traces(runs: Sequence[Delivered], now: datetime) -> None:
    """Store new traces and their routes."""
    if not runs:
        return
    new = {_key(delivered): delivered for delivered in reversed(runs)}  # of two with the same key the first counts
    for key in _stored(new):
        del new[key]
    if not new:
        return
    traces = [(path_id, _route_trace(delivered, at, flow)) for (path_id, at, flow), delivered in new.items()]
    route_ids = keep_routes(traces)
    ordered = sorted(zip(new.items(), route_ids, strict=True), key=lambda stored: stored[0][0][:2])
    _copy(_row(delivered, flow, route_id) for ((_, _, flow), delivered), route_id in ordered)
    _trace_back(new.values(), now)


def _trace_back(stored: Iterable[Delivered], now: datetime) -> None:
    paths: dict[TraceReason, list[int]] = defaultdict(list)
    for delivered in stored:
        run = _run(delivered)
        is_answer = delivered.test == ON_DEMAND_TEST
        if run.reason in SEEN_AT_THE_SOURCE and not is_answer and run.started_at > now - OUTDATED:
            paths[run.reason].append(delivered.path_id)
    for reason, path_ids in paths.items():
        ask_where_scheduled(path_ids, reason, by="the agent at the other end", now=now, only_reverse=True)


def _stored(keys: Iterable[Key]) -> list[Key]:
    path_ids, times, flows = zip(*keys, strict=True)
    _, rows = run_statement(
        "stored_traces",
        path_ids=list(path_ids),
        measured_at=list(times),
        protocols=[flow.protocol for flow in flows],
        flows=[flow.number for flow in flows],
        first=min(times),
        last=max(times),
    )
    return [(path_id, at, Flow(protocol, number)) for path_id, at, protocol, number in rows]


def _key(delivered: Delivered) -> Key:
    run = _run(delivered)
    return delivered.path_id, run.started_at, Flow(run.protocol, NO_FLOW if run.flow is None else run.flow)


def _route_trace(delivered: Delivered, at: datetime, flow: Flow) -> RouteTrace:
    run = _run(delivered)
    hops = [None if hop.address is None or hop.error is not None else canonical(hop.address) for hop in run.hops]
    return RouteTrace(at, flow, trimmed(hops, reached=run.reached))


def _copy(rows: Iterable[Mapping[str, Any]]) -> None:
    # COPY takes a fifth of an INSERT's time.
    copying = f"COPY trace ({', '.join(COLUMNS)}) FROM STDIN"
    lines = ["\t".join([_copied(row[column]) for column in COLUMNS]) + "\n" for row in rows]
    with connection.cursor() as cursor, connection.wrap_database_errors, cursor.copy(copying) as copy:
        copy.write("".join(lines))


def _copied(value: str | float | datetime | None) -> str:
    """Encode a value in COPY's text format."""
    # As text, since psycopg would look up how to write each value.
    if value is None:
        return "\\N"
    if isinstance(value, str):
        return value.translate(COPY_ESCAPES)
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _row(delivered: Delivered, flow: Flow, route_id: int | None) -> dict[str, Any]:
    run = _run(delivered)
    hops = run.hops
    effect = run.flow_effect
    return {
        "path_id": delivered.path_id,
        "measured_at": run.started_at,
        "protocol": flow.protocol,
        "flow": flow.number,
        "test": delivered.test,
        "outcome": run.outcome.value,
        "reason": run.reason.value,
        "reached": run.reached,
        "route_id": route_id,
        "sent": _array([len(hop.rtts_ms) for hop in hops]),
        "rtts_ms": _array([rtt_ms for hop in hops for rtt_ms in hop.rtts_ms]),
        "unknown_ttls": _array([hop.ttl for hop in hops if hop.address is None or hop.error is not None] or None),
        "inferred_ttls": _array([hop.ttl for hop in hops if hop.is_inferred] or None),
        "mpls": _by_ttl(hops, lambda hop: [[entry.label, entry.traffic_class, entry.ttl] for entry in hop.mpls]),
        "errors": _by_ttl(hops, lambda hop: hop.error and [cleaned(hop.error), hop.address and canonical(hop.address)]),
        "others": _by_ttl(hops, lambda hop: [canonical(address) for address in hop.others]),
        "flow_effect": None if effect is None else json.dumps(msgspec.to_builtins(effect)),
        "address": run.address,
        "during_test": delivered.during_test,
        "detail": None if run.detail is None else cleaned(run.detail),
    }


def _array(values: Sequence[float | None] | None) -> str | None:
    return None if values is None else array_text(values)


def _by_ttl(hops: Sequence[Hop], value: Any) -> str | None:
    by_ttl = {str(hop.ttl): content for hop in hops if (content := value(hop))}
    return json.dumps(by_ttl) if by_ttl else None


@lru_cache(maxsize=65_536)
def canonical(address: str) -> str:
    """Format an address as PostgreSQL's inet does."""
    return str(ip_address(address))


def _run(delivered: Delivered) -> TraceRun:
    return cast("TraceRun", delivered.result)
