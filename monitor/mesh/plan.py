"""Build the `Plan` of a site, which its agent fetches; each kind makes its own part."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from django.db.models import Exists, Subquery
from django.utils.crypto import salted_hmac

from monitor.mesh.kinds import MESH_KINDS
from monitor.mesh.kinds.kind import MeshKind
from monitor.mesh.kinds.request_response import KIND as REQUEST_RESPONSE
from monitor.mesh.kinds.request_response import answering_plan
from monitor.mesh.kinds.stamp import KIND as STAMP
from monitor.mesh.kinds.stamp import reflector_plan
from monitor.mesh.models import Host, KindName, Measurement, Mesh, Path, PlanEpoch, Site, Slot, Test
from monitor.mesh.schedule import on_demand_pings, on_demand_traces
from monitor.mesh.schedule.destination_tests import destination_tests
from monitor.mesh.schedule.slots import HORIZON_S
from probes.site.wire import OnDemandPing, OnDemandTrace, Plan

_IN_CYCLES = tuple(name for name, mesh_kind in MESH_KINDS.items() if mesh_kind.task is not None)


def plan_for(
    site: Site,
    now: datetime,
    iperf3_of: Mapping[int, str] | None = None,
    *,
    can_ping_on_demand: bool = True,
    can_trace_on_demand: bool = True,
) -> Plan:
    """Tests of `site` in cycles, and its slots that have not ended and start within an hour.

    `iperf3_of` has the version of iperf3 of each site, by its id, where reported. Equal content gives an equal version.
    Five queries for any number of measurements, another in a mesh with STAMP tests and in one with request-response
    tests, and more only for `TAKE_UP_S` after on-demand pings or traces were asked for: they are handed to an agent
    that knows them; pings end for another. Another in each process where slots changed since the last plan of any site.
    """
    mesh = Mesh.objects.annotate(
        has_reflectors=Exists(Test.objects.in_use().filter(kind=STAMP.kind.name)),
        has_servers=Exists(Test.objects.in_use().filter(kind=REQUEST_RESPONSE.kind.name)),
        slots_epoch=Subquery(PlanEpoch.objects.values("slots_epoch")),
    ).first()
    pings: tuple[OnDemandPing, ...] = ()
    if mesh is not None and mesh.pings_until is not None and now < mesh.pings_until:
        pings = on_demand_pings.hand_out(site, now, is_able=can_ping_on_demand)
    traces: tuple[OnDemandTrace, ...] = ()
    if can_trace_on_demand and mesh is not None and mesh.traces_until is not None and now < mesh.traces_until:
        traces = on_demand_traces.hand_out(site, now)
    parts: dict[str, list[Any]] = defaultdict(list)
    reflects = mesh is not None and mesh.has_reflectors and site.has_agent
    reflector = reflector_plan(_towards(site, STAMP)) if reflects else None
    serves = mesh is not None and mesh.has_servers and site.has_agent
    server = answering_plan(_towards(site, REQUEST_RESPONSE)) if serves else None
    repeated = _repeated(site)
    for (kind, test), measurements in repeated.items():
        make_task = MESH_KINDS[kind].task
        if make_task is not None:
            parts[kind].append(make_task(test, measurements))
    for slot in _slots(site, now):
        kind = slot.measurement.test.kind
        make_slot = MESH_KINDS[kind].slot
        if make_slot is not None:
            parts[kind].append(make_slot(slot, site, _between_both(slot, site, {} if iperf3_of is None else iperf3_of)))
    plan = Plan(
        version="",
        site=site.name,
        mesh="" if mesh is None else mesh.name,
        **{mesh_kind.kind.field: tuple(parts[name]) for name, mesh_kind in MESH_KINDS.items()},
    )
    paths = {measurement.path_id: measurement.path for of_test in repeated.values() for measurement in of_test}
    loads = destination_tests(site.pk, paths.values(), None if mesh is None else mesh.slots_epoch, now)
    if loads:
        plan = msgspec.structs.replace(plan, destination_tests=loads)
    if pings:
        plan = msgspec.structs.replace(plan, on_demand_pings=pings)
    if reflector is not None:
        plan = msgspec.structs.replace(plan, stamp_reflector=reflector)
    if server is not None:
        plan = msgspec.structs.replace(plan, request_response_server=server)
    if traces:
        plan = msgspec.structs.replace(plan, on_demand_traces=traces)
    return msgspec.structs.replace(plan, version=hashlib.sha256(msgspec.json.encode(plan)).hexdigest()[:16])


def _repeated(site: Site) -> dict[tuple[str, str], list[Measurement]]:
    """Measurements that the site repeats without slots, by kind and name of the test."""
    rows = list(
        Measurement.objects.in_use()
        .from_site(site.pk)
        .filter(test__kind__in=_IN_CYCLES)
        .order_by("test__name", "path_id")
        .values_list("pk", "test_id", "path_id", "path__source_id", "path__destination_id", "path__family")
    )
    # Each host and test is read once, not for each row: of hundreds of rows that would be half of a plan's time.
    tests = Test.objects.in_bulk({test_id for _, test_id, *_ in rows})
    hosts = Host.objects.select_related("site").in_bulk({host_id for row in rows for host_id in row[3:5]})
    paths = {
        path_id: Path(pk=path_id, source=hosts[source_id], destination=hosts[destination_id], family=family)
        for _, _, path_id, source_id, destination_id, family in rows
    }
    pinged = {path_id for _, test_id, path_id, *_ in rows if tests[test_id].kind == KindName.PING}
    of_test: dict[tuple[str, str], list[Measurement]] = defaultdict(list)
    for measurement_id, test_id, path_id, *_ in rows:
        row = Measurement(pk=measurement_id, path=paths[path_id], test=tests[test_id])
        row.is_beside_pings = path_id in pinged
        of_test[row.test.kind, row.test.name].append(row)
    return of_test


def _towards(site: Site, mesh_kind: MeshKind) -> list[Measurement]:
    """Measurements of a kind whose packets or blocks the agent of the site answers."""
    rows = Measurement.objects.in_use().filter(path__destination__site=site.pk, test__kind=mesh_kind.kind.name)
    return list(rows.with_hosts())


def _slots(site: Site, now: datetime) -> list[Slot]:
    return list(
        Slot.objects.of_site(site.pk)
        .to_come(now, now + timedelta(seconds=HORIZON_S))
        .select_related(
            "request", "measurement__test", "measurement__path__source__site", "measurement__path__destination__site"
        )
        .order_by("starts_at", "pk")
    )


def _between_both(slot: Slot, site: Site, iperf3_of: Mapping[int, str]) -> dict[str, str | None]:
    """Fields of a spec that authenticate the two ends to each other."""
    path = slot.measurement.path
    peer = path.destination if path.source.site_id == site.pk else path.source
    return {"one_time_key": _one_time_key(slot), "peer_iperf3": iperf3_of.get(peer.site_id)}


def _one_time_key(slot: Slot) -> str:
    """Secret shared by both ends of a slot; derived, so it need not be stored.

    Agents keep the key pairs that they derived of the latest secrets, so both ends, of any version, derive a pair once
    for all slots with the same secret.
    """
    measurement = slot.measurement
    if not MESH_KINDS[measurement.test.kind].hourly_keys:
        return salted_hmac("soundings.throughput.slot", str(slot.pk), algorithm="sha256").hexdigest()
    first, second = sorted((measurement.path.source.site_id, measurement.path.destination.site_id))
    hour = slot.starts_at.astimezone(UTC).strftime("%Y-%m-%dT%H")
    return salted_hmac("soundings.throughput.hour", f"{first} {second} {hour}", algorithm="sha256").hexdigest()
