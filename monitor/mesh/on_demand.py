"""Throughput tests that somebody asks for: the same slots as the planned ones, at once.

`find_path` and `ask` take names, settings and a time, and give the slot, whose number is that of the test everywhere.
Hosts, uplinks, keys, limits at the sites and budgets are those of every slot. A test that is asked for begins
`ON_DEMAND_LEAD_S` seconds later, or as soon as both hosts are free: planned slots that no agent has in hand yet give
way to it, and slip. What became of a test is told by `monitor.archive.queries.on_demand`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from django.db import transaction

from monitor.mesh import lock, slots
from monitor.mesh.entries import ON_DEMAND, PROTOCOLS, RATE_BPS, THROUGHPUT_NUMBERS, ThroughputSettings
from monitor.mesh.lengths import slot_s
from monitor.mesh.models import Kind, Measurement, MeasurementPeriod, Path, Slot, SlotRequest, Test
from monitor.mesh.spending import Spending
from monitor.mesh.timetable import Standing

ON_DEMAND_LEAD_S = 15
"""From asking to the start: agents look for a new plan every 10 s, and the server is up 2 s before."""

PATIENCE_S = 3600
"""A test that could not begin so soon is not planned at all."""

Settings = ThroughputSettings


class OnDemandError(Exception):
    """A test that cannot be asked for: what is wrong, and what to do."""


class UnknownPath(OnDemandError):
    """There is no such path, or it cannot be tested."""


class NoRoom(OnDemandError):
    """Its hosts are not free soon enough, or a budget is used up."""


def find_path(source: str, destination: str, family: int | None = None) -> Path:
    """The path in use from one host or site to another, that throughput can be measured on. Raises `UnknownPath`."""
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
    """Why throughput cannot be measured on a path; None where it can."""
    if path.retired_at is not None:
        return f"path {path} is retired; put it back into mesh.toml"
    for host in (path.source, path.destination):
        if not host.for_throughput:
            return f'host {host} does not measure throughput; add "throughput" to its measures in mesh.toml'
        if not host.site.has_agent:
            return f"site {host.site} has no agent to test with; throughput needs one at both ends"
    return None


def faults(settings: Settings) -> list[str]:
    """What is wrong with settings, each with what to write; empty where nothing is."""
    found = []
    for name, of in THROUGHPUT_NUMBERS.items():
        value = getattr(settings, name)
        if value is not None and not of.low <= value <= of.high:
            found.append(f"{name} = {value} is out of range; write {of.low} to {of.high}")
    if settings.protocol not in PROTOCOLS:
        found.append(f'protocol: "{settings.protocol}" is not known; write {" or ".join(PROTOCOLS)}')
    if settings.protocol == "udp" and settings.rate_bps is None:
        found.append("UDP keeps to no rate by itself; give rate_bps, what to send")
    if settings.rate_bps is not None and not RATE_BPS.low <= settings.rate_bps <= RATE_BPS.high:
        found.append(f"rate_bps = {settings.rate_bps} is out of range; write {RATE_BPS.low} to {RATE_BPS.high}")
    if settings.congestion_control is not None and not settings.congestion_control.isidentifier():
        found.append(f"congestion_control: {settings.congestion_control!r} is no name of one; write as cubic or bbr")
    return found


def ask(path: Path, settings: Settings, *, by: str, now: datetime) -> Slot:
    """Plan a test of `path` with these settings, as soon as can be. Raises `OnDemandError`."""
    wrong = faults(settings)
    if wrong:
        raise OnDemandError("; ".join(wrong))
    fault = fault_of(path)
    if fault is not None:
        raise UnknownPath(fault)
    with transaction.atomic():
        lock.hold_until_commit()
        return _plan(path, settings, by, now)


def cancel(slot_id: int, now: datetime) -> bool:
    """Take back a test that no agent has in hand yet; whether it was."""
    in_hand_until = now + timedelta(seconds=slots.IN_HAND_S)
    found = Slot.objects.filter(pk=slot_id, starts_at__gt=in_hand_until, outcome=None).exclude(request=None)
    return found.delete()[0] > 0


def _plan(path: Path, settings: Settings, by: str, now: datetime) -> Slot:
    """As `ask`, with the lock held."""
    length_s = slot_s(settings.parameters)
    uplink_ids = slots.uplinks_of(path)
    takes = (path.source_id, path.destination_id, *(-uplink_id for uplink_id in uplink_ids))
    timetable, standing = slots.taken(now, {})
    from_s = slots.seconds(now) + ON_DEMAND_LEAD_S
    start_s = timetable.earliest(takes, from_s, from_s + PATIENCE_S, length_s)
    if start_s is None:
        raise NoRoom(f"{path}: its hosts and uplinks are taken for the next hour by tests that were asked for before")
    starts_at = datetime.fromtimestamp(start_s, UTC)
    rule = Spending.between(now, starts_at).take(path, settings.parameters, start_s)
    if rule is not None:
        raise NoRoom(rule)
    in_the_way = [
        one
        for one in standing
        if set(one.takes) & set(takes) and one.start_s < start_s + length_s and start_s < one.end_s
    ]
    owed = _owed(in_the_way)
    Slot.objects.filter(pk__in=[one.slot_id for one in in_the_way]).delete()
    slot = Slot.objects.create(
        measurement=_measurement(path, now), starts_at=starts_at, ends_at=starts_at + timedelta(seconds=length_s)
    )
    slots.take([(slot, (path.source_id, path.destination_id), uplink_ids)])
    SlotRequest.objects.create(slot=slot, asked_at=now, asked_by=by, parameters=settings.parameters)
    slots.plan_locked(now, owed)
    return slot


def _owed(moved: Iterable[Standing]) -> slots.Owed:
    """The periods that these slots were for."""
    starts = [(one.measurement_id, one.start_s) for one in moved]
    periods = MeasurementPeriod.objects.filter(ended_at=None, measurement__in={pk for pk, _ in starts})
    every_s = dict(periods.values_list("measurement_id", "every_s"))
    return frozenset((pk, start_s // every_s[pk]) for pk, start_s in starts if pk in every_s)


def _measurement(path: Path, now: datetime) -> Measurement:
    """What the slots of a path that were asked for belong to. It is none of mesh.toml, and so is not in use."""
    test, _ = Test.objects.get_or_create(
        name=ON_DEMAND, defaults={"kind": Kind.THROUGHPUT, "every_s": 0, "retired_at": now}
    )
    measurement, _ = Measurement.objects.get_or_create(
        path=path, test=test, defaults={"started_at": now, "retired_at": now}
    )
    return measurement
