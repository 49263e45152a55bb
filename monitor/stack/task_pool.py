"""Celery's thread pool, with threads reserved for alerts that no rollup, report or deletion takes."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from celery.concurrency.base import apply_target
from celery.concurrency.thread import ApplyResult
from celery.concurrency.thread import TaskPool as ThreadsPool

from monitor.queues import is_alert

# One for the evaluation, one for notifications and evidence.
ALERT_THREADS = 2


class TaskPool(ThreadsPool):
    """Pool of `limit` threads, and `ALERT_THREADS` more for alerts alone."""

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
        """Run `target`, Celery's tracer; its arguments begin with the task's name."""
        threads = self._alerts if args and is_alert(str(args[0])) else self.executor
        return ApplyResult(threads.submit(apply_target, target, args, kwargs, callback, accept_callback))

    def on_stop(self) -> None:
        self._alerts.shutdown(cancel_futures=True)
        super().on_stop()
