"""Heartbeats of the Celery worker and beat: each touches a file while it works.

The supervisor names the file in SOUNDINGS_PULSE_FILE and checks its age (`probes.supervision.liveness.FileHeartbeat`);
without the variable nothing is touched. The worker touches it from the loop that takes messages from Redis, which runs
while its pool is busy; but not if all threads have been busy so long without a task ending that none will. Beat touches
it from its loop, which wakes for each due task.
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
"""The longest task, deleting old data, takes 600 s at most and leaves the other threads free."""

logger = logging.getLogger(__name__)


def touch(path: Path) -> None:
    """Touch the heartbeat file."""
    try:
        path.touch()
    except OSError as error:
        logger.warning("no heartbeat: %s cannot be touched: %s", path, error.strerror)


class WorkerHeartbeat:
    """Touch the file at each heartbeat while the worker's pool completes tasks or has a free thread."""

    def __init__(
        self, path: Path, busy_threads: Callable[[], int], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._path = path
        self._busy_threads = busy_threads
        self._clock = clock
        self._threads = 1
        self._progress_at_s = clock()

    def begin(self, sender: Any, **_: Any) -> None:
        """Signal receiver for the start of the worker."""
        self._threads = int(sender.concurrency)

    def task_ended(self, **_: Any) -> None:
        self._progress_at_s = self._clock()

    def on_heartbeat(self, **_: Any) -> None:
        if self._busy_threads() < self._threads:
            self._progress_at_s = self._clock()
        if self._clock() - self._progress_at_s < LONGEST_STALL_S:
            touch(self._path)


class Scheduler(PersistentScheduler):
    """Beat's scheduler with a heartbeat file."""

    def tick(self, *args: Any, **kwargs: Any) -> float:
        path = environment.read("SOUNDINGS_PULSE_FILE")
        if path:
            touch(Path(path))
        wait_s: float = super().tick(*args, **kwargs)
        return wait_s


def connect() -> None:
    """Connect the heartbeat if this process becomes a worker and its supervisor set the variable."""
    path = environment.read("SOUNDINGS_PULSE_FILE")
    if not path:
        return
    heartbeat = WorkerHeartbeat(Path(path), lambda: len(state.active_requests))
    signals.worker_init.connect(heartbeat.begin, weak=False)
    signals.task_postrun.connect(heartbeat.task_ended, weak=False)
    signals.heartbeat_sent.connect(heartbeat.on_heartbeat, weak=False)
