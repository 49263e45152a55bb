"""The centre's own web server as deployed, on the database of the test that starts it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.db import connection
from psycopg.conninfo import make_conninfo

from tests.e2e.stack import TOP, wait_for

GUNICORN = [sys.executable, "-m", "gunicorn", "--config", "python:monitor.stack.serving"]


def database_url() -> str:
    """The address of the test's own database."""
    settings = connection.settings_dict
    return make_conninfo(
        dbname=settings["NAME"],
        user=settings["USER"],
        password=settings["PASSWORD"],
        host=settings["HOST"],
        port=str(settings["PORT"]),
        passfile=settings["OPTIONS"].get("passfile"),
    )


@contextmanager
def web_server(folder: Path, *options: str | Path, **variables: str) -> Iterator[int]:
    """The web server, with additional options and environment variables. Yields its port."""
    port = free_port()
    with (folder / "web.log").open("ab") as log:
        process = subprocess.Popen(
            [*GUNICORN, "--bind", f"127.0.0.1:{port}", *map(str, options)],
            cwd=TOP,
            env={**os.environ, "SOUNDINGS_DATABASE_URL": database_url(), **variables},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_for(lambda: answers(port) or process.poll() is not None, 120, "the centre answers")
        assert process.poll() is None, (folder / "web.log").read_text()
        yield port
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def answers(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def listening(port: int) -> set[int]:
    """Process ids that listen at this port: the web server and its workers."""
    inodes = {
        line.split()[9]
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]
        if line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A"
    }
    processes = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            names = {str(link.readlink()) for link in (process / "fd").iterdir()}
        except OSError:
            continue
        if any(f"socket:[{inode}]" in names for inode in inodes):
            processes.add(int(process.name))
    return processes


def largest_bytes(port: int) -> int:
    """The maximum memory of any of them so far, by the kernel's count."""
    memory_kb = []
    for process in listening(port):
        status = Path(f"/proc/{process}/status").read_text().splitlines()
        (line,) = [line for line in status if line.startswith("VmHWM")]
        memory_kb.append(int(line.split()[1]) * 1024)
    return max(memory_kb)


def make_certificate(folder: Path, name: str, *, days: str = "-days 2") -> tuple[Path, Path]:
    """A self-signed key pair for an address or a name. Returns the certificate's and the key's file."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    request = f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes {days} -subj /CN=centre"
    words = [*request.split(), "-addext", f"subjectAltName={name}", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(words, check=True, capture_output=True)
    return certificate, key
