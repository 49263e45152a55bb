"""Compute the results of aggregate tests, until all reports and pings have arrived."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from django.db.models import Q

from monitor.analysis.aggregate import CommonRates, MemberIntervals, common_rates, harm_of, start_spread_s, state_of
from monitor.archive.ingest.jsonb import for_jsonb
from monitor.archive.models import AggregateMember, AggregateRun
from monitor.archive.queries.throughput.aggregates import AggregateDetails, HarmedPath, MemberResult
from monitor.archive.queries.throughput.harm import REST, packets_beside
from monitor.mesh.kinds.aggregate import KIND, place_of
from monitor.mesh.models import Measurement, Path, Slot, SlotHost
from probes.contract import Outcome
from probes.transfers.spec import Transfer

# Pings sent during a test are delivered within this time after it: cycles of a minute, and a delivery.
PINGS_ARRIVE_S = 180
# Tests that ended longer ago are computed only after a late delivery by a member.
LOOK_BACK = timedelta(days=2)
# Bursts with packets under load may begin this long before the load.
LONGEST_BURST = timedelta(seconds=60)


def settle(now: datetime) -> int:
    """Compute results that are not final; return the number of tests."""
    leads = _due(now)
    for lead in leads:
        _store(lead, now)
    return len(leads)


def _due(now: datetime) -> list[Slot]:
    awaited = AggregateRun.objects.filter(is_final=False).values_list("pk", flat=True)
    measurements = Measurement.objects.filter(test__kind=KIND.kind.name).values_list("pk", flat=True)
    ids = list(measurements)
    if not ids:
        return []
    since = now - LOOK_BACK
    final = AggregateRun.objects.filter(is_final=True, starts_at__gte=since).values_list("pk", flat=True)
    recent = Q(measurement__in=ids, starts_at__gte=since, ends_at__lte=now, lead=None) & ~Q(pk__in=list(final))
    rows = Slot.objects.filter(recent | Q(pk__in=list(awaited)))
    return list(rows.select_related("measurement__test").order_by("pk"))


def _store(lead: Slot, now: datetime) -> None:
    ends = ("measurement__path__source__uplink__site", "measurement__path__destination__uplink__site")
    slots = list(Slot.objects.filter(Q(pk=lead.pk) | Q(lead=lead)).select_related("measurement__test", *ends))
    if all(slot.outcome is None for slot in slots):
        return
    parameters = lead.parameters
    slots.sort(key=lambda slot: _place(parameters, slot.measurement.path))
    rows = results_of_slots([slot.pk for slot in slots])
    intervals = {pk: data for pk, row in rows.items() if (data := _intervals(row, lead.starts_at)) is not None}
    common = common_rates(list(intervals.values()))
    rates = {} if common is None else dict(zip(intervals, common.rates_bps, strict=True))
    first_s = min((member.began_s for member in intervals.values()), default=0.0)
    members = tuple(
        _member(slot, rows.get(slot.pk), intervals.get(slot.pk), rates.get(slot.pk), first_s) for slot in slots
    )
    measured = len(intervals)
    is_whole = measured == len(slots)
    AggregateRun.objects.update_or_create(
        pk=lead.pk,
        defaults={
            "test": lead.measurement.test.name,
            "shape": parameters["shape"],
            "starts_at": lead.starts_at,
            "ends_at": lead.ends_at,
            "state": state_of(len(slots), measured, common).value,
            "is_final": _is_final(slots, now),
            "members": len(slots),
            "measured": measured,
            "sum_bps": None if common is None or not is_whole else common.sum_bps,
            "partial_sum_bps": None if common is None or is_whole else common.sum_bps,
            "fairness": None if common is None else common.fairness,
            "common_began_at": _moment(lead.starts_at, common),
            "common_s": None if common is None else common.length_s,
            "start_spread_s": start_spread_s(list(intervals.values())),
            "path_ids": [slot.measurement.path_id for slot in slots],
            "details": for_jsonb(AggregateDetails(members=members, harm=_harm(lead, slots) if measured else ())),
            "computed_at": now,
        },
    )


def _is_final(slots: Sequence[Slot], now: datetime) -> bool:
    over = now >= slots[0].ends_at + timedelta(seconds=PINGS_ARRIVE_S)
    return over and all(slot.outcome is not None for slot in slots)


def _place(parameters: Mapping[str, Any], path: Path) -> int:
    place = place_of(parameters, path.source.name, path.destination.name)
    return len(parameters["senders"]) * len(parameters["receivers"]) if place is None else place


def results_of_slots(slot_ids: Sequence[int]) -> dict[int, AggregateMember]:
    """The result of each slot: a measured one, else the newest."""
    rows: dict[int, AggregateMember] = {}
    for row in AggregateMember.objects.filter(slot_id__in=slot_ids).order_by("measured_at"):
        before = rows.get(row.slot_id or 0)
        if before is None or before.outcome != Outcome.MEASURED:
            rows[row.slot_id or 0] = row
    return rows


def _intervals(row: AggregateMember, since: datetime) -> MemberIntervals | None:
    if row.outcome != Outcome.MEASURED or row.throughput_bps is None:
        return None
    began_s = (row.began_at - since).total_seconds()
    transfer = Transfer() if row.transfer is None else msgspec.convert(row.transfer, Transfer)
    if transfer.received is not None:
        ends_s, carried = transfer.received.end_s, transfer.received.received_bytes
    elif transfer.sent is not None:
        ends_s, carried = transfer.sent.end_s, transfer.sent.sent_bytes
    else:
        length_s = row.duration_s or 0.0
        ends_s, carried = (length_s,), (round(row.throughput_bps * length_s / 8),)
    return MemberIntervals(began_s, ends_s, carried, transfer.omitted_s)


def _member(
    slot: Slot, row: AggregateMember | None, data: MemberIntervals | None, common_bps: float | None, first_s: float
) -> MemberResult:
    path = slot.measurement.path
    outcome, detail = (slot.outcome, slot.detail) if row is None else (row.outcome, row.detail)
    return MemberResult(
        path_id=path.pk,
        slot_id=slot.pk,
        source=path.source.name,
        destination=path.destination.name,
        # The far end may have told why it refused.
        outcome=outcome if data is not None else slot.outcome,
        detail=(detail if data is not None else slot.detail) or None,
        began_at=None if row is None or data is None else row.began_at,
        late_s=None if data is None else data.began_s - first_s,
        duration_s=None if row is None else row.duration_s,
        throughput_bps=None if row is None or data is None else row.throughput_bps,
        common_bps=common_bps,
        retransmits=None if row is None else row.retransmits,
        rtt_mean_ms=None if row is None else row.rtt_mean_ms,
    )


def _moment(since: datetime, common: CommonRates | None) -> datetime | None:
    return None if common is None else since + timedelta(seconds=common.begin_s)


def _harm(lead: Slot, slots: Sequence[Slot]) -> tuple[HarmedPath, ...]:
    """Packets of other paths that share a host or uplink, worst first."""
    members = {slot.measurement.path_id for slot in slots}
    hosts = {host for slot in slots for host in (slot.measurement.path.source, slot.measurement.path.destination)}
    uplinks = {host.uplink_id for host in hosts if host.uplink_id is not None}
    host_ids = {host.pk for host in hosts}
    sharing = (
        Path.objects.in_use()
        .select_related("source__uplink__site", "destination__uplink__site")
        .filter(
            Q(source__in=host_ids)
            | Q(destination__in=host_ids)
            | Q(source__uplink__in=uplinks)
            | Q(destination__uplink__in=uplinks)
        )
    )
    paths = {path.pk: path for path in sharing if path.pk not in members}
    until = lead.ends_at
    figures = packets_beside(list(paths), _loaded_since(lead, host_ids), until, lead.starts_at - REST)
    harmed = [
        HarmedPath(
            path_id=path_id,
            source=paths[path_id].source.name,
            destination=paths[path_id].destination.name,
            shares=_shared(paths[path_id], host_ids, uplinks),
            packet_bytes=size,
            harm=harm_of(loaded, rest),
            loaded_sent=loaded.sent,
            loaded_received=loaded.received,
            loaded_rtt_median_ms=loaded.rtt_median_ms,
            loaded_rtt_p95_ms=loaded.rtt_p95_ms,
            rest_sent=rest.sent,
            rest_received=rest.received,
            rest_rtt_median_ms=rest.rtt_median_ms,
            rest_rtt_p95_ms=rest.rtt_p95_ms,
        )
        for (path_id, size), (loaded, rest) in figures.items()
    ]
    return tuple(sorted(harmed, key=_added_ms, reverse=True))


def _added_ms(path: HarmedPath) -> float:
    if path.loaded_rtt_median_ms is None or path.rest_rtt_median_ms is None:
        return 0.0
    return path.loaded_rtt_median_ms - path.rest_rtt_median_ms


def _loaded_since(lead: Slot, host_ids: set[int]) -> datetime:
    """Begin of the bursts that only this test loaded."""
    since = lead.starts_at - LONGEST_BURST
    others = SlotHost.objects.filter(host__site__hosts__in=host_ids, ends_at__gt=since, starts_at__lt=lead.starts_at)
    last = others.exclude(slot=lead).order_by("-ends_at").values_list("ends_at", flat=True).first()
    return since if last is None else min(max(since, last.astimezone(UTC)), lead.starts_at)


def _shared(path: Path, host_ids: set[int], uplinks: set[int]) -> str:
    names = dict.fromkeys(
        f"uplink {host.uplink}" if host.uplink_id in uplinks else f"host {host.name}"
        for host in (path.source, path.destination)
        if host.pk in host_ids or host.uplink_id in uplinks
    )
    return ", ".join(names)
