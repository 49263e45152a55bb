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


# Each entry: its task, when it is due (a number is of seconds), and the seconds after which its message expires.
SCHEDULE: dict[str, tuple[str, float | crontab, int]] = {
    "roll up dirty hours": ("archive.roll_up", 10.0, 10),
    "diagnose throughput tests": ("archive.diagnose", 5.0, 5),
    "combine the members of aggregate tests": ("archive.settle_aggregates", 10.0, 10),
    "summarize weeks of interfaces": ("archive.summarize_interfaces", 60.0, 50),
    "note how the centre is": ("archive.sample", 60.0, 50),
    "delete what is kept no longer": ("archive.delete_old", crontab(minute="40"), 3000),
    "delete old records": ("archive.delete_records", crontab(minute="10", hour="3"), 3000),
    "note how large each table is": ("archive.note_sizes", crontab(minute="30"), 1000),
    "compress old bursts": ("archive.compress_old", crontab(minute="50", hour="2"), 3000),
    "evaluate alert rules": ("alerts.evaluate", 10.0, 10),
    "gather the evidence of incidents": ("alerts.gather", 10.0, 10),
    "tell people of incidents": ("alerts.notify", 5.0, 5),
    "look at late results": ("alerts.correct", 300.0, 300),
    "note the routers on routes": ("routes.note_routers", 300.0, 300),
    "resolve reverse names of routers": ("routes.resolve_names", 30.0, 30),
    "request the summaries of other centres": ("centres.collect", 30.0, 30),
    "plan throughput slots": ("mesh.plan_slots", 30.0, 30),
    "request the tests of sweeps": ("archive.request_sweep_tests", 60.0, 50),
    # The minute is that of monitor.reports.files.WRITTEN_AT_MINUTE.
    "last week's report, where it is missing": ("reports.weekly", crontab(minute="15"), 3000),
    "mail reports that are due": ("reports.send", crontab(minute="*/5"), 300),
}
app.conf.beat_schedule = {
    name: {"task": task, "schedule": due, "options": {"expires": expires_s}}
    for name, (task, due, expires_s) in SCHEDULE.items()
}
