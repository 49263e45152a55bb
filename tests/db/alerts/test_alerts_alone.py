"""Two concurrent workers: a single worker evaluates, and a stopped worker does not block it forever."""

import threading
from datetime import UTC, datetime, timedelta

import pytest
from django.db import OperationalError, connection, connections

from monitor.alerts import advisory_lock as alone_module
from monitor.alerts import evaluate as module
from monitor.alerts.advisory_lock import advisory_lock
from monitor.alerts.evaluate import Evaluation, evaluate
from monitor.alerts.incidents import lifecycle
from monitor.alerts.models import Incident
from monitor.archive.upkeep import freshness
from tests.db.alert_rows import make_bursts, make_mesh

NOW = datetime(2026, 11, 21, 10, 5, tzinfo=UTC)
KEY = 42
WAIT_S = 30

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def lossy_path(monkeypatch):
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)
    paths = make_mesh(["slac", "cern"], NOW - timedelta(days=30), loss={"above_ratio": 0.01, "window_s": 600})
    make_bursts(paths["slac → cern"], [2] * 10, NOW - timedelta(seconds=600))


def in_a_thread(work):
    """Start it on its own connection; `done` gets its result."""
    done = []

    def run():
        try:
            done.append(work())
        except Exception as error:  # noqa: BLE001 - the test looks at it
            done.append(error)
        finally:
            connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    return thread, done


def test_two_concurrent_evaluations_evaluate_once(lossy_path, monkeypatch):
    judging, may_go_on, judged = threading.Event(), threading.Event(), []
    findings = module.findings

    def slow_findings(*arguments):
        judged.append(threading.current_thread())
        judging.set()
        assert may_go_on.wait(WAIT_S)
        return findings(*arguments)

    monkeypatch.setattr(module, "findings", slow_findings)
    thread, done = in_a_thread(lambda: evaluate(NOW))
    assert judging.wait(WAIT_S)

    # If it evaluated too, it would wait for us here.
    threading.Timer(5.0, may_go_on.set).start()
    second = evaluate(NOW + timedelta(seconds=1))
    may_go_on.set()
    thread.join(WAIT_S)

    assert (second, done) == (Evaluation(opened=0, closed=0), [Evaluation(opened=1, closed=0)])
    assert judged == [thread]
    assert Incident.objects.count() == 1
    assert freshness.load().evaluated_at == NOW


def test_a_failed_evaluation_releases_the_lock(lossy_path, monkeypatch):
    def broken(*_):
        raise ValueError("a fault in a rule")

    with monkeypatch.context() as patched:
        patched.setattr(module, "findings", broken)
        with pytest.raises(ValueError, match="a fault in a rule"):
            evaluate(NOW)
    assert freshness.load().evaluated_at is None

    thread, done = in_a_thread(lambda: evaluate(NOW))
    thread.join(WAIT_S)

    assert done == [Evaluation(opened=1, closed=0)]
    assert freshness.load().evaluated_at == NOW


def test_a_stopped_worker_loses_the_lock_and_cannot_continue(monkeypatch):
    monkeypatch.setattr(alone_module, "IDLE_TIMEOUT", "300ms")
    has_lock, may_go_on = threading.Event(), threading.Event()

    def stopped():
        with advisory_lock(KEY) as is_alone:
            assert is_alone
            has_lock.set()
            assert may_go_on.wait(WAIT_S)
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1")

    thread, done = in_a_thread(stopped)
    assert has_lock.wait(WAIT_S)
    deadline = datetime.now(UTC) + timedelta(seconds=WAIT_S)
    while True:
        with advisory_lock(KEY) as is_alone:
            if is_alone:
                break
        assert datetime.now(UTC) < deadline, "the stopped worker keeps the lock"
    may_go_on.set()
    thread.join(WAIT_S)

    assert isinstance(done[0], OperationalError)


def test_a_connection_without_the_lock_has_no_idle_timeout():
    with advisory_lock(KEY) as is_alone, connection.cursor() as cursor:
        assert is_alone
        cursor.execute("SHOW idle_session_timeout")
        assert cursor.fetchone() == ("2min",)

    with connection.cursor() as cursor:
        cursor.execute("SHOW idle_session_timeout")
        assert cursor.fetchone() == ("0",)
