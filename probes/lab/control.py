"""The lab's control protocol: a JSON line each way over a socket in the run folder, and a state file."""

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

from probes.commands.ending import permission_text
from probes.commands.own_command import probes_command
from probes.data_folder import default_data
from probes.lab.emulated_path import PathCounters
from probes.lab.routing.protocol import RouteRequest, RouterStatus, RouteStatus
from probes.lab.settings import LabError, PathSettings

CONTROL_SOCKET = "control.sock"
STATE_FILE = "lab.json"
LOCK_FILE = "lab.lock"
# Run folder of the lab of `manage.py up --lab`, in its data folder.
STACK_FOLDER = "lab"
LONGEST_SOCKET_PATH_BYTES = 107
LONGEST_REQUEST_BYTES = 65_536
REPLY_TIMEOUT_S = 10.0
# `select` is limited to 1,024 descriptors; reaching that limit would end the lab.
MOST_DESCRIPTORS = 1000

PEER_CREDENTIALS = "3i"


class StatusRequest(msgspec.Struct, frozen=True, tag="status", tag_field="do", forbid_unknown_fields=True):
    """Get the lab's status."""


class SetRequest(msgspec.Struct, frozen=True, kw_only=True, tag="set", tag_field="do", forbid_unknown_fields=True):
    """Change settings of an ordered path or link."""

    source: str
    destination: str
    changes: dict[str, float | int | None]  # names and values of `PathSettings`
    is_link: bool = False


class CentreRequest(
    msgspec.Struct, frozen=True, kw_only=True, tag="centre", tag_field="do", forbid_unknown_fields=True
):
    """Connect all sites to the centre, or disconnect them."""

    up: bool


class ResetCountersRequest(
    msgspec.Struct, frozen=True, tag="reset-counters", tag_field="do", forbid_unknown_fields=True
):
    """Reset all counters to zero."""


class DownRequest(msgspec.Struct, frozen=True, tag="down", tag_field="do", forbid_unknown_fields=True):
    """End the lab."""


Request = StatusRequest | SetRequest | RouteRequest | CentreRequest | ResetCountersRequest | DownRequest


class SiteState(msgspec.Struct, frozen=True, kw_only=True):
    """A site, its namespace entered by /proc/PID/fd/`net_fd`."""

    title: str
    addresses: tuple[str, ...]
    net_fd: int


class LabState(msgspec.Struct, frozen=True, kw_only=True):
    """Contents of the state file of a running lab."""

    pid: int
    scenario: str
    title: str
    seed: int
    started_at: datetime
    user_fd: int | None  # None as root, without a user namespace
    scheduling: str
    control_socket: str
    centre_port: int | None
    sites: dict[str, SiteState]

    @property
    def centre_url(self) -> str:
        has_ipv4 = any(":" not in address for site in self.sites.values() for address in site.addresses)
        return f"http://{'127.0.0.1' if has_ipv4 else '[::1]'}:{self.centre_port}"


class PathStatus(msgspec.Struct, frozen=True, kw_only=True):
    """An ordered path, or a link in a single direction."""

    source: str
    destination: str
    settings: PathSettings
    counts: PathCounters
    held: int  # packets in transit
    original: PathSettings | None = None  # the scenario's settings
    changed_at: datetime | None = None  # last change; None while as in the scenario

    def joins(self, pair: tuple[str, str]) -> bool:
        return {self.source, self.destination} == set(pair)


