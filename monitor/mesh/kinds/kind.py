"""The centre's half of a kind of measurement, for mesh.toml and plans."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from django.utils.crypto import salted_hmac
from msgspec import Meta

from monitor.mesh.document.entries import TestKeys
from probes.contract import CycleTask, Kind
from probes.hosts import literal
from probes.packets.answered_peers import AnsweredPeer
from probes.packets.egress import LARGEST_DSCP
from probes.toml.keys import meaning
from probes.toml.tables import Table

if TYPE_CHECKING:
    from monitor.mesh.models import Slot, TraceRequest
    from monitor.mesh.plan_rows import PlannedHost, PlannedMeasurement, PlannedPath, PlannedSite

DAY_S = 86_400
# A row of a dozen numbers and its index.
USUAL_RESULT_BYTES = 300

# The key `every_s` of tests that send bursts in cycles.
CyclePeriodS = Annotated[
    int,
    Meta(ge=1, le=DAY_S),
    meaning(
        "Interval between cycles. Cycles start at multiples of it in UTC.",
        "60 (seconds from one cycle to the next)",
    ),
]
PacketDscp = Annotated[int, Meta(ge=0, le=LARGEST_DSCP), meaning("DSCP of the packets.")]


@dataclass(frozen=True, slots=True)
class Length:
    """Time that a test needs in each period, and the reason."""

    seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class ListeningPort:
    host: str
    transport: Literal["TCP", "UDP"]
    port: int


def on_both_transports(host: str, port: int) -> tuple[ListeningPort, ListeningPort]:
    """Servers of a test that listens on TCP and UDP."""
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
    kind: Kind
    entry: type[TestKeys]  # struct of its table in mesh.toml
    check_table: Callable[[Table], None] = _no_check  # reports problems between its keys
    table: str  # archive table of its results
    # bytes stored for a run on a path, indexes included
    result_bytes: Callable[[Mapping[str, Any]], int] = _usual_result_bytes
    length: Callable[[Any], Length | None] = _no_minimum  # None where every permitted period is long enough
    turn_s: float | None = None  # time for each path where agents measure paths in sequence
    identified_by_size: bool = False  # packet size identifies results of a path, as for bursts
    stands_in_for_pings: bool = False  # bursts of a path only without another test that gives any
    task: Callable[[str, Sequence[PlannedMeasurement]], Any] | None = None  # makes the plan part of a kind in cycles
    # makes the plan part of a kind with slots
    slot: Callable[[Slot, PlannedSite, Mapping[str, str | None]], Any] | None = None
    reversed_by: str | None = None  # parameter: the destination connects and reports; an end behind NAT always does
    hourly_keys: bool = False  # tests of two sites share an hour's key: agents derive expensive key pairs
    filling_s: Callable[[Mapping[str, Any]], int] | None = None  # time for which a test loads its path
    slot_s: Callable[[Mapping[str, Any]], int] | None = None  # length of its slot
    # ports of agents between two hosts: in its slots, or always for cycles
    servers: Callable[[Any, str, str], Sequence[ListeningPort]] = _no_servers
    server_name: str = ""  # single process with a single port, for a kind in cycles
    measured_by: Callable[[Mapping[str, Any]], str] = _by_ping  # words for its packets, where results are bursts

    @property
    def has_servers(self) -> bool:
        return self.servers is not _no_servers


def ends(measurement: PlannedMeasurement | TraceRequest) -> dict[str, object]:
    """Spec fields with the addresses and family of a path's ends."""
    path = measurement.path
    return {
        "address": path.destination.address_for(path.source),
        "family": path.family,
        "source": literal_or_none(path.source.source_for(path.destination)),
    }


def egress_of(host: PlannedHost, dscp: int = 0) -> dict[str, object]:
    """Field `egress` of a host's packets, if mesh.toml sets any."""
    settings = {"interface": host.interface, "namespace": host.namespace, "dscp": dscp}
    egress = {name: value for name, value in settings.items() if value}
    return {"egress": egress} if egress else {}


def leaving(measurement: PlannedMeasurement) -> dict[str, object]:
    """As `ends`, with the egress, if mesh.toml sets any."""
    dscp = int(measurement.test.parameters.get("dscp") or 0)
    return {**ends(measurement), **egress_of(measurement.path.source, dscp)}


def task_maker(
    task: type[CycleTask],
    spec: type[msgspec.Struct],
    target: Callable[[PlannedMeasurement], dict[str, object]] = leaving,
) -> Callable[[str, Sequence[PlannedMeasurement]], Any]:
    """Make `MeshKind.task` for parameters that are the `spec` fields without `target`."""

    def make(name: str, measurements: Sequence[PlannedMeasurement]) -> Any:
        test = measurements[0].test
        targets = [{**target(row), "path_id": row.path_id} for row in measurements]
        fields = {field: value for field, value in test.parameters.items() if field in spec.__struct_fields__}
        of_targets = msgspec.convert({**fields, "targets": targets}, spec)
        return msgspec.convert({"test": name, "every_s": test.every_s, "spec": of_targets}, task)

    return make


@lru_cache(maxsize=4096)
def literal_or_none(address: str) -> str | None:
    """Source address; None for a name, which the site resolves."""
    return address if literal(address) is not None else None


def slot_maker(
    planned: type[msgspec.Struct], spec: type[msgspec.Struct]
) -> Callable[[Slot, PlannedSite, Mapping[str, str | None]], Any]:
    """Make `MeshKind.slot` for tests that a path's source sends and reports, with both ends' addresses and secrets."""

    def make(slot: Slot, site: PlannedSite, secrets: Mapping[str, str | None]) -> Any:
        of_test = msgspec.convert({**slot.parameters, **both_ends(slot), **secrets}, spec)
        return planned(**fields_of_slot(slot, site), spec=of_test)

    return make


def fields_of_slot(slot: Slot, site: PlannedSite) -> dict[str, Any]:
    """Fields of a slot with a sending source, for either end's agent."""
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
    """Addresses of both ends as reached from the other, and their family."""
    path = slot.measurement.path
    source, destination = path.source, path.destination
    ends = {"address": destination.address_for(source), "source": source.address_for(destination)}
    return {**ends, "family": path.family}


def keys_of_spec(test: TestKeys, spec: type[msgspec.Struct]) -> dict[str, object]:
    """The keys of a test that are fields of its spec too, as its `parameters`."""
    return {name: getattr(test, name) for name in spec.__struct_fields__ if name in test.__struct_fields__}


def answered_peers(measurements: Sequence[PlannedMeasurement], kind: str) -> tuple[AnsweredPeer, ...]:
    """The hosts that measure towards a site, each address once for each egress."""
    peers = {}
    for row in measurements:
        address, family = row.path.source.address_for(row.path.destination), row.path.family
        own_host = row.path.destination
        fields = {"address": address, "family": family, "key": pair_key(row.path, kind), **egress_of(own_host)}
        place = address, family, own_host.namespace or "", own_host.interface or ""
        peers[place] = msgspec.convert(fields, AnsweredPeer)
    return tuple(peer for _, peer in sorted(peers.items()))


def pair_key(path: PlannedPath, kind: str) -> str | None:
    """Key derived from the centre's secret; None without a far agent."""
    if not path.destination.site.has_agent:
        return None
    hosts = f"{path.source_id} {path.destination_id}"
    return base64.b64encode(salted_hmac(f"soundings.{kind}.path", hosts, algorithm="sha256").digest()).decode()
