"""The spool's guarantees: no stored result is lost, batches repeat until acknowledged, everything arrives once."""

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from probes.contract import Outcome
from probes.packets.spec import Burst
from probes.site.health import Dropped
from probes.site.spool.blocks import without_blocks
from probes.site.spool.ledger import Cycle
from probes.site.spool.spool import Spool, SpoolError
from probes.site.wire import Batch, BurstBlock, Delivered, Refusal
from probes.throughput.spec import ThroughputSlot
from probes.transfers.spec import ThroughputSpec
from tests.burst_blocks import block_of
from tests.spools import count_queued

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def result(label: int, detail: str | None = None) -> Delivered:
    """A result that its path id tells from all others."""
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


def block(labels: Iterable[int], **fields: object) -> BurstBlock:
    """A block of such results, without numbers."""
    alone = [msgspec.structs.replace(result(label), sequence=place) for place, label in enumerate(labels)]
    return msgspec.structs.replace(block_of(alone), first=0, **fields)


def next_batch(spool: Spool, max_results: int = 100, max_bytes: int = 10**6) -> Batch | None:
    return spool.next_batch(max_results=max_results, max_bytes=max_bytes, now=NOW, agent_version="test")


def labels(batch: Batch | None) -> list[int]:
    assert batch is not None
    return [delivered.path_id for delivered in batch.results]


def test_a_block_is_delivered_whole_with_the_numbers_of_its_results(path):
    spool = Spool(path)
    spool.put([result(7), block([1, 2, 3]), result(8)])
    spool.put([block([4, 5])])

    batch = next_batch(Spool(path))

    assert ([len(each) for each in batch.all_blocks], labels(batch)) == ([3, 2], [7, 8])
    assert sorted(batch.sequences) == [1, 2, 3, 4, 5, 6, 7]
    assert [each.path_id for each in without_blocks(batch).results] == [7, 1, 2, 3, 8, 4, 5]


def test_numbers_go_on_after_a_block_that_was_delivered(path):
    spool = Spool(path)
    spool.put([block([1, 2, 3])])
    spool.acknowledge(next_batch(spool).number)
    spool.put([result(4)])

    assert next_batch(Spool(path)).sequences == [4]


def test_a_smaller_batch_than_a_block_has_results_of_their_own(path):
    spool = Spool(path)
    spool.put([block([1, 2, 3], cycle=5, every_s=60)])

    batch = next_batch(spool, max_results=2)

    assert (labels(batch), batch.all_blocks, batch.queued) == ([1, 2], (), 1)
    assert batch.results == tuple(
        msgspec.structs.replace(result(label), sequence=label, cycle=None, every_s=None) for label in (1, 2)
    )


def test_a_refused_result_of_a_block_is_quarantined_alone(path):
    spool = Spool(path)
    spool.put([block([1, 2, 3])])
    batch = next_batch(spool)

    spool.acknowledge(batch.number, [Refusal(sequence=2, reason="path 2 is unknown")])

    assert [(refusal.sequence, refusal.reason) for refusal in spool.quarantined()] == [(2, "path 2 is unknown")]
    assert next_batch(spool) is None
    assert not spool.has_results


def test_a_batch_of_a_block_is_halved_down_to_a_result(path):
    spool = Spool(path)
    spool.put([block([1, 2, 3, 4]), result(5)])
    number = next_batch(spool).number

    left = [spool.halve_batch(number, "bad") for _ in range(3)]

    assert left == [2, 1, 0]
    assert [refusal.sequence for refusal in spool.quarantined()] == [1]
    assert [each.path_id for each in without_blocks(next_batch(spool)).results] == [2, 3, 4, 5]


def test_a_dropped_block_counts_each_of_its_results(path):
    spool = Spool(path, max_bytes=3000)
    spool.put([block(range(40), cycle=5, every_s=60)], cycle=Cycle("pinger", 60, 5))
    spool.put([block(range(40, 45))])

    assert spool.count_dropped() == 40
    assert spool.dropped_by_kind() == (Dropped(kind="ping", reason="too_many", count=40),)
    assert sorted(next_batch(spool).sequences) == [41, 42, 43, 44, 45]


def test_a_damaged_block_is_quarantined(path):
    spool = Spool(path)
    spool.put([block([1, 2, 3]), result(4)])
    change(path, "UPDATE result SET body = x'00' WHERE block = 3")

    assert labels(next_batch(spool)) == [4]
    assert [refusal.sequence for refusal in spool.quarantined()] == [3]


class Clock:
    def __init__(self):
        self.now_s = NOW.timestamp()

    def __call__(self):
        return self.now_s


