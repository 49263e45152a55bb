"""Read and decompress the body of a delivery within its size limit.

In two steps: reading waits for the sender, decompressing takes memory. Raises `RequestRefused`, or the archive's
`BatchTooLarge`.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import zstandard
from django.conf import settings
from django.http import HttpRequest, UnreadablePostError

from monitor.archive.ingest.arrivals import JSON, MESSAGE_PACK, BatchRejected, Format, ParsedBatch, read

Unpack = Callable[[bytes, int], bytes]

FORMATS = {"application/json": JSON, "application/msgpack": MESSAGE_PACK}
GZIP_WBITS = 31
# In digits: Python refuses to parse thousands of digits.
LONGEST_LENGTH = 18
# RFC 8878, 3.1.1.1.2, requires this of every decoder; a larger window lets the sender choose our memory use.
ZSTD_WINDOW_BYTES = 8 * 2**20


class RequestRefused(Exception):
    def __init__(self, status: int, reason: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True)
class CompressedBody:
    content: bytes
    format: Format
    unpack: Unpack


def read_request(request: HttpRequest) -> CompressedBody:
    """Read the body after checking the headers."""
    how = FORMATS.get(request.content_type or "")
    if how is None:
        raise RequestRefused(415, f"content type {request.content_type!r}: send {' or '.join(FORMATS)}")
    encoding = request.headers.get("Content-Encoding", "identity").strip().lower()
    unpack = ENCODINGS.get(encoding)
    if unpack is None:
        raise RequestRefused(415, f"content encoding {encoding!r}: send gzip, zstd or none")
    return CompressedBody(read_body(request, settings.DATA_UPLOAD_MAX_MEMORY_SIZE), how, unpack)


def read_body(request: HttpRequest, limit_bytes: int) -> bytes:
    """Read at most `limit_bytes`; refuse a truncated or too slow body."""
    length = request.META.get("CONTENT_LENGTH") or ""
    if not (length.isascii() and length.isdecimal()):
        raise RequestRefused(411, "send the Content-Length")
    if len(length) > LONGEST_LENGTH or int(length) > limit_bytes:
        raise RequestRefused(413, f"{length[:LONGEST_LENGTH]} bytes are more than {limit_bytes}; send less at once")
    try:
        body = request.body
    except UnreadablePostError as error:
        raise RequestRefused(408, "the body did not come; send it again") from error
    if len(body) != int(length):
        raise RequestRefused(408, f"{len(body)} of {length} bytes came in time; send it again, or less at once")
    return body


def decompress(packed: CompressedBody) -> ParsedBatch:
    """Decompress and parse a batch; its results stay encoded."""
    body = packed.unpack(packed.content, settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
    try:
        return read(body, packed.format)
    except BatchRejected as error:
        raise RequestRefused(400, str(error)) from error


def _gunzip(data: bytes, limit_bytes: int) -> bytes:
    """Decompress gzip, never exceeding the limit in memory."""
    stream = zlib.decompressobj(GZIP_WBITS)
    try:
        body = stream.decompress(data, limit_bytes + 1)
    except zlib.error as error:
        raise RequestRefused(400, f"not gzip: {error}") from error
    _require_bounded(body, limit_bytes)
    if not stream.eof or stream.unused_data:
        raise RequestRefused(400, "the gzip data ends too early or goes on after its end")
    return body


def _unzstd(data: bytes, limit_bytes: int) -> bytes:
    """Decompress zstd. A truncated frame gives a truncated batch, which is refused later."""
    decompressor = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES)
    try:
        with decompressor.stream_reader(io.BytesIO(data)) as stream:
            body = stream.read(limit_bytes + 1)
    except zstandard.ZstdError as error:
        raise RequestRefused(400, f"not zstd: {error}") from error
    _require_bounded(body, limit_bytes)
    return body


def _require_bounded(body: bytes, limit_bytes: int) -> None:
    if len(body) > limit_bytes:
        raise RequestRefused(413, f"more than {limit_bytes} bytes when decompressed; send smaller batches")


ENCODINGS: dict[str, Unpack] = {
    "identity": lambda data, _: data,
    "gzip": _gunzip,
    "zstd": _unzstd,
}
