import errno
import json
import math
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.__main__ import main
from probes.contract import Deadline, NotPermitted, Outcome, ProbeError
from probes.ping import burst as burst_module
from probes.ping.burst import IcmpProbe, Tally, measure, problems, reordered, summary
from probes.ping.command import as_json, loss_text
from probes.ping.records import Records, Train
from probes.ping.resolve import why_not
from probes.ping.spec import Burst, PingSpec, PingTarget

SECOND = 1_000_000_000
MS = 1_000_000
LOOPBACK = PingTarget(address="127.0.0.1")


def burst(*rtts_ms: float | None) -> Burst:
    return Burst(
        target="cern",
        address="192.0.2.1",
        family=4,
        packet_bytes=100,
        started_at=datetime(2026, 11, 21, tzinfo=UTC),
        outcome=Outcome.MEASURED if rtts_ms else Outcome.NO_ROUTE,
        sent=len(rtts_ms),
        received=sum(rtt is not None for rtt in rtts_ms),
        rtts_ms=rtts_ms,
    )


def test_the_summary_of_the_reference_set():
    numbers = summary(burst(100.0, 102.0, 103.0, 100.0, 99.0))

    # PingER's own example for min, max and mean; the differences 2, 1, -3, -1 have quartiles -1.5 and 1.25.
    assert numbers == {
        "loss_ratio": 0.0,
        "rtt_min_ms": 99.0,
        "rtt_median_ms": 100.0,
        "rtt_avg_ms": pytest.approx(100.8),
        "rtt_max_ms": 103.0,
        "ipdv_ms": pytest.approx(2.75),
    }


def test_a_round_trip_of_zero_is_a_number():
    assert summary(burst(0.0, 0.0))["rtt_max_ms"] == 0.0


def test_a_lost_probe_breaks_the_pairs_of_ipdv():
    assert summary(burst(10.0, None, 50.0))["ipdv_ms"] is None
    assert summary(burst(10.0, 11.0, None, 50.0, 51.0))["ipdv_ms"] == 0.0


def test_total_loss_has_a_loss_and_no_round_trips():
    numbers = summary(burst(None, None))

    assert numbers.pop("loss_ratio") == 1.0
    assert set(numbers.values()) == {None}


def test_nothing_sent_has_no_loss_either():
    assert set(summary(burst()).values()) == {None}


@pytest.mark.parametrize(
    ("rtts_ms", "text"),
    [
        ((1.0,) * 10, "0 of 10 (< 30%)"),
        ((1.0, None), "1 of 2 (50%)"),
        ((1.0,), "0 of 1 (< 100%)"),
        ((), "not measured"),
    ],
)
def test_none_lost_of_n_shows_as_less_than_3_of_n(rtts_ms, text):
    assert loss_text(burst(*rtts_ms)) == text


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


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"packet_bytes": (15,)}, "packet_bytes 15: must be from 16 to 65000"),
        ({"packet_bytes": (65_001,)}, "packet_bytes 65001"),
        ({"packet_bytes": ()}, "at least one size"),
        ({"count": 0}, "count 0"),
        ({"spacing_s": 0.001}, "spacing_s 0.001"),
        ({"spacing_s": math.nan}, "spacing_s nan"),
        ({"timeout_s": 0.0}, "timeout_s 0.0"),
    ],
)
def test_a_spec_with_wrong_numbers_is_not_run(change, says):
    spec = PingSpec(targets=(LOOPBACK,), **change)

    assert says in problems(spec)[0]
    assert says in IcmpProbe().can_run(spec)[0]
    with pytest.raises(ProbeError, match=says.split(":")[0]):
        measure(spec, Deadline(1.0))


def test_sizes_at_the_limits_are_right():
    assert problems(PingSpec(targets=(LOOPBACK,), packet_bytes=(16, 65_000))) == []


@pytest.mark.parametrize(
    ("address", "says"),
    [
        (("224.0.0.1", 0), "multicast"),
        (("ff02::1", 0, 0, 0), "multicast"),
        (("0.0.0.0", 0), "unspecified"),
        (("::", 0, 0, 0), "unspecified"),
        (("255.255.255.255", 0), "broadcast"),
        (("::ffff:192.0.2.1", 0, 0, 0), "give 192.0.2.1 and IPv4"),
        (("fe80::1", 0, 0, 0), "give fe80::1%INTERFACE"),
    ],
)
def test_addresses_that_are_no_ones_own_are_refused(address, says):
    assert says in (why_not(address) or "")


@pytest.mark.parametrize("address", [("192.0.2.1", 0), ("2001:db8::1", 0, 0, 0), ("fe80::1%eth0", 0, 0, 2)])
def test_ordinary_addresses_are_not_refused(address):
    assert why_not(address) is None


def test_without_permission_every_burst_says_which_setting_to_change(monkeypatch):
    def refuse(*_: object) -> None:
        raise NotPermitted("run sysctl")

    monkeypatch.setattr(burst_module, "Channel", refuse)

    bursts = measure(PingSpec(targets=(LOOPBACK,), count=1), Deadline(5.0))

    assert [(b.outcome, b.packet_bytes, b.address) for b in bursts] == [
        (Outcome.NOT_PERMITTED, 100, "127.0.0.1"),
        (Outcome.NOT_PERMITTED, 1000, "127.0.0.1"),
    ]
    assert {b.detail for b in bursts} == {"run sysctl"}


def test_the_json_line_has_exactly_the_promised_keys():
    line = json.loads(json.dumps(as_json(burst(1.0, None))))

    assert list(line) == [
        *("target", "address", "family", "packet_bytes", "started_at", "outcome", "sent", "received", "duplicates"),
        *("reordered", "loss_ratio", "rtts_ms", "rtt_min_ms", "rtt_median_ms", "rtt_avg_ms", "rtt_max_ms", "ipdv_ms"),
        *("ttl", "stamp", "detail"),
    ]
    assert line["started_at"] == "2026-11-21T00:00:00Z"
    assert line["rtts_ms"] == [1.0, None]


@pytest.mark.parametrize("options", [["--sizes", "8"], ["--sizes", "70000"], ["--count", "0"], ["--spacing-s", "0"]])
def test_wrong_numbers_are_a_usage_error(options, capsys):
    assert main(["ping", "127.0.0.1", *options]) == 2
    assert "must be from" in capsys.readouterr().err


def test_a_size_that_is_no_number_is_a_usage_error(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["ping", "127.0.0.1", "--sizes", "big"])

    assert stopped.value.code == 2
    assert "100,1000" in capsys.readouterr().err
