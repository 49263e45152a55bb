"""How the results of each kind are checked and stored: a registry by kind, in the order in which a batch is stored.

`monitor.mesh.kinds` names the tables of `monitor.archive.kinds`, `monitor.archive.retention_bounds` the retention of a
table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from monitor.archive.aggregates.store import store_members
from monitor.archive.ingest import contradictions
from monitor.archive.ingest.directions import in_stamp, store_directions
from monitor.archive.ingest.store_results import store_rows, store_throughput
from monitor.archive.ingest.traces import store_traces
from monitor.archive.interfaces.store import in_interface, store_interfaces
from monitor.archive.kinds import RESULT_KINDS
from monitor.archive.kinds.kind import ResultKind
from monitor.archive.retention_bounds import raw_tables
from monitor.mesh.kinds import MESH_KINDS
from probes.contract import Kind
from probes.interface.kind import KIND as INTERFACE
from probes.kinds import KINDS
from probes.ping.kind import KIND as PING
from probes.site.wire import Delivered
from probes.stamp.kind import KIND as STAMP
from probes.tcp_ping.kind import KIND as TCP_PING
from probes.throughput.kind import KIND as THROUGHPUT
from probes.trace.kind import KIND as TRACE


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredKind:
    kind: Kind
    contradiction: Callable[[Any], str | None]  # gives the reason to refuse contradicting fields, or None
    # idempotent, in the batch's transaction; None for bursts, packed while parsing
    store: Callable[[Sequence[Delivered], datetime], None] | None = None

    @property
    def retention(self) -> str:
        """The key in RETENTION_DAYS; older results are refused."""
        return raw_tables()[MESH_KINDS[self.kind.name].table]


def stored_rows(result_kind: ResultKind) -> StoredKind:
    """How the results of a kind of `monitor.archive.kinds` are checked and stored."""
    return StoredKind(
        kind=result_kind.kind,
        contradiction=lambda run: contradictions.at_result(result_kind.contradiction(run)),
        store=lambda results, now: store_rows(result_kind, results),
    )


STORED_KINDS: dict[str, StoredKind] = {
    stored.kind.name: stored
    for stored in (
        StoredKind(kind=PING, contradiction=contradictions.in_burst),
        StoredKind(kind=TCP_PING, contradiction=contradictions.in_burst),
        StoredKind(kind=THROUGHPUT, contradiction=contradictions.in_throughput, store=store_throughput),
        *map(stored_rows, RESULT_KINDS.values()),
        StoredKind(kind=TRACE, contradiction=contradictions.in_trace, store=store_traces),
        StoredKind(kind=STAMP, contradiction=in_stamp, store=store_directions),
        StoredKind(kind=INTERFACE, contradiction=in_interface, store=store_interfaces),
        StoredKind(kind=KINDS["aggregate"], contradiction=contradictions.in_throughput, store=store_members),
    )
}
KIND_OF_RESULT: dict[type[Any], StoredKind] = {
    result: stored for stored in STORED_KINDS.values() for result in stored.kind.results
}
# Structs of results that are packed as bursts.
BURSTS: frozenset[type[Any]] = frozenset(result for result, stored in KIND_OF_RESULT.items() if stored.store is None)
