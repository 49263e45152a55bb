"""Limits that follow a changed limits.toml without a restart; an unusable file is logged and changes nothing."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from probes.site.limits.limits import Limits
from probes.site.limits.read import LimitsError, read_limits
from probes.toml.tables import Problem

logger = logging.getLogger(__name__)

CHECK_S = 2.0
MOST_BYTES = 1 << 20
POLL_S = 0.5

FileState = tuple[str, int, int, int] | None


class Service(Protocol):
    """A part of the agent that runs until `stop` is set."""

    def run(self, stop: threading.Event) -> None: ...


class WatchedLimits:
    """Attributes of the present `Limits`; thread-safe. Raises `LimitsError` if the first file is unusable."""

    def __init__(self, find_file: Callable[[], Path | None], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._find_file = find_file
        self._clock = clock
        self._lock = threading.Lock()
        file = find_file()
        self._seen = self._taken = _state(file)
        self._limits = read_limits(file)
        self._checked_s = clock()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.current(), name)

    def current(self) -> Limits:
        """The limits of the file, checked every `CHECK_S`."""
        with self._lock:
            if self._clock() - self._checked_s >= CHECK_S:
                self._checked_s = self._clock()
                self._check(self._find_file())
            return self._limits

    def _check(self, file: Path | None) -> None:
        # Take up a changed file once stable: an editor may still write it.
        before, self._seen = self._seen, _state(file)
        if self._seen != before or self._seen == self._taken:
            return
        self._taken = self._seen
        try:
            self._limits = _read(file, self._seen)
        except LimitsError as error:
            logger.error("limits: the file has changed and cannot be used; the limits before stay in force: %s", error)
        else:
            logger.info("limits: %s taken up", file or "the defaults")

    def serve(self, make: Callable[[Limits], Service], sections: tuple[str, ...], stop: threading.Event) -> None:
        """Run a service until `stop`, anew whenever these sections have changed."""
        while not stop.is_set():
            limits = self.current()
            own, ended = [getattr(limits, name) for name in sections], threading.Event()
            name = threading.current_thread().name
            thread = threading.Thread(target=make(limits).run, args=(ended,), name=name, daemon=True)
            thread.start()
            while own == [getattr(self.current(), name) for name in sections] and not stop.wait(POLL_S):
                pass
            ended.set()
            thread.join()


def _state(file: Path | None) -> FileState:
    if file is None:
        return None
    try:
        found = file.stat()
    except OSError:
        return str(file), 0, 0, 0
    return str(file), found.st_mtime_ns, found.st_size, found.st_ino


def _read(file: Path | None, state: FileState) -> Limits:
    if state is not None and state[2] > MOST_BYTES:
        raise LimitsError(str(file), [Problem(0, f"has more than {MOST_BYTES:,} bytes; give the rules of this site")])
    return read_limits(file)
