"""The background of a chart: spans of absent data, incidents, and changes of schedule or route, as rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from monitor.overview.changes import PathChange, PathChangeKind

Spec = dict[str, Any]
Row = dict[str, Any]
LABEL_SHARE = 0.07
"""Width of a label of two words, as a share of the chart."""


class Absence(StrEnum):
    """Why a stretch of time has no RTTs. The value is its style, the label is written over it."""

    NO_DATA = "no-data"
    OWN_TEST = "own-test"
    NOT_MEASURED = "not-measured"
    ALL_LOST = "all-lost"

    @property
    def style(self) -> str:
        return self.value

    @property
    def label(self) -> str:
        return "during a throughput test" if self is Absence.OWN_TEST else self.value.replace("-", " ")


CHANGE_SIGNS = {PathChangeKind.PLAN: "◆", PathChangeKind.ROUTE: "⇄", PathChangeKind.ANNOTATION: "✎"}
"""The sign at the top of the line of a change; the page repeats it in its list of changes."""

SEEN_IN_LOSS = (Absence.NO_DATA, Absence.OWN_TEST, Absence.NOT_MEASURED)
"""The stretches that a loss chart shades: total loss is a value there."""


@dataclass(frozen=True, slots=True)
class LabelledSpan:
    """A stretch of time with a word for it."""

    since: datetime
    until: datetime
    label: str


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """The time axis: its ends, the incidents shaded and the changes marked on it."""

    since: datetime
    until: datetime
    incidents: tuple[LabelledSpan, ...] = ()
    changes: tuple[PathChange, ...] = ()


def epoch_ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def span_rows(spans: Iterable[LabelledSpan], window: TimeAxis) -> list[Row]:
    """Spans cut to the window; those wide enough for it carry their label in the middle."""
    whole = window.until - window.since
    rows = []
    for span in spans:
        since, until = max(span.since, window.since), min(span.until, window.until)
        if since < until:
            wide = (until - since) / whole >= LABEL_SHARE
            middle = since + (until - since) / 2
            rows.append(
                {
                    "t": epoch_ms(since),
                    "t2": epoch_ms(until),
                    "mid": epoch_ms(middle),
                    "label": span.label,
                    "shown": span.label if wide else "",
                }
            )
    return rows


def change_rows(window: TimeAxis) -> dict[str, list[Row]]:
    return {
        change_style(kind): [
            {"t": epoch_ms(change.at), "label": change.text} for change in window.changes if change.kind is kind
        ]
        for kind in PathChangeKind
    }


def change_style(kind: PathChangeKind) -> str:
    return f"{kind}-change"
