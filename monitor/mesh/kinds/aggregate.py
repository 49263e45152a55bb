"""Aggregate tests of mesh.toml: throughput tests between several host pairs at once, each a member with its own slot,
result and server port."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from monitor.mesh.document.entries import TestKeys, TestName
from monitor.mesh.kinds.kind import DAY_S, Length, ListeningPort, MeshKind
from monitor.mesh.kinds.throughput import KIND as THROUGHPUT
from monitor.mesh.kinds.throughput import (
    RESULT_BYTES,
    SLOT_MARGIN_S,
    FlowKeys,
    Mbps,
    Priority,
    SlipS,
    ThroughputSettings,
    bits,
    check_transfer,
    iperf3_servers,
    throughput_slot,
)
from probes.aggregate.spec import AggregateSlot
from probes.kinds import KINDS
from probes.toml.keys import DISTINCT, NOT_EMPTY, meaning
from probes.toml.tables import Table

if TYPE_CHECKING:
    from monitor.mesh.models import Slot
    from monitor.mesh.plan_rows import PlannedSite

MOST_MEMBERS = 32
HOSTS_EXAMPLE = "[ … ] (the names of hosts)"

Shape = Literal["many-to-one", "one-to-many", "pairs"]
HostNames = Annotated[tuple[str, ...], NOT_EMPTY, DISTINCT]


class AggregateEntry(TestKeys, FlowKeys, frozen=True, tag="aggregate"):
    """Transfers between several pairs of hosts at the same time, with one result: sum, each rate and fairness."""

    name: TestName
    shape: Annotated[
        Shape,
        meaning(
            "Pairs that send: every sender to the only receiver, the only sender to every receiver, or each sender to "
            "the receiver at the same place of its list, as for several addresses of two hosts."
        ),
    ]
    senders: Annotated[HostNames, meaning("Hosts that send.", HOSTS_EXAMPLE)]
    receivers: Annotated[HostNames, meaning("Hosts that receive.", HOSTS_EXAMPLE)]
    every_s: Annotated[
        int,
        Meta(ge=10, le=DAY_S),
        meaning("Period: the test runs once in each period.", "21600 (seconds from one test to the next)"),
    ]
    rate_mbps: Annotated[
        Mbps | None,
        meaning("Rate of each member, all its streams together. Default: no limit."),
    ] = None
    pacing_mbps: Annotated[
        Mbps | None,
        meaning("Rate at which the kernel of each sender paces its streams together (fq). Default: none."),
    ] = None
    priority: Priority = 0
    slip_s: SlipS = None

    @property
    def host_pairs(self) -> tuple[tuple[str, str], ...]:
        return tuple(pairs_of(self.shape, self.senders, self.receivers))

    @property
    def parameters(self) -> dict[str, object]:
        """`ThroughputSettings` parameters and the shape."""
        settings = {name: getattr(self, name) for name in FlowKeys.__struct_fields__}
        of_each = ThroughputSettings(**settings, rate_bps=bits(self.rate_mbps), pacing_bps=bits(self.pacing_mbps))
        return {
            **of_each.parameters,
            "shape": self.shape,
            "senders": list(self.senders),
            "receivers": list(self.receivers),
        }


def pairs_of(shape: str, senders: tuple[str, ...], receivers: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Sender and receiver of each member; incomplete shapes give fewer pairs."""
    if shape == "pairs":
        yield from zip(senders, receivers, strict=False)
    else:
        yield from ((sender, receiver) for sender in senders for receiver in receivers)


def place_of(parameters: Mapping[str, Any], sender: str, receiver: str) -> int | None:
    """Position of a pair among the members, or None."""
    pairs = list(pairs_of(parameters["shape"], parameters["senders"], parameters["receivers"]))
    return pairs.index((sender, receiver)) if (sender, receiver) in pairs else None


def _check_table(table: Table) -> None:
    check_transfer(table)
    shape, senders, receivers = (table.values.get(key) for key in ("shape", "senders", "receivers"))
    if shape is None or not senders or not receivers:
        return
    if shape == "many-to-one" and len(receivers) != 1:
        table.problem(f"many-to-one has one receiver, not {len(receivers)}; name one host", "receivers")
    if shape == "one-to-many" and len(senders) != 1:
        table.problem(f"one-to-many has one sender, not {len(senders)}; name one host", "senders")
    if shape == "pairs" and len(senders) != len(receivers):
        table.problem(
            f"pairs need a receiver for each sender, not {len(receivers)} for {len(senders)}; "
            "write lists of equal length",
            "receivers",
        )
    members = len(list(pairs_of(shape, senders, receivers)))
    if table.is_valid and not 2 <= members <= MOST_MEMBERS:
        key = "receivers" if shape == "one-to-many" else "senders"
        table.problem(f"an aggregate test has 2 to {MOST_MEMBERS} members, not {members}; name other hosts", key)
    port = table.get("port")
    if table.is_valid and port is not None and port + members - 1 > 65_535:
        table.problem(
            f"its {members} members need the ports from {port} on, beyond 65535; write a lower port",
            "port" if table.has("port") else None,
        )


def _length(test: AggregateEntry) -> Length:
    reason = f"{test.duration_s} s + {test.omit_s} s omitted + {SLOT_MARGIN_S} s between tests"
    assert THROUGHPUT.slot_s is not None
    return Length(THROUGHPUT.slot_s(test.parameters), reason)


def _slot(slot: Slot, site: PlannedSite, secrets: Mapping[str, str | None]) -> AggregateSlot:
    path = slot.measurement.path
    planned = throughput_slot(slot, site, secrets)
    place = place_of(slot.parameters, path.source.name, path.destination.name) or 0
    spec = msgspec.structs.replace(planned.spec, port=planned.spec.port + place)
    fields = {name: getattr(planned, name) for name in planned.__struct_fields__}
    return AggregateSlot(**{**fields, "spec": spec})


def _servers(test: AggregateEntry, source: str, destination: str) -> Sequence[ListeningPort]:
    place = place_of(test.parameters, source, destination) or 0
    return iperf3_servers(destination, test.port + place, test.protocol)


KIND = MeshKind(
    kind=KINDS["aggregate"],
    entry=AggregateEntry,
    check_table=_check_table,
    table="aggregate_member",
    result_bytes=lambda parameters: RESULT_BYTES,
    length=_length,
    slot=_slot,
    servers=_servers,
    hourly_keys=True,
    filling_s=THROUGHPUT.filling_s,
    slot_s=THROUGHPUT.slot_s,
)
