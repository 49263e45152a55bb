"""Queues and threads of the worker: alerts never wait behind other tasks."""

import threading

from monitor.celery import app
from monitor.queues import QUEUES
from monitor.stack.task_pool import ALERT_THREADS, TaskPool

DEADLINE_S = 30


def queue_of(task):
    return app.amqp.router.route({}, task)["queue"].name


def test_every_task_of_the_centre_has_a_queue_of_its_purpose():
    queues = {entry["task"]: queue_of(entry["task"]) for entry in app.conf.beat_schedule.values()}

    assert set(queues.values()) == set(QUEUES)
    assert {task for task, queue in queues.items() if queue == "alerts"} == {
        task for task in queues if task.startswith("alerts.")
    }
    assert queues["archive.roll_up"] == "rollups"
    assert queues["archive.delete_old"] == "upkeep"
    assert queues["reports.weekly"] == "reports"
    assert queues["mesh.plan_slots"] == "planning"


def test_the_worker_has_the_pool_with_threads_for_alerts():
    assert app.conf.worker_pool == f"{TaskPool.__module__}:{TaskPool.__name__}"


def test_an_alert_runs_while_all_other_threads_are_busy():
    pool = TaskPool(limit=2)
    pool.start()
    may_end, alerts = threading.Event(), []
    all_alerts = threading.Event()

    def run(task, *_):
        if task.startswith("alerts."):
            alerts.append(task)
            if len(alerts) == 2 * ALERT_THREADS:
                all_alerts.set()
        else:
            may_end.wait(DEADLINE_S)

    try:
        for _ in range(20):
            pool.apply_async(run, ("reports.weekly", "id"))
        for _ in range(2 * ALERT_THREADS):
            pool.apply_async(run, ("alerts.evaluate", "id"))

        assert all_alerts.wait(DEADLINE_S)
    finally:
        may_end.set()
        pool.stop()
