"""Running tests and last problem of an agent, and the state file that `probes.site.status` reads them from.

The worker writes the file every few seconds; a reader sees the old or the new content. Nothing is read back from it by
the agent. Results and slots are not here: those are in the spool.
"""

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
    """A cycle that is being measured."""

    name: str
    since: datetime


class DatedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A warning or an error of the agent's log, or the reason for which the centre rejects its results."""

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
    """A log handler that remembers the newest warning or error, and counts the bugs: the records with a traceback."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.trouble: DatedMessage | None = None
        self.bugs = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.bugs += record.exc_info is not None
        at = datetime.fromtimestamp(record.created, UTC)
        self.trouble = DatedMessage(at=at, message=record.getMessage()[:MAX_MESSAGE_CHARACTERS])


class Journal:
    """Any thread may write into it. `centre` returns the URL of the centre that is in use."""

    def __init__(self, centre: Callable[[], str], *, now: Callable[[], datetime] = utc_now) -> None:
        self.handler = LastProblemHandler()
        self._centre = centre
        self._now = now
        self._started_at = now()
        self._lock = threading.Lock()
        self._running: dict[object, RunningCycle] = {}

    @contextlib.contextmanager
    def running(self, name: str) -> Iterator[None]:
        """Note that something is being measured."""
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
        """All of it, as it is now."""
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
    """Replace the file as a whole. It need not survive a power cut: the next follows within seconds."""
    beside = path.with_suffix(".new")
    beside.write_bytes(msgspec.json.encode(state))
    beside.replace(path)


def read_state(path: Path) -> WorkerState | None:
    """The state that the agent showed last; None where there is none that can be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=WorkerState)
    except (OSError, msgspec.DecodeError):
        return None
