"""Build the `Plan` of a site, which its agent fetches."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec
from django.utils.crypto import salted_hmac

from monitor.mesh import addresses
from monitor.mesh.models import Host, Kind, Measurement, Mesh, Site, Slot
from monitor.mesh.slots import HORIZON_S
from probes.capacity.spec import CapacitySpec, CapacityTarget, CapacityTask
from probes.disk_to_disk.spec import DiskToDiskSlot, DiskToDiskSpec
from probes.ping.spec import PingSpec, PingTask
from probes.site.wire import Plan
from probes.throughput.spec import ThroughputSlot, ThroughputSpec


def plan_for(site: Site, now: datetime, iperf3_of: Mapping[int, str] | None = None) -> Plan:
    """Ping and capacity tests of `site`, and its slots that have not ended and start within an hour.

    `iperf3_of` has the version of iperf3 of each site, by its id, where reported. Equal content gives an equal version.
    Three queries for any number of measurements.
    """
    versions = iperf3_of or {}
    mesh = Mesh.objects.first()
    of_test = _repeated(site)
    slots = _slots(site, now)
    plan = Plan(
        version="",
        site=site.name,
        mesh="" if mesh is None else mesh.name,
        ping=tuple(_ping_task(name, rows) for name, rows in of_test[Kind.PING].items()),
        throughput=tuple(
            _throughput_slot(slot, site, versions) for slot in slots if slot.measurement.test.kind == Kind.THROUGHPUT
        ),
        disk_to_disk=tuple(
            _disk_to_disk_slot(slot, site, versions)
            for slot in slots
            if slot.measurement.test.kind == Kind.DISK_TO_DISK
        ),
        capacity=tuple(_capacity_task(name, rows) for name, rows in of_test[Kind.CAPACITY].items()),
    )
    return msgspec.structs.replace(plan, version=hashlib.sha256(msgspec.json.encode(plan)).hexdigest()[:16])


def _repeated(site: Site) -> dict[str, dict[str, list[Measurement]]]:
    """Measurements that the site repeats without slots, by kind and name of the test."""
    rows = (
        Measurement.objects.in_use()
        .from_site(site.pk)
        .filter(test__kind__in=(Kind.PING, Kind.CAPACITY))
        .with_hosts()
        .order_by("test__name", "path_id")
    )
    of_test: dict[str, dict[str, list[Measurement]]] = {Kind.PING: defaultdict(list), Kind.CAPACITY: defaultdict(list)}
    for row in rows:
        of_test[row.test.kind][row.test.name].append(row)
    return of_test


def _ping_task(name: str, measurements: list[Measurement]) -> PingTask:
    test = measurements[0].test
    targets = [{**_ends(row), "path_id": row.path_id} for row in measurements]
    spec = msgspec.convert({**test.parameters, "targets": targets}, PingSpec)
    return PingTask(test=name, every_s=test.every_s, spec=spec)


def _capacity_task(name: str, measurements: list[Measurement]) -> CapacityTask:
    test = measurements[0].test
    targets = tuple(
        CapacityTarget(path_id=row.path_id, spec=msgspec.convert({**test.parameters, **_ends(row)}, CapacitySpec))
        for row in measurements
    )
    return CapacityTask(test=name, every_s=test.every_s, targets=targets)


def _ends(measurement: Measurement) -> dict[str, object]:
    """Address fields of a spec."""
    path = measurement.path
    return {
        "address": path.destination.address,
        "family": path.family,
        "source": _own_address(path.source),
    }


def _own_address(host: Host) -> str | None:
    """Source address; None for a name, which the site resolves and routes itself."""
    return host.address if addresses.literal(host.address) is not None else None


def _slots(site: Site, now: datetime) -> list[Slot]:
    return list(
        Slot.objects.of_site(site.pk)
        .to_come(now, now + timedelta(seconds=HORIZON_S))
        .select_related("request", "measurement__test", "measurement__path__source", "measurement__path__destination")
        .order_by("starts_at", "pk")
    )


def _throughput_slot(slot: Slot, site: Site, iperf3_of: Mapping[int, str]) -> ThroughputSlot:
    """Slot of a throughput test. The source of a path sends; it connects too, unless the test is `reverse`."""
    path, test = slot.measurement.path, slot.measurement.test
    is_reverse = slot.parameters.get("reverse", False)
    client, server = (path.destination, path.source) if is_reverse else (path.source, path.destination)
    ends = {"address": server.address, "family": path.family, "source": _own_address(client)}
    parameters = {**slot.parameters, **ends, **_between_both(slot, site, iperf3_of)}
    return ThroughputSlot(
        slot_id=slot.pk,
        path_id=path.pk,
        test=test.name,
        role="client" if client.site_id == site.pk else "server",
        starts_at=slot.starts_at,
        ends_at=slot.ends_at,
        spec=msgspec.convert(parameters, ThroughputSpec),
    )


def _disk_to_disk_slot(slot: Slot, site: Site, iperf3_of: Mapping[int, str]) -> DiskToDiskSlot:
    """Slot of a disk-to-disk test. The source of a path sends and reports; the receiver connects to it, so both get
    both addresses."""
    path = slot.measurement.path
    ends = {"address": path.destination.address, "source": path.source.address, "family": path.family}
    return DiskToDiskSlot(
        slot_id=slot.pk,
        path_id=path.pk,
        test=slot.measurement.test.name,
        role="client" if path.source.site_id == site.pk else "server",
        starts_at=slot.starts_at,
        ends_at=slot.ends_at,
        spec=msgspec.convert({**slot.parameters, **ends, **_between_both(slot, site, iperf3_of)}, DiskToDiskSpec),
    )


def _between_both(slot: Slot, site: Site, iperf3_of: Mapping[int, str]) -> dict[str, str | None]:
    """Fields of a spec that authenticate the two ends to each other."""
    path = slot.measurement.path
    peer = path.destination if path.source.site_id == site.pk else path.source
    return {"one_time_key": _one_time_key(slot), "peer_iperf3": iperf3_of.get(peer.site_id)}


def _one_time_key(slot: Slot) -> str:
    """Secret shared by both ends of a slot; derived, so it need not be stored."""
    return salted_hmac("soundings.throughput.slot", str(slot.pk), algorithm="sha256").hexdigest()
