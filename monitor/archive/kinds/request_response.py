"""Request-response runs in the archive."""

from __future__ import annotations

from typing import Any

import msgspec

from monitor.archive.addresses import is_address
from monitor.archive.kinds.kind import ApiAnswer, ResultKind
from monitor.archive.models.results import RequestResponseResult
from probes.contract import Outcome
from probes.request_response.kind import KIND as REQUEST_RESPONSE
from probes.request_response.percentiles import latency_figures
from probes.request_response.spec import LARGEST_BLOCK_BYTES, RequestResponseRun

DESCRIPTION = """\
A run of transactions, a request and its response, one at a time. Times are in ms; `first_ms` (of the connection)
and `after_idle_ms` are in no other figure. Rates count requests and responses. `during_test`: a throughput test
loaded the path meanwhile."""
# Far longer than any timeout.
LONGEST_TRANSACTION_MS = 600_000.0


def find_contradiction(run: RequestResponseRun) -> str | None:
    measured = run.outcome is Outcome.MEASURED
    if not measured and (run.latencies_ms or run.first_ms is not None):
        return f"{run.outcome}, but with latencies"
    if measured and not run.latencies_ms and not run.errors:
        return "measured, but with neither transactions nor errors"
    times_ms = (*run.latencies_ms, run.connect_ms, run.setup_ms, run.first_ms, run.after_idle_ms)
    if any(time_ms is not None and time_ms > LONGEST_TRANSACTION_MS for time_ms in times_ms):
        return f"a time above {LONGEST_TRANSACTION_MS:g} ms"
    if any(latency_ms <= 0.0 for latency_ms in run.latencies_ms):
        return "a latency that is not above 0"
    if max(run.request_bytes, run.response_bytes) > LARGEST_BLOCK_BYTES:
        return f"a block above {LARGEST_BLOCK_BYTES} bytes"
    if run.address is not None and not is_address(run.address):
        return f"address {run.address!r} is not an IP address"
    return None


def _computed(run: RequestResponseRun) -> dict[str, Any]:
    figures = latency_figures(run.latencies_ms, run.request_bytes + run.response_bytes)
    return {} if figures is None else msgspec.structs.asdict(figures)


KIND = ResultKind(
    kind=REQUEST_RESPONSE,
    table=RequestResponseResult,
    contradiction=find_contradiction,
    computed=_computed,
    not_shown=("address", "latencies_ms"),
    answer=ApiAnswer(
        schema="RequestResponseOut",
        operation_id="monitor_api_users_get_request_response",
        summary="Request-response runs of a path, failed ones included",
        description=DESCRIPTION,
    ),
)
