"""The kind `policer`: UDP trains that distinguish policer, shaper and link."""

from __future__ import annotations

from probes.contract import Command, FarEnd, Probe, SlotKind
from probes.policer.spec import PolicerRun, PolicerSlot, PolicerSpec, not_measured


def _probe() -> Probe[PolicerSpec, PolicerRun]:
    from probes.policer.probe import PolicerProbe

    return PolicerProbe()


def _far_end() -> FarEnd:
    from probes.policer.probe import TrainsEnd

    return TrainsEnd()


KIND = SlotKind(
    name="policer",
    task=PolicerSlot,
    results=(PolicerRun,),
    hours="throughput",
    probe=_probe,
    far_end=_far_end,
    not_measured=not_measured,
    carried_bits=lambda run, seconds: 8.0 * run.sent_bytes,
    command=Command("probes.policer.command", "tell a policer, a shaper and a link apart, with rate and burst"),
)