def change(path: Path, statement: str) -> None:
    """Change the file while the spool is open."""
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "spool.sqlite3"


def test_results_leave_in_order(path):
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


def test_a_repeated_receipt_acknowledges_nothing_more(path):
    spool = Spool(path)
    spool.put([result(1)])
    first = next_batch(spool)
    spool.acknowledge(first.number)
    spool.put([result(2)])
    next_batch(spool)

    spool.acknowledge(first.number)

    assert labels(next_batch(spool)) == [2]


def test_a_batch_stays_below_its_bytes_but_has_at_least_a_result(path):
    spool = Spool(path)
    spool.put([result(1, "x" * 5000), result(2, "y" * 5000)])

    assert labels(next_batch(spool, max_bytes=6000)) == [1]
    spool.acknowledge(1)
    assert labels(next_batch(spool, max_bytes=10)) == [2]


def test_a_refused_result_is_quarantined_with_the_reason(path):
    spool = Spool(path)
    spool.put([result(1), result(2)])
    batch = next_batch(spool)

    spool.acknowledge(batch.number, [Refusal(sequence=batch.results[1].sequence, reason="path 2 is retired")])

    assert count_queued(spool) == 0
    assert spool.quarantined() == [Refusal(sequence=batch.results[1].sequence, reason="path 2 is retired")]


def test_a_full_spool_drops_the_oldest_waiting_and_counts_them(path):
    spool = Spool(path, max_bytes=30_000)
    spool.put([result(0, "x" * 5000)])
    open_batch = next_batch(spool)

    for label in range(1, 11):
        spool.put([result(label, "x" * 5000)])

    assert next_batch(spool).results == open_batch.results
    spool.acknowledge(open_batch.number)
    rest = next_batch(spool)
    assert labels(rest) == [7, 8, 9, 10]
    assert rest.dropped == spool.count_dropped() == 6


def test_the_count_of_dropped_results_survives_a_restart(path):
    spool = Spool(path, max_bytes=10_000)
    spool.put([result(1, "x" * 9000), result(2, "x" * 9000)])
    spool.close()

    assert Spool(path).count_dropped() == 1


def test_a_batch_that_is_too_large_is_halved_the_rest_is_next(path):
    spool = Spool(path)
    spool.put([result(label) for label in range(5)])
    batch = next_batch(spool)

    first_half = spool.halve_batch(batch.number, "too large")

    half = next_batch(spool)
    assert first_half == 2
    assert (half.number, labels(half)) == (batch.number, [0, 1])
    spool.acknowledge(half.number)
    assert labels(next_batch(spool)) == [2, 3, 4]


def test_a_result_that_is_too_large_is_quarantined_without_a_gap(path):
    spool = Spool(path)
    spool.put([result(1)])
    batch = next_batch(spool)
    spool.put([result(2)])

    assert spool.halve_batch(batch.number, "413") == 0

    assert [refusal.reason for refusal in spool.quarantined()] == ["413"]
    following = next_batch(spool)
    assert (following.number, labels(following)) == (batch.number, [2])


def test_results_that_are_too_old_are_dropped_and_counted(path):
    clock = Clock()
    spool = Spool(path, max_age=timedelta(days=90), now_s=clock)
    spool.put([result(1), result(2)])
    clock.now_s += timedelta(days=60).total_seconds()
    spool.put([result(3)])
    clock.now_s += timedelta(days=31).total_seconds()

    spool.put([result(4)])

    assert labels(next_batch(spool)) == [3, 4]
    assert spool.dropped_by_kind() == (Dropped(kind="ping", reason="too_old", count=2),)


@pytest.mark.parametrize(
    "damage", [b"this is not a database, but it used to be" * 200, b""], ids=["overwritten", "cut"]
)
def test_a_damaged_spool_is_moved_aside_and_replaced(path, caplog, damage):
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


def test_a_spool_of_another_format_is_not_changed(path):
    Spool(path).close()
    change(path, "UPDATE meta SET value = 99 WHERE name = 'format'")

    with pytest.raises(SpoolError, match="has format 99"):
        Spool(path)
    assert path.exists()


def test_an_unreadable_result_does_not_block_the_others(path):
    spool = Spool(path)
    spool.put([result(1), result(2)])
    change(path, "UPDATE result SET body = '{\"broken\"' WHERE sequence = 1")

    assert labels(next_batch(spool)) == [2]
    assert "cannot be read" in spool.quarantined()[0].reason


