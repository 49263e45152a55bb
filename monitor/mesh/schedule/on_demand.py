"""Throughput and aggregate tests on demand: slots at the next free time, under the usual limits and budgets.

Scheduled slots not yet fetched by an agent are postponed. An aggregate test is identified by its first member's slot.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, cast

import msgspec
from django.db import transaction
from msgspec import structs

from monitor.mesh.document.entries import ON_DEMAND, ON_DEMAND_AGGREGATE
from monitor.mesh.kinds import MESH_KINDS, slot_s
from monitor.mesh.kinds.aggregate import MOST_MEMBERS, Shape, pairs_of
from monitor.mesh.kinds.throughput import MOST_DATAGRAM_BYTES, ThroughputSettings, is_reversed
from monitor.mesh.models import KindName, Measurement, MeasurementPeriod, Path, Slot, SlotRequest, Test
from monitor.mesh.schedule import lock, slots
from monitor.mesh.schedule.spending import Spending
from monitor.mesh.schedule.timetable import ExistingSlot
from probes.toml.keys import InvalidValue, keys_of

_LASTING = tuple(name for name, mesh_kind in MESH_KINDS.items() if mesh_kind.server_name)

# Site, transport (`TCP` or `UDP`) and number.
PortKey = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class LastingServer:
    name: str
    test: str


@dataclass(frozen=True, slots=True)
class _StoredTest:
    port: int


# Agents poll the plan every 10 s, and the server starts 2 s before. Aggregate tests use `slots.LEAD_S`.
ON_DEMAND_LEAD_S = 15

# Maximum delay of the start; beyond it a test is rejected.
PATIENCE_S = 3600

# Duration and omitted time of an aggregate test together: it loads many sites at once.
MOST_SECONDS = 300
# Sent by all members together, where their rate is given: ten minutes of a link of 16 Gbit/s.
MOST_BITS = 10 * 10**12
# Aggregate tests planned or running in the whole mesh.
MOST_AT_A_TIME = 3
FIRST_PORT, LAST_PORT = 5201, 65_535

Settings = ThroughputSettings

# Kind of the tests in the database that on-demand slots belong to.
_KINDS: dict[str, str] = {ON_DEMAND: KindName.THROUGHPUT, ON_DEMAND_AGGREGATE: slots.AGGREGATE}


class OnDemandError(Exception):
    """A request cannot be met: problem, fix, and HTTP `status`."""

    status: ClassVar[int] = 422


class UnknownPath(OnDemandError):
    """The path does not exist or cannot be tested."""


class NoFreeSlot(OnDemandError):
    """Its hosts are not free soon enough, or a budget is used up."""

    status = 409


def find_path(source: str, destination: str, family: int | None = None) -> Path:
    """Path in use that allows throughput tests. Raises `UnknownPath`."""
    paths = [
        path
        for path in Path.objects.in_use().order_by("family", "pk")
        if source in (path.source.name, path.source.site.name)
        and destination in (path.destination.name, path.destination.site.name)
        and family in (None, path.family)
    ]
    for path in paths:
        if fault_of(path) is None:
            return path
    if paths:
        raise UnknownPath(fault_of(paths[0]))
    version = "" if family is None else f" over IPv{family}"
    raise UnknownPath(
        f"no path from {source} to {destination}{version} is in use; "
        "give names of hosts or sites of mesh.toml that a group tests with each other"
    )


def fault_of(path: Path) -> str | None:
    """Reason why throughput cannot be measured on a path, or None."""
    if path.retired_at is not None:
        return f"path {path} is retired; put it back into mesh.toml"
    for host in (path.source, path.destination):
        if not host.for_throughput:
            return f'host {host} does not measure throughput; add "throughput" to its measures in mesh.toml'
        if not host.site.has_agent:
            return f"site {host.site} has no agent to test with; throughput needs one at both ends"
    return None


def faults(settings: Settings) -> list[str]:
    """Problems of settings, each with the fix."""
    problems = []
    for key in keys_of(ThroughputSettings).values():
        try:
            key.decode(getattr(settings, key.attribute))
        except InvalidValue as error:
            problems.append(str(error))
    if settings.protocol == "udp" and settings.rate_bps is None:
        problems.append("UDP needs a sending rate; give rate_bps")
    if settings.protocol == "udp" and (settings.block_bytes or 0) > MOST_DATAGRAM_BYTES:
        problems.append(f"block_bytes: a UDP datagram has at most {MOST_DATAGRAM_BYTES} bytes")
    if settings.protocol == "udp" and settings.capture_packets is not None:
        problems.append("packets of UDP are not captured; leave capture_packets out, or use TCP")
    if settings.congestion_control is not None and not settings.congestion_control.isidentifier():
        problems.append(
            f"congestion_control: {settings.congestion_control!r} is not a valid name; write as cubic or bbr"
        )
    return problems


def ask(path: Path, settings: Settings, *, by: str, now: datetime, lead_s: int = ON_DEMAND_LEAD_S) -> Slot:
    """Plan a test as soon as possible after `lead_s`. Raises `OnDemandError`."""
    wrong = faults(settings)
    if wrong:
        raise OnDemandError("; ".join(wrong))
    fault = fault_of(path)
    if fault is not None:
        raise UnknownPath(fault)
    settings = structs.replace(settings, reverse=is_reversed(path, settings.parameters))
    server = path.source if settings.reverse else path.destination
    port_clash = clash(server.site.name, settings.port, settings.protocol, lasting_servers([server.site.name]))
    if port_clash is not None:
        raise OnDemandError(port_clash)
    with transaction.atomic():
        lock.hold_until_commit()
        return _plan_together([path], ON_DEMAND, settings.parameters, by, now, lead_s)


@dataclass(frozen=True, slots=True)
class AggregateSettings:
    """Requested aggregate test; `settings` are each member's. Without `has_port`, free ports are chosen."""

    shape: Shape
    senders: tuple[str, ...]
    receivers: tuple[str, ...]
    settings: ThroughputSettings
    has_port: bool = False

    @property
    def host_pairs(self) -> tuple[tuple[str, str], ...]:
        return tuple(pairs_of(self.shape, self.senders, self.receivers))

    @property
    def parameters(self) -> dict[str, object]:
        hosts = {"senders": list(self.senders), "receivers": list(self.receivers)}
        return {**self.settings.parameters, "shape": self.shape, **hosts}


