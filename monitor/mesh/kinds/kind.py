"""The centre's half of a kind of measurement that mesh.toml and the plans need; `monitor.mesh.kinds` lists all.

A kind declares the keys of its [[test]] table, tells how long its tests take and how much they store, and makes its
part of a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from monitor.mesh.document.entries import TestKeys
from probes.contract import CycleTask, Kind
from probes.hosts import literal
from probes.packets.egress import LARGEST_DSCP
from probes.toml.keys import meaning
from probes.toml.tables import Table

if TYPE_CHECKING:
    from monitor.mesh.models import Slot, TraceRequest
    from monitor.mesh.plan_rows import PlannedHost, PlannedMeasurement, PlannedSite

DAY_S = 86_400
USUAL_RESULT_BYTES = 300
"""A row of a dozen numbers and its index."""

CyclePeriodS = Annotated[
    int,
    Meta(ge=1, le=DAY_S),
    meaning(
        "Interval between cycles. Cycles start at multiples of it in UTC.",
        "60 (seconds from one cycle to the next)",
    ),
]
"""The key `every_s` of the tests whose cycles send bursts."""
PacketDscp = Annotated[int, Meta(ge=0, le=LARGEST_DSCP), meaning("DSCP of the packets.")]


@dataclass(frozen=True, slots=True)
class Length:
    """Time that a test needs in each of its periods, and the reason, in words."""

    seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class ListeningPort:
    """A port on which the agent of a host listens for a test."""

    host: str
    transport: Literal["TCP", "UDP"]
    port: int


def on_both_transports(host: str, port: int) -> tuple[ListeningPort, ListeningPort]:
    """The servers of a test that listens for TCP and UDP on the same port."""
    return ListeningPort(host, "TCP", port), ListeningPort(host, "UDP", port)


def _no_servers(test: Any, source: str, destination: str) -> Sequence[ListeningPort]:
    return ()


def _no_check(table: Table) -> None:
    pass


def _no_minimum(test: Any) -> Length | None:
    return None


def _by_ping(parameters: Mapping[str, Any]) -> str:
    return "ping"


def _usual_result_bytes(parameters: Mapping[str, Any]) -> int:
    return USUAL_RESULT_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshKind:
    """A kind of [[test]].

    `entry` is the struct of its table in mesh.toml; `check_table(table)` reports problems between its keys.
    `length(test)` is None where every permitted period is long enough. `turn_s` is the time for each path where agents
    measure theirs one after the other. `identified_by_size`: results of a path are told apart by their packet size,
    as bursts are. `stands_in_for_pings`: they are bursts of a path only if no other test gives it any. `table` is the
    archive's table of its results, `result_bytes(parameters)` the size of those of one run on a path there, indexes
    included.

    The part of a plan is `task(name, measurements)` for a kind in cycles, `slot(slot, site, secrets)` for a kind with
    slots, in which the source of a path connects and reports, or its destination where the parameter `reversed_by` is
    true; of such a kind, always an end behind NAT. `hourly_keys`: the tests between two sites that start in the same
    UTC hour share their one-time key, because agents derive an expensive key pair of it. `filling_s(parameters)` is the
    time during which such a test loads its path, `slot_s(parameters)` the length of its slot.

    `servers(test, source, destination)` are those that agents run for a test between two hosts: in its slots or, for a
    kind in cycles, all the time, in a single process with a single port, `server_name`.

    Of a kind whose results are bursts, `measured_by(parameters)` are the words for its packets.
    """

    kind: Kind
    entry: type[TestKeys]
    check_table: Callable[[Table], None] = _no_check
    table: str
    result_bytes: Callable[[Mapping[str, Any]], int] = _usual_result_bytes
    length: Callable[[Any], Length | None] = _no_minimum
    turn_s: float | None = None
    identified_by_size: bool = False
    stands_in_for_pings: bool = False
    task: Callable[[str, Sequence[PlannedMeasurement]], Any] | None = None
    slot: Callable[[Slot, PlannedSite, Mapping[str, str | None]], Any] | None = None
    reversed_by: str | None = None
    hourly_keys: bool = False
    filling_s: Callable[[Mapping[str, Any]], int] | None = None
    slot_s: Callable[[Mapping[str, Any]], int] | None = None
    servers: Callable[[Any, str, str], Sequence[ListeningPort]] = _no_servers
    server_name: str = ""
    measured_by: Callable[[Mapping[str, Any]], str] = _by_ping

    @property
    def has_servers(self) -> bool:
        return self.servers is not _no_servers


def ends(measurement: PlannedMeasurement | TraceRequest) -> dict[str, object]:
    """Address fields of a spec in a cycle."""
    path = measurement.path
    return {
        "address": path.destination.address_for(path.source),
        "family": path.family,
        "source": literal_or_none(path.source.source_for(path.destination)),
    }


def egress_of(host: PlannedHost, dscp: int = 0) -> dict[str, object]:
    """The field `egress` of a host's packets; empty where mesh.toml says nothing about it."""
    settings = {"interface": host.interface, "namespace": host.namespace, "dscp": dscp}
    egress = {name: value for name, value in settings.items() if value}
    return {"egress": egress} if egress else {}


