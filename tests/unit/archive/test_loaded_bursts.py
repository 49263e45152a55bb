"""The last answered packet of a burst that a throughput test overlaps, for every way an outage can cut such a burst."""

from __future__ import annotations

from datetime import UTC, datetime

from monitor.archive.queries.around import LoadedBurst

AT = datetime(2026, 11, 21, 10, tzinfo=UTC)
COUNT = 6


def cut_bursts():
    """Each burst as agents deliver it, with the number of answered packets and the first packet sent during a
    throughput test, which lasts from `first` to `end`."""
    for answered in range(COUNT + 1):
        rtts_ms = [20.0] * answered + [None] * (COUNT - answered)
        for first in range(COUNT + 1):
            for end in range(first, COUNT + 1):
                kept = (*rtts_ms[:first], *rtts_ms[end:])
                yield answered, first, LoadedBurst(1, AT, kept, tuple(rtts_ms[first:end]))


def test_the_last_answered_packet_of_a_burst_that_an_outage_cuts():
    looks = 0
    for answered, first, burst in cut_bursts():
        if first < answered and burst.rtts_ms:
            looks += 1
            last, latest = burst.last_answered
            assert last == answered - 1, burst
            assert latest >= last
        else:
            assert burst.last_answered is None, burst
    assert looks == sum(count**2 for count in range(COUNT + 1))
