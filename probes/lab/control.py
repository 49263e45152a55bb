"""How the lab's process is spoken to: one line of JSON each way over a socket in the run folder, and a state file.

In: requests as typed structs (`status`, `set`, `centre`, `reset-counters`, `down`). Out: a `Reply` with an error for
people or the lab's `Status`. `ControlServer` is the end in the lab's process, `ask` the other. What a request does is
in `probes.lab.process`.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import tempfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from probes.lab.emulated_path import Counts
from probes.lab.scenario import LabError, PathSettings

CONTROL_SOCKET = "control.sock"
STATE_FILE = "lab.json"
LOCK_FILE = "lab.lock"
LONGEST_SOCKET_PATH_BYTES = 107
LONGEST_REQUEST_BYTES = 65_536
REPLY_TIMEOUT_S = 10.0
MOST_DESCRIPTORS = 1000
"""`select` cannot watch more than 1,024, and to open so many is an error that would end the lab."""

PEER_CREDENTIALS = "3i"


class StatusRequest(msgspec.Struct, frozen=True, tag="status", tag_field="do", forbid_unknown_fields=True):
    """What is the lab doing?"""


class SetRequest(msgspec.Struct, frozen=True, kw_only=True, tag="set", tag_field="do", forbid_unknown_fields=True):
    """Change settings of one ordered path: names and values of `PathSettings`."""

    source: str
    destination: str
    changes: dict[str, float | int | None]


class CentreRequest(
    msgspec.Struct, frozen=True, kw_only=True, tag="centre", tag_field="do", forbid_unknown_fields=True
):
    """Cut all sites off the centre, or connect them again."""

    up: bool


class ResetCountersRequest(
    msgspec.Struct, frozen=True, tag="reset-counters", tag_field="do", forbid_unknown_fields=True
):
    """Count from zero."""


class DownRequest(msgspec.Struct, frozen=True, tag="down", tag_field="do", forbid_unknown_fields=True):
    """End the lab."""


Request = StatusRequest | SetRequest | CentreRequest | ResetCountersRequest | DownRequest


class SiteState(msgspec.Struct, frozen=True, kw_only=True):
    """A site as others need it to enter: its namespace is /proc/PID/fd/`net_fd`."""

    title: str
    addresses: tuple[str, ...]
    net_fd: int


class LabState(msgspec.Struct, frozen=True, kw_only=True):
    """What the state file says: a lab that runs. `user_fd` is None where it has root and needs no user namespace."""

    pid: int
    scenario: str
    title: str
    seed: int
    started_at: datetime
    user_fd: int | None
    scheduling: str
    control_socket: str
    centre_port: int | None
    sites: dict[str, SiteState]


class PathStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One ordered path: its settings, what it did, and how many packets are under way on it."""

    source: str
    destination: str
    settings: PathSettings
    counts: Counts
    held: int


class SiteStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A site: packets to nowhere in the lab, and packets that the kernel dropped because the relay was too slow."""

    name: str
    addresses: tuple[str, ...]
    unroutable: int
    overrun: int


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """How well the relay keeps time: packets that left over 1 ms after their time, the worst of them, and by how much
    all packets together were late.

    `cpu_s` is the time that it ran, `waited_s` the time that it could have and had no processor, both since it began;
    None where the kernel does not tell.
    """

    late_over_1ms: int
    latest_ms: float
    late_s: float
    cpu_s: float
    waited_s: float | None


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known of a running lab. `centre` None: it has no way to a centre."""

    lab: LabState
    uptime_s: float
    centre: Literal["up", "down"] | None
    timing: Timing
    sites: tuple[SiteStatus, ...]
    paths: tuple[PathStatus, ...]


class Reply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to a request: `error` None is done."""

    error: str | None = None
    status: Status | None = None


class Watcher(Protocol):
    """A loop that calls back when a descriptor can be read or written (`probes.lab.relay.Relay`)."""

    readers: dict[int, Callable[[], None]]
    writers: dict[int, Callable[[], None]]


class ControlServer:
    """The control socket in the lab's process. Never blocks: `watcher` calls it when there is something to do."""

    def __init__(self, path: Path, watcher: Watcher, answer: Callable[[Request], Reply]) -> None:
        self._path = path
        self._watcher = watcher
        self._answer = answer
        path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen(16)
        self._listener.setblocking(False)
        watcher.readers[self._listener.fileno()] = self._accept

    def close(self) -> None:
        del self._watcher.readers[self._listener.fileno()]
        self._listener.close()
        self._path.unlink(missing_ok=True)

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        if connection.fileno() >= MOST_DESCRIPTORS:
            connection.close()
            return
        connection.setblocking(False)
        _Conversation(connection, self._watcher, self._answer)


