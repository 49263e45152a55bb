"""Concurrent deliveries and roll-ups, each on its own connection, give the same result as sequential ones."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import OperationalError, connection, transaction

from monitor.archive.ingest import store_batch
from monitor.archive.ingest.binary_copy import pack
from monitor.archive.ingest.store_results import store_bursts
from monitor.archive.models import Burst, BurstHour, DirtyHour, ReceivedBatch, RefusedResult
from monitor.archive.rollup.recompute import roll_up
from monitor.archive.upkeep.trouble import TroubleKind, kind_of
from tests.db.mesh_of_three import HOUR, NOW, batch, burst, delivered, make_mesh
from tests.deliveries import store

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timescale]
PATIENCE_S = 60


@pytest.fixture
def mesh():
    return make_mesh()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(max_workers=4) as pool:
        yield pool


def on_own_connection(work: Callable[[], object]) -> Callable[[], object]:
    def run() -> object:
        try:
            return work()
        finally:
            connection.close()

    return run


def is_waiting_for_a_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
        return cursor.fetchone()[0] > 0


def wait_until(condition: Callable[[], bool]) -> None:
    pause, paused_s = threading.Event(), 0.0
    while not condition():
        assert paused_s < PATIENCE_S, "nothing happened"
        pause.wait(0.01)
        paused_s += 0.01


def test_a_batch_on_four_connections_at_once_is_stored_once(mesh, threads):
    results = [delivered(mesh.slac_cern, burst(1.0, None, at=HOUR + timedelta(seconds=n)), n + 1) for n in range(1000)]
    same = batch(*results, delivered(99999, burst(1.0), 5000))
    barrier = threading.Barrier(4)

    def deliver():
        barrier.wait(PATIENCE_S)
        return store(mesh.slac.pk, same, NOW)

    receipts = [future.result(PATIENCE_S) for future in [threads.submit(on_own_connection(deliver)) for _ in range(4)]]

    assert receipts == [receipts[0]] * 4
    assert receipts[0].accepted == 1000
    assert Burst.objects.count() == 1000
    assert ReceivedBatch.objects.count() == RefusedResult.objects.count() == 1


def test_a_delivery_waits_briefly_for_another_of_its_site(mesh, threads, monkeypatch):
    monkeypatch.setattr(store_batch, "LOCK_TIMEOUT_S", 1)
    first_batch = batch(delivered(mesh.slac_cern, burst(1.0)))

    with transaction.atomic():
        store_batch._take_turn(mesh.slac.pk)
        second = threads.submit(on_own_connection(lambda: store(mesh.slac.pk, first_batch, NOW)))
        with pytest.raises(OperationalError) as waited:
            second.result(PATIENCE_S)
        other = threads.submit(on_own_connection(lambda: store(mesh.cern.pk, batch(), NOW)))
        assert other.result(PATIENCE_S).number == 1

    assert kind_of(waited.value) == TroubleKind.SLOW
    assert ReceivedBatch.objects.get().site_id == mesh.cern.pk


def test_overlapping_batches_in_opposite_orders_do_not_deadlock(mesh, threads):
    results = [
        delivered(path, burst(1.0, at=HOUR + timedelta(seconds=n)), 2 * n + m)
        for n in range(1000)
        for m, path in enumerate((mesh.slac_cern, mesh.slac_anl))
    ]
    barrier = threading.Barrier(2)

    def deliver(number, part):
        barrier.wait(PATIENCE_S)
        return store(mesh.slac.pk, batch(*part, number=number), NOW)

    rounds = []
    for number in range(1, 10, 2):
        both = [
            threads.submit(on_own_connection(lambda n=number: deliver(n, results))),
            threads.submit(on_own_connection(lambda n=number: deliver(n + 1, results[::-1]))),
        ]
        rounds.append([future.result(PATIENCE_S).accepted for future in both])
        Burst.objects.all().delete()

    assert rounds == [[2000, 2000]] * 5


def test_a_delivery_during_a_rollup_leaves_a_new_mark(mesh, threads):
    first = delivered(mesh.slac_cern, burst(10.0, at=HOUR), 1)
    second = delivered(mesh.slac_cern, burst(20.0, at=HOUR + timedelta(minutes=1)), 2)
    store(mesh.slac.pk, batch(first), NOW)

    with transaction.atomic():
        assert roll_up(NOW) == 1
        meanwhile = threads.submit(on_own_connection(lambda: store(mesh.slac.pk, batch(second, number=2), NOW)))
        wait_until(is_waiting_for_a_lock)
        assert not meanwhile.done()
    meanwhile.result(PATIENCE_S)

    assert BurstHour.objects.get().sent == 1
    assert roll_up(NOW) == 1
    assert BurstHour.objects.get().sent == 2


def test_a_rollup_skips_hours_that_are_being_delivered(mesh, threads):
    first = delivered(mesh.slac_cern, burst(10.0, at=HOUR), 1)
    store(mesh.slac.pk, batch(first), NOW)

    with transaction.atomic():
        DirtyHour.objects.filter(path_id=mesh.slac_cern.pk).update(marked_at=NOW)
        done = threads.submit(on_own_connection(lambda: roll_up(NOW))).result(PATIENCE_S)

    assert done == 0
    assert roll_up(NOW) == 1


@pytest.mark.parametrize("all_new", [True, False])
def test_a_mark_is_kept_until_its_bursts_are_visible(mesh, threads, all_new):
    store(mesh.slac.pk, batch(delivered(mesh.slac_cern, burst(10.0, at=HOUR), 1)), NOW)
    second = delivered(mesh.slac_cern, burst(20.0, at=HOUR + timedelta(minutes=1)), 2)

    with transaction.atomic():
        store_bursts(pack([second]), NOW, all_new=all_new)
        done = threads.submit(on_own_connection(lambda: roll_up(NOW))).result(PATIENCE_S)

    assert done == 0
    assert roll_up(NOW) == 1
    assert BurstHour.objects.get().sent == 2


def test_concurrent_deliveries_and_rollups_give_right_summaries(mesh, threads):
    batches = [
        batch(
            *(
                delivered(path, burst(float(n % 50), None, at=HOUR + timedelta(seconds=n, milliseconds=m)), 2 * n + m)
                for n in range(first, first + 100)
                for m, path in enumerate((mesh.slac_cern, mesh.slac_anl))
            ),
            number=first,
        )
        for first in range(1, 1001, 100)
    ]
    delivering = [
        threads.submit(
            on_own_connection(lambda part=part: [store(mesh.slac.pk, delivered_batch, NOW) for delivered_batch in part])
        )
        for part in (batches, batches[::-1])
    ]
    rolling = [threads.submit(on_own_connection(lambda: _roll_up_until_done(delivering))) for _ in range(2)]

    for future in (*delivering, *rolling):
        future.result(PATIENCE_S)
    while roll_up(NOW):
        continue

    rows = BurstHour.objects.order_by("path_id").values_list("path_id", "bursts", "sent", "received", "rtt_max_ms")
    assert list(rows) == [(path.pk, 1000, 2000, 1000, 49.0) for path in (mesh.slac_cern, mesh.slac_anl)]


def _roll_up_until_done(delivering):
    while not all(future.done() for future in delivering):
        roll_up(NOW, limit=1)