def test_a_result_that_does_not_decode_is_sent_to_the_centre(path):
    spool = Spool(path)
    spool.put([result(1), result(2)])
    change(path, "UPDATE result SET body = json_set(body, '$.result.kind', 'telepathy') WHERE sequence = 1")

    batch = next_batch(spool)

    assert (labels(batch), spool.quarantined()) == ([1, 2], [])
    as_measured = msgspec.json.decode(msgspec.json.encode(result(1).result))
    assert batch.results[0].result == as_measured | {"kind": "telepathy"}


def test_a_value_beyond_its_bounds_is_sent_to_the_centre(path):
    spool = Spool(path)
    delivered_result = result(1)
    impossible = [{"ttl": 256}, {"detail": "a\0b"}, {"rtts_ms": (-1.0, float("nan"))}, {"late": 2**63}]
    bad = [
        msgspec.structs.replace(delivered_result, result=msgspec.structs.replace(delivered_result.result, **fields))
        for fields in impossible
    ]
    spool.put([*bad, result(2)])

    batch = next_batch(spool)

    assert (labels(batch), spool.quarantined()) == ([1, 1, 1, 1, 2], [])
    arrived = msgspec.msgpack.decode(msgspec.msgpack.encode(batch))["results"]
    assert [message["result"][name] for message, (name,) in zip(arrived, impossible, strict=False)] == [
        256, "a\0b", [-1.0, None], 2**63
    ]  # fmt: skip


def test_a_number_that_no_message_can_hold_is_quarantined(path):
    spool = Spool(path)
    delivered_result = result(1)
    spool.put(
        [
            msgspec.structs.replace(
                delivered_result, result=msgspec.structs.replace(delivered_result.result, late=2**70)
            ),
            result(2),
        ]
    )

    batch = next_batch(spool)

    assert labels(batch) == [2]
    assert "$.result.late" in spool.quarantined()[0].reason


