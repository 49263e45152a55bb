"""What one site must measure: its part of the mesh as the `Plan` that its agent fetches."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from monitor.mesh import addresses
from monitor.mesh.models import Host, Kind, Measurement, Mesh, Site, Slot
from monitor.mesh.slots import HORIZON_S
from probes.ping.spec import PingSpec
from probes.site.wire import PingTask, Plan, ThroughputSlot
from probes.throughput.spec import ThroughputSpec


def plan_for(site: Site, now: datetime) -> Plan:
    """The ping tests of `site`, and its throughput slots that have not ended and start within the next hour.

    Equal content gives an equal version. Three queries, however many measurements.
    """
    mesh = Mesh.objects.first()
    plan = Plan(
        version="",
        site=site.name,
        mesh="" if mesh is None else mesh.name,
        ping=_ping_tasks(site),
        throughput=_throughput_slots(site, now),
    )
    return msgspec.structs.replace(plan, version=hashlib.sha256(msgspec.json.encode(plan)).hexdigest()[:16])


def _ping_tasks(site: Site) -> tuple[PingTask, ...]:
    rows = (
        Measurement.objects.in_use()
        .from_site(site.pk)
        .filter(test__kind=Kind.PING)
        .with_hosts()
        .order_by("test__name", "path_id")
    )
    of_test: dict[str, list[Measurement]] = defaultdict(list)
    for row in rows:
        of_test[row.test.name].append(row)
    return tuple(_ping_task(name, measurements) for name, measurements in of_test.items())


def _ping_task(name: str, measurements: list[Measurement]) -> PingTask:
    test = measurements[0].test
    targets = [
        {
            "address": row.path.destination.address,
            "family": row.path.family,
            "source": _own_address(row.path.source),
            "path_id": row.path_id,
        }
        for row in measurements
    ]
    spec = msgspec.convert({**test.parameters, "targets": targets}, PingSpec)
    return PingTask(test=name, every_s=test.every_s, spec=spec)


def _own_address(host: Host) -> str | None:
    """The address to send from. A name is left to the site's own resolver and routes."""
    return host.address if addresses.literal(host.address) is not None else None


def _throughput_slots(site: Site, now: datetime) -> tuple[ThroughputSlot, ...]:
    rows: Iterable[Slot] = (
        Slot.objects.of_site(site.pk)
        .to_come(now, now + timedelta(seconds=HORIZON_S))
        .select_related("measurement__test", "measurement__path__source", "measurement__path__destination")
        .order_by("starts_at", "pk")
    )
    return tuple(_throughput_slot(row, site) for row in rows)


def _throughput_slot(slot: Slot, site: Site) -> ThroughputSlot:
    path, test = slot.measurement.path, slot.measurement.test
    ends = {
        "address": path.destination.address,
        "family": path.family,
        "source": _own_address(path.source),
    }
    return ThroughputSlot(
        slot_id=slot.pk,
        path_id=path.pk,
        test=test.name,
        role="client" if path.source.site_id == site.pk else "server",
        starts_at=slot.starts_at,
        ends_at=slot.ends_at,
        spec=msgspec.convert({**test.parameters, **ends}, ThroughputSpec),
    )
