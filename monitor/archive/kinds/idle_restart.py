"""Tests of slow start after idle in the archive."""

from __future__ import annotations

from typing import Any

from monitor.archive.kinds.kind import ApiAnswer, ResultKind
from monitor.archive.models.results import IdleRestartResult
from probes.contract import Outcome
from probes.idle_restart.kind import KIND as IDLE_RESTART
from probes.idle_restart.result import sentence
from probes.idle_restart.spec import IdleRestartRun

DESCRIPTION = """\
A test of slow start after idle: a transfer, a pause, a transfer on the same connection. `restarted` is whether
the congestion window (in segments) was reduced in the pause; `back_s` the time until the rate before the pause was
reached again. Null where that was not measured or cannot be told; `sentence` is the conclusion."""
MEASURED = ("before_bps", "is_steady", "cwnd_before", "cwnd_after", "timeout_s", "rtt_ms", "pause_s", "duration_s")


def find_contradiction(run: IdleRestartRun) -> str | None:
    missing = [name for name in MEASURED if getattr(run, name) is None]
    if run.outcome is Outcome.MEASURED and missing:
        return f"{run.outcome}, but without {missing[0]}"
    if run.outcome is not Outcome.MEASURED and len(missing) < len(MEASURED):
        return f"{run.outcome}, but with figures"
    return None


def _computed(run: IdleRestartRun) -> dict[str, Any]:
    figures = run.figures
    return {} if figures is None else {"restarted": figures.restarted, "sentence": sentence(figures)}


KIND = ResultKind(
    kind=IDLE_RESTART,
    table=IdleRestartResult,
    contradiction=find_contradiction,
    computed=_computed,
    slot_bytes="sent_bytes",
    not_shown=("sent_bytes",),
    answer=ApiAnswer(
        schema="IdleRestartOut",
        operation_id="monitor_api_transfers_get_idle_restart",
        summary="Tests of slow start after idle of a path, failed ones included",
        description=DESCRIPTION,
    ),
)
