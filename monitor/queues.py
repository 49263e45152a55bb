"""Queues of Celery tasks by purpose: a task waits only behind its own kind; alerts have threads of their own
(`monitor.stack.task_pool`)."""

from __future__ import annotations

QUEUES = ("alerts", "rollups", "planning", "reports", "upkeep")
# By task name, else by the first pattern that matches.
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


def is_alert(task: str) -> bool:
    return task.startswith("alerts.")
