"""gunicorn worker that gives a thread only to completely received requests, so slow senders hold sockets, not threads.

Bodies above `FORM_BYTES` need permission by headers. Limits of connections apply, except to trusted proxies and Unix
sockets.
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

from gunicorn import http
from gunicorn.http import wsgi
from gunicorn.http.errors import NoMoreData, ParseException
from gunicorn.workers import gthread

from monitor.stack import freed_memory
from monitor.web.bodies.heads import FORM_BYTES, end_of_headers, is_hopeless, length_of

HEADERS_S = 10.0
BODY_S = 30.0
LINGER_S = 2.0
UNREAD_BODY_S = 0.1
# Of connections without a valid token so far: 250 agents behind one address may come back at once, all to one process.
CONNECTIONS_PER_ADDRESS = 300
# A program opens a few, and several may have the same token.
CONNECTIONS_PER_TOKEN = 100
# Of all connections of a worker together.
HELD_BYTES = 64 * 2**20
UNHELD_BODIES_AT_ONCE = 2
READ_BYTES = 2**20
STOPPING_S = 2.0
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
TOKEN = "token "

EXPECTS_CONTINUE = re.compile(rb"\r\nexpect:[ \t]*100-continue[ \t]*(?=\r\n)", re.IGNORECASE)


@dataclass(slots=True)
class Incoming:
    """Received part of a request."""

    read_until: float
    content: bytearray = field(default_factory=bytearray)
    length: int | None = None  # total; None until its headers are complete
    is_registered: bool = False
    expects_continue: bool = False

    def is_whole(self) -> bool:
        return self.length is not None and len(self.content) >= self.length


class Connection(gthread.TConn):
    """gunicorn's connection, which notifies the worker on close and keeps data read before its thread began."""

    def __init__(self, worker: Worker, *args: Any) -> None:
        super().__init__(*args)
        self.worker = worker
        self.counted_as: str | None = None  # the address or token for the limit; None without limit
        self.token: str | None = None
        self.unparsed = b""
        self.is_cut = False  # the rest of its request is not read

    def close(self, graceful: bool = False) -> None:
        if graceful:
            self.worker.linger(self)  # gunicorn itself would wait here for the sender, in the event loop
        else:
            self.worker.forget(self)
            super().close()


