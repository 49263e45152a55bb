"""Planned times when tests load a path, so that its packets do not count."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

from django.db.models import Q

from monitor.mesh.kinds import filling_s
from monitor.mesh.models import Host, Measurement, Path, Slot, SlotHost
from monitor.mesh.schedule.destination_tests import AHEAD_S
from monitor.mesh.schedule.slots import arrangement_at

# To connect and to exchange results, beside the time that a test fills its path (`probes.site.runner.slot`).
SET_UP_S = 2

Period = tuple[datetime, datetime]


def path_tests(path_id: int, since: datetime, until: datetime) -> list[Period]:
    """Times in [since, until), oldest first, of planned tests, and of tests that would be planned at `since`."""
    path = Path.objects.select_related("source", "destination").get(pk=path_id)
    there = Q(site=path.destination.site_id, uplink=path.destination.uplink_id)
    hosts = dict(Host.objects.filter(Q(site=path.source.site_id) | there).values_list("pk", "site"))
    here = {host_id for host_id, site_id in hosts.items() if site_id == path.source.site_id}
    periods = {
        _loaded(slot, here.isdisjoint(host_ids))
        for slot, host_ids in (*_planned(since, until), *_to_plan(since))
        if not hosts.keys().isdisjoint(host_ids)
    }
    return sorted(period for period in periods if period[1] > since and period[0] < until)


def _planned(since: datetime, until: datetime) -> Iterator[tuple[Slot, Iterable[int]]]:
    taken: dict[int, set[int]] = {}
    rows = SlotHost.objects.filter(ends_at__gt=since, starts_at__lt=until)
    for slot_id, host_id in rows.values_list("slot_id", "host_id"):
        taken.setdefault(slot_id, set()).add(host_id)
    for slot in Slot.objects.filter(pk__in=taken).select_related("measurement__test", "request"):
        yield slot, taken[slot.pk]


def _to_plan(now: datetime) -> Iterator[tuple[Slot, Iterable[int]]]:
    placements = [placement for placement in arrangement_at(now).placements if placement.fits]
    measurement_ids = {placement.job.measurement_id for placement in placements}
    measurements = Measurement.objects.select_related("test").in_bulk(measurement_ids)
    for placement in placements:
        starts_at, ends_at = (datetime.fromtimestamp(at_s, UTC) for at_s in (placement.start_s, placement.end_s))
        measurement = measurements[placement.job.measurement_id]
        yield Slot(measurement=measurement, starts_at=starts_at, ends_at=ends_at), placement.job.hosts


def _loaded(slot: Slot, is_of_others: bool) -> Period:
    if is_of_others:
        return slot.starts_at - timedelta(seconds=AHEAD_S), slot.ends_at
    length_s = filling_s(slot.measurement.test.kind, slot.parameters) + SET_UP_S
    return slot.starts_at, min(slot.ends_at, slot.starts_at + timedelta(seconds=length_s))