def planned_tests() -> list[Test]:
    return list(Test.objects.in_use().filter(kind=slots.AGGREGATE).order_by("name"))


def settings_of(test_name: str) -> AggregateSettings:
    """Settings of a mesh.toml aggregate test. Raises `UnknownPath`."""
    test = next((test for test in planned_tests() if test.name == test_name), None)
    if test is None:
        names = ", ".join(test.name for test in planned_tests()) or "none"
        raise UnknownPath(f'mesh.toml has no aggregate test "{test_name}" in use; it has {names}')
    parameters: Mapping[str, Any] = test.parameters
    return AggregateSettings(
        shape=cast("Shape", parameters["shape"]),
        senders=tuple(parameters["senders"]),
        receivers=tuple(parameters["receivers"]),
        settings=msgspec.convert(parameters, ThroughputSettings),
        has_port=True,
    )


def aggregate_faults(request: AggregateSettings) -> list[str]:
    """Problems of a test, each with the fix, without looking at the mesh."""
    problems = faults(request.settings)
    if request.settings.reverse or request.settings.capture_packets is not None:
        problems.append("members of an aggregate test have no reverse connection and no capture; leave them out")
    for key, names in (("senders", request.senders), ("receivers", request.receivers)):
        if len(set(names)) < len(names):
            problems.append(f"{key}: a host is named twice; name each once")
    fits = {"many-to-one": len(request.receivers) == 1, "one-to-many": len(request.senders) == 1}
    if not fits.get(request.shape, len(request.senders) == len(request.receivers)):
        problems.append(
            f"{request.shape} does not fit {len(request.senders)} senders and {len(request.receivers)} receivers: "
            "many-to-one has one receiver, one-to-many one sender, pairs as many of both"
        )
    members = len(request.host_pairs)
    if not 2 <= members <= MOST_MEMBERS:
        problems.append(f"an aggregate test has 2 to {MOST_MEMBERS} members, not {members}; name other hosts")
    sending_s = request.settings.duration_s + request.settings.omit_s
    if sending_s > MOST_SECONDS:
        problems.append(
            f"an on-demand aggregate test takes at most {MOST_SECONDS} s, not {sending_s}; lower duration_s"
        )
    bits = sending_s * members * (request.settings.rate_bps or 0)
    if bits > MOST_BITS:
        problems.append(
            f"its {members} members would send {bits / 1e12:.1f} Tbit, at most {MOST_BITS / 1e12:g} are allowed; "
            "lower duration_s or the rate"
        )
    return problems


