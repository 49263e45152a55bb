"""Receivers of notifications in tests: an HTTP server and a mail server on loopback that accept, refuse or hang."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from aiosmtpd.controller import Controller


@dataclass
class ReceivedMessages:
    """The messages a server got, and its answer: a status, or with `drips` an endless answer."""

    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    mails: list[EmailMessage] = field(default_factory=list)
    status: int = 200
    refusal: str = ""
    drips: bool = False
    port: int = 0
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def ids(self) -> list[str]:
        return [body["id"] for body in self.bodies]


@contextmanager
def http_server() -> Iterator[ReceivedMessages]:
    """A server for webhooks."""
    taken = ReceivedMessages()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            taken.bodies.append(json.loads(body))
            taken.headers.append({**self.headers, ":path": self.path})
            self.send_response(taken.status)
            self.send_header("Location", "/elsewhere")
            if taken.drips:
                self._drip()
                return
            self.send_header("Content-Length", "0")
            self.end_headers()

        def _drip(self) -> None:
            """Send a header now and then, so that no read timeout ever ends it."""
            self.flush_headers()
            try:
                while not taken.over.wait(0.2):
                    self.wfile.write(b"X-Slow: 1\r\n")
                    self.wfile.flush()
            except OSError:
                return

        def log_message(self, *args: Any) -> None:
            """Write no access log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.block_on_close = False
    taken.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield taken
    finally:
        taken.over.set()
        server.shutdown()
        server.server_close()
        thread.join(timeout=30)


@contextmanager
def mail_server() -> Iterator[ReceivedMessages]:
    """A server for mails; with a `refusal` it answers the content with that."""
    taken = ReceivedMessages()

    class Handler:
        async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802 - aiosmtpd's name
            if taken.refusal:
                return taken.refusal
            taken.mails.append(message_from_bytes(envelope.content, policy=policy.default))
            return "250 OK"

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        taken.port = probe.getsockname()[1]
    controller = Controller(Handler(), hostname="127.0.0.1", port=taken.port)
    controller.start()
    try:
        yield taken
    finally:
        controller.stop()