class Worker(gthread.ThreadWorker):
    """gunicorn calls `enqueue_req` and `murder_pending` in the main thread, `handle` and `handle_request` in a pool
    thread."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._incoming: dict[Connection, Incoming] = {}
        self._held_bytes = 0
        self._lingering: dict[Connection, float] = {}
        self._counts: Counter[str] = Counter()
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
        self._count_as(conn, self._address_of(client_address))
        if self._make_room(conn):
            self.enqueue_req(conn)
        else:
            self._close(conn)

    def enqueue_req(self, conn: Any) -> None:
        """Wait for a request without a thread; with TLS only a thread can read."""
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
        if conn.is_cut:
            req.force_close()
        try:
            return super().handle_request(req, conn)
        finally:
            conn.token = getattr(req, "token", None)

    def _keepalive_after(self, conn: Any, keepalive: bool) -> bool:
        """Whether another request may follow; waits briefly for an unread body."""
        return keepalive and bool(conn.parser.finish_body(deadline=time.monotonic() + UNREAD_BODY_S))

    def finish_request(self, conn: Any, fs: Any) -> None:
        counted_as = None if conn.token is None or conn.counted_as is None else f"{TOKEN}{conn.token}"
        if counted_as is not None:
            self._count_as(conn, counted_as)
        super().finish_request(conn, fs)
        if counted_as is not None and self._counts[counted_as] > CONNECTIONS_PER_TOKEN:
            self._close_oldest(counted_as)

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
                self._dispatch(conn, self.tpool, is_cut=True)
        for conn in [conn for conn, until in self._lingering.items() if now >= until]:
            self._close(conn)

    def forget(self, conn: Connection) -> None:
        """Remove a closing connection from the counters."""
        self._stop_waiting(conn)
        if self._lingering.pop(conn, None) is not None:
            self._unregister(conn)
        self._count_as(conn, None)

    def linger(self, conn: Connection) -> None:
        """Close after the sender has, or after `LINGER_S`: a reset for unread data would destroy the answer."""
        self.nr_conns += 1  # gunicorn has taken it for closed
        try:
            conn.sock.shutdown(socket.SHUT_WR)
            conn.sock.setblocking(False)
            self.poller.register(conn.sock, selectors.EVENT_READ, partial(self._discard, conn))
            self._lingering[conn] = time.monotonic() + LINGER_S
        except (OSError, KeyError, ValueError):
            self._close(conn)

    def _discard(self, conn: Connection, _: Any) -> None:
        if conn not in self._lingering:
            return  # closed to make room, by an event that came with this one
        try:
            is_ended = not conn.sock.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            is_ended = True
        if is_ended:
            self._close(conn)

    def _count_as(self, conn: Connection, counted_as: str | None) -> None:
        """Count a connection towards the limit of an address or token only."""
        if conn.counted_as is not None:
            self._counts[conn.counted_as] -= 1
            if self._counts[conn.counted_as] <= 0:
                del self._counts[conn.counted_as]
        if counted_as is not None:
            self._counts[counted_as] += 1
        conn.counted_as = counted_as

    def _read(self, conn: Connection, _: Any) -> None:
        """Read available data, when the socket is readable and once before."""
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
        """Append data; dispatch complete requests, ask permission before large bodies."""
        seen = max(0, len(incoming.content) - 3)
        incoming.content += piece
        self._held_bytes += len(piece)
        if incoming.length is None:
            if is_hopeless(incoming.content, seen):
                self._dispatch(conn, self.tpool, is_cut=True)
                return
            head_end = end_of_headers(incoming.content, seen)
            if head_end is not None and not self._begin_body(conn, incoming, head_end):
                return
        if incoming.is_whole():
            self._dispatch(conn, self.tpool)
        else:
            self._wait_for_more(conn, incoming)
            self._hold_less()

    def _begin_body(self, conn: Connection, incoming: Incoming, head_end: int) -> bool:
        head = bytes(incoming.content[:head_end])
        # Sent from here, since gunicorn would invite a body that is then refused.
        bare_head = EXPECTS_CONTINUE.sub(b"", head)
        incoming.expects_continue = bare_head != head and b" HTTP/1.1\r\n" in head
        incoming.content[:head_end] = bare_head
        self._held_bytes -= len(head) - len(bare_head)
        length = length_of(bare_head)
        if length is None or length - len(bare_head) > FORM_BYTES:
            self._stop_waiting(conn)
            asked = self.tpool.submit(self._is_welcome, conn, bare_head)
            asked.add_done_callback(lambda _: self.method_queue.defer(self._admit, conn, incoming, length, asked))
            return False
        self._read_body(conn, incoming, length)
        return True

    def _is_welcome(self, conn: Connection, head: bytes) -> bool:
        """Whether the announced body is read at all. Called in a thread."""
        from monitor.web.bodies import limits  # Django is set up by now

        try:
            req = next(http.get_parser(self.cfg, iter([head]), conn.client))
        except (ParseException, NoMoreData, StopIteration):
            return False  # the parser refuses it again, with an answer
        return limits.is_welcome(wsgi.create(req, conn.sock, conn.client, conn.server, self.cfg)[1])

    def _admit(self, conn: Connection, incoming: Incoming, length: int | None, asked: futures.Future[bool]) -> None:
        """Read a body that is welcome; else let the application answer the headers."""
        incoming.is_registered = False
        self._incoming[conn] = incoming
        self._held_bytes += len(incoming.content)
        if asked.exception() is not None or not asked.result():
            self._dispatch(conn, self.tpool, is_cut=True)
            return
        self._read_body(conn, incoming, length or 0)
        if length is None:
            self._dispatch(conn, self._unheld_pool)
        else:
            self._take(conn, incoming, b"")

    def _read_body(self, conn: Connection, incoming: Incoming, length: int) -> None:
        incoming.length = length
        incoming.read_until = time.monotonic() + BODY_S
        if incoming.expects_continue:
            with contextlib.suppress(OSError):
                conn.sock.send(CONTINUE)

    def _wait_for_more(self, conn: Connection, incoming: Incoming) -> None:
        if not incoming.is_registered:
            incoming.is_registered = True
            self.poller.register(conn.sock, selectors.EVENT_READ, partial(self._read, conn))

    def _stop_waiting(self, conn: Connection) -> Incoming | None:
        incoming = self._incoming.pop(conn, None)
        if incoming is not None:
            self._held_bytes -= len(incoming.content)
            if incoming.is_registered:
                self._unregister(conn)
        return incoming

    def _unregister(self, conn: Connection) -> None:
        with contextlib.suppress(OSError, KeyError, ValueError):
            self.poller.unregister(conn.sock)

    def _dispatch(self, conn: Connection, pool: futures.ThreadPoolExecutor, *, is_cut: bool = False) -> None:
        # Dispatch a request; if cut, the connection closes after the answer.
        incoming = self._stop_waiting(conn)
        assert incoming is not None
        conn.is_cut = is_cut
        if is_cut:
            conn.parser = http.get_parser(self.cfg, iter(()), conn.client)
        conn.unparsed = bytes(incoming.content)
        conn.data_ready = True
        done = pool.submit(self.handle, conn)
        done.add_done_callback(lambda future: self.method_queue.defer(self.finish_request, conn, future))

    def _make_room(self, conn: Connection) -> bool:
        """Close the longest waiting connection above the limit; false if none waits."""
        if conn.counted_as is not None and self._counts[conn.counted_as] > CONNECTIONS_PER_ADDRESS:
            return self._close_oldest(conn.counted_as)
        if self.nr_conns >= self.worker_connections:
            return self._close_oldest()
        return True

    def _close_oldest(self, counted_as: str | None = None) -> bool:
        for conn in (*self._lingering, *self._incoming, *self.keepalived_conns):
            if counted_as is None or conn.counted_as == counted_as:
                if conn in self.keepalived_conns:
                    self.keepalived_conns.remove(conn)
                    self._unregister(conn)
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
        # IPv4 or IPv6 /64; None for Unix sockets and trusted proxies.
        if not isinstance(client, tuple) or "*" in self.cfg.forwarded_allow_ips:
            return None
        address = ipaddress.ip_address(client[0].partition("%")[0])
        address = getattr(address, "ipv4_mapped", None) or address
        if any(address in network for network in self.cfg.forwarded_allow_networks()):
            return None
        return str(address if address.version == 4 else ipaddress.ip_network((address, 64), strict=False))


def _shut(conn: Any) -> None:
    # Shut down receiving: the reader sees end of file and can respond.
    # Not the shutdown of a TLS socket, which would end the encryption of the answer too.
    with contextlib.suppress(OSError):
        socket.socket.shutdown(conn.sock, socket.SHUT_RD)
