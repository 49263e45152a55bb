"""The queues of the centre's Celery tasks, by purpose, so that a task waits only behind tasks of its own kind.

A worker takes all of them, or those of its option `-Q`. It has threads for alerts that take nothing else
(`monitor.stack.task_pool`).
"""

from __future__ import annotations

QUEUES = ("alerts", "rollups", "planning", "reports", "upkeep")
ROUTES = {
    "alerts.*": "alerts",
    "archive.roll_up": "rollups",
    "archive.diagnose": "rollups",
    "archive.settle_aggregates": "rollups",
    "archive.summarize_interfaces": "rollups",
    "archive.sample": "rollups",
    "archive.request_sweep_tests": "planning",
    "mesh.*": "planning",
    "reports.*": "reports",
    "archive.*": "upkeep",
    "routes.*": "upkeep",
    "centres.*": "upkeep",
}
"""Queue of each task: that of its name, else of the first pattern that matches."""


def is_alert(task: str) -> bool:
    """Whether a task, by its name, is one of the alerts."""
    return task.startswith("alerts.")
