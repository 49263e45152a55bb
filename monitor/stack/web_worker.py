"""gunicorn worker that gives a thread only to completely received requests.

Connections wait in the event loop until the headers of a request have arrived, and a body of up to `HELD_BODY_BYTES`;
so a slow sender holds a socket and no thread. A larger body, or a body without a length, is read in a separate small
thread pool. Everything has a deadline, and connections are limited per address and in total: above the limit, the
connection that has waited longest for its sender is closed. Trusted proxies and Unix sockets serve many clients and
have no limit per address.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
import selectors
import socket
import time
from collections import Counter
from concurrent import futures
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from gunicorn.workers import gthread

from monitor.stack import freed_memory

HEADERS_S = 10.0
BODY_S = 30.0
# A browser opens six, and an institute behind one address is many browsers.
CONNECTIONS_PER_ADDRESS = 100
# A batch of 1,000 results is a tenth of it.
HELD_BODY_BYTES = 2 * 2**20
# Of all connections of a worker together.
HELD_BYTES = 64 * 2**20
HEADERS_BYTES = 64 * 1024
UNHELD_BODIES_AT_ONCE = 2
READ_BYTES = 2**20
STOPPING_S = 2.0

LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,18})[ \t]*\r\n", re.IGNORECASE)
FRAMING = re.compile(rb"\r\n(?:content-length|transfer-encoding)", re.IGNORECASE)
BARE_LINE_FEED = re.compile(rb"(?<!\r)\n")
EXPECTS = re.compile(rb"\r\nexpect:", re.IGNORECASE)


@dataclass(slots=True)
class Incoming:
    """Received part of a request; `length` is its total length, None until its headers are complete."""

    read_until: float
    content: bytearray = field(default_factory=bytearray)
    length: int | None = None
    is_registered: bool = False

    def is_whole(self) -> bool:
        return self.length is not None and len(self.content) >= self.length


class Connection(gthread.TConn):
    """gunicorn's connection, which notifies the worker on close, and keeps the data read before its thread began."""

    def __init__(self, worker: Worker, *args: Any) -> None:
        super().__init__(*args)
        self.worker = worker
        self.address: str | None = None  # address for the limit; None without limit
        self.unparsed = b""

    def close(self, graceful: bool = False) -> None:
        self.worker.forget(self)
        super().close(graceful=graceful)


