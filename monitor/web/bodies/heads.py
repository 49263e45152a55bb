"""Find the end of a request's headers and its length.

gunicorn's parser validates; this decides only whether a thread would wait for the sender.
"""

from __future__ import annotations

import re

# The longest form, a comment of 4,000 signs, has at most half of it.
FORM_BYTES = 100_000
# A batch of 1,000 results is a tenth of it.
HELD_BODY_BYTES = 2 * 2**20
HEADERS_BYTES = 64 * 1024

LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,18})[ \t]*\r\n", re.IGNORECASE)
FRAMING = re.compile(rb"\r\n(?:content-length|transfer-encoding)", re.IGNORECASE)
BARE_LINE_FEED = re.compile(rb"(?<!\r)\n")
EXPECTS = re.compile(rb"\r\nexpect:", re.IGNORECASE)


def end_of_headers(content: bytes | bytearray, seen: int = 0) -> int | None:
    """Position of the headers' end, None if incomplete; `seen` bytes have been searched."""
    # RFC 9112, 2.2: one empty line before the request is passed over.
    begin = 2 if content[:2] == b"\r\n" else 0
    position = content.find(b"\r\n\r\n", max(begin, seen))
    return None if position < 0 else position + 4


def is_hopeless(content: bytes | bytearray, seen: int = 0) -> bool:
    """Whether headers are malformed (no carriage return, too many bytes): waiting is pointless."""
    end = end_of_headers(content, seen)
    if end is None and len(content) > HEADERS_BYTES:
        return True
    return BARE_LINE_FEED.search(content, seen, len(content) if end is None else end) is not None


def length_of(head: bytes | bytearray) -> int | None:
    """Length of the request; None if unknown or too large to hold."""
    if EXPECTS.search(head):
        return None  # the client waits for 100 Continue
    said = LENGTH.findall(head)
    if not FRAMING.search(head):
        return len(head)
    if len(said) != 1 or len(FRAMING.findall(head)) != 1 or int(said[0]) > HELD_BODY_BYTES:
        return None
    return len(head) + int(said[0])
