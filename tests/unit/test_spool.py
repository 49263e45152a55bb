"""The spool's promises: nothing put is lost, batches repeat until acknowledged, everything arrives once."""

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from probes.contract import Outcome
from probes.ping.spec import Burst
from probes.site.spool import Spool, SpoolError
from probes.site.wire import Batch, Delivered, Refusal, ThroughputSlot
from probes.throughput.spec import ThroughputSpec

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def result(label: int, detail: str | None = None) -> Delivered:
    """A result that can be told from all others by its path."""
    burst = Burst(
        target="192.0.2.1",
        address="192.0.2.1",
        family=4,
        packet_bytes=100,
        started_at=NOW,
        outcome=Outcome.MEASURED,
        sent=2,
        received=1,
        rtts_ms=(1.25, None),
        detail=detail,
    )
    return Delivered(sequence=0, path_id=label, test="pinger", result=burst)


def next_batch(spool: Spool, max_results: int = 100, max_bytes: int = 10**6) -> Batch | None:
    return spool.next_batch(max_results=max_results, max_bytes=max_bytes, now=NOW, agent_version="test")


def labels(batch: Batch | None) -> list[int]:
    assert batch is not None
    return [delivered.path_id for delivered in batch.results]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "spool.sqlite3"


def test_results_leave_in_the_order_they_came(path):
    spool = Spool(path)
    spool.put([result(1), result(2)])
    spool.put([result(3)])

    batch = next_batch(spool)

    assert labels(batch) == [1, 2, 3]
    assert batch.number == 1
    assert batch.results[0].result.rtts_ms == (1.25, None)


def test_a_batch_is_the_same_until_it_is_acknowledged(path):
    spool = Spool(path)
    spool.put([result(1), result(2)])
    first = next_batch(spool, max_results=1)
    spool.put([result(3)])
    spool.close()

    again = next_batch(Spool(path), max_results=100)

    assert (again.number, again.results) == (first.number, first.results)
    assert again.queued == 2


def test_numbers_have_no_gaps_and_sequences_are_never_used_again(path):
    sequences, numbers = [], []
    for label in range(3):
        spool = Spool(path)
        spool.put([result(label)])
        batch = next_batch(spool)
        numbers.append(batch.number)
        sequences += [delivered.sequence for delivered in batch.results]
        spool.acknowledge(batch.number)
        spool.close()

    assert numbers == [1, 2, 3]
    assert len(set(sequences)) == 3


def test_a_receipt_that_comes_twice_takes_nothing_with_it(path):
    spool = Spool(path)
    spool.put([result(1)])
    first = next_batch(spool)
    spool.acknowledge(first.number)
    spool.put([result(2)])
    next_batch(spool)

    spool.acknowledge(first.number)

    assert labels(next_batch(spool)) == [2]


def test_a_batch_stays_below_its_bytes_but_always_takes_one(path):
    spool = Spool(path)
    spool.put([result(1, "x" * 5000), result(2, "y" * 5000)])

    assert labels(next_batch(spool, max_bytes=6000)) == [1]
    spool.acknowledge(1)
    assert labels(next_batch(spool, max_bytes=10)) == [2]


def test_a_refused_result_is_set_aside_with_the_reason(path):
    spool = Spool(path)
    spool.put([result(1), result(2)])
    batch = next_batch(spool)

    spool.acknowledge(batch.number, [Refusal(sequence=batch.results[1].sequence, reason="path 2 is retired")])

    assert spool.queued() == 0
    assert spool.quarantined() == [Refusal(sequence=batch.results[1].sequence, reason="path 2 is retired")]


def test_a_full_spool_drops_the_oldest_that_wait_and_counts_them(path):
    spool = Spool(path, max_bytes=30_000)
    spool.put([result(0, "x" * 5000)])
    open_batch = next_batch(spool)

    for label in range(1, 11):
        spool.put([result(label, "x" * 5000)])

    assert next_batch(spool).results == open_batch.results
    spool.acknowledge(open_batch.number)
    rest = next_batch(spool)
    assert labels(rest) == [7, 8, 9, 10]
    assert rest.dropped == spool.dropped() == 6