class _Conversation:
    """One connection: a request line in, a reply line out, over."""

    def __init__(self, connection: socket.socket, watcher: Watcher, answer: Callable[[Request], Reply]) -> None:
        self._connection = connection
        self._watcher = watcher
        self._answer = answer
        self._asked = b""
        self._reply = b""
        watcher.readers[connection.fileno()] = self._read

    def _read(self) -> None:
        try:
            part = self._connection.recv(LONGEST_REQUEST_BYTES)
        except BlockingIOError:
            return
        except ConnectionError:
            part = b""
        self._asked += part
        if b"\n" in self._asked:
            self._watcher.readers.pop(self._connection.fileno())
            self._reply = msgspec.json.encode(self._reply_to(self._asked)) + b"\n"
            self._watcher.writers[self._connection.fileno()] = self._write
            self._write()
        elif not part or len(self._asked) > LONGEST_REQUEST_BYTES:
            self._end()

    def _reply_to(self, line: bytes) -> Reply:
        try:
            return self._answer(msgspec.json.decode(line, type=Request))
        except (msgspec.DecodeError, LabError) as error:
            return Reply(error=str(error))

    def _write(self) -> None:
        try:
            sent = self._connection.send(self._reply)
        except BlockingIOError:
            return
        except ConnectionError:
            self._end()
            return
        self._reply = self._reply[sent:]
        if not self._reply:
            self._end()

    def _end(self) -> None:
        self._watcher.readers.pop(self._connection.fileno(), None)
        self._watcher.writers.pop(self._connection.fileno(), None)
        self._connection.close()


def default_run_dir() -> Path:
    """Where this user's lab lives unless told otherwise."""
    base = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    return Path(base) / f"soundings-lab-{os.getuid()}"


def make_run_dir(run_dir: Path) -> None:
    """Make the run folder, for this user only. Raises `LabError` if it is somebody else's, or its path is too long."""
    try:
        run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = run_dir.stat(follow_symlinks=False)
    except OSError as error:
        raise LabError(f"run folder {run_dir}: {error.strerror}; give another with --run-dir") from error
    if found.st_uid != os.geteuid() or not run_dir.is_dir():
        raise LabError(f"run folder {run_dir} belongs to another user; give one of your own with --run-dir")
    length_bytes = len(os.fsencode(run_dir / CONTROL_SOCKET))
    if length_bytes > LONGEST_SOCKET_PATH_BYTES:
        raise LabError(
            f"run folder {run_dir}: the path of its socket would have {length_bytes} bytes, "
            f"{LONGEST_SOCKET_PATH_BYTES} is the most; give a shorter one with --run-dir"
        )


def write_state(run_dir: Path, state: LabState) -> None:
    """Put the state file in place in one step."""
    fresh = run_dir / f"{STATE_FILE}.new"
    fresh.write_bytes(msgspec.json.encode(state))
    fresh.replace(run_dir / STATE_FILE)


def read_state(run_dir: Path) -> LabState:
    """The state of the lab that runs there now. Raises `LabError` where none does."""
    try:
        state = msgspec.json.decode((run_dir / STATE_FILE).read_bytes(), type=LabState)
    except FileNotFoundError:
        raise _no_lab(run_dir) from None
    except (OSError, msgspec.DecodeError) as error:
        raise LabError(f"{run_dir / STATE_FILE}: {error}; end what runs there and start the lab anew") from error
    with _connect(run_dir) as connection:
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize(PEER_CREDENTIALS))
    if struct.unpack(PEER_CREDENTIALS, credentials)[0] != state.pid:
        raise LabError(f"{run_dir / STATE_FILE} is not of the lab that answers there; start the lab anew")
    return state


def ask(run_dir: Path, request: Request) -> Reply:
    """Send `request` to the lab of `run_dir`. Raises `LabError` where none runs, or with the error it replies."""
    try:
        with _connect(run_dir) as connection, connection.makefile("rwb") as lines:
            lines.write(msgspec.json.encode(request) + b"\n")
            lines.flush()
            line = lines.readline()
    except TimeoutError as error:
        raise LabError(f"the lab in {run_dir} gave no answer in {REPLY_TIMEOUT_S:.0f} s") from error
    except ConnectionError as error:
        raise LabError(f"the lab in {run_dir} ended while it was asked") from error
    if not line:
        raise LabError(f"the lab in {run_dir} ended while it was asked")
    reply = msgspec.json.decode(line, type=Reply)
    if reply.error is not None:
        raise LabError(reply.error)
    return reply


def ask_status(run_dir: Path) -> Status:
    """The status of the lab of `run_dir`. Raises `LabError`."""
    status = ask(run_dir, StatusRequest()).status
    if status is None:
        raise LabError(f"the lab in {run_dir} is of another version: it sent no status; start it anew")
    return status


def signal_at_the_end(run_dir: Path, number: int) -> None:
    """Have signal `number` sent to this process when the lab ends, even after it has become another program.

    The kernel does it: a connection that stays open and is silent becomes readable when the other end goes.
    """
    connection_fd = _connect(run_dir).detach()
    os.set_inheritable(connection_fd, True)
    fcntl.fcntl(connection_fd, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(connection_fd, fcntl.F_SETSIG, number)
    fcntl.fcntl(connection_fd, fcntl.F_SETFL, fcntl.fcntl(connection_fd, fcntl.F_GETFL) | os.O_ASYNC)


def _connect(run_dir: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(REPLY_TIMEOUT_S)
    try:
        connection.connect(str(run_dir / CONTROL_SOCKET))
    except (FileNotFoundError, ConnectionRefusedError):
        connection.close()
        raise _no_lab(run_dir) from None
    except OSError as error:
        connection.close()
        raise LabError(f"{run_dir / CONTROL_SOCKET}: {error.strerror or error}") from error
    return connection


def _no_lab(run_dir: Path) -> LabError:
    return LabError(f"no lab runs in {run_dir}: start one with `python -m probes lab up`, or name its --run-dir")