def ask_aggregate(request: AggregateSettings, *, by: str, now: datetime) -> Slot:
    """Plan a test once all hosts are free, after `slots.LEAD_S`. Raises `OnDemandError`."""
    wrong = aggregate_faults(request)
    if wrong:
        raise OnDemandError("; ".join(wrong))
    paths = _paths(request.host_pairs)
    request = _with_ports(request, paths)
    with transaction.atomic():
        lock.hold_until_commit()
        of_test = Slot.objects.filter(measurement__test__name=ON_DEMAND_AGGREGATE, lead=None)
        waiting = of_test.filter(outcome=None, ends_at__gt=now)
        if waiting.count() >= MOST_AT_A_TIME:
            raise NoFreeSlot(
                f"{MOST_AT_A_TIME} on-demand aggregate tests are planned or running already; wait for their end"
            )
        return _plan_together(paths, ON_DEMAND_AGGREGATE, request.parameters, by, now, slots.LEAD_S)


def _paths(pairs: Sequence[tuple[str, str]]) -> list[Path]:
    rows = Path.objects.in_use().filter(
        source__name__in={sender for sender, _ in pairs}, destination__name__in={receiver for _, receiver in pairs}
    )
    between = {
        (path.source.name, path.destination.name): path
        for path in rows.select_related(
            "source__site", "source__uplink__site", "destination__site", "destination__uplink__site"
        )
    }
    missing = [f"{sender} → {receiver}" for sender, receiver in pairs if (sender, receiver) not in between]
    if missing:
        raise UnknownPath(
            f"no path in use: {', '.join(missing)}; name hosts of mesh.toml that a group or an aggregate test measures"
        )
    paths = [between[pair] for pair in pairs]
    for path in paths:
        fault = fault_of(path)
        if fault is not None:
            raise UnknownPath(fault)
        if path.destination.behind_nat:
            raise UnknownPath(f"host {path.destination} is behind NAT, and no sender can connect to it")
    if len({path.family for path in paths}) > 1:
        raise UnknownPath("its hosts are of different address families; name hosts of one family")
    return paths


def _with_ports(request: AggregateSettings, paths: Sequence[Path]) -> AggregateSettings:
    """Choose the servers' first port. Raises `OnDemandError` if the given port is not free."""
    sites = list(dict.fromkeys(path.destination.site.name for path in paths))
    taken, protocol = lasting_servers(sites), request.settings.protocol

    def fault(first: int) -> str | None:
        if first + len(paths) - 1 > LAST_PORT:
            return f"its {len(paths)} members need the ports from {first} on, beyond {LAST_PORT}; give a lower port"
        clashes = (
            clash(path.destination.site.name, first + place, protocol, taken) for place, path in enumerate(paths)
        )
        return next((words for words in clashes if words is not None), None)

    if request.has_port:
        wrong = fault(request.settings.port)
        if wrong is not None:
            raise OnDemandError(wrong)
        return request
    first = next((port for port in range(FIRST_PORT, LAST_PORT) if fault(port) is None), None)
    if first is None:
        raise OnDemandError("no ports in a row are free at its receivers; give a port")
    return replace(request, settings=structs.replace(request.settings, port=first))


def cancel(slot_id: int, now: datetime) -> bool:
    """Cancel a test not yet fetched by an agent, by its first slot; False if not cancelled."""
    in_hand_until = now + timedelta(seconds=slots.IN_HAND_S)
    cancellable = Slot.objects.filter(pk=slot_id, starts_at__gt=in_hand_until, outcome=None, lead=None)
    cancellable = cancellable.exclude(request=None)
    return cancellable.delete()[0] > 0


