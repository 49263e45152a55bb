"""The web server's worker: gunicorn's threads, but nobody holds one by sending slowly.

A request must be there whole in time, first its headers, then its body. When the time is over, the reading half of its
connection is shut: who reads then finds the end of what was sent, and can still answer. In front of the centre a proxy
that buffers requests keeps slow ones away altogether.
"""

from __future__ import annotations

import contextlib
import socket
import time
from typing import Any

from gunicorn.workers.gthread import ThreadWorker

HEADERS_S = 10.0
BODY_S = 30.0


class Worker(ThreadWorker):
    """gunicorn calls `handle` in a thread of its pool, `handle_request` there once the headers are read, and
    `murder_pending` every second in the main thread."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._read_until: dict[Any, float] = {}

    def handle(self, conn: Any) -> Any:
        self._read_until[conn] = time.monotonic() + HEADERS_S
        try:
            return super().handle(conn)
        finally:
            self._read_until.pop(conn, None)

    def handle_request(self, req: Any, conn: Any) -> Any:
        self._read_until[conn] = time.monotonic() + BODY_S
        return super().handle_request(req, conn)

    def murder_pending(self) -> None:
        super().murder_pending()
        now = time.monotonic()
        for conn, until in list(self._read_until.items()):
            if now >= until and self._read_until.pop(conn, None) is not None:
                # Not the shutdown of a TLS socket, which would end the encryption of the answer too.
                with contextlib.suppress(OSError):
                    socket.socket.shutdown(conn.sock, socket.SHUT_RD)
