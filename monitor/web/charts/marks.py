"""Rows for a chart's background: absent data, incidents, changes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from monitor.overview.changes import PathChange, PathChangeKind

Spec = dict[str, Any]
Row = dict[str, Any]
# Width of a label of two words, as a share of the chart.
LABEL_SHARE = 0.07


class Absence(StrEnum):
    """Why RTTs are missing; the value names the style."""

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


# At the top of the line of a change; the page repeats it in its list of changes.
CHANGE_SIGNS = {PathChangeKind.PLAN: "◆", PathChangeKind.ROUTE: "⇄", PathChangeKind.ANNOTATION: "✎"}

# The stretches that a loss chart shades: total loss is a value there.
SEEN_IN_LOSS = (Absence.NO_DATA, Absence.OWN_TEST, Absence.NOT_MEASURED)


@dataclass(frozen=True, slots=True)
class LabelledSpan:
    since: datetime
    until: datetime
    label: str


@dataclass(frozen=True, slots=True)
class TimeAxis:
    since: datetime
    until: datetime
    incidents: tuple[LabelledSpan, ...] = ()
    changes: tuple[PathChange, ...] = ()


def epoch_ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def span_rows(spans: Iterable[LabelledSpan], window: TimeAxis) -> list[Row]:
    """Rows of spans, cut to the window; wide spans are labelled."""
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
