"""Bursts delivered in blocks are stored, and refused, as bursts delivered one by one."""

import random
from datetime import timedelta

import msgspec
import pytest
from django.db import connection

from monitor.archive.ingest.arrivals import BatchRejected, BatchTooLarge
from monitor.archive.models import Burst, DirtyHour, ReceivedBatch, RefusedResult
from probes.site.wire import Batch, Receipt
from tests.burst_blocks import fits_a_block, in_blocks
from tests.db.archive.test_ingest import BAD_BURSTS, reasons
from tests.db.mesh_of_three import HOUR, NOW, batch, burst, delivered, make_mesh
from tests.deliveries import store

pytestmark = [pytest.mark.django_db, pytest.mark.timescale]
BAD_IN_BLOCKS = [
    reason
    for reason, bad in BAD_BURSTS.items()
    if fits_a_block(delivered(1, bad)) and bad.clock_source is None  # that of all bursts of a block
]


@pytest.fixture
def mesh():
    return make_mesh()


def rows(table: str) -> list[dict[str, object]]:
    """The rows of a table, without the numbers that the database gave them."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3")
        names = [column.name for column in cursor.description]
        all_rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    return [{name: value for name, value in row.items() if name != "id"} for row in all_rows]


def random_burst(number: int):
    rtts_ms = [random.choice([None, round(random.uniform(0.001, 300.0), 6)]) for _ in range(random.choice([1, 4, 10]))]
    lost = rtts_ms.count(None)
    return burst(
        *rtts_ms,
        at=HOUR + timedelta(seconds=number, microseconds=random.randrange(10**6)),
        packet_bytes=random.choice([100, 1000]),
        late=random.randint(0, lost),
        duplicates=random.choice([0, 3]),
        reordered=random.choice([0, 1]),
        ttl=random.choice([None, 0, 57, 255]),
        ttl_changes=random.choice([0, 2]),
        stamp=random.choice([None, "kernel", "user", "hardware"]),
        stamps_lost=random.choice([0, 1]),
        waited=random.choice([0, 4]),
        rate_limited=random.choice([None, False, True]),
        flow=random.choice([None, 1, 0xFFFE]),
        source_address=random.choice([None, "192.0.2.1"]),
        clock_source="tsc",
        detail=random.choice([None, "näh", "local"]),
    )


def test_each_column_is_stored_as_from_a_burst_alone(mesh):
    paths = (mesh.slac_cern, mesh.slac_anl)
    alone = batch(
        *(
            delivered(paths[number % 2], random_burst(number), number + 1, every_s=60, cycle=29_000_000)
            for number in range(60)
        )
    )
    tables = ("burst", "dirty_hour", "received_batch", "delivered_day", "cycle_day")
    together = in_blocks(alone)
    assert (len(together.results), len(together.blocks)) == (0, 1)
    first = store(mesh.slac.pk, alone, NOW)
    expected = {table: rows(table) for table in tables}
    with connection.cursor() as cursor:
        for table in tables:
            cursor.execute(f"DELETE FROM {table}")

    assert store(mesh.slac.pk, together, NOW) == first == Receipt(number=1, accepted=60)

    assert {table: rows(table) for table in tables} == expected
    assert len(expected["burst"]) == 60


@pytest.mark.parametrize("reason", BAD_IN_BLOCKS)
def test_an_impossible_burst_in_a_block_is_refused_alone(mesh, reason):
    bad = BAD_BURSTS[reason]
    good = [burst(1.0, None, at=HOUR + timedelta(seconds=n)) for n in range(2 if bad.family == 4 else 0)]
    results = [
        delivered(mesh.slac_cern, bad, 41),
        *(delivered(mesh.slac_anl, each, 42 + n) for n, each in enumerate(good)),
    ]
    together = in_blocks(batch(*results))
    assert len(together.blocks) == 1

    receipt = store(mesh.slac.pk, together, NOW)

    assert receipt.accepted == Burst.objects.count() == len(good)
    assert reasons(receipt) == {41: reason.format(path=mesh.slac_cern.pk)}
    assert RefusedResult.objects.get().result["result"]["target"] == "cern"


def test_paths_of_others_are_refused_within_a_block(mesh):
    together = in_blocks(
        batch(
            *(
                delivered(path, burst(1.0, at=HOUR + timedelta(seconds=n)), n + 1)
                for n, path in enumerate([mesh.slac_cern, mesh.cern_slac, 99_999, mesh.slac_anl])
            )
        )
    )

    receipt = store(mesh.slac.pk, together, NOW)

    assert reasons(receipt) == {2: f"path {mesh.cern_slac.pk} does not start at this site", 3: "path 99999 is unknown"}
    assert Burst.objects.count() == 2


@pytest.mark.parametrize(("change", "stored"), [({"test": "a\0"}, 0), ({"clock_source": "tsc\0"}, 3)])
def test_a_bad_name_of_a_test_is_refused_and_of_a_clock_cleaned(mesh, change, stored):
    good = batch(*(delivered(mesh.slac_cern, burst(1.0, at=HOUR + timedelta(seconds=n)), n + 1) for n in range(3)))
    (block,) = in_blocks(good).blocks

    receipt = store(mesh.slac.pk, batch(blocks=(msgspec.structs.replace(block, first=10, **change),)), NOW)

    assert [refusal.sequence for refusal in receipt.refused] == list(range(10, 13 - stored))
    assert Burst.objects.count() == stored


def test_a_repeated_block_and_its_bursts_alone_are_stored_once(mesh):
    alone = batch(*(delivered(mesh.slac_cern, burst(1.0, at=HOUR + timedelta(seconds=n)), n + 1) for n in range(5)))

    receipts = [store(mesh.slac.pk, each, NOW) for each in (in_blocks(alone), in_blocks(alone), alone)]

    assert receipts == [Receipt(number=1, accepted=5)] * 3
    assert Burst.objects.count() == 5
    assert (ReceivedBatch.objects.count(), DirtyHour.objects.count()) == (1, 1)


def test_a_burst_that_the_database_cannot_store_is_refused_alone(mesh, monkeypatch):
    """Only the database rejects it: here, since the check of its text and its cleaning are left out."""
    monkeypatch.setattr("monitor.archive.ingest.checks._are_not", lambda column, wrong: True)
    monkeypatch.setattr("monitor.archive.ingest.binary_copy.cleaned", lambda text: text)
    details = [None, "a\0b", None]
    together = in_blocks(
        batch(
            *(
                delivered(mesh.slac_cern, burst(1.0, at=HOUR + timedelta(seconds=n), detail=detail), n + 1)
                for n, detail in enumerate(details)
            )
        )
    )

    receipt = store(mesh.slac.pk, together, NOW)

    assert (receipt.accepted, [refusal.sequence for refusal in receipt.refused]) == (2, [2])


@pytest.mark.parametrize("column", ["bursts", "rtts_ns", "targets", "addresses", "source_addresses", "details"])
def test_a_block_with_columns_of_different_lengths_is_no_batch(mesh, column):
    """The agent then sends its results one by one."""
    good = batch(
        *(delivered(mesh.slac_cern, burst(1.0, at=HOUR + timedelta(seconds=n), detail="x"), n + 1) for n in range(3))
    )
    (block,) = in_blocks(good).blocks
    whole = getattr(block, column)
    damaged = msgspec.structs.replace(block, **{column: whole[:-1]})

    with pytest.raises(BatchRejected, match="not a batch: a block is damaged"):
        store(mesh.slac.pk, batch(blocks=(damaged,)), NOW)


def test_the_bursts_in_blocks_count_among_the_results_of_a_batch(mesh, monkeypatch):
    monkeypatch.setattr("monitor.archive.ingest.arrivals.LARGEST_BATCH", 4)
    five: Batch = batch(
        *(delivered(mesh.slac_cern, burst(1.0, at=HOUR + timedelta(seconds=n)), n + 1) for n in range(5))
    )

    with pytest.raises(BatchTooLarge):
        store(mesh.slac.pk, in_blocks(five), NOW)
