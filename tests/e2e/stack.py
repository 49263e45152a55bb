"""The real stack: `manage.py up` in its own folder and on its own port, as a user would start it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from monitor.stack.postgres import local_url
from probes.private_files import opener
from tests.postgres import given_database_url

TOP = Path(__file__).resolve().parents[2]
MARK = "SOUNDINGS_TEST_RUN"
T = TypeVar("T")


def wait_for(question: Callable[[], T], timeout_s: float, description: str) -> T:
    """Poll `question` until its answer is true; fail with the description and the last answer at the timeout.

    At first four times a second. What takes ten seconds may take eleven: each question to a stack costs its web server
    tens of milliseconds.
    """
    began = time.monotonic()
    while True:
        answer = question()
        if answer:
            return answer
        waited_s = time.monotonic() - began
        assert waited_s < timeout_s, f"{description}: not within {timeout_s} s; last answer {answer!r}"
        time.sleep(min(max(0.25, waited_s / 10), 1.0))


class RunningStack:
    """A running stack in its own folder."""

    def __init__(self, *arguments: str, prefix: Sequence[str] = (), installed: Path | None = None) -> None:
        self.manage_program = [sys.executable, "manage.py"] if installed is None else [str(installed / "soundings")]
        self.probes_program = [sys.executable, "-m", "probes"]
        if installed is not None:
            self.probes_program = [str(installed / "soundings-agent")]
        self.folder = TOP if installed is None else Path("/")
        self.data = Path(tempfile.mkdtemp(prefix="soundings-up-"))
        self.data.chmod(0o755)  # with default permissions; the stack must close it
        self.port = _free_port()
        self.mark = uuid.uuid4().hex
        self.arguments = arguments
        self.prefix = prefix
        self.process: subprocess.Popen[bytes] | None = None
        self.measuring_since: datetime | None = None

    @property
    def output(self) -> str:
        path = self.data / "up.out"
        return path.read_text() if path.exists() else ""

    def start(self) -> None:
        """Start it and wait until it prints the page's address."""
        environment = {**os.environ, MARK: self.mark}
        environment.pop("SOUNDINGS_DATA", None)
        if given_database_url is None:
            environment.pop("SOUNDINGS_DATABASE_URL", None)
        command = [*self.manage_program, "up", "--data", str(self.data), "--port", str(self.port)]
        with open(self.data / "up.out", "wb", opener=opener) as output:
            self.process = subprocess.Popen(
                [*self.prefix, *command, *self.arguments],
                cwd=self.folder,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        wait_for(lambda: "web interface:" in self.output or self.process.poll() is not None, 240, "the page is up")
        assert self.process.poll() is None, self.output + self.logs()

    def stop(self) -> None:
        """Ctrl-C, as a user would."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGINT)
        self.process.wait(timeout=90)

    def get(self, path: str) -> Any:
        """The JSON answer of the users' API."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/{path}", timeout=30) as answer:
            return json.load(answer)

    def lab(self, verb: str, *arguments: str) -> str:
        command = [*self.probes_program, "lab", verb, "--run-dir", str(self.data / "lab"), *arguments]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def manage(self, *arguments: str, typed: str | None = None) -> str:
        """Run a management command with this stack's database, with `typed` as its standard input."""
        environment = {**os.environ, "SOUNDINGS_DATABASE_URL": self.database_url, "SOUNDINGS_DATA": str(self.data)}
        done = subprocess.run(
            [*self.manage_program, *arguments],
            cwd=self.folder,
            env=environment,
            input=typed,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    @property
    def database_url(self) -> str:
        if given_database_url is not None:
            return given_database_url
        return local_url(self.data / "postgres")

    def spool_file(self, site: str) -> Path:
        return self.data / "sites" / site / "spool.sqlite3"

    def spool(self, site: str) -> sqlite3.Connection:
        """The spool of a site's agent, read only."""
        return sqlite3.connect(f"file:{self.spool_file(site)}?mode=ro", uri=True, timeout=10)

    def processes(self, *words: str) -> list[int]:
        """Process ids of this stack whose command line has all of `words`.

        They are identified by the mark in their environment; Redis overwrites that with its title, which contains our
        folder.
        """
        values = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                environment = (folder / "environ").read_bytes().split(b"\0")
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            ours = f"{MARK}={self.mark}".encode() in environment or f"{self.data}/" in command
            if ours and command and all(word in command for word in words):
                values.append(int(folder.name))
        return values

    def logs(self) -> str:
        """The ends of all logs, for a failure message."""
        tails = []
        for path in sorted(self.data.glob("**/log/*.log")):
            tails.append(f"--- {path.relative_to(self.data)}\n" + "\n".join(path.read_text().splitlines()[-15:]))
        return "\n".join(tails)


@contextmanager
def running_stack(*arguments: str, prefix: Sequence[str] = (), installed: Path | None = None) -> Iterator[RunningStack]:
    """A running stack, which is stopped and removed in any case. `prefix` precedes the command; `installed` is the
    folder of the programs of an installation, in place of this clone's."""
    stack = RunningStack(*arguments, prefix=prefix, installed=installed)
    try:
        stack.start()
        yield stack
    except BaseException:
        print(stack.output, stack.logs())
        raise
    finally:
        stack.stop()
        for pid in stack.processes():
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(stack.data, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
