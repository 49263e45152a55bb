"""The users' API about packet captures."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any, Literal

import msgspec
from django.http import HttpRequest, HttpResponse
from ninja import Router, Schema
from ninja.errors import HttpError

from monitor.accounts.access import may_operate
from monitor.analysis.packets import CaptureError
from monitor.api.parameters import TO_THE_MICROSECOND, Moment, ProblemOut, path_or_404
from monitor.archive.queries.throughput.captures import EndCapture, captures_of, pcap_of_end
from monitor.archive.queries.throughput.transfers import transfer_of

router = Router()
PCAP_TYPE = "application/vnd.tcpdump.pcap"
AS_PCAP: dict[str, Any] = {
    "responses": {200: {"content": {PCAP_TYPE: {"schema": {"type": "string", "format": "binary"}}}}}
}
EndRole = Literal["sender", "receiver"]


class CaptureOut(Schema):
    """The capture of an end: `packets` of the test, of which about `left_out_packets` are missing; or the `reason` for
    none. `parts` say which it has up to a time: of each connection the first `kept_bytes` of each `period_bytes` of
    sequence numbers, or all where those are null; without parts it has the first. `figures` are those of the first of
    its `streams`, `resent_packets` those of all; null until they are computed, and where the capture cannot be read,
    for the `fault`. `losses` counts what was lost between both captures, in each direction; it is in the sender's."""

    role: EndRole
    captured_at: datetime
    packets: int
    left_out_packets: int
    parts: list[dict[str, Any]]
    reason: str | None
    streams: int | None
    resent_packets: int | None
    figures: dict[str, Any] | None
    fault: str | None
    losses: dict[str, Any] | None


@router.get(
    "/paths/{int:path_id}/throughput/{at}/captures",
    response={200: list[CaptureOut], 404: ProblemOut, 422: ProblemOut},
    summary="Packet captures of a throughput test, the sender's first",
)
def list_captures(request: HttpRequest, path_id: int, at: Moment) -> list[dict[str, object]]:
    slot_id = _slot_or_404(path_id, at)
    return [] if slot_id is None else [_capture(capture) for capture in captures_of(slot_id)]


@router.get(
    "/paths/{int:path_id}/throughput/{at}/captures/{role}",
    response={403: ProblemOut, 404: ProblemOut, 422: ProblemOut},
    openapi_extra=AS_PCAP,
    summary="The pcap file that an end of a throughput test captured, for operators",
)
def get_capture(request: HttpRequest, path_id: int, at: Moment, role: EndRole) -> HttpResponse:
    if not may_operate(request):
        raise HttpError(403, "captured packets are for operators, and for tokens that may operate")
    slot_id = _slot_or_404(path_id, at)
    try:
        pcap = None if slot_id is None else pcap_of_end(slot_id, role)
    except CaptureError as error:
        raise HttpError(404, f"the capture {error}") from error
    if pcap is None:
        raise HttpError(404, f"the {role} of this test has no capture")
    return HttpResponse(pcap, content_type=PCAP_TYPE)


def _slot_or_404(path_id: int, at: datetime) -> int | None:
    path_or_404(path_id)
    stored = transfer_of(path_id, at)
    if stored is None:
        raise HttpError(404, f"no throughput test of path {path_id} began at {at.isoformat()}; {TO_THE_MICROSECOND}")
    return stored.slot_id


def _capture(capture: EndCapture) -> dict[str, object]:
    findings = capture.findings
    return {
        "role": capture.role,
        "captured_at": capture.captured_at,
        "packets": capture.packets,
        "left_out_packets": capture.left_out_packets,
        "parts": [asdict(part) for part in capture.parts],
        "reason": capture.reason,
        "streams": None if findings is None else findings.streams,
        "resent_packets": None if findings is None else findings.resent_packets,
        "figures": None if findings is None else msgspec.to_builtins(findings.figures),
        "fault": None if findings is None else findings.fault,
        "losses": None if capture.losses is None else msgspec.to_builtins(capture.losses),
    }
