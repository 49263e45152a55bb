"""Capacity estimates in the archive."""

from __future__ import annotations

from monitor.archive.addresses import is_address
from monitor.archive.kinds.kind import ApiAnswer, ResultKind
from monitor.archive.models.results import CapacityResult
from probes.capacity.kind import KIND as CAPACITY
from probes.capacity.spec import CapacityRun, CapacityVerdict
from probes.contract import Outcome

DESCRIPTION = """\
An estimate of the bottleneck capacity of a path (either direction). `capacity_bps` is null unless the verdict is
`measured`; `capacity_low_bps` without `capacity_high_bps` is a lower bound; `verdict` is null where the outcome
is not `measured`."""


def find_contradiction(run: CapacityRun) -> str | None:
    measured = run.outcome is Outcome.MEASURED
    if measured != (run.verdict is not None):
        return f"{run.outcome}, but with verdict {run.verdict}"
    if run.verdict is not None and (run.verdict is CapacityVerdict.MEASURED) != (run.capacity_bps is not None):
        return f"verdict {run.verdict}, but with capacity_bps {run.capacity_bps}"
    if run.received > run.sent:
        return f"received {run.received} is more than sent {run.sent}"
    if run.address is not None and not is_address(run.address):
        return f"address {run.address!r} is not an IP address"
    return None


KIND = ResultKind(
    kind=CAPACITY,
    table=CapacityResult,
    contradiction=find_contradiction,
    not_shown=("address",),
    answer=ApiAnswer(
        schema="CapacityOut",
        operation_id="monitor_api_users_get_capacity",
        summary="Estimates of the bottleneck capacity of a path, failed ones included",
        description=DESCRIPTION,
    ),
)