def test_the_count_of_dropped_results_survives_a_restart(path):
    spool = Spool(path, max_bytes=10_000)
    spool.put([result(1, "x" * 9000), result(2, "x" * 9000)])
    spool.close()

    assert Spool(path).dropped() == 1


def test_a_batch_that_is_too_large_is_halved_and_its_rest_comes_next(path):
    spool = Spool(path)
    spool.put([result(label) for label in range(5)])
    batch = next_batch(spool)

    kept = spool.halve_batch(batch.number, "too large")

    half = next_batch(spool)
    assert kept == 2
    assert (half.number, labels(half)) == (batch.number, [0, 1])
    spool.acknowledge(half.number)
    assert labels(next_batch(spool)) == [2, 3, 4]


def test_one_result_that_is_too_large_is_set_aside_and_leaves_no_gap(path):
    spool = Spool(path)
    spool.put([result(1)])
    batch = next_batch(spool)
    spool.put([result(2)])

    assert spool.halve_batch(batch.number, "413") == 0

    assert [refusal.reason for refusal in spool.quarantined()] == ["413"]
    following = next_batch(spool)
    assert (following.number, labels(following)) == (batch.number, [2])


def test_on_a_full_disk_the_loss_is_counted_and_told_when_there_is_room(path, caplog):
    spool = Spool(path)
    spool.put([result(1)])
    pages = spool._connection.execute("PRAGMA page_count").fetchone()[0]
    spool._connection.execute(f"PRAGMA max_page_count = {pages}")

    assert not spool.put([result(2, "x" * 50_000), result(3)])
    assert "disk is full" in caplog.text
    spool._connection.execute("PRAGMA max_page_count = 1000000")
    assert spool.put([result(4)])

    batch = next_batch(spool)
    assert labels(batch) == [1, 4]
    assert batch.dropped == 2


