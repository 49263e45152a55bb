"""Pcap files of tests, and evaluation of an uploaded file, bounded in size and packets, not stored."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass

from django.core.files.uploadedfile import UploadedFile
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_http_methods, require_safe

from monitor.accounts.roles import Action, needs
from monitor.analysis import figures
from monitor.analysis.packets import (
    CaptureError,
    TcpConnection,
    Unread,
    connections_of,
    figures_of,
    no_data_reason,
    read_capture,
    time_sequence,
    unread_sentences,
)
from monitor.analysis.packets.wording import capture_rows
from monitor.archive.queries.throughput.captures import pcap_of_end
from monitor.web.charts.time_sequence import time_sequence_chart
from monitor.web.pages.captures.figures import FileStream

MOST_FILE_BYTES = 8 * 2**20
MOST_UNPACKED_BYTES = 64 * 2**20
# Evaluated within about two seconds.
MOST_PACKETS = 50_000
# A file, and the form around it.
MOST_BODY_BYTES = MOST_FILE_BYTES + 10_000
MOST_STREAMS = 3
PCAP_TYPE = "application/vnd.tcpdump.pcap"


@dataclass(frozen=True, slots=True)
class FileView:
    """A file and its largest streams; `note` says what is left out."""

    name: str
    streams: tuple[FileStream, ...]
    note: str


@require_safe
@needs(Action.OPERATE)
def capture_pcap(request: HttpRequest, slot_id: int, role: str) -> HttpResponse:
    try:
        pcap = pcap_of_end(slot_id, role)
    except CaptureError as error:
        raise Http404(f"The capture of test {slot_id} at the {role} {error}.") from error
    if pcap is None:
        raise Http404(f"There is no capture of test {slot_id} at the {role}.")
    name = f"soundings-{slot_id}-{role}.pcap"
    return HttpResponse(pcap, content_type=PCAP_TYPE, headers={"Content-Disposition": f'attachment; filename="{name}"'})


@csrf_exempt
@needs(Action.OPERATE)
@require_http_methods(["GET", "HEAD", "POST"])
def captures_page(request: HttpRequest) -> HttpResponse:
    length = request.META.get("CONTENT_LENGTH") or "0"
    if request.method == "POST" and (not length.isdecimal() or int(length[:18]) > MOST_BODY_BYTES):
        # Before the form is read, which the check against CSRF does too.
        return _page(request, problem=_too_large(), status=413)
    response: HttpResponse = _protected(request)
    return response


@csrf_protect
def _protected(request: HttpRequest) -> HttpResponse:
    if request.method != "POST":
        return _page(request)
    file = request.FILES.get("file")
    if file is None:
        return _page(request, problem="choose a pcap or pcapng file", status=422)
    if (file.size or 0) > MOST_FILE_BYTES:
        return _page(request, problem=_too_large(), status=413)
    try:
        return _page(request, file=_evaluated(file))
    except CaptureError as error:
        return _page(request, problem=f"{file.name}: {error}", status=422)


def _page(
    request: HttpRequest, *, file: FileView | None = None, problem: str | None = None, status: int = 200
) -> HttpResponse:
    context = {"file": file, "problem": problem, "most_mb": MOST_FILE_BYTES // 2**20, "most_packets": MOST_PACKETS}
    return render(request, "pages/captures/captures.html", context, status=status)


def _too_large() -> str:
    return f"the file is larger than {MOST_FILE_BYTES // 2**20} MB; capture with `tcpdump -s 128`, or less of the time"


def _evaluated(file: UploadedFile) -> FileView:
    """Raises `CaptureError`."""
    unread: Counter[Unread] = Counter()
    packets = read_capture(file.read(), unread, MOST_UNPACKED_BYTES)
    connections = connections_of(itertools.islice(packets, MOST_PACKETS), unread)
    notes = [] if next(packets, None) is None else [f"Only the first {figures.count(MOST_PACKETS)} packets were read."]
    carrying = [connection for connection in connections if connection.sender.payload_bytes]
    if not carrying:
        raise CaptureError(no_data_reason(unread))
    carrying.sort(key=lambda connection: -connection.sender.payload_bytes)
    if len(carrying) > MOST_STREAMS:
        notes.append(f"{len(carrying) - MOST_STREAMS} more connections, with less data, are not shown.")
    notes += unread_sentences(unread)
    return FileView(file.name or "", tuple(map(_stream, carrying[:MOST_STREAMS])), " ".join(notes))


def _stream(connection: TcpConnection) -> FileStream:
    return FileStream(tuple(capture_rows(figures_of(connection))), time_sequence_chart(time_sequence(connection)))
