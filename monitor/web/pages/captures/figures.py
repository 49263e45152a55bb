"""Captures of packets for pages: figures as text, the plots, and what happened between both ends.

In: the captures of a test's ends, or the findings of a file. Out: a `CapturesView`, a `FileStream` for the templates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from monitor.analysis import figures
from monitor.analysis.packets.wording import capture_rows, loss_sentence
from monitor.archive.diagnosis.capture_findings import CaptureFindings
from monitor.archive.queries.throughput.captures import EndCapture
from monitor.web.charts.marks import Spec
from monitor.web.charts.time_sequence import time_sequence_chart

UNKNOWN = "–"


@dataclass(frozen=True, slots=True)
class EndView:
    """An end: `role` is sender or receiver, `state` says what was captured or why nothing. `chart` is None without
    findings; `has_gaps` is whether packets within it are missing, `has_pcap` is whether there is a file."""

    role: str
    state: str
    chart: Spec | None
    has_gaps: bool
    has_pcap: bool
    slot_id: int


@dataclass(frozen=True, slots=True)
class CapturesView:
    """The captures of a test. `rows` are label, figure at the sender, figure at the receiver; `losses` says in which
    direction packets were lost, empty without both captures."""

    losses: str
    rows: tuple[tuple[str, str, str], ...]
    ends: tuple[EndView, ...]


@dataclass(frozen=True, slots=True)
class FileStream:
    """A stream of a file: its figures by label, and its plot."""

    rows: tuple[tuple[str, str], ...]
    chart: Spec


def captures_view(captures: Sequence[EndCapture], sender: str, receiver: str) -> CapturesView | None:
    """The captures of a test between two sites; None where none was asked for."""
    if not captures:
        return None
    losses = next((capture.losses for capture in captures if capture.losses is not None), None)
    by_role = {capture.role: capture for capture in captures}
    return CapturesView(
        losses="" if losses is None else loss_sentence(losses, sender, receiver),
        rows=_rows(*(_findings(by_role.get(role)) for role in ("sender", "receiver"))),
        ends=tuple(_end(capture) for capture in captures),
    )


def stream_rows_of(findings: CaptureFindings) -> tuple[tuple[str, str], ...]:
    """The figures of a capture by label, those of all its streams first if it has several."""
    if findings.figures is None:
        return ()
    rows = tuple(capture_rows(findings.figures))
    if findings.streams < 2:
        return rows
    resent = f"{findings.streams}, with {figures.count(findings.resent_packets)} packets retransmitted; the first:"
    return (("streams", resent), *rows)


def _findings(capture: EndCapture | None) -> CaptureFindings | None:
    return None if capture is None else capture.findings


def _rows(sender: CaptureFindings | None, receiver: CaptureFindings | None) -> tuple[tuple[str, str, str], ...]:
    """A row for each label of either end, in their order; several pauses of an end in one cell."""
    columns = [_by_label(findings) for findings in (sender, receiver)]
    labels = list(dict.fromkeys(label for column in columns for label in column))
    return tuple((label, *(column.get(label, UNKNOWN) for column in columns)) for label in labels)  # type: ignore[misc]


def _by_label(findings: CaptureFindings | None) -> dict[str, str]:
    column: dict[str, str] = {}
    for label, text in () if findings is None else stream_rows_of(findings):
        column[label] = f"{column[label]}; {text}" if label in column else text
    return column


def _end(capture: EndCapture) -> EndView:
    findings = capture.findings
    return EndView(
        role=capture.role,
        state=_state(capture),
        chart=None if findings is None or findings.plot is None else time_sequence_chart(findings.plot),
        has_gaps=findings is not None and findings.plot is not None and bool(findings.plot.missing),
        has_pcap=capture.packets > 0,
        slot_id=capture.slot_id,
    )


def _state(capture: EndCapture) -> str:
    if capture.reason is not None:
        return f"no capture: {capture.reason}"
    packets = f"{figures.count(capture.packets)} packets"
    if capture.left_out_packets:
        kept = f"{packets}, the first ones and stretches after them" if capture.parts else f"the first {packets}"
        end = "" if not capture.parts or capture.parts[-1].until_ns is None else ", none at the end"
        packets = f"{kept}{end}; about {figures.count(capture.left_out_packets)} more were not kept"
    if capture.findings is None:
        return f"{packets}; not evaluated yet"
    return packets if capture.findings.fault is None else f"cannot be read: {capture.findings.fault}"