class Worker(gthread.ThreadWorker):
    """gunicorn calls `enqueue_req` in the main thread for each connection that awaits a request, `handle` in a pool
    thread, `handle_request` there once the headers are parsed, and `murder_pending` every second in the main thread."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._incoming: dict[Connection, Incoming] = {}
        self._held_bytes = 0
        self._of_address: Counter[str] = Counter()
        self._read_until: dict[Any, float] = {}
        self._stop_at = float("inf")

    def init_process(self) -> None:
        self._unheld_pool = futures.ThreadPoolExecutor(max_workers=UNHELD_BODIES_AT_ONCE)
        super().init_process()

    def accept(self, listener: Any) -> None:
        try:
            client_socket, client_address = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return  # another worker accepted it, or the client has gone
        self.nr_conns += 1
        conn = Connection(self, self.cfg, client_socket, client_address, listener.getsockname())
        conn.address = self._address_of(client_address)
        if conn.address is not None:
            self._of_address[conn.address] += 1
        if self._make_room(conn):
            self.enqueue_req(conn)
        else:
            self._close(conn)

    def enqueue_req(self, conn: Any) -> None:
        """Wait for a request without a thread. With TLS a thread waits, since only a thread can read it here."""
        if self.cfg.is_ssl:
            super().enqueue_req(conn)
            return
        incoming = Incoming(time.monotonic() + HEADERS_S)
        self._incoming[conn] = incoming
        conn.sock.setblocking(False)
        if conn.parser is not None:
            self._take(conn, incoming, conn.parser.unreader.take_buffered())
        if conn in self._incoming:
            self._read(conn, conn.sock)

    def on_client_socket_readable(self, conn: Any, client: Any) -> None:
        if conn in self.keepalived_conns:  # else it was closed to make room, by an event that came with this one
            super().on_client_socket_readable(conn, client)

    def handle(self, conn: Any) -> Any:
        self._read_until[conn] = time.monotonic() + HEADERS_S
        try:
            if conn.unparsed:
                conn.init()
                conn.parser.unreader.unread(conn.unparsed)
                conn.unparsed = b""
            return super().handle(conn)
        finally:
            self._read_until.pop(conn, None)

    def handle_request(self, req: Any, conn: Any) -> Any:
        self._read_until[conn] = time.monotonic() + BODY_S
        return super().handle_request(req, conn)

    def murder_pending(self) -> None:
        super().murder_pending()
        freed_memory.give_back()
        now = time.monotonic()
        if not self.alive:
            self._stop_at = min(self._stop_at, now + STOPPING_S)
        for conn, until in list(self._read_until.items()):
            if now >= until and self._read_until.pop(conn, None) is not None:
                _shut(conn)
        for conn, incoming in list(self._incoming.items()):
            if now < min(incoming.read_until, self._stop_at):
                continue
            if incoming.length is None:
                self._close(conn)
            else:
                _shut(conn)  # the view sees end of file and can still respond
                self._dispatch(conn, self.tpool)

    def forget(self, conn: Connection) -> None:
        """Remove a closing connection from the counters."""
        self._stop_waiting(conn)
        if conn.address is not None:
            self._of_address[conn.address] -= 1
            if self._of_address[conn.address] <= 0:
                del self._of_address[conn.address]
            conn.address = None

    def _read(self, conn: Connection, _: Any) -> None:
        """Read available data. Called when the socket is readable, and once before."""
        incoming = self._incoming.get(conn)
        if incoming is None:
            return  # closed to make room, by an event that came with this one
        try:
            piece = conn.sock.recv(READ_BYTES)
        except BlockingIOError:
            self._wait_for_more(conn, incoming)
            return
        except OSError:
            self._close(conn)
            return
        if piece:
            self._take(conn, incoming, piece)
        elif incoming.length is None:
            self._close(conn)
        else:
            self._dispatch(conn, self.tpool)

    def _take(self, conn: Connection, incoming: Incoming, piece: bytes) -> None:
        """Append data to a request; dispatch it when complete or too large to hold."""
        seen = max(0, len(incoming.content) - 3)
        incoming.content += piece
        self._held_bytes += len(piece)
        pool = self.tpool
        if incoming.length is None:
            if is_hopeless(incoming.content, seen):
                _shut(conn)
                self._dispatch(conn, pool)
                return
            head_end = end_of_headers(incoming.content, seen)
            if head_end is not None:
                incoming.length = length_of(incoming.content[:head_end])
                incoming.read_until = time.monotonic() + BODY_S
                if incoming.length is None:
                    incoming.length, pool = 0, self._unheld_pool
        if incoming.is_whole():
            self._dispatch(conn, pool)
        else:
            self._wait_for_more(conn, incoming)
            self._hold_less()

    def _wait_for_more(self, conn: Connection, incoming: Incoming) -> None:
        if not incoming.is_registered:
            incoming.is_registered = True
            self.poller.register(conn.sock, selectors.EVENT_READ, partial(self._read, conn))

    def _stop_waiting(self, conn: Connection) -> Incoming | None:
        incoming = self._incoming.pop(conn, None)
        if incoming is not None:
            self._held_bytes -= len(incoming.content)
            if incoming.is_registered:
                with contextlib.suppress(OSError, KeyError, ValueError):
                    self.poller.unregister(conn.sock)
        return incoming

    def _dispatch(self, conn: Connection, pool: futures.ThreadPoolExecutor) -> None:
        """Dispatch a request to a thread."""
        incoming = self._stop_waiting(conn)
        assert incoming is not None
        conn.unparsed = bytes(incoming.content)
        conn.data_ready = True
        done = pool.submit(self.handle, conn)
        done.add_done_callback(lambda future: self.method_queue.defer(self.finish_request, conn, future))

    def _make_room(self, conn: Connection) -> bool:
        """Close the longest waiting connection above the limit, so that slow clients keep nobody out. Returns false if
        none waits."""
        if conn.address is not None and self._of_address[conn.address] > CONNECTIONS_PER_ADDRESS:
            return self._close_oldest(conn.address)
        if self.nr_conns >= self.worker_connections:
            return self._close_oldest()
        return True

    def _close_oldest(self, address: str | None = None) -> bool:
        for conn in (*self._incoming, *self.keepalived_conns):
            if address is None or conn.address == address:
                if conn in self.keepalived_conns:
                    self.keepalived_conns.remove(conn)
                    self.poller.unregister(conn.sock)
                self._close(conn)
                return True
        return False

    def _hold_less(self) -> None:
        while self._held_bytes > HELD_BYTES:
            self._close(max(self._incoming, key=lambda conn: len(self._incoming[conn].content)))

    def _close(self, conn: Connection) -> None:
        self.nr_conns -= 1
        conn.close()

    def _address_of(self, client: Any) -> str | None:
        """Address for the limit: IPv4, or the IPv6 /64 network, which a single host can use entirely. None for Unix
        sockets and trusted proxies."""
        if not isinstance(client, tuple) or "*" in self.cfg.forwarded_allow_ips:
            return None
        address = ipaddress.ip_address(client[0].partition("%")[0])
        address = getattr(address, "ipv4_mapped", None) or address
        if any(address in network for network in self.cfg.forwarded_allow_networks()):
            return None
        return str(address if address.version == 4 else ipaddress.ip_network((address, 64), strict=False))


def end_of_headers(content: bytes | bytearray, seen: int = 0) -> int | None:
    """Position of the end of the headers, None if incomplete. The part before `seen` has been searched."""
    # RFC 9112, 2.2: one empty line before the request is passed over.
    begin = 2 if content[:2] == b"\r\n" else 0
    position = content.find(b"\r\n\r\n", max(begin, seen))
    return None if position < 0 else position + 4


def is_hopeless(content: bytes | bytearray, seen: int = 0) -> bool:
    """Whether the headers are malformed: a line without carriage return, or too many bytes. The parser rejects them at
    once, so waiting is pointless."""
    end = end_of_headers(content, seen)
    if end is None and len(content) > HEADERS_BYTES:
        return True
    return BARE_LINE_FEED.search(content, seen, len(content) if end is None else end) is not None


def length_of(head: bytes | bytearray) -> int | None:
    """Total length of a request with these headers; None where unknown or too large to hold. gunicorn's parser
    validates the body; this only decides whether a thread would wait."""
    if EXPECTS.search(head):
        return None  # the client waits for 100 Continue
    said = LENGTH.findall(head)
    if not FRAMING.search(head):
        return len(head)
    if len(said) != 1 or len(FRAMING.findall(head)) != 1 or int(said[0]) > HELD_BODY_BYTES:
        return None
    return len(head) + int(said[0])


def _shut(conn: Any) -> None:
    """Close the receiving half: the reader sees end of file and can still respond."""
    # Not the shutdown of a TLS socket, which would end the encryption of the answer too.
    with contextlib.suppress(OSError):
        socket.socket.shutdown(conn.sock, socket.SHUT_RD)
