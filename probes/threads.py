"""Threads of probes: an exception in one ends its measurement alone, never the agent and its other measurements."""

from __future__ import annotations

import threading


class ProbeThread(threading.Thread):
    """A daemon thread that keeps an exception for the probe that waits for it."""

    error: Exception | None = None

    def run(self) -> None:
        try:
            super().run()
        except Exception as error:  # noqa: BLE001 - raised by finish
            self.error = error

    def finish(self) -> None:
        """Wait for its end. Raises the exception that ended it."""
        self.join()
        if self.error is not None:
            raise self.error
