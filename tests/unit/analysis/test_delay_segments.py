"""Segments of the RTT: a longer one is told with its begin and its level, and its end; a jitter or a spike is none."""

import numpy as np
import pytest

from monitor.analysis.segments.delay_segments import LONGER, USUAL, DelaySegments

ROW = np.array([0])


def followed(medians_ms, *, every_s=10.0, rise_ms=6.0, states=None, newest=None):
    """The segments of a path with these medians of bursts."""
    paths = DelaySegments(1)
    paths.rises_ms[:] = rise_ms
    paths.begin(ROW, np.array([0.0]))
    for number, median_ms in enumerate(medians_ms):
        at_s = np.array([every_s * number])
        paths.take(ROW, at_s, np.array([every_s * (number > 0)]), np.array([median_ms]))
        if states is not None:
            states.append(int(paths.states[0]))
        if newest is not None:
            newest.append(paths.segments(ROW)[0][-1])
    return paths.segments(ROW)[0]


def noisy(levels_ms, seed=1):
    return np.asarray(levels_ms) + np.random.default_rng(seed).exponential(0.3, len(levels_ms))


def test_a_step_is_a_segment_with_its_level_and_end():
    segments = followed(noisy([102.0] * 60 + [162.0] * 36 + [102.0] * 30))

    assert [segment.state for segment in segments] == [USUAL, LONGER, USUAL]
    before, longer, after = segments
    assert (longer.since.at_s, after.since.at_s) == (600.0, 960.0)
    assert longer.median_ms == pytest.approx(162.3, abs=0.5)
    assert before.median_ms == pytest.approx(102.3, abs=0.5)
    assert after.interval[0] <= 102.3 <= after.interval[1]


def test_a_step_is_told_within_a_few_bursts():
    states = []
    followed(noisy([102.0] * 60 + [162.0] * 36 + [102.0] * 30), states=states)

    assert states[60:64].count(LONGER) >= 1
    assert states[99] == USUAL


def test_a_slow_rise_is_told_with_the_level_of_now_and_the_highest():
    rise = [102.0] * 60 + [102.0 + 2.0 * (number // 3) for number in range(75)] + [150.0] * 20
    segments = followed(noisy(rise))

    assert segments[-1].state == LONGER
    assert segments[-1].median_ms == pytest.approx(150.3, abs=1.0 + 1.5)
    down = followed(noisy([*rise, *[124.0] * 20]))
    assert down[-1].median_ms == pytest.approx(124.3, abs=1.0 + 1.2)
    assert down[-1].worst_ms >= 149.0


def test_jitter_is_no_longer_rtt():
    told = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        levels = np.concatenate([np.full(60, 104.6), 104.6 + rng.uniform(-30.0, 30.0, 39) / 3.0, np.full(30, 104.6)])
        states = []
        followed(noisy(levels, seed), states=states)
        told += max(states)

    assert told <= 1


def test_a_spike_is_no_longer_rtt():
    states = []
    followed(noisy([20.0] * 40 + [90.0] + [20.0] * 40), states=states)

    assert max(states) == USUAL


def test_the_rtt_of_a_finding_is_longer_until_it_is_half_back():
    """Of 20 ms that became 60: half of its rise is the limit."""
    not_yet = followed(noisy([20.0] * 60 + [60.0] * 30 + [45.0] * 30), rise_ms=20.0)
    half = followed(noisy([20.0] * 60 + [60.0] * 30 + [35.0] * 30), rise_ms=20.0)

    assert [segment.state for segment in not_yet] == [USUAL, LONGER]
    assert [segment.state for segment in half] == [USUAL, LONGER, USUAL]


def test_a_return_to_the_usual_rtt_is_no_rise():
    """After ten minutes of a shorter one, which is not the usual RTT by then."""
    states = []
    followed(noisy([124.0] * 360 + [104.0] * 60 + [124.0] * 60), states=states)

    assert max(states) == USUAL


def test_the_usual_rtt_of_the_hour_counts_alone():
    """Of a path whose own is not known."""
    paths = DelaySegments(1)
    paths.rises_ms[:], paths.hourly_ms[:] = 6.0, 20.0

    assert paths.limits_of(ROW).tolist() == [26.0]


def test_a_shorter_rtt_becomes_the_usual_one():
    segments = followed(noisy([120.0] * 60 + [80.0] * 720 + [95.0] * 12))

    assert segments[-1].state == LONGER


def test_a_longer_rtt_goes_on_from_its_stored_segments():
    """A new process reads the newest bursts alone, which began long after the rise."""
    medians_ms = noisy([102.0] * 60 + [162.0] * 60)
    stored, newest = followed(medians_ms), noisy([162.0] * 20 + [102.0] * 30, seed=2)
    paths = DelaySegments(1)
    paths.rises_ms[:], paths.usual_ms[:] = 6.0, 102.3
    paths.begin(ROW, np.array([1_200.0]))
    paths.go_on(0, stored)
    for number, median_ms in enumerate(newest):
        at_s, spacing_s = np.array([1_200.0 + 10.0 * number]), np.array([10.0 * (number > 0)])
        paths.take(ROW, at_s, spacing_s, np.array([median_ms]))
        if number == 19:
            assert paths.segments(ROW)[0][-1].since.at_s == 600.0
            assert paths.segments(ROW)[0][-1].median_ms == pytest.approx(162.3, abs=0.5)

    assert [(segment.state, segment.since.at_s) for segment in paths.segments(ROW)[0]] == [
        (USUAL, 0.0), (LONGER, 600.0), (USUAL, 1_400.0),
    ]  # fmt: skip


@pytest.mark.parametrize(("hourly_ms", "is_longer"), [(np.nan, True), (30.0, False), (20.0, True)])
def test_a_rise_of_each_day_is_none(hourly_ms, is_longer):
    """The RTT rises by 10 ms within half an hour: to the usual RTT of this hour, or to more than it."""
    paths, states = DelaySegments(1), []
    paths.rises_ms[:], paths.hourly_ms[:] = 6.0, hourly_ms
    paths.begin(ROW, np.array([0.0]))
    for number, median_ms in enumerate(noisy([20.0] * 60 + np.linspace(20.0, 30.0, 60).tolist() + [30.0] * 60)):
        paths.take(ROW, np.array([30.0 * number]), np.array([30.0 * (number > 0)]), np.array([median_ms]))
        states.append(int(paths.states[0]))

    assert (LONGER in states) is is_longer
