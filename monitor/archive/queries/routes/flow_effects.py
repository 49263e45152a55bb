"""Whether load balancing over flows changes RTT or loss, by the newest traces over several flows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from monitor.archive.statements import check_period, columns, run_statement
from probes.trace.spec import FlowEffect

# Agents compare the flows of a path once a day.
LONGEST_VALID = timedelta(days=2)


@dataclass(frozen=True, slots=True)
class StoredFlowEffect:
    """Comparison of a path's flows by a trace."""

    path_id: int
    at: datetime
    effect: FlowEffect


def newest_flow_effects(path_ids: Sequence[int], until: datetime) -> dict[int, StoredFlowEffect]:
    """Newest comparison of each path within `LONGEST_VALID`, if any."""
    since = until - LONGEST_VALID
    check_period(since, until)
    _, rows = run_statement(
        "newest_flow_effects", columns(StoredFlowEffect), path_ids=list(path_ids), since=since, until=until
    )
    return {path_id: StoredFlowEffect(path_id, at, flow_effect_of(text)) for path_id, at, text in rows}


def flow_effect_of(text: str) -> FlowEffect:
    return msgspec.json.decode(text, type=FlowEffect)
