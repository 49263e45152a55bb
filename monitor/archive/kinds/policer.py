"""Policer tests in the archive."""

from __future__ import annotations

from typing import Any

from monitor.archive.kinds.kind import ApiAnswer, ResultKind
from monitor.archive.models.results import PolicerResult
from probes.contract import Outcome
from probes.policer.kind import KIND as POLICER
from probes.policer.spec import WITH_RATE, PolicerRun
from probes.policer.wording import limit_text

DESCRIPTION = """\
A policer test. `verdict` is `policer` (drops above `sustained_bps`), `shaper` (delays), `link` (delays from the
first packet on), `no_limit` up to `peak_bps`, or `undetermined`; `burst_bytes` pass at once above the rate. Figures
are of IP packets, null where they could not be told; `sentence` is the verdict with its figures."""


def find_contradiction(run: PolicerRun) -> str | None:
    if (run.outcome is Outcome.MEASURED) != (run.verdict is not None):
        return f"{run.outcome}, but with verdict {run.verdict}"
    if (run.verdict in WITH_RATE) != (run.sustained_bps is not None):
        return f"verdict {run.verdict}, but with sustained_bps {run.sustained_bps}"
    if run.burst_bytes is not None and run.sustained_bps is None:
        return "burst_bytes without sustained_bps"
    if run.received > run.sent:
        return f"received {run.received} is more than sent {run.sent}"
    return None


def _computed(run: PolicerRun) -> dict[str, Any]:
    return {"sentence": None if run.verdict is None else limit_text(run)}


KIND = ResultKind(
    kind=POLICER,
    table=PolicerResult,
    contradiction=find_contradiction,
    computed=_computed,
    slot_bytes="sent_bytes",
    not_shown=("sent_bytes",),
    answer=ApiAnswer(
        schema="PolicerOut",
        operation_id="monitor_api_transfers_get_policer",
        summary="Policer tests of a path: policer, shaper or link, with rate and burst, failed ones included",
        description=DESCRIPTION,
    ),
)