FORMAT_1 = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE result (sequence INTEGER PRIMARY KEY AUTOINCREMENT, batch INTEGER, body BLOB NOT NULL);
CREATE INDEX result_by_batch ON result (batch, sequence);
CREATE TABLE quarantine (
    sequence INTEGER PRIMARY KEY, refused_at TEXT NOT NULL, reason TEXT NOT NULL, body BLOB NOT NULL
);
CREATE TABLE slot (
    slot_id INTEGER PRIMARY KEY, taken_at TEXT NOT NULL, ended INTEGER NOT NULL DEFAULT 0, body BLOB NOT NULL
);
INSERT INTO meta VALUES ('format', 1), ('id', 'abc'), ('acknowledged', 6), ('dropped', 3);
"""


def test_a_spool_of_the_first_format_is_upgraded_with_results(path):
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(FORMAT_1)
        connection.execute("INSERT INTO result (body) VALUES (?)", (msgspec.json.encode(result(1)),))

    spool = Spool(path)
    spool.put([result(2)])

    batch = next_batch(spool)
    assert (spool.id, batch.number, labels(batch), batch.dropped) == ("abc", 7, [1, 2], 3)


def test_results_of_a_cycle_have_its_time_by_the_centres_clock(path):
    off_s = [3610.0]
    ahead_s = [0.0]
    spool = Spool(path, clock_off_s=lambda: off_s[0], ahead_s=lambda: ahead_s[0])
    spool.claim_cycle(Cycle("pinger", 60, 1000))
    off_s[0] = None
    ahead_s[0] -= 3610

    spool.put([result(1)], cycle=Cycle("pinger", 60, 1000))

    (delivered,) = next_batch(spool).results
    assert (delivered.every_s, delivered.cycle, delivered.clock_off_s) == (60, 940, 3610.0)


@pytest.mark.parametrize(
    ("off_s", "stamped_s", "stored_s"),
    [
        (None, -30, -30),
        (120, 90, 90),  # flagged only: the centre tolerates this
        (3600, 3570, -30),
        (-3600, -3630, -30),
        (3600, -30, -30),  # the burst began before the clock was set forward
        (-3600, -30, -30),  # before it was set back
    ],
)
def test_a_far_off_time_is_corrected_if_the_clock_was_wrong(path, off_s, stamped_s, stored_s):
    spool = Spool(path, now_s=Clock(), clock_off_s=lambda: off_s)
    delivered_result = result(1)
    burst = msgspec.structs.replace(delivered_result.result, started_at=NOW + timedelta(seconds=stamped_s))

    spool.put([msgspec.structs.replace(delivered_result, result=burst)])

    (stored,) = next_batch(spool).results
    assert stored.result.started_at == NOW + timedelta(seconds=stored_s)
    assert stored.clock_off_s == off_s


def test_what_began_before_the_clock_was_set_back_is_corrected(path):
    """As a slot or a triggered trace: its cycle does not tell how wrong the clock was."""
    off_s = [3600.0]
    spool = Spool(path, now_s=Clock(), clock_off_s=lambda: off_s[0])
    spool.claim_cycle(Cycle("pinger", 60, 1000))
    off_s[0] = None

    for label, stamped_s in ((1, 3570), (2, -30)):
        delivered_result = result(label)
        trace = msgspec.structs.replace(delivered_result.result, started_at=NOW + timedelta(seconds=stamped_s))
        spool.put([msgspec.structs.replace(delivered_result, result=trace)])

    stored = next_batch(spool).results
    assert [each.result.started_at for each in stored] == [NOW - timedelta(seconds=30)] * 2
    assert [each.clock_off_s for each in stored] == [3600.0, None]


def test_a_cycle_is_claimed_once_across_restarts_and_steps(path):
    spool = Spool(path)
    assert spool.claim_cycle(Cycle("pinger", 60, 1000))
    assert not spool.claim_cycle(Cycle("pinger", 60, 1000))
    spool.close()
    spool = Spool(path)
    assert not spool.claim_cycle(Cycle("pinger", 60, 1000))

    numbers = (940, 941, 941, 940, 939, 942)
    claimed = [spool.claim_cycle(Cycle("pinger", 60, number)) for number in numbers]
    assert claimed == [True, True, False, False, False, True], "the clock may have been set back while it was down"


def gaps(spool: Spool) -> list[tuple[str | None, str, float, float]]:
    """Test, reason, and minutes after NOW of start and end, of the gaps that the next batch reports."""
    spool.put([result(0)])
    return [
        (gap.test, gap.reason.value, (gap.since - NOW) / timedelta(minutes=1), (gap.until - NOW) / timedelta(minutes=1))
        for gap in next_batch(spool).account.gaps
    ]


def minute(number: int, test: str = "pinger") -> Cycle:
    return Cycle.at(test, 60, NOW + timedelta(minutes=number))


def test_cycles_that_never_began_are_a_counted_gap(path):
    spool = Spool(path, now_s=Clock())
    for number in (0, 1, 5, 6, 9):
        spool.claim_cycle(minute(number))
        spool.end_cycle(minute(number))

    assert gaps(spool) == [("pinger", "late", 2.0, 5.0), ("pinger", "late", 7.0, 9.0)]
    assert spool.lost_cycles == 5


def test_a_month_away_is_two_gaps(path):
    clock = Clock()
    spool = Spool(path, now_s=clock)
    spool.claim_cycle(minute(0))
    spool.end_cycle(minute(0))
    spool.close()
    clock.now_s += timedelta(days=30).total_seconds()
    spool = Spool(path, now_s=clock)

    spool.record_start()
    spool.claim_cycle(minute(43_201))

    assert gaps(spool) == [(None, "agent_offline", 0.0, 43_200.0), ("pinger", "late", 1.0, 43_201.0)]
    assert spool.lost_cycles == 1


def test_a_cycle_in_which_the_agent_was_killed_is_a_gap(path):
    clock = Clock()
    spool = Spool(path, now_s=clock)
    spool.claim_cycle(minute(0, "killed"))
    spool.claim_cycle(minute(0, "failed"))
    spool.end_cycle(minute(0, "failed"), failed=True)
    spool.close()
    clock.now_s += 30
    spool = Spool(path, now_s=clock)

    spool.record_start(last_heartbeat_s=clock.now_s - 5)

    assert sorted(gaps(spool), key=str) == [
        ("failed", "agent_failed", 0.0, 1.0),
        ("killed", "agent_offline", 0.0, 1.0),
        (None, "agent_offline", 25 / 60, 0.5),
    ]


def test_dropped_and_quarantined_results_are_gaps(path):
    spool = Spool(path, max_bytes=4500, now_s=Clock())
    for number in range(4):
        spool.claim_cycle(minute(number))
        spool.put([result(number, "x" * 1500)], cycle=minute(number))
    batch = next_batch(spool)
    (dropped,) = batch.account.gaps

    spool.acknowledge(batch.number, [Refusal(sequence=batch.results[0].sequence, reason="no")])

    assert (dropped.reason, dropped.since, dropped.until) == ("dropped", NOW, NOW + timedelta(minutes=2))
    assert gaps(spool) == [("pinger", "set_aside", 2.0, 3.0)]


def test_gaps_are_reported_until_they_are_acknowledged(path):
    spool = Spool(path, now_s=Clock())
    spool.claim_cycle(minute(0))
    spool.claim_cycle(minute(2))
    reported = gaps(spool)
    spool.claim_cycle(minute(4))

    assert gaps(spool)[:1] == reported
    spool.acknowledge(1)
    assert gaps(spool) == []
    spool.claim_cycle(minute(9))
    spool.acknowledge(2)
    assert gaps(spool) == [("pinger", "late", 5.0, 9.0)]


def test_the_last_batch_accounts_until_the_unfinished_cycle(path):
    clock = Clock()
    spool = Spool(path, now_s=clock)
    spool.set_planned([minute(-1), minute(0, "other")])
    spool.claim_cycle(minute(0))
    spool.put([result(1)], cycle=minute(0), more=True)
    spool.put([result(2)], cycle=minute(0), more=True)

    def accounted_until(max_results=100, now=NOW):
        clock.now_s = now.timestamp()
        return next_batch(spool, max_results).account.until

    assert accounted_until(max_results=1) is None
    spool.acknowledge(1)
    assert accounted_until() == NOW
    spool.end_cycle(minute(0))
    assert accounted_until(now=NOW + timedelta(seconds=30)) == NOW + timedelta(seconds=30)
    assert accounted_until(now=NOW + timedelta(minutes=5)) == NOW + timedelta(minutes=1)


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


def test_a_slot_is_claimed_once_also_after_a_restart(path):
    spool = Spool(path)
    assert spool.claim_slot(slot(5), NOW)
    assert not spool.claim_slot(slot(5), NOW)
    spool.close()

    assert not Spool(path).claim_slot(slot(5), NOW)


def test_a_slot_ends_together_with_its_result(path):
    spool = Spool(path)
    spool.claim_slot(slot(5), NOW)
    spool.claim_slot(slot(6), NOW)

    spool.put([result(1)], ends_slot=5)

    assert [unfinished.slot_id for unfinished in spool.unfinished_slots()] == [6]
    spool.forget_slots(NOW + timedelta(days=1))
    assert spool.claimed_slots() == {6}


WRITER = textwrap.dedent("""
    import sys
    from pathlib import Path
    from probes.site.spool.spool import Spool
    from tests.unit.site.test_spool import next_batch, result
    spool = Spool(Path(sys.argv[1]))
    for label in range(100_000):
        spool.put([result(label)])
        print(label, flush=True)
        if label % 7 == 0:
            next_batch(spool, max_results=3)
