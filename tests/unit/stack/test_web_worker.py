"""When a request is complete, by the web server's worker and by gunicorn's own parser: a thread never waits for
input."""

import contextlib

import pytest
from gunicorn.config import Config
from gunicorn.http.errors import NoMoreData, ParseException
from gunicorn.http.message import Request
from gunicorn.http.unreader import IterUnreader
from hypothesis import given
from hypothesis import strategies as st

from monitor.web.bodies.heads import HELD_BODY_BYTES, end_of_headers, is_hopeless, length_of

PIECES = st.sampled_from(
    [b"GET / HTTP/1.1", b"POST /login/ HTTP/1.1", b"\r\n", b"\r\n\r\n", b"\n", b"\r", b"Host: a", b"X: y", b" ", b":",
     b"Content-Length: 4", b"content-length:\t2 ", b"Transfer-Encoding: chunked", b"abcd", b"0\r\n\r\n",
     b"Expect: 100-continue"]
)  # fmt: skip


REFUSED = (ParseException, NoMoreData, StopIteration)


class WouldWait(Exception):
    pass


def parsed(content):
    """Parse the request in these bytes; raises `WouldWait` where the parser needs more."""

    def pieces():
        yield content
        raise WouldWait

    return Request(Config(), IterUnreader(pieces()), ("192.0.2.1", 1))


@given(st.lists(PIECES, max_size=12).map(b"".join))
def test_the_parser_never_waits_for_complete_headers(content):
    if end_of_headers(content) is None and not is_hopeless(content):
        return  # this request is not given to a thread
    with contextlib.suppress(*REFUSED):
        parsed(content)


@given(st.lists(PIECES, max_size=12).map(b"".join), st.integers(0, 200))
def test_the_end_of_headers_is_the_same_in_two_pieces(content, cut):
    searched = max(0, min(cut, len(content)) - 3)
    if end_of_headers(content[:cut]) is None and not is_hopeless(content[:cut]):
        assert end_of_headers(content, searched) == end_of_headers(content)
        assert is_hopeless(content, searched) == is_hopeless(content)


@given(st.lists(PIECES, max_size=12).map(b"".join))
def test_the_parser_never_waits_for_a_complete_body(content):
    end = end_of_headers(content)
    length = None if end is None else length_of(content[:end])
    if length is None:
        return
    with contextlib.suppress(*REFUSED):
        parsed(content[:length].ljust(length, b"x")).body.read()


@pytest.mark.parametrize(
    ("headers", "body_bytes"),
    [
        (b"", 0),
        (b"Content-Length: 7\r\n", 7),
        (b"X: y\r\ncontent-length:7 \r\nZ: z\r\n", 7),
        (b"Content-Length: %d\r\n" % (HELD_BODY_BYTES + 1), None),
        (b"Content-Length: 99999999999999999999\r\n", None),
        (b"Content-Length: 7\r\nContent-Length: 7\r\n", None),
        (b"Content-Length: +7\r\n", None),
        (b"Transfer-Encoding: chunked\r\n", None),
        (b"Content-Length: 7\r\nExpect: 100-continue\r\n", None),
    ],
)
def test_a_body_is_buffered_if_it_has_a_single_small_length(headers, body_bytes):
    head = b"POST / HTTP/1.1\r\nHost: a\r\n" + headers + b"\r\n"

    assert length_of(head) == (None if body_bytes is None else len(head) + body_bytes)
