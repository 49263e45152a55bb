"""iperf3's JSON document, decoded in parts, so that damage and a peer's text stay isolated."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from probes.transfers.iperf3.errors import ToolFailure

Json = dict[str, Any]

ERROR_LINE = re.compile(r"^iperf3: (?:parameter )?error - (.+)$", re.MULTILINE)
# Of the output, quoted where it is no report.
LAST_WORDS_BYTES = 200
# Searched before and behind the report for an error line.
AROUND_BYTES = 2**16
# Of a report's part: above 128 streams' in the longest test; each takes about 100 bytes of memory.
MOST_VALUES = 1_000_000
UNREADABLE = (msgspec.DecodeError, ValueError, RecursionError)
ASCII_ALONE = bytes(byte if byte < 0x80 else ord("?") for byte in range(256))


class _Parts(msgspec.Struct):
    """The read parts of a report, undecoded: a peer's other text takes no memory."""

    error: msgspec.Raw = msgspec.Raw()
    start: msgspec.Raw = msgspec.Raw()
    intervals: msgspec.Raw = msgspec.Raw()
    end: msgspec.Raw = msgspec.Raw()
    server_output_json: msgspec.Raw = msgspec.Raw()


def decode(output: bytes) -> Json:
    """Decode a report; unreadable parts are left out. Raises `ToolFailure`.

    Lines around it are skipped, except errors (versions up to 3.9).
    """
    start, end = max(output.find(b"{"), 0), output.rfind(b"}") + 1
    around = output[max(0, start - AROUND_BYTES) : start] + output[end : end + AROUND_BYTES]
    error_line = ERROR_LINE.search(around.decode(errors="replace"))
    try:
        parts = _decoded(output[start:end], _Parts)
    except UNREADABLE as error:
        last = output[-LAST_WORDS_BYTES:].decode(errors="replace").strip().splitlines()[-1:]
        explanation = f"iperf3: {error_line[1]}" if error_line else f"it ends: {''.join(last)!r}"
        raise ToolFailure(f"iperf3's report is cut off or not JSON ({error}); {explanation}") from error
    decoded = {
        "error": _part(parts.error, str),
        "start": _part(parts.start, Json),
        "intervals": _part(parts.intervals, list[Any]),
        "end": _part(parts.end, Json),
        "server_output_json": _part(parts.server_output_json, Json),
    }
    report = {name: part for name, part in decoded.items() if part is not None}
    return report if error_line is None else {"error": error_line[1], **report}


def _part(raw: msgspec.Raw, kind: Any) -> Any:
    encoded = bytes(raw)
    if encoded.count(b",") + encoded.count(b"[") + encoded.count(b"{") > MOST_VALUES:
        return None
    try:
        return _decoded(encoded, kind)
    except UNREADABLE:
        return None


def _decoded(encoded: bytes, kind: Any) -> Any:
    """Decode JSON, replacing bad UTF-8. Raises as `UNREADABLE`."""
    try:
        return msgspec.json.decode(encoded, type=kind)
    except UnicodeDecodeError:
        return msgspec.json.decode(encoded.translate(ASCII_ALONE), type=kind)
