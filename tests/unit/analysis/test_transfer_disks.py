"""Network or disk: the verdict on a file transfer, for rates with a known slowest part."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.analysis.transfer import DiskLimit, DiskToDisk, network_or_disk
from tests.facts import lacks

M = 1e6


def verdict_for(disk_to_disk, memory, read, write, cached=0.0, **seconds):
    """All in Mbit/s, None where not measured."""
    rates = [None if rate is None else rate * M for rate in (memory, read, write)]
    return network_or_disk(
        DiskToDisk(
            disk_to_disk_bps=disk_to_disk * M,
            memory_to_memory_bps=rates[0],
            read_bps=rates[1],
            write_bps=rates[2],
            read_cached_ratio=cached,
            **seconds,
        )
    )


@pytest.mark.parametrize(
    ("rates", "limit", "facts"),
    [
        (
            (92, 94, 4000, 1200),
            DiskLimit.NETWORK,
            "network:, 92 Mbit/s, disk to disk, 94 Mbit/s, memory to memory, sender's disk, reads, 4 Gbit/s, "
            "receiver's disk, writes, 1.2 Gbit/s",
        ),
        (
            (390, 9400, 400, 3200),
            DiskLimit.SENDERS_DISK,
            "sender's disk:, 390 Mbit/s, disk to disk, sender's disk, reads, 400 Mbit/s, 9.4 Gbit/s, "
            "memory to memory, receiver's disk, writes, 3.2 Gbit/s",
        ),
        (
            (800, 9400, 4000, 1000),
            DiskLimit.RECEIVERS_DISK,
            "receiver's disk:, 800 Mbit/s, disk to disk, receiver's disk, writes, 1 Gbit/s, 9.4 Gbit/s, "
            "memory to memory, sender's disk, reads, 4 Gbit/s",
        ),
        (
            (90, 94, 4000, 100),
            DiskLimit.NETWORK,
            "network:, 90 Mbit/s, disk to disk, 94 Mbit/s, memory to memory, little faster, receiver's disk, "
            "writes, 100 Mbit/s, sender's disk, reads, 4 Gbit/s",
        ),
        (
            (150, 94, 4000, 1200),
            DiskLimit.NETWORK,
            "network:, 150 Mbit/s, disk to disk, 94 Mbit/s, memory to memory, less than this transfer, "
            "sender's disk, reads, 4 Gbit/s, receiver's disk, writes, 1.2 Gbit/s",
        ),
        # A third each: sequentially, 900, 900 and 900 give 300.
        (
            (310, 900, 900, 900),
            DiskLimit.NEITHER,
            "neither:, 310 Mbit/s, disk to disk, 34.4%, slowest, 900 Mbit/s, memory to memory, "
            "sender's disk, reads, 900 Mbit/s, receiver's disk, writes, 900 Mbit/s, alternated, 300 Mbit/s, "
            "more streams, larger file",
        ),
        (
            (50, 900, 900, 900),
            DiskLimit.NEITHER,
            "neither:, 50 Mbit/s, disk to disk, 5.6%, slowest, 900 Mbit/s, memory to memory, "
            "sender's disk, reads, 900 Mbit/s, receiver's disk, writes, 900 Mbit/s, less than alternating, "
            "CPUs, other use of the disks, path",
        ),
        (
            (90, 94, None, 1200),
            DiskLimit.NETWORK,
            "network:, 90 Mbit/s, disk to disk, 94 Mbit/s, memory to memory, receiver's disk, writes, "
            "1.2 Gbit/s, unknown, sender's disk",
        ),
        (
            (20, 94, None, 1200),
            DiskLimit.UNDETERMINED,
            "undetermined:, 20 Mbit/s, disk to disk, 94 Mbit/s, memory to memory, receiver's disk, writes, "
            "1.2 Gbit/s, unknown, sender's disk",
        ),
        (
            (20, None, None, None),
            DiskLimit.UNDETERMINED,
            "undetermined:, no rate, network, disk",
        ),
    ],
)
def test_the_slowest_part_is_named_with_its_evidence(rates, limit, facts):
    verdict = verdict_for(*rates)

    assert verdict.limit is limit
    first, *others = facts.split(", ")
    assert verdict.sentence.startswith(first)
    assert lacks(verdict.sentence, first, *others) == []
    # These figures and no others.
    assert re.findall(r"[\d.]+(?:%| \w*bit/s)", verdict.sentence) == [fact for fact in others if fact[0].isdigit()]


def test_a_cached_file_is_no_evidence_of_the_senders_disk():
    verdict = verdict_for(90, 94, 80, 1200, cached=1.0)

    assert verdict.limit is DiskLimit.NETWORK
    assert lacks(verdict.sentence.rpartition(";")[2], "sender's disk", "unknown", " 100% of its file", "cached") == []
    assert verdict_for(20, 94, 20, 1200, cached=1.0).limit is DiskLimit.UNDETERMINED


@pytest.mark.parametrize(
    ("file_s", "memory_s", "limit"),
    [
        (4.9, 10.0, DiskLimit.UNDETERMINED),
        (5.1, 10.0, DiskLimit.NEITHER),
        (None, 10.0, DiskLimit.NEITHER),
        (4.9, None, DiskLimit.NEITHER),
    ],
)
def test_a_file_of_less_than_half_the_time_proves_no_busy_host(file_s, memory_s, limit):
    verdict = verdict_for(50, 900, 900, 900, file_s=file_s, memory_s=memory_s)

    assert verdict.limit is limit
    is_short = limit is DiskLimit.UNDETERMINED
    assert lacks(verdict.sentence, *(["50 Mbit/s", "too short", "larger file"] if is_short else ["CPUs"])) == []
    assert ("CPUs" in verdict.sentence) is not is_short


def test_a_short_file_that_is_fast_or_alternated_has_its_verdict():
    assert verdict_for(92, 94, 4000, 1200, file_s=1.0, memory_s=10.0).limit is DiskLimit.NETWORK
    assert verdict_for(310, 900, 900, 900, file_s=1.0, memory_s=10.0).limit is DiskLimit.NEITHER


@given(st.floats(0.5, 1.0), st.floats(0.0, 0.19))
def test_slow_start_explains_no_slow_file_of_half_the_time(file_s, start_s):
    """A path that carries nothing in its first `start_s`, then 1 Mbit/s; the transfer from memory takes 1 s."""
    verdict = network_or_disk(
        DiskToDisk(
            disk_to_disk_bps=1e6 * (file_s - start_s) / file_s,
            memory_to_memory_bps=1e6 * (1.0 - start_s),
            read_bps=1e12,
            write_bps=1e12,
            file_s=file_s,
            memory_s=1.0,
        )
    )

    assert verdict.limit is DiskLimit.NETWORK


rates = st.floats(1e3, 1e12)


@given(rates, rates, rates, st.floats(0.8, 1.0))
def test_parallel_parts_are_as_fast_as_the_slowest(memory, read, write, share):
    slowest = min((memory, DiskLimit.NETWORK), (read, DiskLimit.SENDERS_DISK), (write, DiskLimit.RECEIVERS_DISK))

    verdict = network_or_disk(
        DiskToDisk(disk_to_disk_bps=share * slowest[0], memory_to_memory_bps=memory, read_bps=read, write_bps=write)
    )

    others = {memory, read, write}
    assert verdict.limit is slowest[1] or len(others) < 3