@pytest.mark.parametrize("damage", [b"this is not a database, but it was once" * 200, b""], ids=["overwritten", "cut"])
def test_a_damaged_spool_is_moved_aside_and_a_new_one_begun(path, caplog, damage):
    spool = Spool(path)
    spool.put([result(1)])
    first_id = spool.id
    spool.close()
    content = path.read_bytes()
    path.write_bytes(damage or content[: len(content) // 2 + 700])

    fresh = Spool(path)

    assert fresh.id != first_id
    assert fresh.put([result(2)])
    assert labels(next_batch(fresh)) == [2]
    assert "is damaged" in caplog.text
    assert len(list(path.parent.glob("spool.damaged-*.sqlite3"))) == 1


def test_a_spool_of_another_format_is_not_touched(path):
    spool = Spool(path)
    spool._connection.execute("UPDATE meta SET value = 99 WHERE name = 'format'")
    spool.close()

    with pytest.raises(SpoolError, match="has format 99"):
        Spool(path)
    assert path.exists()


def test_a_result_that_cannot_be_read_does_not_hold_up_the_others(path):
    spool = Spool(path)
    spool.put([result(1), result(2)])
    spool._connection.execute("UPDATE result SET body = '{\"broken\"' WHERE sequence = 1")

    assert labels(next_batch(spool)) == [2]
    assert "cannot be read" in spool.quarantined()[0].reason


def slot(slot_id: int) -> ThroughputSlot:
    return ThroughputSlot(
        slot_id=slot_id,
        path_id=7,
        test="tcp",
        role="client",
        starts_at=NOW,
        ends_at=NOW + timedelta(seconds=15),
        spec=ThroughputSpec(address="192.0.2.2"),
    )


def test_a_slot_is_taken_once_also_after_a_restart(path):
    spool = Spool(path)
    assert spool.take_slot(slot(5), NOW)
    assert not spool.take_slot(slot(5), NOW)
    spool.close()

    assert not Spool(path).take_slot(slot(5), NOW)


def test_a_slot_ends_together_with_its_result(path):
    spool = Spool(path)
    spool.take_slot(slot(5), NOW)
    spool.take_slot(slot(6), NOW)

    spool.put([result(1)], ends_slot=5)

    assert [unfinished.slot_id for unfinished in spool.unfinished_slots()] == [6]
    spool.forget_slots(NOW + timedelta(days=1))
    assert spool.taken_slots() == {6}


WRITER = textwrap.dedent("""
    import sys
    from pathlib import Path
    from probes.site.spool import Spool
    from tests.unit.test_spool import next_batch, result
    spool = Spool(Path(sys.argv[1]))
    for label in range(100_000):
        spool.put([result(label)])
        print(label, flush=True)
        if label % 7 == 0:
            next_batch(spool, max_results=3)
""")


def test_killing_the_writer_loses_nothing_that_was_put(path):
    """SIGKILL at an arbitrary moment: every put that had returned is there, in order, whole."""
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    acknowledged = [writer.stdout.readline() for _ in range(50)]
    writer.send_signal(signal.SIGKILL)
    acknowledged += writer.stdout.readlines()
    writer.wait()

    spool = Spool(path)
    found = []
    while (batch := next_batch(spool, max_results=1000)) is not None:
        found += labels(batch)
        spool.acknowledge(batch.number)
    put = [int(line) for line in acknowledged if line.endswith("\n")]
    assert len(put) >= 50
    assert found[: len(put)] == put
    assert len(found) - len(put) in (0, 1)


def test_the_spool_syncs_to_disk_at_each_commit(path):
    spool = Spool(path)

    assert spool._connection.execute("PRAGMA synchronous").fetchone() == (2,)
    assert spool._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert sqlite3.threadsafety >= 1


class Deliveries(RuleBasedStateMachine):
    """Any interleaving of results, sends, lost requests, lost receipts and restarts, against a centre that stores a
    result by its sequence, once. The model is two sets: what was put and what the centre holds."""

    def __init__(self):
        super().__init__()
        import tempfile

        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "spool.sqlite3"
        self.spool = Spool(self.path)
        self.put_labels: list[int] = []
        self.refused: set[int] = set()
        self.stored: dict[int, int] = {}
        self.batches: dict[int, tuple] = {}
        self.in_flight: Batch | None = None

    @rule(count=st.integers(1, 5))
    def put(self, count):
        new = range(len(self.put_labels), len(self.put_labels) + count)
        self.put_labels += new
        assert self.spool.put([result(label) for label in new])

    @rule(max_results=st.integers(1, 4))
    def form(self, max_results):
        batch = next_batch(self.spool, max_results=max_results)
        if batch is not None:
            known = self.batches.setdefault(batch.number, batch.results)
            assert known == batch.results, "a batch changed under its number"
        self.in_flight = batch

    @rule()
    @precondition(lambda self: self.in_flight is not None)
    def arrives_but_the_receipt_is_lost(self):
        self._store(self.in_flight)
        self.in_flight = None

    @rule()
    @precondition(lambda self: self.in_flight is not None)
    def is_acknowledged(self):
        refusals = self._store(self.in_flight)
        self.spool.acknowledge(self.in_flight.number, refusals)
        self.in_flight = None

    @rule()
    @precondition(lambda self: self.in_flight is not None and len(self.in_flight.results) > 0)
    def is_too_large(self):
        """The centre did not read it: under the same number something smaller comes. Unless it was stored before."""
        batch = self.in_flight
        if not any(delivered.sequence in self.stored for delivered in batch.results):
            if self.spool.halve_batch(batch.number, "too large") == 0:
                self.refused.add(batch.results[0].path_id)
            del self.batches[batch.number]
        self.in_flight = None

    @rule()
    def restart(self):
        self.spool.close()
        self.spool = Spool(self.path)
        self.in_flight = None

    def _store(self, batch):
        refusals = []
        for delivered in batch.results:
            if delivered.path_id % 13 == 12:
                self.refused.add(delivered.path_id)
                refusals.append(Refusal(sequence=delivered.sequence, reason="refused"))
            else:
                assert self.stored.setdefault(delivered.sequence, delivered.path_id) == delivered.path_id
        return refusals

    @invariant()
    def batch_numbers_have_no_gaps(self):
        assert sorted(self.batches) == list(range(1, len(self.batches) + 1))

    def teardown(self):
        while (batch := next_batch(self.spool)) is not None:
            self.spool.acknowledge(batch.number, self._store(batch))
        arrived = sorted(self.stored.values())
        assert arrived == sorted(set(self.put_labels) - self.refused)
        assert len(self.spool.quarantined()) == len(self.refused)
        self.spool.close()
        self.folder.cleanup()


Deliveries.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestDeliveries = Deliveries.TestCase