def leaving(measurement: PlannedMeasurement) -> dict[str, object]:
    """As `ends`, with the egress of packets where mesh.toml says anything about it."""
    dscp = int(measurement.test.parameters.get("dscp") or 0)
    return {**ends(measurement), **egress_of(measurement.path.source, dscp)}


def task_maker(
    task: type[CycleTask],
    spec: type[msgspec.Struct],
    target: Callable[[PlannedMeasurement], dict[str, object]] = leaving,
) -> Callable[[str, Sequence[PlannedMeasurement]], Any]:
    """Returns the function `MeshKind.task` of a kind whose parameters are the fields of its `spec`, without the targets
    that `target` makes of each measurement."""

    def make(name: str, measurements: Sequence[PlannedMeasurement]) -> Any:
        test = measurements[0].test
        targets = [{**target(row), "path_id": row.path_id} for row in measurements]
        fields = {field: value for field, value in test.parameters.items() if field in spec.__struct_fields__}
        of_targets = msgspec.convert({**fields, "targets": targets}, spec)
        return msgspec.convert({"test": name, "every_s": test.every_s, "spec": of_targets}, task)

    return make


@lru_cache(maxsize=4096)
def literal_or_none(address: str) -> str | None:
    """A source address; None for a name, which the site resolves and routes itself."""
    return address if literal(address) is not None else None


def slot_maker(
    planned: type[msgspec.Struct], spec: type[msgspec.Struct]
) -> Callable[[Slot, PlannedSite, Mapping[str, str | None]], Any]:
    """Returns the function `MeshKind.slot` of a kind whose tests the source of a path sends and reports. Both ends get
    both addresses, and the secrets that `spec` has a field for."""

    def make(slot: Slot, site: PlannedSite, secrets: Mapping[str, str | None]) -> Any:
        of_test = msgspec.convert({**slot.parameters, **both_ends(slot), **secrets}, spec)
        return planned(**fields_of_slot(slot, site), spec=of_test)

    return make


def fields_of_slot(slot: Slot, site: PlannedSite) -> dict[str, Any]:
    """Fields of a planned slot whose test the source of its path sends, for the agent of `site` at either end."""
    path = slot.measurement.path
    return {
        "slot_id": slot.pk,
        "path_id": path.pk,
        "test": slot.measurement.test.name,
        "role": "client" if path.source.site_id == site.pk else "server",
        "starts_at": slot.starts_at,
        "ends_at": slot.ends_at,
    }


def both_ends(slot: Slot) -> dict[str, Any]:
    """The address of each end of a slot's path as the other end reaches it, and their family."""
    path = slot.measurement.path
    source, destination = path.source, path.destination
    ends = {"address": destination.address_for(source), "source": source.address_for(destination)}
    return {**ends, "family": path.family}
