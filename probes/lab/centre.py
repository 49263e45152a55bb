"""Forward TCP from the sites' namespaces to the centre's Unix socket, in a separate process to spare the relay."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import signal
import socket
import time
from collections.abc import Sequence
from contextlib import suppress

UP, DOWN = b"u", b"d"
CHUNK_BYTES = 65_536
RESTART_PAUSE_S = 1.0


class CentreForwarder:
    """Handle of the forwarding process. `channel_fd` becomes readable when the process has ended."""

    def __init__(self, listeners: Sequence[socket.socket], centre_socket: str) -> None:
        self._listeners = tuple(listeners)
        self._centre_socket = centre_socket
        self.up = True
        self._start(pause_s=0.0)

    @property
    def channel_fd(self) -> int:
        return self._channel.fileno()

    def set_up(self, up: bool) -> None:
        self.up = up
        # If the process has just ended, its successor gets the state at start.
        with suppress(BrokenPipeError):
            self._channel.send(UP if up else DOWN)

    def restart(self) -> None:
        self.stop()
        self._start(pause_s=RESTART_PAUSE_S)

    def stop(self) -> None:
        self._channel.close()
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)

    def _start(self, pause_s: float) -> None:
        self._channel, far_end = socket.socketpair()
        self._pid = os.fork()
        if self._pid == 0:
            _forward_until_the_end(self._listeners, self._centre_socket, far_end, pause_s)
        far_end.close()
        self.set_up(self.up)


def _forward_until_the_end(
    listeners: Sequence[socket.socket], centre_socket: str, channel: socket.socket, pause_s: float
) -> None:
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _close_all_but(channel.fileno(), *(listener.fileno() for listener in listeners))
        time.sleep(pause_s)
        asyncio.run(_Forwarding(centre_socket).run(listeners, channel))
        status = 0
    except Exception:
        logging.getLogger(__name__).exception("forwarding to the centre failed; restarting")
    finally:
        os._exit(status)


def _close_all_but(*open_fds: int) -> None:
    # Close inherited descriptors, which would keep namespaces and devices alive.
    edges = [2, *sorted(open_fds), os.sysconf("SC_OPEN_MAX")]
    for before, after in itertools.pairwise(edges):
        # closerange() would take an empty range as all descriptors.
        if after > before + 1:
            os.closerange(before + 1, after)


class _Forwarding:
    def __init__(self, centre_socket: str) -> None:
        self._centre_socket = centre_socket
        self._up = False
        self._open: set[asyncio.StreamWriter] = set()

    async def run(self, listeners: Sequence[socket.socket], channel: socket.socket) -> None:
        orders, writer = await asyncio.open_connection(sock=channel)
        servers = [await asyncio.start_server(self._connect, sock=listener) for listener in listeners]
        while order := await orders.read(1):
            self._up = order == UP
            if not self._up:
                self._cut()
        for server in servers:
            server.close()
        self._cut()
        writer.close()

    def _cut(self) -> None:
        for writer in self._open:
            writer.transport.abort()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._up:
            writer.transport.abort()
            return
        try:
            centre_reader, centre_writer = await asyncio.open_unix_connection(self._centre_socket)
        except OSError:
            # The centre is not running. The site sees its connection closed and retries later.
            writer.transport.abort()
            return
        pair = {writer, centre_writer}
        self._open |= pair
        try:
            await asyncio.gather(_copy(reader, centre_writer), _copy(centre_reader, writer))
        finally:
            self._open -= pair
            for end in pair:
                end.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until end of file; a broken connection ends both directions."""
    with suppress(ConnectionError):
        while chunk := await reader.read(CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
    if writer.can_write_eof() and not writer.transport.is_closing():
        writer.write_eof()
