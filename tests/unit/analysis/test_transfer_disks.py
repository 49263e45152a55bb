"""Network or disk: the verdict on a file's way, by rates whose slowest part was set."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.analysis.transfer import DiskLimit, DiskToDisk, network_or_disk

M = 1e6


def found(disk_to_disk, memory, read, write, cached=0.0):
    """All in Mbit/s, None where not known."""
    rates = [None if rate is None else rate * M for rate in (memory, read, write)]
    return network_or_disk(
        DiskToDisk(
            disk_to_disk_bps=disk_to_disk * M,
            memory_to_memory_bps=rates[0],
            read_bps=rates[1],
            write_bps=rates[2],
            read_cached_ratio=cached,
        )
    )


@pytest.mark.parametrize(
    ("rates", "limit", "sentence"),
    [
        (
            (92, 94, 4000, 1200),
            DiskLimit.NETWORK,
            "network: 92 Mbit/s from disk to disk, and the same streams carry 94 Mbit/s from memory to memory; the "
            "sender's disk alone reads 4 Gbit/s, the receiver's disk alone writes 1.2 Gbit/s",
        ),
        (
            (390, 9400, 400, 3200),
            DiskLimit.SENDERS_DISK,
            "sender's disk: 390 Mbit/s from disk to disk, and the sender's disk alone reads 400 Mbit/s; the same "
            "streams carry 9.4 Gbit/s from memory to memory, the receiver's disk alone writes 3.2 Gbit/s",
        ),
        (
            (800, 9400, 4000, 1000),
            DiskLimit.RECEIVERS_DISK,
            "receiver's disk: 800 Mbit/s from disk to disk, and the receiver's disk alone writes 1 Gbit/s; the same "
            "streams carry 9.4 Gbit/s from memory to memory, the sender's disk alone reads 4 Gbit/s",
        ),
        (
            (90, 94, 4000, 100),
            DiskLimit.NETWORK,
            "network: 90 Mbit/s from disk to disk, and the same streams carry 94 Mbit/s from memory to memory; little "
            "faster: the receiver's disk alone writes 100 Mbit/s; the sender's disk alone reads 4 Gbit/s",
        ),
        (
            (150, 94, 4000, 1200),
            DiskLimit.NETWORK,
            "network: 150 Mbit/s from disk to disk, and the same streams carry 94 Mbit/s from memory to memory, "
            "less than "
            "this transfer; the sender's disk alone reads 4 Gbit/s, the receiver's disk alone writes 1.2 Gbit/s",
        ),
        # A third each: one after the other, 900, 900 and 900 give 300.
        (
            (310, 900, 900, 900),
            DiskLimit.NEITHER,
            "neither: 310 Mbit/s from disk to disk, 34.4% of the slowest part alone; the same streams carry "
            "900 Mbit/s from memory to memory, the sender's disk alone reads 900 Mbit/s, the receiver's disk alone "
            "writes 900 Mbit/s; reading, sending and writing alternated, which gives 300 Mbit/s: use more "
            "streams or a larger file",
        ),
        (
            (50, 900, 900, 900),
            DiskLimit.NEITHER,
            "neither: 50 Mbit/s from disk to disk, 5.6% of the slowest part alone; the same streams carry "
            "900 Mbit/s from memory to memory, the sender's disk alone reads 900 Mbit/s, the receiver's disk alone "
            "writes 900 Mbit/s; less than alternating would give: check the CPUs of the hosts and other "
            "use of the disks",
        ),
        (
            (90, 94, None, 1200),
            DiskLimit.NETWORK,
            "network: 90 Mbit/s from disk to disk, and the same streams carry 94 Mbit/s from memory to memory; the "
            "receiver's disk alone writes 1.2 Gbit/s; rate alone unknown: sender's disk",
        ),
        (
            (20, 94, None, 1200),
            DiskLimit.UNDETERMINED,
            "undetermined: 20 Mbit/s from disk to disk, where the same streams carry 94 Mbit/s from memory to memory, "
            "the receiver's disk alone writes 1.2 Gbit/s; rate alone unknown: sender's disk",
        ),
        (
            (20, None, None, None),
            DiskLimit.UNDETERMINED,
            "undetermined: no rate of the network or of a disk alone is known",
        ),
    ],
)
def test_the_slowest_part_is_named_with_its_evidence(rates, limit, sentence):
    assert (found(*rates).limit, found(*rates).sentence) == (limit, sentence)


def test_a_file_that_was_in_memory_says_nothing_of_the_senders_disk():
    told = found(90, 94, 80, 1200, cached=1.0)

    assert told.limit is DiskLimit.NETWORK
    assert told.sentence.endswith("; the sender's disk is unknown: 100% of its file was cached in memory")
    assert found(20, 94, 20, 1200, cached=1.0).limit is DiskLimit.UNDETERMINED


rates = st.floats(1e3, 1e12)


@given(rates, rates, rates, st.floats(0.8, 1.0))
def test_parts_that_work_at_the_same_time_are_as_fast_as_the_slowest(memory, read, write, share):
    slowest = min((memory, DiskLimit.NETWORK), (read, DiskLimit.SENDERS_DISK), (write, DiskLimit.RECEIVERS_DISK))

    told = network_or_disk(
        DiskToDisk(disk_to_disk_bps=share * slowest[0], memory_to_memory_bps=memory, read_bps=read, write_bps=write)
    )

    others = {memory, read, write}
    assert told.limit is slowest[1] or len(others) < 3
