"""The usage counted against daily limits: never above a day's limit, and stored across restarts."""

from datetime import UTC, datetime, timedelta

import pytest

from probes.contract import Outcome, ProbeError
from probes.site.limits.limits import Limits
from probes.site.limits.usage import Usage, UsageError
from probes.throughput.limits import Iperf3ServerLimits, OfferedTest, ThroughputLimits
from probes.transfers.spec import ThroughputSpec
from tests.facts import lacks

PEER = "192.0.2.2"
TEN_S = ThroughputSpec(address=PEER, duration_s=8, omit_s=2)


class Clock:
    def __init__(self):
        self.now = datetime(2026, 11, 21, 12, tzinfo=UTC)

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def limits(**rules):
    return Limits(throughput=ThroughputLimits(**rules))


def test_minutes_count_whole_tests_and_reset_at_midnight(clock):
    usage = Usage(limits(max_minutes_per_day=0.5), now=clock)
    for _ in range(3):
        with usage.testing(TEN_S, PEER):
            pass

    with pytest.raises(ProbeError) as refused, usage.testing(TEN_S, PEER):
        pass
    assert refused.value.outcome is Outcome.NOT_PERMITTED
    figures = " 10 s ", " 0.5 minutes today", " 0.5 minutes allowed"
    assert lacks(str(refused.value), "throughput.max_minutes_per_day:", *figures) == []

    clock.now = datetime(2026, 11, 22, tzinfo=UTC)
    with usage.testing(TEN_S, PEER):
        assert usage.today() == (10.0, 0.0)


def test_the_next_test_is_expected_to_carry_as_much_as_the_last(clock):
    usage = Usage(limits(max_bits_per_day=2.5e9), now=clock)
    for _ in range(2):
        with usage.testing(TEN_S, PEER) as used:
            used.bits = 1e9

    assert usage.today() == (20.0, 2e9)
    with pytest.raises(ProbeError) as refused:
        usage.testing(TEN_S, PEER).__enter__()
    figures = "about 1 Gbit ", " 2 Gbit today", " 2.5 Gbit allowed"
    assert lacks(str(refused.value), "throughput.max_bits_per_day: ", *figures) == []
    with usage.testing(TEN_S, "192.0.2.3"):  # no test to this peer yet
        pass
    with usage.testing(
        ThroughputSpec(address=PEER, duration_s=2), PEER
    ):  # a fifth of the duration, so a fifth of the bits
        pass


def test_a_test_with_a_rate_limit_is_assumed_to_keep_it(clock):
    usage = Usage(limits(max_bits_per_day=1e9), now=clock)

    with pytest.raises(ProbeError, match="max_bits_per_day"):
        usage.testing(ThroughputSpec(address=PEER, duration_s=11, rate_bps=100_000_000), PEER).__enter__()
    with usage.testing(ThroughputSpec(address=PEER, duration_s=10, rate_bps=100_000_000), PEER):
        pass


def test_a_limit_of_zero_bits_forbids_tests_of_unknown_size(clock):
    usage = Usage(limits(max_bits_per_day=0), now=clock)

    with pytest.raises(ProbeError, match="max_bits_per_day"):
        usage.testing(TEN_S, PEER).__enter__()


def test_a_restart_does_not_reset_the_usage(clock, tmp_path):
    file = tmp_path / "usage.json"
    first = Usage(limits(), file, now=clock)
    with first.testing(TEN_S, PEER) as used:
        used.bits = 3e9
    first.note_packets(PEER, 184)

    again = Usage(limits(), file, now=clock)

    assert again.today() == (10.0, 3e9)
    assert again.packets_within_hour(PEER) == 184
    assert again.packets_within_hour("192.0.2.3") == 0


def test_a_kill_during_a_test_does_not_reset_the_usage(clock, tmp_path):
    file = tmp_path / "usage.json"
    running = Usage(limits(), file, now=clock).testing(TEN_S, PEER)
    running.__enter__()

    assert Usage(limits(), file, now=clock).today() == (10.0, 0.0)


def test_packets_are_counted_for_an_hour(clock):
    usage = Usage(limits(), now=clock)
    usage.note_packets(PEER, 100)
    clock.now += timedelta(minutes=59)
    usage.note_packets(PEER, 10)

    assert usage.packets_within_hour(PEER) == 110
    clock.now += timedelta(minutes=1)
    assert usage.packets_within_hour(PEER) == 10


def test_where_the_file_cannot_be_written_counting_continues(clock, tmp_path, caplog):
    usage = Usage(limits(max_minutes_per_day=0.2), tmp_path / "gone" / "usage.json", now=clock)

    with usage.testing(TEN_S, PEER):
        pass

    assert "usage.json cannot be written" in caplog.text
    with pytest.raises(ProbeError, match="max_minutes_per_day"):
        usage.testing(TEN_S, PEER).__enter__()


def test_an_unreadable_usage_file_is_an_error(clock, tmp_path):
    file = tmp_path / "usage.json"
    file.write_text("{")

    with pytest.raises(UsageError) as refused:
        Usage(limits(), file, now=clock)
    assert lacks(str(refused.value), f"{file}: ", "remove it", "from nothing") == []


def test_tests_of_others_have_a_share_of_their_own_and_of_the_day(clock):
    offer = Iperf3ServerLimits(max_minutes_per_day=0.5)
    usage = Usage(Limits(throughput=ThroughputLimits(max_minutes_per_day=1), iperf3_server=offer), now=clock)
    offered = OfferedTest(length_s=20.0, rate_bps=None)
    with usage.testing(TEN_S, PEER):
        assert usage.forbids_offered(offered) is None
    with usage.testing(offered, PEER, offered=True):
        assert lacks(usage.forbids_offered(offered), "iperf3_server.max_minutes_per_day:", " 0.3 minutes today") == []

    with usage.testing(TEN_S, PEER), usage.testing(TEN_S, PEER), usage.testing(TEN_S, PEER):
        short = OfferedTest(length_s=5.0, rate_bps=None)
        assert lacks(usage.forbids_offered(short), "throughput.max_minutes_per_day:") == []


def test_more_tests_at_once_than_permitted_are_refused():
    usage = Usage(Limits(throughput=ThroughputLimits(max_parallel_tests=2)))
    spec = ThroughputSpec(address="192.0.2.1")

    two = usage.testing(spec, "192.0.2.1"), usage.testing(spec, "192.0.2.2")
    with two[0], two[1], pytest.raises(ProbeError) as raised, usage.testing(spec, "192.0.2.3"):
        pass
    with usage.testing(spec, "192.0.2.3"):
        pass

    assert raised.value.outcome is Outcome.NOT_PERMITTED
    assert str(raised.value) == "throughput.max_parallel_tests: 2 tests run now, 2 allowed"
    assert usage.today()[0] == 3 * spec.length_s
