"""A Celery application with the centre's heartbeat whose tasks keep every thread of the pool busy."""

from __future__ import annotations

import os
import time

from celery import Celery

from monitor.stack import heartbeat

app = Celery("busy", broker=os.environ.get("SOUNDINGS_REDIS_URL"))
app.conf.beat_schedule = {"now and then": {"task": "busy.compute", "schedule": 1.0, "args": (0.1,)}}
app.conf.beat_scheduler = "monitor.stack.heartbeat:Scheduler"
heartbeat.connect()


@app.task(name="busy.compute", ignore_result=True)
def compute(seconds: float) -> None:
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at:
        sum(range(10_000))
