"""The worker's threads: Celery's pool of threads, with further threads for alerts alone.

A rollup, a report or the deletion of old data never takes a thread of the alerts, however many of those the worker has.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from celery.concurrency.base import apply_target
from celery.concurrency.thread import ApplyResult
from celery.concurrency.thread import TaskPool as ThreadsPool

from monitor.queues import is_alert

ALERT_THREADS = 2
"""One for the evaluation, one for notifications and evidence."""


class TaskPool(ThreadsPool):
    """`limit` threads for everything but alerts, and `ALERT_THREADS` for those."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._alerts = ThreadPoolExecutor(max_workers=ALERT_THREADS)

    def on_apply(
        self,
        target: Callable[..., Any],
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        callback: Callable[..., Any] | None = None,
        accept_callback: Callable[..., Any] | None = None,
        **_: Any,
    ) -> ApplyResult:
        """Run `target`, Celery's tracer, whose arguments begin with the name of the task."""
        threads = self._alerts if args and is_alert(str(args[0])) else self.executor
        return ApplyResult(threads.submit(apply_target, target, args, kwargs, callback, accept_callback))

    def on_stop(self) -> None:
        self._alerts.shutdown(cancel_futures=True)
        super().on_stop()
