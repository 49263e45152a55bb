"""The kind `idle-restart`: two transfers with a pause, which show slow start after idle."""

from __future__ import annotations

from probes.contract import Command, FarEnd, Probe, SlotKind
from probes.idle_restart.spec import IdleRestartRun, IdleRestartSlot, IdleRestartSpec, not_measured


def _probe() -> Probe[IdleRestartSpec, IdleRestartRun]:
    from probes.idle_restart.probe import IdleRestartProbe

    return IdleRestartProbe()


def _far_end() -> FarEnd:
    from probes.idle_restart.probe import IdleRestartEnd

    return IdleRestartEnd()


KIND = SlotKind(
    name="idle-restart",
    task=IdleRestartSlot,
    results=(IdleRestartRun,),
    hours="throughput",
    probe=_probe,
    far_end=_far_end,
    not_measured=not_measured,
    carried_bits=lambda run, seconds: 8.0 * (run.sent_bytes or 0),
    calls_again=True,
    command=Command("probes.idle_restart.command", "transfer, pause, transfer: how long until the rate is back"),
)
