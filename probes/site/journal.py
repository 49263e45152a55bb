"""Running tests and last problem of an agent, in the state file for `probes.site.status`; never read back."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

import probes
from probes.site.health import Health

MAX_MESSAGE_CHARACTERS = 500


class RunningCycle(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    since: datetime


class DatedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A warning or error of the agent's log, or the centre's reason for rejection."""

    at: datetime
    message: str


class WorkerState(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the state file."""

    written_at: datetime
    started_at: datetime
    agent_version: str
    centre: str
    running: tuple[RunningCycle, ...] = ()
    last_accepted_at: datetime | None = None
    last_trouble: DatedMessage | None = None
    refusal: DatedMessage | None = None
    health: Health | None = None


def utc_now() -> datetime:
    return datetime.now(UTC)


class LastProblemHandler(logging.Handler):
    """Remembers the newest warning or error, and counts tracebacks as bugs."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.trouble: DatedMessage | None = None
        self.bugs = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.bugs += record.exc_info is not None
        at = datetime.fromtimestamp(record.created, UTC)
        self.trouble = DatedMessage(at=at, message=record.getMessage()[:MAX_MESSAGE_CHARACTERS])


class Journal:
    """Any thread may write; `centre` returns the URL in use."""

    def __init__(self, centre: Callable[[], str], *, now: Callable[[], datetime] = utc_now) -> None:
        self.handler = LastProblemHandler()
        self._centre = centre
        self._now = now
        self._started_at = now()
        self._lock = threading.Lock()
        self._running: dict[object, RunningCycle] = {}

    @contextlib.contextmanager
    def running(self, name: str) -> Iterator[None]:
        key = object()
        with self._lock:
            self._running[key] = RunningCycle(name=name, since=self._now())
        try:
            yield
        finally:
            with self._lock:
                del self._running[key]

    def state(
        self, health: Health, last_accepted_at: datetime | None, refusal: DatedMessage | None = None
    ) -> WorkerState:
        with self._lock:
            running = tuple(self._running.values())
        return WorkerState(
            written_at=self._now(),
            started_at=self._started_at,
            agent_version=probes.__version__,
            centre=self._centre(),
            running=running,
            last_accepted_at=last_accepted_at,
            last_trouble=self.handler.trouble,
            refusal=refusal,
            health=health,
        )


def write_state(path: Path, state: WorkerState) -> None:
    """Replace the file as a whole, without sync."""
    beside = path.with_suffix(".new")
    beside.write_bytes(msgspec.json.encode(state))
    beside.replace(path)


def read_state(path: Path) -> WorkerState | None:
    """The newest state; None if unreadable."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=WorkerState)
    except (OSError, msgspec.DecodeError):
        return None
