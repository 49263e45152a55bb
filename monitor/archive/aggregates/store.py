"""Store results of aggregate test members and close their slots, in their batch's transaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from monitor.archive.ingest.jsonb import for_jsonb
from monitor.archive.ingest.rows import row_of
from monitor.archive.models import AggregateMember, AggregateRun
from monitor.mesh.models import Slot
from monitor.mesh.schedule.endings import close_slot, note_served
from probes.aggregate.spec import MemberRun, MemberServerReport
from probes.site.wire import Delivered

# Streams connect within this time of the start; a greater distance means that a clock was set meanwhile.
SAME_START = timedelta(seconds=60)
# Agents correct the start of a result themselves if their clock was wrong by more.
CORRECTED_BY_AGENT_S = 300.0


def store_members(results: Sequence[Delivered], now: datetime) -> None:
    """Store new results and close slots by both ends' reports."""
    runs = [delivered for delivered in results if isinstance(delivered.result, MemberRun)]
    runs.sort(key=lambda delivered: (delivered.path_id, delivered.result.started_at))
    AggregateMember.objects.bulk_create([_row(delivered) for delivered in runs], ignore_conflicts=True)
    slot_ids = []
    for delivered in sorted(results, key=lambda delivered: delivered.slot_id or 0):
        said, slot_id = delivered.result, delivered.slot_id
        if slot_id is None:
            continue
        if isinstance(said, MemberServerReport):
            # Its inventory is no part of an aggregate test's result.
            note_served(
                slot_id, for_jsonb(msgspec.structs.replace(said, inventory=msgspec.UNSET, capture=msgspec.UNSET))
            )
        elif isinstance(said, MemberRun):
            close_slot(slot_id, said.outcome, said.detail, said.sent_bytes or said.received_bytes)
        slot_ids.append(slot_id)
    _compute_again(slot_ids)


def _compute_again(slot_ids: Sequence[int]) -> None:
    """Mark these slots' tests as not final."""
    leads = Slot.objects.filter(pk__in=slot_ids).values_list("pk", "lead_id")
    ids = sorted(pk if lead_id is None else lead_id for pk, lead_id in leads)
    AggregateRun.objects.filter(pk__in=ids, is_final=True).update(is_final=False)


def _row(delivered: Delivered) -> AggregateMember:
    run = delivered.result
    assert isinstance(run, MemberRun)
    return row_of(AggregateMember, delivered, began_at=_began_at(delivered, run))


def _began_at(delivered: Delivered, run: MemberRun) -> datetime:
    connected_at = None if run.transfer is None else run.transfer.began_at
    is_of_same_clock = connected_at is not None and abs(connected_at - run.started_at) < SAME_START
    began_at = connected_at if connected_at is not None and is_of_same_clock else run.started_at
    off_s = delivered.clock_off_s
    if off_s is None or abs(off_s) > CORRECTED_BY_AGENT_S:
        return began_at
    return began_at - timedelta(seconds=off_s)
