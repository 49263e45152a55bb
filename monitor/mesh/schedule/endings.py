"""Close slots with an outcome, from the reports of both ends, or as missed. Each change is a conditional update."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q, TextField, Value
from django.db.models.fields.json import KT
from django.db.models.functions import Concat

from monitor.mesh.models import Slot
from probes.contract import Outcome
from probes.free_text import cleaned

# Time after the end of a slot without a report until it counts as missed.
GRACE_S = 600

NOT_REPORTED = "neither agent reported within 10 minutes of its end"
ONE_REPORTED = "the agent that connects did not report within 10 minutes of its end; the other one: "
FAR_END = "the other end: "


def close_slot(
    slot_id: int, outcome: Outcome | str, detail: str | None = None, carried_bytes: int | None = None
) -> bool:
    """Store the outcome of a slot and its bytes; False if already closed or unknown.

    The first report counts, but any outcome replaces `missed`, and the other end's reason replaces `refused`.
    """
    outcome = Outcome(outcome)
    open_or_missed = Q(outcome=None)
    if outcome is not Outcome.MISSED:
        open_or_missed |= Q(outcome=Outcome.MISSED)
    changed = Slot.objects.filter(open_or_missed, pk=slot_id).update(
        outcome=outcome.value, detail=cleaned(detail or ""), carried_bytes=carried_bytes
    )
    if changed and outcome is Outcome.REFUSED:
        _apply_far_end_outcome(slot_id)
    return changed == 1


def note_served(slot_id: int, served: Mapping[str, Any]) -> None:
    """Store the report of the listening end: the fields of `probes.transfers.spec.ServerReport`."""
    Slot.objects.filter(pk=slot_id).update(served=dict(served))
    _apply_far_end_outcome(slot_id)


def _apply_far_end_outcome(slot_id: int) -> None:
    Slot.objects.filter(_could_not_listen(), pk=slot_id, outcome=Outcome.REFUSED).update(
        outcome=KT("served__outcome"), detail=Concat(Value(FAR_END), KT("served__detail"), output_field=TextField())
    )


def _could_not_listen() -> Q:
    return Q(served__outcome__in=[Outcome.NOT_PERMITTED, Outcome.TOOL_FAILURE, Outcome.DNS_FAILURE])


def expire_slots(now: datetime) -> int:
    """Close slots unreported `GRACE_S` after their end as `missed`, or as the listening end's failure; return their
    number."""
    over = Slot.objects.filter(outcome=None, ends_at__lt=now - timedelta(seconds=GRACE_S))
    said = Concat(Value(ONE_REPORTED), KT("served__detail"), output_field=TextField())
    return (
        over.filter(_could_not_listen()).update(outcome=KT("served__outcome"), detail=said)
        + over.exclude(served=None).update(outcome=Outcome.MISSED.value, detail=said)
        + over.update(outcome=Outcome.MISSED.value, detail=NOT_REPORTED)
    )
