"""The queue of an agent's Celery worker, in memory and woken by each message, so that no broker is needed."""

from __future__ import annotations

import threading
import time
from queue import Empty
from typing import Any

from kombu.transport import TRANSPORT_ALIASES, memory

# Kombu warns of an address without a host.
URL = "soundings-local://localhost"


class LocalChannel(memory.Channel):
    """A channel in memory that wakes the worker for each message."""

    arrived = threading.Event()

    def basic_ack(self, delivery_tag: str, multiple: bool = False) -> None:
        """Acknowledge, so that a full worker can take the next message."""
        super().basic_ack(delivery_tag, multiple=multiple)  # type: ignore[no-untyped-call]
        self.arrived.set()

    def _put(self, queue: str, message: Any, **options: Any) -> None:
        super()._put(queue, message, **options)  # type: ignore[no-untyped-call]
        self.arrived.set()


class LocalTransport(memory.Transport):
    """Messages between threads of one process. Single consumer: the agent's worker."""

    Channel = LocalChannel

    def drain_events(self, connection: Any, timeout: float | None = None, **_: Any) -> None:
        """Deliver the next message, waiting up to `timeout` seconds. Raises `TimeoutError` as a socket would."""
        deadline = None if timeout is None else time.monotonic() + timeout
        cycle: Any = self.cycle
        while True:
            self.Channel.arrived.clear()
            try:
                cycle.get(self._deliver)
            except Empty:
                wait_s = None if deadline is None else deadline - time.monotonic()
                if wait_s is not None and wait_s <= 0:
                    raise TimeoutError from None
                self.Channel.arrived.wait(wait_s)
            else:
                return


TRANSPORT_ALIASES["soundings-local"] = f"{__name__}:LocalTransport"
