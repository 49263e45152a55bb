"""How a slot ends: in one outcome, from what its two ends say, or from neither saying anything.

`close_slot` notes what the end that connects reports, `note_served` what the end that listens says, `expire_slots`
closes those that nobody reported. Each change is one conditional update. How slots are planned is in `slots`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q, TextField, Value
from django.db.models.fields.json import KT
from django.db.models.functions import Concat

from monitor.mesh.models import Slot
from probes.contract import Outcome

GRACE_S = 600
"""How long after its end a slot may stay without a report before it counts as missed."""

NOT_REPORTED = "neither agent reported within 10 minutes of its end"
ONE_REPORTED = "the agent that connects did not report within 10 minutes of its end; the other one: "
FAR_END = "the other end: "


def close_slot(
    slot_id: int, outcome: Outcome | str, detail: str | None = None, carried_bytes: int | None = None
) -> bool:
    """Note how a slot ended, and what it carried; false if that was known before or there is no such slot.

    The first report counts, with two exceptions: `missed` gives way to any other outcome, since an agent that was cut
    off delivers what it measured when it can; and `refused` to the reason, where the other end tells it.
    """
    outcome = Outcome(outcome)
    open_or_missed = Q(outcome=None)
    if outcome is not Outcome.MISSED:
        open_or_missed |= Q(outcome=Outcome.MISSED)
    changed = Slot.objects.filter(open_or_missed, pk=slot_id).update(
        outcome=outcome.value, detail=detail or "", carried_bytes=carried_bytes
    )
    if changed and outcome is Outcome.REFUSED:
        _heed_far_end(slot_id)
    return changed == 1


def note_served(slot_id: int, served: Mapping[str, Any]) -> None:
    """Keep what the end that listens said of a slot: the fields of `probes.throughput.spec.Served`."""
    Slot.objects.filter(pk=slot_id).update(served=dict(served))
    _heed_far_end(slot_id)


def _heed_far_end(slot_id: int) -> None:
    """A slot that was refused because the other end could not or would not listen ends in that end's outcome."""
    Slot.objects.filter(_could_not_listen(), pk=slot_id, outcome=Outcome.REFUSED).update(
        outcome=KT("served__outcome"), detail=Concat(Value(FAR_END), KT("served__detail"), output_field=TextField())
    )


def _could_not_listen() -> Q:
    return Q(served__outcome__in=[Outcome.NOT_PERMITTED, Outcome.TOOL_FAILURE, Outcome.DNS_FAILURE])


def expire_slots(now: datetime) -> int:
    """Close the slots that ended more than `GRACE_S` seconds ago and that the agent which connects did not report;
    returns how many. They are `missed`, but for those that the other end says could not have been."""
    over = Slot.objects.filter(outcome=None, ends_at__lt=now - timedelta(seconds=GRACE_S))
    said = Concat(Value(ONE_REPORTED), KT("served__detail"), output_field=TextField())
    return (
        over.filter(_could_not_listen()).update(outcome=KT("served__outcome"), detail=said)
        + over.exclude(served=None).update(outcome=Outcome.MISSED.value, detail=said)
        + over.update(outcome=Outcome.MISSED.value, detail=NOT_REPORTED)
    )
