"""The pulse of the centre's Celery worker and beat: a file that each touches itself, as long as it works.

Whoever supervises them names the file in SOUNDINGS_PULSE_FILE and looks at its age (`probes.signs_of_life.Pulse`);
without the variable nothing is touched. The worker's pulse comes from the loop that takes messages from Redis, which
runs however busy the threads of its pool are. Where every thread has been busy for so long that no task ended, none
will: then there is no pulse. Beat's comes from its loop, which wakes for each task that is due.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from celery import signals
from celery.beat import PersistentScheduler
from celery.worker import state

from monitor import environment

LONGEST_STALL_S = 900.0
"""The longest task, deleting what is kept no longer, takes 600 s at most, and leaves the other threads free."""

logger = logging.getLogger(__name__)


def touch(path: Path) -> None:
    """Show a sign of life."""
    try:
        path.touch()
    except OSError as error:
        logger.warning("no pulse: %s cannot be touched: %s", path, error.strerror)


class WorkerPulse:
    """Touches the file at each heartbeat of a worker whose pool still ends tasks, or has a free thread."""

    def __init__(
        self, path: Path, busy_threads: Callable[[], int], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._path = path
        self._busy_threads = busy_threads
        self._clock = clock
        self._threads = 1
        self._progress_at_s = clock()

    def begin(self, sender: Any, **_: Any) -> None:
        """Called with the worker when it starts."""
        self._threads = int(sender.concurrency)

    def task_ended(self, **_: Any) -> None:
        self._progress_at_s = self._clock()

    def beat(self, **_: Any) -> None:
        if self._busy_threads() < self._threads:
            self._progress_at_s = self._clock()
        if self._clock() - self._progress_at_s < LONGEST_STALL_S:
            touch(self._path)


class Scheduler(PersistentScheduler):
    """Beat's own, with a pulse."""

    def tick(self, *args: Any, **kwargs: Any) -> float:
        path = environment.read("SOUNDINGS_PULSE_FILE")
        if path:
            touch(Path(path))
        wait_s: float = super().tick(*args, **kwargs)
        return wait_s


def connect() -> None:
    """Give this process a pulse if it becomes a worker and its supervisor wants one."""
    path = environment.read("SOUNDINGS_PULSE_FILE")
    if not path:
        return
    pulse = WorkerPulse(Path(path), lambda: len(state.active_requests))
    signals.worker_init.connect(pulse.begin, weak=False)
    signals.task_postrun.connect(pulse.task_ended, weak=False)
    signals.heartbeat_sent.connect(pulse.beat, weak=False)
