"""Outcomes of scheduled measurements in words, for pages, reports and terminal."""

from __future__ import annotations

from monitor.archive.queries.operation.ledger import AWAITED, UNKNOWN, SlotReason
from probes.contract import Outcome
from probes.site.wire import GapReason

_OUTCOMES: dict[str, str] = {
    Outcome.MISSED: "not completed",
    Outcome.DNS_FAILURE: "DNS failure",
    Outcome.TOOL_FAILURE: "test error",
    Outcome.REFUSED: "no connection",
    AWAITED: "pending",
    UNKNOWN: "scheduled before the agent's first report",
}
_REASONS: dict[str, str] = {
    GapReason.SET_ASIDE: "quarantined",
    GapReason.AGENT_FAILED: "agent error",
    GapReason.LATE: "agent too late",
    SlotReason.NOT_IN_PLAN: "not in the agent's plan yet",
    SlotReason.NOT_REPORTED: "no report from the agent",
}


def outcome_words(outcome: str, reason: str | None = None) -> str:
    """Word an outcome with its reason: "not completed: agent too late"."""
    words = _OUTCOMES.get(outcome, outcome.replace("_", " "))
    return words if reason is None else f"{words}: {_REASONS.get(reason, reason.replace('_', ' '))}"
