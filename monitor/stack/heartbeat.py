"""Heartbeats of the Celery worker and beat: each touches SOUNDINGS_PULSE_FILE while it works
(`probes.supervision.liveness.FileHeartbeat`).

The worker stops when all its threads, or all of alerts, are stuck.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from celery import signals
from celery.beat import PersistentScheduler
from celery.worker import state

from monitor import environment
from monitor.queues import is_alert
from monitor.stack.beat_lock import BeatLock
from monitor.stack.task_pool import ALERT_THREADS

# How often a beat tries the lock, or checks that it still has it.
STANDBY_S = 2.0
# The longest task, deleting old data, takes 600 s at most and leaves the other threads free.
LONGEST_STALL_S = 900.0

logger = logging.getLogger(__name__)


def touch(path: Path) -> None:
    try:
        path.touch()
    except OSError as error:
        logger.warning("no heartbeat: %s cannot be touched: %s", path, error.strerror)


class WorkerHeartbeat:
    """Touch the file while alert and other threads complete tasks or have a free thread."""

    def __init__(
        self, path: Path, running_tasks: Callable[[], list[str]], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._path = path
        self._running_tasks = running_tasks
        self._clock = clock
        self._threads = {True: ALERT_THREADS, False: 1}  # by `is_alert`
        self._progress_at_s = dict.fromkeys(self._threads, clock())

    def begin(self, sender: Any, **_: Any) -> None:
        """Signal receiver for the start of the worker."""
        self._threads[False] = int(sender.concurrency)

    def task_ended(self, sender: Any, **_: Any) -> None:
        self._progress_at_s[is_alert(sender.name)] = self._clock()

    def on_heartbeat(self, **_: Any) -> None:
        busy = Counter(map(is_alert, self._running_tasks()))
        for part, threads in self._threads.items():
            if busy[part] < threads:
                self._progress_at_s[part] = self._clock()
        if self._clock() - min(self._progress_at_s.values()) < LONGEST_STALL_S:
            touch(self._path)


class Scheduler(PersistentScheduler):
    """Beat's scheduler with a heartbeat file, which acts while this beat holds the lock of all beats."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._lock = BeatLock()
        super().__init__(*args, **kwargs)

    def tick(self, *args: Any, **kwargs: Any) -> float:
        path = environment.read("SOUNDINGS_PULSE_FILE")
        if path:
            touch(Path(path))
        if not self._lock.is_held():
            return STANDBY_S
        # A beat that takes over sends all tasks that are due by its own schedule: none is skipped, one may run twice.
        wait_s: float = super().tick(*args, **kwargs)
        return min(wait_s, STANDBY_S)

    def close(self) -> None:
        self._lock.release()
        super().close()


def connect() -> None:
    """Connect the heartbeat if this process becomes a worker and its supervisor set the variable."""
    path = environment.read("SOUNDINGS_PULSE_FILE")
    if not path:
        return
    heartbeat = WorkerHeartbeat(Path(path), lambda: [request.name for request in state.active_requests])
    signals.worker_init.connect(heartbeat.begin, weak=False)
    signals.task_postrun.connect(heartbeat.task_ended, weak=False)
    signals.heartbeat_sent.connect(heartbeat.on_heartbeat, weak=False)
