"""The stack's own programs, counting the processor time of each request and task by purpose.

`serving` in place of `monitor.stack.serving` for gunicorn, `worker` as Celery's application. Counts are those of the
thread that works, written into SOUNDINGS_BENCH_COUNTS by each process once a second.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import defaultdict
from pathlib import Path

WRITTEN_EVERY_S = 1.0


class Counts:
    """Number, processor seconds and longest time of each purpose in this process."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._of: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
        self._due_s = 0.0

    def add(self, purpose: str, cpu_s: float, took_s: float) -> None:
        with self._lock:
            counts = self._of[purpose]
            counts[0] += 1
            counts[1] += cpu_s
            counts[2] = max(counts[2], took_s)
            if time.monotonic() >= self._due_s:
                self._due_s = time.monotonic() + WRITTEN_EVERY_S
                file = Path(os.environ["SOUNDINGS_BENCH_COUNTS"]) / f"{self._name}-{os.getpid()}.json"
                file.with_suffix(".new").write_text(json.dumps(self._of))
                file.with_suffix(".new").replace(file)


def counts_in(folder: Path, name: str) -> dict[str, list[float]]:
    """The sums of all processes of a name."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
    for file in folder.glob(f"{name}-*.json"):
        for purpose, (number, cpu_s, longest_s) in json.loads(file.read_text()).items():
            of_purpose = sums[purpose]
            sums[purpose] = [of_purpose[0] + number, of_purpose[1] + cpu_s, max(of_purpose[2], longest_s)]
    return dict(sums)