""")


def test_killing_the_writer_loses_no_stored_result(path):
    """SIGKILL at an arbitrary moment: the results of every finished `put` are stored, in order and whole."""
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    acknowledged = [writer.stdout.readline() for _ in range(50)]
    writer.send_signal(signal.SIGKILL)
    acknowledged += writer.stdout.readlines()
    writer.wait()

    spool = Spool(path)
    delivered_labels = []
    while (batch := next_batch(spool, max_results=1000)) is not None:
        delivered_labels += labels(batch)
        spool.acknowledge(batch.number)
    put = [int(line) for line in acknowledged if line.endswith("\n")]
    assert len(put) >= 50
    assert delivered_labels[: len(put)] == put
    assert len(delivered_labels) - len(put) in (0, 1)


def test_the_spool_syncs_to_disk_at_each_commit(path):
    with Spool(path)._database.reading() as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert sqlite3.threadsafety >= 1


class Deliveries(RuleBasedStateMachine):
    """Any interleaving of results, sends, lost requests, lost receipts and restarts, against a centre that stores a
    result by its sequence, once. The model is two sets: the results put into the spool and those that the centre
    stored."""

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

    @rule(count=st.integers(1, 5), others=st.integers(0, 1))
    def put_block(self, count, others):
        new = range(len(self.put_labels), len(self.put_labels) + count + others)
        self.put_labels += new
        assert self.spool.put([block(new[:count]), *map(result, new[count:])])

    @rule(max_results=st.integers(1, 7))
    def form_batch(self, max_results):
        batch = next_batch(self.spool, max_results=max_results)
        if batch is not None:
            batch = without_blocks(batch)
            first_results = self.batches.setdefault(batch.number, batch.results)
            assert first_results == batch.results, "a batch changed under its number"
        self.in_flight = batch

    @rule()
    @precondition(lambda self: self.in_flight is not None)
    def arrives_but_receipt_is_lost(self):
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
        """The centre did not read it: under the same number a smaller batch follows, unless it was stored before."""
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
            self.spool.acknowledge(batch.number, self._store(without_blocks(batch)))
        arrived = sorted(self.stored.values())
        assert arrived == sorted(set(self.put_labels) - self.refused)
        assert len(self.spool.quarantined()) == len(self.refused)
        self.spool.close()
        self.folder.cleanup()


Deliveries.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestDeliveries = Deliveries.TestCase
