"""Labels that several pages and charts share: outcomes of tests, and events of incidents."""

from __future__ import annotations

from monitor.alerts.models import HistoryEvent
from monitor.archive.queries.ledger import AWAITED
from probes.contract import Outcome

_OUTCOMES = {Outcome.TOOL_FAILURE.value: "test error", Outcome.MISSED.value: "not run", AWAITED: "pending"}
_TURNS = {HistoryEvent.FOUND.value: "detected", HistoryEvent.WIDENED.value: "path added"}


def outcome_label(outcome: str) -> str:
    """An outcome or a reason as words: "dns_failure" is "dns failure"."""
    return _OUTCOMES.get(outcome, outcome.replace("_", " "))


def turn_label(turn: str) -> str:
    """An event in the history of an incident as words."""
    return _TURNS.get(turn, turn)


def ordinal(number: int) -> str:
    """2 is "2nd"."""
    suffix = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"
