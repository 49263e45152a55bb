"""The agent's worker process: a Celery worker with a thread pool and beat in a thread.

Settings come through the environment.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from typing import Any

if __name__ == "__main__":
    # Celery imports these where they are installed, which costs 6 MB, and an agent uses none of them. An import of a
    # module that is None fails as if it was not installed.
    sys.modules.update(dict.fromkeys(("brotli", "cffi", "django", "greenlet", "psutil", "yaml")))  # type: ignore[arg-type]

from celery import bootsteps, signals
from celery.beat import EmbeddedService

from probes.site.agent import Agent
from probes.site.limits.read import LimitsError
from probes.site.limits.usage import UsageError
from probes.site.runner.schedule import PlanScheduler
from probes.site.settings import SettingsError, from_environment
from probes.site.spool.spool import SpoolError
from probes.site.tasks import make_app

# Each test with cycles that fill their period occupies two for a part of it.
THREADS = 64
STOP_GRACE_S = 1.0


class BeatThread(bootsteps.StartStopStep):
    """Beat as a thread of the worker: there is exactly 1 worker, and they end together."""

    requires = ("celery.worker.components:Pool",)

    def create(self, worker: Any) -> Any:
        return EmbeddedService(worker.app, thread=True, scheduler_cls=PlanScheduler)


def leave_soon(**_: Any) -> None:
    """End without waiting for running cycles: the spool needs no shutdown."""
    timer = threading.Timer(STOP_GRACE_S, os._exit, (0,))
    timer.daemon = True
    timer.start()


def keep_logging(**_: Any) -> None:
    """Keep logging set up: Celery would raise the level and add a handler."""


def leave_now(death: threading.ExceptHookArgs) -> None:
    """Exit when a thread died of a bug: the supervisor restarts the agent."""
    logging.getLogger(__name__).critical("a thread died", exc_info=death.exc_value)
    os._exit(1)


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for chatter in ("celery.beat", "celery.worker.strategy", "celery.app.trace"):
        logging.getLogger(chatter).setLevel(logging.WARNING)
    try:
        agent = Agent(from_environment())
    except (SettingsError, LimitsError, SpoolError, UsageError) as error:
        print(f"agent: {error}", file=sys.stderr)
        return 1
    logging.getLogger().addHandler(agent.journal.handler)
    threading.excepthook = leave_now
    agent.begin()
    for name, service in agent.services.items():
        threading.Thread(target=service, args=(threading.Event(),), name=name, daemon=True).start()
    app = make_app(agent)
    app.steps["worker"].add(BeatThread)
    signals.setup_logging.connect(keep_logging, weak=False)
    signals.worker_shutting_down.connect(leave_soon, weak=False)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    worker = app.Worker(
        pool="threads",
        concurrency=THREADS,
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
        quiet=True,
    )
    worker.start()
    return int(worker.exitcode or 0)


if __name__ == "__main__":
    sys.exit(main())
