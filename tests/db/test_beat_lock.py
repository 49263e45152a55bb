"""Two beats: one schedules, and the other takes over when that ends or its connection does."""

import pytest
from django.db import connection, connections

from monitor.celery import app
from monitor.stack import beat_lock, heartbeat
from monitor.stack.beat_lock import BeatLock
from monitor.stack.heartbeat import STANDBY_S, Scheduler

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def clock():
    return [0.0]


@pytest.fixture
def locks(clock):
    def check_always():
        clock[0] += beat_lock.CHECKED_FOR_S
        return clock[0]

    locks = [BeatLock(clock=check_always) for _ in range(2)]
    yield locks
    for lock in locks:
        lock.release()


def end_connections_with_the_lock():
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks "
            "WHERE locktype = 'advisory' AND (classid::bigint << 32) + objid::bigint = %s",
            [beat_lock.KEY],
        )
        assert cursor.rowcount == 1


def test_one_of_two_holds_the_lock(locks):
    first, second = locks

    assert [first.is_held(), second.is_held(), first.is_held(), second.is_held()] == [True, False, True, False]


def test_the_other_takes_over_when_the_first_ends(locks):
    first, second = locks
    first.is_held()

    first.release()

    assert second.is_held()
    assert not first.is_held()


def test_a_lost_connection_is_noticed_before_the_other_has_it(locks):
    first, second = locks
    first.is_held()

    end_connections_with_the_lock()

    assert second.is_held()
    assert not first.is_held()


def test_without_a_database_nobody_holds_it(locks, monkeypatch):
    first, _ = locks
    first.is_held()
    end_connections_with_the_lock()
    unreachable = {**connection.settings_dict, "HOST": "/nowhere"}
    monkeypatch.setitem(connections.settings, "default", unreachable)

    assert not first.is_held()


@pytest.fixture
def beats(tmp_path, monkeypatch):
    """Two beats whose tasks are noted instead of sent."""
    sent = []
    monkeypatch.setattr(Scheduler, "apply_entry", lambda beat, entry, producer=None: sent.append((beat, entry.name)))
    monkeypatch.setattr(heartbeat.Scheduler, "producer", None)
    beats = [Scheduler(app=app, schedule_filename=str(tmp_path / name), max_interval=5) for name in ("a", "b")]
    yield beats, sent
    for beat in beats:
        beat.close()


def run(beat):
    """Let a beat send everything that is due; return how long it waits then."""
    while (wait_s := beat.tick()) == 0:
        pass
    return wait_s


def overdue(beat):
    for entry in beat.schedule.values():
        entry.last_run_at = entry.last_run_at.replace(year=2020)
    beat._heap = None


def test_of_two_beats_one_acts(beats):
    (first, second), sent = beats
    run(first)
    overdue(first)
    overdue(second)

    run(first)

    assert run(second) == STANDBY_S
    assert {beat for beat, _ in sent} == {first}
    assert {name for _, name in sent} >= set(app.conf.beat_schedule)


def test_a_beat_that_takes_over_leaves_nothing_out(beats):
    (first, second), sent = beats
    run(first)
    run(second)
    overdue(second)

    first.close()
    run(second)

    assert {name for beat, name in sent if beat is second} >= set(app.conf.beat_schedule)
