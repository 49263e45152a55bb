"""Build the `Plan` of a site, which its agent fetches, from each kind's part."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from django.utils.crypto import salted_hmac

from monitor.mesh.kinds import MESH_KINDS
from monitor.mesh.kinds.request_response import KIND as REQUEST_RESPONSE
from monitor.mesh.kinds.request_response import answering_plan
from monitor.mesh.kinds.stamp import KIND as STAMP
from monitor.mesh.kinds.stamp import reflector_plan
from monitor.mesh.models import Site, Slot
from monitor.mesh.plan_rows import PlannedMeasurement, PlannedSite, PlanState, read_measurements, read_state
from monitor.mesh.schedule.destination_tests import destination_tests
from monitor.mesh.schedule.horizon import HORIZON_S
from monitor.mesh.schedule.requests import HANDED_OUT
from probes.site.wire import Plan

_IN_CYCLES = tuple(name for name, mesh_kind in MESH_KINDS.items() if mesh_kind.task is not None)


def plan_for(
    site: Site,
    now: datetime,
    iperf3_of: Mapping[int, str] | None = None,
    abilities: Collection[str] = frozenset(HANDED_OUT),
) -> Plan:
    """Cyclic tests of `site`, and open slots that start within an hour; equal content gives an equal version.

    Three queries for any number of measurements, another with slots, two with STAMP or request-response tests, more
    after on-demand requests or slot changes.
    """
    return make_plan(read_state(site.pk, now), now, {} if iperf3_of is None else iperf3_of, abilities)


def make_plan(
    state: PlanState, now: datetime, iperf3_of: Mapping[int, str], abilities: Collection[str] = frozenset(HANDED_OUT)
) -> Plan:
    """As `plan_for`, from a read state."""
    site = state.site
    fields: dict[str, Any] = {}
    for ability, part in HANDED_OUT.items():
        until = getattr(state, part.until)
        if until is not None and now < until:
            fields[part.field] = part.hand_out(site.pk, now, is_able=ability in abilities) or msgspec.UNSET
    fields |= _servers(state)
    parts: dict[str, list[Any]] = defaultdict(list)
    of_tests = read_measurements(site.pk, _IN_CYCLES, "source")
    for measurements in of_tests:
        test = measurements[0].test
        make_task = MESH_KINDS[test.kind].task
        if make_task is not None:
            parts[test.kind].append(make_task(test.name, measurements))
    for slot in _slots(site, now) if state.has_slots else ():
        kind = slot.measurement.test.kind
        make_slot = MESH_KINDS[kind].slot
        if make_slot is not None:
            parts[kind].append(make_slot(slot, site, _between_both(slot, site, iperf3_of)))
    paths = {measurement.path_id: measurement.path for measurements in of_tests for measurement in measurements}
    loads = destination_tests(site.pk, paths.values(), state.slots_epoch, now)
    if loads:
        fields["destination_tests"] = loads
    fields |= {mesh_kind.kind.field: tuple(parts[name]) for name, mesh_kind in MESH_KINDS.items()}
    plan = Plan(version="", site=site.name, mesh=state.mesh or "", **fields)
    return msgspec.structs.replace(plan, version=hashlib.sha256(msgspec.json.encode(plan)).hexdigest()[:16])


def _servers(state: PlanState) -> dict[str, Any]:
    makers = {
        STAMP.kind.name: ("stamp_reflector", reflector_plan, state.has_reflectors),
        REQUEST_RESPONSE.kind.name: ("request_response_server", answering_plan, state.has_servers),
    }
    kinds = [kind for kind, (_, _, is_in_use) in makers.items() if is_in_use]
    if not kinds or not state.site.has_agent:
        return {}
    towards: dict[str, list[PlannedMeasurement]] = defaultdict(list)
    for measurements in read_measurements(state.site.pk, kinds, "destination"):
        towards[measurements[0].test.kind] += measurements
    return {makers[kind][0]: makers[kind][1](measurements) for kind, measurements in towards.items()}


def _slots(site: PlannedSite, now: datetime) -> list[Slot]:
    return list(
        Slot.objects.of_site(site.pk)
        .to_come(now, now + timedelta(seconds=HORIZON_S))
        .select_related(
            "request", "measurement__test", "measurement__path__source__site", "measurement__path__destination__site"
        )
        .order_by("starts_at", "pk")
    )


def _between_both(slot: Slot, site: PlannedSite, iperf3_of: Mapping[int, str]) -> dict[str, str | None]:
    path = slot.measurement.path
    peer = path.destination if path.source.site_id == site.pk else path.source
    return {"one_time_key": _one_time_key(slot), "peer_iperf3": iperf3_of.get(peer.site_id)}


def _one_time_key(slot: Slot) -> str:
    """Derived secret of both ends; agents cache key pairs by secret."""
    measurement = slot.measurement
    if not MESH_KINDS[measurement.test.kind].hourly_keys:
        return salted_hmac("soundings.throughput.slot", str(slot.pk), algorithm="sha256").hexdigest()
    # The same secret all hour and for both directions: agents of any version then derive one key pair for all these
    # slots.
    first, second = sorted((measurement.path.source.site_id, measurement.path.destination.site_id))
    hour = slot.starts_at.astimezone(UTC).strftime("%Y-%m-%dT%H")
    return salted_hmac("soundings.throughput.hour", f"{first} {second} {hour}", algorithm="sha256").hexdigest()
