"""Recoveries, stalls and pauses in generated intervals, compared with areas computed by hand and published
transfers."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.analysis.transfer import Verdict, diagnose
from tests.diagnosis.generated import Moment, recorded

FULL_BPS = 80e6


def tenth(now_s):
    return round(now_s * 10)


def sawtooth(first_s, recovery_s):
    """A single loss at `first_s`: the rate halves and recovers linearly."""

    def moment(now_s):
        since_s = now_s + 0.05 - first_s
        down = max(0.0, 0.5 * (1 - since_s / recovery_s)) if since_s > 0 else 0.0
        rate_bps = FULL_BPS * (1 - down)
        return Moment(rate_bps, rate_bps * 0.04 / 8, retransmits=1 if tenth(now_s) == tenth(first_s) else 0)

    return moment


@pytest.mark.parametrize("recovery_s", [2.0, 5.0, 8.0])
def test_a_loss_costs_the_area_of_its_triangle(recovery_s):
    [event] = diagnose(recorded(sawtooth(3.0, recovery_s), 15)).recoveries

    # Half of the rate at first, nothing at the end: a quarter of the time. The last 5% of the rate do not count.
    assert event.lost_s == pytest.approx(recovery_s / 4, rel=0.05)
    assert event.start_s == pytest.approx(3.0)
    assert event.end_s - event.start_s == pytest.approx(recovery_s * 0.9, abs=0.2)
    assert event.recovered


def test_a_loss_without_recovery_is_reported_as_such():
    [event] = diagnose(recorded(sawtooth(3.0, 20.0), 10)).recoveries

    assert not event.recovered
    assert event.end_s == pytest.approx(10.0)


def test_bytes_between_losses_are_the_delivered_bytes():
    def moment(now_s):
        return Moment(8e6, 4e4, retransmits=3 if tenth(now_s) in (10, 40, 45) else 0)

    recoveries = diagnose(recorded(moment, 6)).recoveries

    assert [event.before_bytes for event in recoveries] == pytest.approx([1e6, 3e6, 0.5e6])
    assert [event.resent_segments for event in recoveries] == [3, 3, 3]


def test_ongoing_retransmission_is_an_event_until_the_next_cut():
    cut = {10: 4e4, 11: 4e4, 12: 4e4, 13: 2e4, 14: 2e4}

    def moment(now_s):
        return Moment(8e6, cut.get(tenth(now_s), 8e4), retransmits=2 if tenth(now_s) in cut else 0)

    recoveries = diagnose(recorded(moment, 5)).recoveries

    assert [(round(event.start_s, 1), event.resent_segments) for event in recoveries] == [(1.0, 6), (1.3, 4)]


def test_silence_after_a_loss_is_a_stall_and_not_a_pause():
    def moment(now_s):
        silent = 20 <= tenth(now_s) < 25
        return Moment(0.0 if silent else 8e6, 4e4, retransmits=1 if tenth(now_s) in (20, 24) else 0)

    diagnosis = diagnose(recorded(moment, 5))

    assert diagnosis.pauses == ()
    assert sum(event.stalled_s for event in diagnosis.recoveries) == pytest.approx(0.5)


def ornl_to_nersc(now_s):
    """102 ms; 32 MB at 71 Mbit/s take 3.6 s; then 200 ms of pause, and a burst of 200 KB."""
    phase = tenth(now_s) % 38
    if phase >= 36:
        return Moment(0.0, 2e6, rtt_ms=102.0)
    return Moment(16e6 if phase == 0 else 71e6, 2e6, rtt_ms=102.0)


def test_the_pauses_of_ornl_to_nersc_equal_the_published():
    diagnosis = diagnose(recorded(ornl_to_nersc, 30.4))

    lengths = [pause.length_s for pause in diagnosis.pauses]
    assert lengths == pytest.approx([0.2] * 7)
    assert diagnosis.pauses[0].burst_bytes == pytest.approx(200e3 + 71e6 / 8 * 0.102)


def test_the_events_of_ornl_to_nersc_are_counted_as_published():
    """2,233 retransmissions in 33 recovery events: 67 or 68 each."""
    resent = {10 * number + 5: 67 + (number <= 22) for number in range(1, 34)}

    diagnosis = diagnose(
        recorded(lambda now_s: Moment(71e6, 9e5, rtt_ms=102.0, retransmits=resent.get(tenth(now_s), 0)), 40)
    )

    assert len(diagnosis.recoveries) == 33
    assert sum(event.resent_segments for event in diagnosis.recoveries) == 2233


@settings(deadline=None)
@given(st.integers(1, 8), st.integers(2, 9))
def test_pauses_have_their_share_of_the_time(pause_tenths, every_s):
    def moment(now_s):
        silent = now_s > 0.95 and tenth(now_s) % (10 * every_s) < pause_tenths
        return Moment(0.0 if silent else 20e6, 3e5)

    diagnosis = diagnose(recorded(moment, 10 * every_s))

    assert len(diagnosis.pauses) == 9
    assert sum(pause.length_s for pause in diagnosis.pauses) == pytest.approx(0.9 * pause_tenths)
    if 0.9 * pause_tenths > 0.11 * 10 * every_s:
        assert diagnosis.verdict is Verdict.APPLICATION_LIMITED


def test_a_closed_window_is_the_receivers_pause():
    def moment(now_s):
        closed = tenth(now_s) % 4 < 2 and now_s > 1
        return Moment(0.0 if closed else 8e6, 3e5, window_bytes=0.0 if closed else 130e3)

    diagnosis = diagnose(recorded(moment, 6))

    assert diagnosis.pauses == ()
    assert diagnosis.verdict is Verdict.SLOW_RECEIVER


def test_a_full_window_explains_silence_with_sender_data_only():
    def moment(now_s):
        return Moment(0.0 if tenth(now_s) % 4 < 3 else 32e6, 3e5, window_bytes=130e3)

    def open_window(now_s):
        return dataclasses.replace(moment(now_s), window_bytes=1e6)

    used_up = dataclasses.replace(recorded(moment, 6), arrivals=())
    had_room = dataclasses.replace(recorded(open_window, 6), arrivals=())

    assert diagnose(used_up).pauses == ()
    assert len(diagnose(had_room).pauses) > 10
