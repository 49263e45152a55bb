"""The schedule of the centre's periodic tasks."""

from celery.signals import import_modules

from monitor.celery import app


def test_beat_sends_only_tasks_that_the_worker_knows():
    import_modules.send(sender=app)
    sent = {entry["task"] for entry in app.conf.beat_schedule.values()}

    assert sent <= set(app.tasks)
    assert sent == {
        "archive.roll_up",
        "archive.diagnose",
        "archive.settle_aggregates",
        "archive.summarize_interfaces",
        "archive.delete_old",
        "archive.delete_records",
        "archive.note_sizes",
        "archive.compress_old",
        "archive.sample",
        "archive.request_sweep_tests",
        "alerts.evaluate",
        "alerts.gather",
        "alerts.notify",
        "alerts.correct",
        "centres.collect",
        "mesh.plan_slots",
        "reports.weekly",
        "reports.send",
        "routes.note_routers",
        "routes.resolve_names",
    }


def test_a_report_delayed_by_an_outage_is_retried_each_hour():
    schedule = next(entry["schedule"] for entry in app.conf.beat_schedule.values() if entry["task"] == "reports.weekly")

    assert (len(schedule.hour), len(schedule.day_of_week), schedule.minute) == (24, 7, {15})