def _plan_together(
    paths: Sequence[Path], test: str, parameters: Mapping[str, Any], by: str, now: datetime, lead_s: int
) -> Slot:
    """Plan simultaneous slots for the paths, with the lock held; return the leading slot. Raises `NoFreeSlot`."""
    kind, length_s = _KINDS[test], slot_s(_KINDS[test], parameters)
    names = str(paths[0]) if len(paths) == 1 else f"{len(paths)} members"
    host_ids = tuple(dict.fromkeys(host_id for path in paths for host_id in (path.source_id, path.destination_id)))
    uplink_ids = tuple(dict.fromkeys(uplink_id for path in paths for uplink_id in slots.uplinks_of(path)))
    takes = (*host_ids, *(-uplink_id for uplink_id in uplink_ids))
    timetable, standing = slots.taken(now, {})
    from_s = slots.seconds(now) + lead_s
    start_s = timetable.earliest(takes, from_s, from_s + PATIENCE_S, length_s)
    if start_s is None:
        raise NoFreeSlot(f"{names}: its hosts and uplinks are reserved for the next hour by other on-demand tests")
    starts_at = datetime.fromtimestamp(start_s, UTC)
    spending = Spending.between(now, starts_at)
    for path in paths:
        rule = spending.take(path, kind, parameters, start_s)
        if rule is not None:
            raise NoFreeSlot(rule)
    in_the_way = [
        slot
        for slot in standing
        if set(slot.takes) & set(takes) and slot.start_s < start_s + length_s and start_s < slot.end_s
    ]
    owed = _owed(in_the_way)
    Slot.objects.filter(pk__in=[slot.slot_id for slot in in_the_way]).delete()
    lead: Slot | None = None
    for path in paths:
        slot = Slot.objects.create(
            measurement=_measurement(path, test, now),
            starts_at=starts_at,
            ends_at=starts_at + timedelta(seconds=length_s),
            lead=lead,
        )
        SlotRequest.objects.create(slot=slot, asked_at=now, asked_by=by, parameters=dict(parameters))
        lead = lead or slot
    assert lead is not None
    slots.take([(lead, host_ids, uplink_ids)])
    slots.plan_locked(now, owed)
    return lead


def _owed(moved: Iterable[ExistingSlot]) -> slots.Owed:
    starts = [(slot.measurement_id, slot.start_s) for slot in moved]
    periods = MeasurementPeriod.objects.filter(ended_at=None, measurement__in={pk for pk, _ in starts})
    every_s = dict(periods.values_list("measurement_id", "every_s"))
    return frozenset((pk, start_s // every_s[pk]) for pk, start_s in starts if pk in every_s)


def _measurement(path: Path, test: str, now: datetime) -> Measurement:
    row, _ = Test.objects.get_or_create(name=test, defaults={"kind": _KINDS[test], "every_s": 0, "retired_at": now})
    measurement, _ = Measurement.objects.get_or_create(
        path=path, test=row, defaults={"started_at": now, "retired_at": now}
    )
    return measurement


def lasting_servers(sites: Collection[str]) -> dict[PortKey, LastingServer]:
    """Servers of these sites' agents, except in a host's namespace."""
    rows: Any = Measurement.objects.in_use().filter(
        test__kind__in=_LASTING, path__destination__site__name__in=sites, path__destination__namespace=None
    )
    columns = ("path__destination__site__name", "test__kind", "test__name", "test__parameters__port")
    taken: dict[PortKey, LastingServer] = {}
    for site, kind, test, port in rows.values_list(*columns).distinct().order_by("test__name"):
        for server in MESH_KINDS[kind].servers(_StoredTest(port), "", ""):
            taken.setdefault((site, server.transport, port), LastingServer(MESH_KINDS[kind].server_name, test))
    return taken


def clash(site: str, port: int, protocol: str, taken: dict[PortKey, LastingServer]) -> str | None:
    """Problem of an iperf3 server on this port, or None. A UDP server also listens on TCP."""
    for transport in ("TCP", "UDP") if protocol == "udp" else ("TCP",):
        server = taken.get((site, transport, port))
        if server is not None:
            return (
                f'{transport} port {port} of site "{site}" is that of the {server.name} of test "{server.test}", '
                "which listens all the time; give another port"
            )
    return None
