"""The agent's supervisor: starts, restarts and stops the worker; imports little, as it runs for months."""

from __future__ import annotations

import contextlib
import importlib
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from probes.commands.ending import without_traceback
from probes.supervision.liveness import MAX_SILENCE_S, FileHeartbeat, LivenessCheck
from probes.supervision.supervise import StartError, StartInterrupted, Supervisor

# The worker has many idle threads and frees its arrays after a cycle: 4 MB less.
SMALL = {
    "MALLOC_ARENA_MAX": "1", "OPENBLAS_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": "65536",
    "MALLOC_TRIM_THRESHOLD_": "131072",
}  # fmt: skip


def main(arguments: list[str]) -> int:
    """Supervise until a signal says to stop; return 0 then, 1 if it could not start."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    data, heartbeat, centre, *metrics = arguments
    try:
        with _metrics(metrics, Path(data)):
            supervise(Path(data), Path(heartbeat), centre, stop)
    except StartInterrupted:
        return 0
    except PermissionError:
        raise
    except (StartError, OSError) as error:
        print(f"site: {error}", file=sys.stderr)
        return 1
    return 0


def supervise(data: Path, heartbeat: Path, centre: str, stop: threading.Event) -> None:
    supervisor = Supervisor(data / "log", say, stop=stop)
    try:
        worker = supervisor.add(
            "worker",
            [sys.executable, "-m", "probes.site.worker"],
            env=SMALL,
            liveness=LivenessCheck(FileHeartbeat(heartbeat), MAX_SILENCE_S),
        )
        say(f"worker runs (log {worker.log}); delivering to {centre}")
        supervisor.run_until(stop)
    finally:
        supervisor.stop()
        say("stopped")


@contextlib.contextmanager
def _metrics(given: list[str], data: Path) -> Iterator[None]:
    # Serve the metrics if an address is given; loads the module on use.
    if not given:
        yield
        return
    with importlib.import_module("probes.site.metrics").served(given[0], data) as url:
        say(f"metrics at {url}")
        yield


def say(line: str) -> None:
    print(f"site: {line}", flush=True)


if __name__ == "__main__":
    with without_traceback("site"):
        status = main(sys.argv[1:])
    sys.exit(status)
