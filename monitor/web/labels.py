"""Labels shared by pages and charts."""

from __future__ import annotations

from monitor.alerts.models import HistoryEvent
from monitor.analysis import figures
from monitor.archive.outcomes import outcome_words
from monitor.overview.path_figures import FigureState, PathFigures

_TURNS = {
    HistoryEvent.FOUND.value: "detected",
    HistoryEvent.WIDENED.value: "path added",
    HistoryEvent.NARROWED.value: "path resolved",
    HistoryEvent.WORSENED.value: "more severe",
}


def outcome_label(outcome: str) -> str:
    """Word an outcome: `missed` is "not completed"."""
    return outcome_words(outcome)


# The classes of states without a figure, and of no loss.
STATE_STYLES = {
    FigureState.NONE_LOST: "none-lost",
    FigureState.TOTAL_LOSS: "total-loss",
    FigureState.NO_DATA: "no-data",
    FigureState.NOT_MEASURED: "not-measured",
    FigureState.OWN_TEST: "own-test",
    FigureState.UNDEFINED: "no-data",
}


def state_label(path: PathFigures) -> str:
    match path.state:
        case FigureState.TOTAL_LOSS:
            return "all lost"
        case FigureState.NOT_MEASURED:
            return "not completed" if path.outcome is None else outcome_label(path.outcome)
        case FigureState.OWN_TEST:
            return "during test"
        case FigureState.UNDEFINED:
            return "undefined"
        case _:
            return figures.NO_DATA


def not_counted(tests: int) -> str:
    """`1 test on demand or of sweeps not counted`."""
    return f"{figures.count(tests)} test{'s' if tests != 1 else ''} on demand or of sweeps not counted" if tests else ""


def turn_label(turn: str) -> str:
    return _TURNS.get(turn, turn)


def ordinal(number: int) -> str:
    """2 is "2nd"."""
    suffix = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"