class SiteStatus(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    addresses: tuple[str, ...]
    unroutable: int  # packets without a route in the lab
    overrun: int  # dropped by the kernel: the relay was too slow


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """Timing accuracy of the relay since its start."""

    late_over_1ms: int
    latest_ms: float  # maximum lateness
    late_s: float  # total lateness
    cpu_s: float  # CPU time
    waited_s: float | None  # runnable, not scheduled; None if unknown


class LabStatus(msgspec.Struct, frozen=True, kw_only=True):
    lab: LabState
    uptime_s: float
    centre: Literal["up", "down"] | None  # None without a connection
    cut_off_at: datetime | None = None
    timing: Timing
    sites: tuple[SiteStatus, ...]
    paths: tuple[PathStatus, ...]
    links: tuple[PathStatus, ...] = ()
    routes: tuple[RouteStatus, ...] = ()  # empty without routers
    routers: tuple[RouterStatus, ...] = ()

    @property
    def link_names(self) -> list[tuple[str, str]]:
        return [(link.source, link.destination) for link in self.links]


class Reply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The reply to a request: `error` is None on success."""

    error: str | None = None
    status: LabStatus | None = None


class EventLoop(Protocol):
    """An event loop with callbacks for readable and writable descriptors (`probes.lab.relay.Relay`)."""

    readers: dict[int, Callable[[], None]]
    writers: dict[int, Callable[[], None]]


class ControlServer:
    """The control socket in the lab's process. Never blocks; driven by `event_loop`."""

    def __init__(self, path: Path, event_loop: EventLoop, answer: Callable[[Request], Reply]) -> None:
        self._path = path
        self._event_loop = event_loop
        self._answer = answer
        path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen(16)
        self._listener.setblocking(False)
        event_loop.readers[self._listener.fileno()] = self._accept

    def close(self) -> None:
        del self._event_loop.readers[self._listener.fileno()]
        self._listener.close()
        self._path.unlink(missing_ok=True)

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        if connection.fileno() >= MOST_DESCRIPTORS:
            connection.close()
            return
        connection.setblocking(False)
        _Connection(connection, self._event_loop, self._answer)


class _Connection:
    """A client connection: a request line, a reply line."""

    def __init__(self, connection: socket.socket, event_loop: EventLoop, answer: Callable[[Request], Reply]) -> None:
        self._connection = connection
        self._event_loop = event_loop
        self._answer = answer
        self._request = b""
        self._reply = b""
        event_loop.readers[connection.fileno()] = self._read

    def _read(self) -> None:
        try:
            part = self._connection.recv(LONGEST_REQUEST_BYTES)
        except BlockingIOError:
            return
        except ConnectionError:
            part = b""
        self._request += part
        if b"\n" in self._request:
            self._event_loop.readers.pop(self._connection.fileno())
            self._reply = msgspec.json.encode(self._reply_to(self._request)) + b"\n"
            self._event_loop.writers[self._connection.fileno()] = self._write
            self._write()
        elif not part or len(self._request) > LONGEST_REQUEST_BYTES:
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
        self._event_loop.readers.pop(self._connection.fileno(), None)
        self._event_loop.writers.pop(self._connection.fileno(), None)
        self._connection.close()


def default_run_dir() -> Path:
    base = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    return Path(base) / f"soundings-lab-{os.getuid()}"


def find_run_dir(data: Path | None = None) -> Path:
    """The run folder of a running lab: the default's, `data`'s, the usual data folder's, else the default."""
    own = (data or Path(os.environ.get("SOUNDINGS_DATA") or default_data())) / STACK_FOLDER
    default = default_run_dir()
    return next((folder for folder in (default, own) if _has_state(folder)), default)


def _has_state(run_dir: Path) -> bool:
    try:
        return (run_dir / STATE_FILE).exists()
    except OSError:
        return False


def make_run_dir(run_dir: Path) -> None:
    """Create a private run folder. Raises `LabError` if another user's or too long."""
    try:
        run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = run_dir.stat(follow_symlinks=False)
    except OSError as error:
        reason = permission_text(error) if isinstance(error, PermissionError) else error.strerror
        raise LabError(f"run folder {run_dir}: {reason}; give another path with --run-dir") from error
    if status.st_uid != os.geteuid() or not run_dir.is_dir():
        raise LabError(f"run folder {run_dir} belongs to another user; give another path with --run-dir")
    length_bytes = len(os.fsencode(run_dir / CONTROL_SOCKET))
    if length_bytes > LONGEST_SOCKET_PATH_BYTES:
        raise LabError(
            f"run folder {run_dir}: its socket path has {length_bytes} bytes, "
            f"the maximum is {LONGEST_SOCKET_PATH_BYTES}; give a shorter path with --run-dir"
        )


def write_state(run_dir: Path, state: LabState) -> None:
    fresh = run_dir / f"{STATE_FILE}.new"
    fresh.write_bytes(msgspec.json.encode(state))
    fresh.replace(run_dir / STATE_FILE)


def read_state(run_dir: Path) -> LabState:
    """Read the state of the lab running in `run_dir`. Raises `LabError` if none is running."""
    try:
        state = msgspec.json.decode((run_dir / STATE_FILE).read_bytes(), type=LabState)
    except FileNotFoundError:
        raise _no_lab(run_dir) from None
    except PermissionError as error:
        raise LabError(permission_text(error)) from error
    except (OSError, msgspec.DecodeError) as error:
        raise LabError(f"{run_dir / STATE_FILE}: {error}; stop that lab and start it again") from error
    with _connect(run_dir) as connection:
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize(PEER_CREDENTIALS))
    if struct.unpack(PEER_CREDENTIALS, credentials)[0] != state.pid:
        raise LabError(f"{run_dir / STATE_FILE} does not belong to the lab running there; restart the lab")
    return state


def ask(run_dir: Path, request: Request) -> Reply:
    """Send `request` to the lab. Raises `LabError` without a lab, or with the reply's error."""
    try:
        with _connect(run_dir) as connection, connection.makefile("rwb") as lines:
            lines.write(msgspec.json.encode(request) + b"\n")
            lines.flush()
            line = lines.readline()
    except TimeoutError as error:
        raise LabError(f"the lab in {run_dir} did not reply within {REPLY_TIMEOUT_S:.0f} s") from error
    except ConnectionError as error:
        raise LabError(f"the lab in {run_dir} ended during the request") from error
    if not line:
        raise LabError(f"the lab in {run_dir} ended during the request")
    reply = msgspec.json.decode(line, type=Reply)
    if reply.error is not None:
        raise LabError(reply.error)
    return reply


def ask_status(run_dir: Path) -> LabStatus:
    """The status of the lab of `run_dir`. Raises `LabError`."""
    status = ask(run_dir, StatusRequest()).status
    if status is None:
        raise LabError(f"the lab in {run_dir} is of another version and sent no status; restart it")
    return status


def signal_when_lab_ends(run_dir: Path, number: int) -> None:
    """Have the kernel send signal `number` to this process when the lab ends, even after exec."""
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
    except PermissionError as error:
        connection.close()
        error.filename = str(run_dir / CONTROL_SOCKET)
        raise LabError(permission_text(error)) from error
    except OSError as error:
        connection.close()
        raise LabError(f"{run_dir / CONTROL_SOCKET}: {error.strerror or error}") from error
    return connection


def _no_lab(run_dir: Path) -> LabError:
    return LabError(
        f"no lab is running in {run_dir}: start a lab with `{probes_command()} lab up`, or give its --run-dir"
    )
