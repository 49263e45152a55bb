"""Slow results, loaded once for all readers of a process: fresh ones at once, older ones while a thread reloads. Only
large results are kept."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from datetime import datetime, timedelta
from threading import Lock, Thread
from typing import Generic, TypeVar

from django.db import connection

from monitor.accounts.read_limits import is_limited

log = logging.getLogger(__name__)
MOST_KEPT = 200

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")


class SharedResults(Generic[Key, Result]):
    """Results by key: reloaded after `new_for`, served until `shown_for` while reloading."""

    def __init__(self, *, new_for: timedelta, shown_for: timedelta, is_large: Callable[[Result], bool]) -> None:
        self.new_for = new_for
        self.shown_for = shown_for
        self.is_large = is_large
        self._kept: dict[Key, tuple[datetime, Result]] = {}
        self._loading: set[Key] = set()
        self._lock = Lock()
        self._load_lock = Lock()

    def get(self, key: Key, now: datetime, load: Callable[[], Result]) -> Result:
        """The result of the key at `now`. A reader with limits of its own gets a result of its own."""
        if is_limited():
            return load()
        kept = self._kept_at(key, now)
        if kept is None:
            # Readers who come during a load wait for its result: each load of their own would make all of them slower.
            with self._load_lock:
                kept = self._kept_at(key, now)
                return self._loaded(key, now, load) if kept is None else kept[1]
        at, result = kept
        if now - at >= self.new_for:
            self._load_beside(key, now, load)
        return result

    def load_early(self, key: Key, now: datetime, load: Callable[[], Result]) -> None:
        """Load a result in a thread before its first reader; readers who come then wait for it."""
        self._load_beside(key, now, load)

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()

    def _kept_at(self, key: Key, now: datetime) -> tuple[datetime, Result] | None:
        with self._lock:
            kept = self._kept.get(key)
        return kept if kept is not None and timedelta(0) <= now - kept[0] < self.shown_for else None

    def _loaded(self, key: Key, now: datetime, load: Callable[[], Result]) -> Result:
        result = load()
        with self._lock:
            self._kept.pop(key, None)
            if self.is_large(result):
                self._kept[key] = (now, result)
            while len(self._kept) > MOST_KEPT:
                del self._kept[next(iter(self._kept))]
        return result

    def _load_beside(self, key: Key, now: datetime, load: Callable[[], Result]) -> None:
        """Load a newer result in a thread, unless one is loading."""
        with self._lock:
            if key in self._loading:
                return
            self._loading.add(key)

        def work() -> None:
            try:
                with self._load_lock:
                    self._loaded(key, now, load)
            except Exception:
                # Nobody needs it yet; the next reader loads one, and gets the error if it fails again.
                log.warning("a result could not be loaded beside requests", exc_info=True)
            finally:
                with self._lock:
                    self._loading.discard(key)
                connection.close()

        Thread(target=work, name="shared result", daemon=True).start()
