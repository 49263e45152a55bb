"""The centre's Celery application, with the processor time of each task counted."""

from __future__ import annotations

import threading
import time
from typing import Any

from celery.signals import task_postrun, task_prerun

from monitor.celery import app
from tests.bench.steady.counted import Counts

__all__ = ["app"]

_counts = Counts("worker")
_began = threading.local()


@task_prerun.connect
def begin(**_: Any) -> None:
    _began.at = time.monotonic(), time.thread_time()


@task_postrun.connect
def end(task: Any, **_: Any) -> None:
    began_s, cpu_s = _began.at
    _counts.add(task.name, time.thread_time() - cpu_s, time.monotonic() - began_s)
