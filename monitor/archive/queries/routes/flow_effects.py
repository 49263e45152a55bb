"""Whether load balancing over flows changes RTT or loss of paths, by their newest traces over several flows.

In: path ids and aware times, half open. Out: a record for each path that was traced so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from monitor.archive.statements import check_period, columns, run_statement
from probes.trace.spec import FlowEffect

LONGEST_VALID = timedelta(days=2)
"""Agents compare the flows of a path once a day."""


@dataclass(frozen=True, slots=True)
class StoredFlowEffect:
    """The comparison of the flows of a path by the trace that began `at`."""

    path_id: int
    at: datetime
    effect: FlowEffect


def newest_flow_effects(path_ids: Sequence[int], until: datetime) -> dict[int, StoredFlowEffect]:
    """The newest comparison of each path in the `LONGEST_VALID` before a moment; paths without any are left out."""
    since = until - LONGEST_VALID
    check_period(since, until)
    _, rows = run_statement(
        "newest_flow_effects", columns(StoredFlowEffect), path_ids=list(path_ids), since=since, until=until
    )
    return {path_id: StoredFlowEffect(path_id, at, flow_effect_of(text)) for path_id, at, text in rows}


def flow_effect_of(text: str) -> FlowEffect:
    """The content of the JSON column `flow_effect`."""
    return msgspec.json.decode(text, type=FlowEffect)
