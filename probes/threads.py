"""Threads of probes: an exception ends only its own measurement."""

from __future__ import annotations

import threading


class ProbeThread(threading.Thread):
    """A daemon thread that keeps its exception for the waiting probe."""

    error: Exception | None = None

    def run(self) -> None:
        try:
            super().run()
        except Exception as error:  # noqa: BLE001 - raised by finish
            self.error = error

    def finish(self) -> None:
        """Wait for its end, and raise its exception."""
        self.join()
        if self.error is not None:
            raise self.error
