"""Packet captures as text, plots and losses."""

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
    role: str  # sender or receiver
    state: str  # captured packets, or the reason for none
    chart: Spec | None  # None without findings
    has_gaps: bool  # packets within it are missing
    has_pcap: bool  # there is a file
    slot_id: int


@dataclass(frozen=True, slots=True)
class CapturesView:
    losses: str  # directions of lost packets; empty without both captures
    rows: tuple[tuple[str, str, str], ...]  # label, figure at the sender, figure at the receiver
    ends: tuple[EndView, ...]


@dataclass(frozen=True, slots=True)
class FileStream:
    rows: tuple[tuple[str, str], ...]
    chart: Spec


def captures_view(captures: Sequence[EndCapture], sender: str, receiver: str) -> CapturesView | None:
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
    """Figures of the first stream by label, after a count of all if there are several."""
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
