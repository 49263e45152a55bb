"""Any interleaving of deliveries, duplicates, crashes and recomputations gives the archive of a single clean
delivery."""

from datetime import timedelta
from unittest import mock

import pytest
from django.db import OperationalError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monitor.archive.ingest import store_batch
from monitor.archive.models import (
    Burst,
    BurstHour,
    DeliveredDay,
    DirtyHour,
    ReceivedBatch,
    RefusedResult,
    ThroughputTest,
)
from monitor.archive.rollup import recompute
from tests.db.mesh_of_three import HOUR, NOW, batch, burst, delivered, make_mesh, throughput
from tests.deliveries import store

pytestmark = [pytest.mark.django_db, pytest.mark.timescale]
RESULTS = 24
STEPS = ("_take_turn", "_record_batch", "_record_refused", "_record_days", "store_bursts", "record_cycles")


@pytest.fixture
def mesh():
    return make_mesh()


def all_results(mesh):
    """Bursts of two paths, two sizes and three hours, throughput tests, and some results that are refused."""
    results = []
    for sequence in range(1, RESULTS + 1):
        at = HOUR - timedelta(minutes=11 * sequence)
        if sequence % 7 == 0:
            results.append(delivered(99999, burst(1.0, at=at), sequence))
        elif sequence % 5 == 0:
            results.append(delivered(mesh.slac_cern, throughput(1e6 * sequence, at=at), sequence))
        else:
            path = (mesh.slac_cern, mesh.slac_anl)[sequence % 2]
            lossy = None if sequence % 3 == 0 else 2.0
            results.append(delivered(path, burst(float(sequence), lossy, at=at, packet_bytes=100), sequence))
    return results


def forget_everything():
    for model in (Burst, ThroughputTest, BurstHour, DirtyHour, DeliveredDay, ReceivedBatch, RefusedResult):
        model.objects.all().delete()


def roll_up():
    while recompute.roll_up(NOW):
        continue


def rows(model, *left_out):
    names = [field.attname for field in model._meta.concrete_fields if field.attname not in left_out]
    return sorted(map(repr, model.objects.values_list(*names)))


def archive():
    """All query results about measurements: without the batch of each, and without row counters."""
    roll_up()
    return {
        **{model.__name__: rows(model) for model in (Burst, ThroughputTest, BurstHour)},
        "RefusedResult": rows(RefusedResult, "id"),
        "DeliveredDay": rows(DeliveredDay, "id"),
    }


def crash(mesh, crashed_batch, step):
    """Deliver a batch and lose the database at a step of it."""
    with mock.patch.object(store_batch, step, side_effect=OperationalError("gone")), pytest.raises(OperationalError):
        store(mesh.slac.pk, crashed_batch, NOW)


deliveries = st.lists(
    st.tuples(
        st.integers(0, RESULTS - 1),
        st.integers(1, RESULTS),
        st.booleans(),
        st.sampled_from((None, None, *STEPS)),
        st.booleans(),
    ),
    max_size=12,
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(deliveries)
def test_any_interleaving_equals_a_single_clean_delivery(mesh, parts):
    results = all_results(mesh)
    forget_everything()
    store(mesh.slac.pk, batch(*results), NOW)
    clean = archive()
    forget_everything()

    for number, (first, count, backwards, fails_at, rolls_up) in enumerate(parts, 2):
        part = results[first : first + count]
        first_batch = batch(*(part[::-1] if backwards else part), number=number)
        if fails_at is not None:
            crash(mesh, first_batch, fails_at)
        else:
            store(mesh.slac.pk, first_batch, NOW)
        if rolls_up:
            roll_up()
    receipts = [store(mesh.slac.pk, batch(*results, number=1), NOW) for _ in range(2)]

    assert receipts[0] == receipts[1]
    assert archive() == clean
