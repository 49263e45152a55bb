"""On-demand throughput tests: slots as for scheduled tests, at the next free time.

`find_path` and `ask` take names, settings and a time, and return the slot, whose id identifies the test everywhere.
Hosts, uplinks, keys, site limits and budgets apply as for every slot. An on-demand test begins `ON_DEMAND_LEAD_S`
seconds later, or as soon as both hosts are free; scheduled slots that no agent has fetched yet are postponed.
`monitor.archive.queries.throughput.on_demand` has the results.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import transaction
from msgspec import structs

from monitor.mesh.document.entries import ON_DEMAND
from monitor.mesh.kinds import slot_s
from monitor.mesh.kinds.throughput import MOST_DATAGRAM_BYTES, ThroughputSettings, is_reversed
from monitor.mesh.models import KindName, Measurement, MeasurementPeriod, Path, Slot, SlotRequest, Test
from monitor.mesh.schedule import lock, slots
from monitor.mesh.schedule.server_ports import clash, lasting_servers
from monitor.mesh.schedule.spending import Spending
from monitor.mesh.schedule.timetable import ExistingSlot
from probes.toml.keys import InvalidValue, keys_of

ON_DEMAND_LEAD_S = 15
"""Time from request to start: agents poll the plan every 10 s, and the server starts 2 s before."""

PATIENCE_S = 3600
"""Maximum delay of the start; beyond it a test is rejected."""

Settings = ThroughputSettings


@dataclass(frozen=True, slots=True)
class OnDemandTest:
    """The test in the database that on-demand slots of a kind belong to."""

    name: str
    kind: str


_TEST = OnDemandTest(ON_DEMAND, KindName.THROUGHPUT)


class OnDemandError(Exception):
    """Invalid request for a test: the problem and the fix."""


class UnknownPath(OnDemandError):
    """The path does not exist or cannot be tested."""


class NoFreeSlot(OnDemandError):
    """Its hosts are not free soon enough, or a budget is used up."""


def find_path(source: str, destination: str, family: int | None = None) -> Path:
    """Path in use between hosts or sites that allows throughput tests. Raises `UnknownPath`."""
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
    """Problems of settings, each with the fix; empty if valid."""
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
    """Plan a test of `path` with these settings as soon as possible, `lead_s` from now at the earliest. Raises
    `OnDemandError`."""
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
        return plan_together([path], _TEST, settings.parameters, by, now, lead_s)


def cancel(slot_id: int, now: datetime) -> bool:
    """Cancel a test that no agent has fetched yet, of an aggregate test by its first slot; return whether it was
    cancelled."""
    in_hand_until = now + timedelta(seconds=slots.IN_HAND_S)
    cancellable = Slot.objects.filter(pk=slot_id, starts_at__gt=in_hand_until, outcome=None, lead=None)
    cancellable = cancellable.exclude(request=None)
    return cancellable.delete()[0] > 0


def plan_together(
    paths: Sequence[Path], test: OnDemandTest, parameters: Mapping[str, Any], by: str, now: datetime, lead_s: int
) -> Slot:
    """Plan a test on these paths at the same time, with the lock held; returns its first slot, which reserves the hosts
    and uplinks of all and leads the others. Raises `NoFreeSlot`."""
    length_s = slot_s(test.kind, parameters)
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
        rule = spending.take(path, test.kind, parameters, start_s)
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
    """Periods that these slots were for."""
    starts = [(slot.measurement_id, slot.start_s) for slot in moved]
    periods = MeasurementPeriod.objects.filter(ended_at=None, measurement__in={pk for pk, _ in starts})
    every_s = dict(periods.values_list("measurement_id", "every_s"))
    return frozenset((pk, start_s // every_s[pk]) for pk, start_s in starts if pk in every_s)


def _measurement(path: Path, test: OnDemandTest, now: datetime) -> Measurement:
    """Measurement that the on-demand slots of a path belong to; retired from the start, since it is not in
    mesh.toml."""
    row, _ = Test.objects.get_or_create(name=test.name, defaults={"kind": test.kind, "every_s": 0, "retired_at": now})
    measurement, _ = Measurement.objects.get_or_create(
        path=path, test=row, defaults={"started_at": now, "retired_at": now}
    )
    return measurement
