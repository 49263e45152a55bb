"""The centre's Celery application and its schedule."""

from __future__ import annotations

import os
from typing import Any

from celery import Celery, signals
from celery.schedules import crontab

from monitor.queues import QUEUES, ROUTES
from monitor.stack import freed_memory, heartbeat

# Django's checks load the pages and the API, a second of processor and 60 MB that neither worker nor beat needs; each
# start runs them in `manage.py migrate`.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

app = Celery("soundings")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
app.conf.beat_scheduler = "monitor.stack.heartbeat:Scheduler"
app.conf.worker_pool = "monitor.stack.task_pool:TaskPool"
app.conf.task_queues = {name: {"exchange": name, "routing_key": name} for name in QUEUES}
app.conf.task_routes = ROUTES
# All threads may be busy with long tasks while those of alerts wait for messages; messages left too long expire.
app.conf.worker_prefetch_multiplier = 0
heartbeat.connect()


@signals.worker_init.connect
@signals.beat_init.connect
def refuse_later_release(**_: Any) -> None:
    """End processes that start on a later release's database."""
    from monitor.archive.upkeep.releases import end_at_a_later_release

    end_at_a_later_release("worker or beat")


@signals.task_postrun.connect
def give_memory_back(**_: Any) -> None:
    freed_memory.give_back()


app.conf.beat_schedule = {
    "roll up dirty hours": {
        "task": "archive.roll_up",
        "schedule": 10.0,
        "options": {"expires": 10},
    },
    "diagnose throughput tests": {
        "task": "archive.diagnose",
        "schedule": 5.0,
        "options": {"expires": 5},
    },
    "combine the members of aggregate tests": {
        "task": "archive.settle_aggregates",
        "schedule": 10.0,
        "options": {"expires": 10},
    },
    "summarize weeks of interfaces": {
        "task": "archive.summarize_interfaces",
        "schedule": 60.0,
        "options": {"expires": 50},
    },
    "note how the centre is": {
        "task": "archive.sample",
        "schedule": 60.0,
        "options": {"expires": 50},
    },
    "delete what is kept no longer": {
        "task": "archive.delete_old",
        "schedule": crontab(minute="40"),
        "options": {"expires": 3000},
    },
    "delete old records": {
        "task": "archive.delete_records",
        "schedule": crontab(minute="10", hour="3"),
        "options": {"expires": 3000},
    },
    "note how large each table is": {
        "task": "archive.note_sizes",
        "schedule": crontab(minute="30"),
        "options": {"expires": 1000},
    },
    "compress old bursts": {
        "task": "archive.compress_old",
        "schedule": crontab(minute="50", hour="2"),
        "options": {"expires": 3000},
    },
    "evaluate alert rules": {
        "task": "alerts.evaluate",
        "schedule": 10.0,
        "options": {"expires": 10},
    },
    "gather the evidence of incidents": {
        "task": "alerts.gather",
        "schedule": 10.0,
        "options": {"expires": 10},
    },
    "tell people of incidents": {
        "task": "alerts.notify",
        "schedule": 5.0,
        "options": {"expires": 5},
    },
    "look at late results": {
        "task": "alerts.correct",
        "schedule": 300.0,
        "options": {"expires": 300},
    },
    "note the routers on routes": {
        "task": "routes.note_routers",
        "schedule": 300.0,
        "options": {"expires": 300},
    },
    "resolve reverse names of routers": {
        "task": "routes.resolve_names",
        "schedule": 30.0,
        "options": {"expires": 30},
    },
    "request the summaries of other centres": {
        "task": "centres.collect",
        "schedule": 30.0,
        "options": {"expires": 30},
    },
    "plan throughput slots": {
        "task": "mesh.plan_slots",
        "schedule": 30.0,
        "options": {"expires": 30},
    },
    "request the tests of sweeps": {
        "task": "archive.request_sweep_tests",
        "schedule": 60.0,
        "options": {"expires": 50},
    },
    "last week's report, where it is missing": {
        "task": "reports.weekly",
        "schedule": crontab(minute="15"),  # as monitor.reports.files.WRITTEN_AT_MINUTE
        "options": {"expires": 3000},
    },
    "mail reports that are due": {
        "task": "reports.send",
        "schedule": crontab(minute="*/5"),
        "options": {"expires": 300},
    },
}
