import errno

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.ping.records import Records, Train
from probes.ping.tally import Tally, reordered

SECOND = 1_000_000_000
MS = 1_000_000


@given(st.lists(st.one_of(st.none(), st.integers(1, 8)), min_size=1, max_size=12))
def test_reordered_replies_are_those_that_a_later_request_overtook(arrivals):
    arrived_ns = np.array([[0 if arrival is None else arrival for arrival in arrivals]])
    in_time = np.array([[arrival is not None for arrival in arrivals]])

    overtaken = sum(
        any(later is not None and later < arrival for later in arrivals[number + 1 :])
        for number, arrival in enumerate(arrivals)
        if arrival is not None
    )

    assert reordered(arrived_ns, in_time).tolist() == [overtaken]


def flown(count: int = 3) -> Records:
    """Two targets, two sizes; every request answered after 5 ms, stamped by the kernel."""
    records = Records(2, Train((100, 1000), count, 1.0, 2.0))
    records.next = len(records.called_ns)
    records.called_ns[:] = SECOND * (1 + np.arange(records.next))
    records.stamped_ns[:] = records.called_ns + 1000
    records.arrived_ns[:] = records.stamped_ns + 5 * MS
    records.arrival_trusted[:] = True
    records.replies[:] = 1
    records.hop_limit[:] = 60
    return records


def tally(records: Records) -> Tally:
    return Tally(records.echoes(np.array([1, 0]), 2 * SECOND, 0), 2)


def test_packets_are_sorted_back_to_their_targets_and_sizes():
    counted = tally(flown())

    assert counted.sent == counted.received == [[3, 3], [3, 3]]
    assert counted.rtts_ms(0, 0) == (5.0, 5.0, 5.0)
    # The first target has rank 1: packets 1, 3, 5 and then 7, 9, 11.
    assert counted.started_at_ns == [[2 * SECOND + 1000, 8 * SECOND + 1000], [SECOND + 1000, 7 * SECOND + 1000]]
    assert (counted.ttl(0, 0), counted.stamp(0, 0)) == (60, "kernel")


def test_a_late_reply_is_lost():
    records = flown()
    records.arrived_ns[3] += 2 * SECOND

    counted = tally(records)

    assert counted.rtts_ms(0, 0) == (5.0, None, 5.0)
    assert counted.received == [[2, 3], [3, 3]]


def test_without_a_send_stamp_the_call_counts_and_the_burst_says_so():
    records = flown()
    records.stamped_ns[1] = 0

    counted = tally(records)

    assert counted.rtts_ms(0, 0) == (pytest.approx(5.001), 5.0, 5.0)
    assert (counted.stamp(0, 0), counted.stamp(0, 1)) == ("user", "kernel")


def test_a_refused_request_is_neither_sent_nor_lost():
    records = flown()
    records.refused_errno[[1, 7, 9, 11]] = errno.EHOSTUNREACH
    records.replies[[1, 7, 9, 11]] = 0

    counted = tally(records)

    assert counted.sent == counted.received == [[2, 0], [3, 3]]
    assert counted.rtts_ms(0, 0) == (5.0, 5.0)
    assert counted.refused_errno[0] == [errno.EHOSTUNREACH] * 2
    assert counted.stamp(0, 1) is None


def test_duplicates_are_counted_beyond_the_first():
    records = flown()
    records.replies[5] = 4

    assert tally(records).duplicates == [[3, 0], [0, 0]]
