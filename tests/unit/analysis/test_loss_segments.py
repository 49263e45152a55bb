"""Segments of loss: each planted stretch is told once, with its begin and its packets, however it is read."""

import numpy as np
import pytest

from monitor.analysis.changes.present import LostPackets
from monitor.analysis.segments.chain_sums import from_first_reply, sums_in_order
from monitor.analysis.segments.loss_segments import LossSegment, LossSegments
from monitor.analysis.segments.segment import Moment
from monitor.analysis.segments.stretches import CLEAN, DEAD, LOSSY

PACKETS, SPACING_S = 20, 0.2
NAMES = {CLEAN: "clean", LOSSY: "lossy", DEAD: "dead"}


def lost_in(rng, ratio, count, runs=1.0):
    """Whether each of `count` packets is lost, in runs of this mean."""
    if ratio in (0.0, 1.0):
        return np.full(count, ratio == 1.0)
    again = 1.0 - 1.0 / runs
    first = ratio * (1.0 - again) / (1.0 - ratio)
    lost, was = [], False
    for chance in rng.random(count):
        was = bool(chance < (again if was else first))
        lost.append(was)
    return np.array(lost)


def take(paths, at_s, packets, was_lost=False, *, every_s=10.0):
    """Take a burst of the only path, and return whether its loss is above the limit."""
    answered = np.flatnonzero(~packets)
    first, last = (answered[0], answered[-1]) if len(answered) else (np.nan, np.nan)
    silent = at_s + (0.0 if np.isnan(last) else (last + 1) * SPACING_S)
    sums = sums_in_order([packets], [was_lost])
    paths.take(
        np.array([0]),
        np.array([at_s]),
        np.array([every_s * (at_s > 0.0)]),
        sums,
        at_s + np.array([[first], [last]]) * SPACING_S,
        np.array([[silent if packets[-1] else np.nan], [PACKETS - 1 - last if len(answered) else PACKETS]]),
        from_first_reply(sums, np.nan_to_num([first]), [was_lost]),
    )
    return bool(paths.is_above[0])


def followed(parts, *, every_s=10.0, limit=0.01, runs=1.0, seed=1, looks=None):
    """The segments of a path with parts of (loss, bursts)."""
    rng, paths = np.random.default_rng(seed), LossSegments(1)
    paths.limits[:] = limit
    at_s = 0.0
    paths.begin(np.array([0]), np.array([at_s]))
    for ratio, bursts in parts:
        for packets in lost_in(rng, ratio, bursts * PACKETS, runs).reshape(bursts, PACKETS):
            is_above = take(paths, at_s, packets, every_s=every_s)
            if looks is not None:
                looks.append((at_s, is_above, int(paths.states[0])))
            at_s += every_s
    return paths.segments(0), paths


def states(segments):
    return [NAMES[segment.state] for segment in segments]


@pytest.mark.parametrize("every_s", [5.0, 10.0])
def test_each_outage_that_was_told_is_counted(every_s):
    segments, paths = followed([(0.0, 90), *[(1.0, 2), (0.0, 10)] * 3], every_s=every_s)

    assert len(paths.outages[0]) == states(segments).count("dead") == 3


@pytest.mark.parametrize("runs", [1.0, 3.0])
@pytest.mark.parametrize("ratio", [0.05, 0.2])
def test_a_loss_is_a_segment_with_its_packets(ratio, runs):
    segments, _ = followed([(0.0, 90), (ratio, 60), (0.0, 60)], runs=runs)

    assert states(segments) == ["clean", "lossy", "clean"]
    lossy, clean = segments[1:]
    assert abs(lossy.since.at_s - 900.0) <= 60.0
    low, high = lossy.lost.interval
    assert low <= ratio <= high
    assert clean.since.earliest_s <= 1500.0 <= clean.since.latest_s
    assert clean.lost.lost == 0.0
    assert sum(segment.lost.sent for segment in segments) == 210 * PACKETS


def test_an_outage_lasts_from_its_last_to_its_first_reply():
    segments, _ = followed([(0.0, 90), (1.0, 18), (0.0, 30)])

    assert states(segments) == ["clean", "dead", "clean"]
    dead, clean = segments[1:]
    last_reply_s = 890.0 + (PACKETS - 1) * SPACING_S
    assert (dead.since.at_s, dead.since.latest_s) == (pytest.approx(last_reply_s), 900.0)
    assert (clean.since.at_s, clean.since.latest_s) == (1080.0, 1080.0)
    assert (dead.lost.sent, dead.lost.lost) == (18 * PACKETS, 18 * PACKETS)


@pytest.mark.parametrize("lossy", [0.0, 0.3])
def test_no_packet_of_an_outage_tells_of_what_follows(lossy):
    """It begins and ends within a burst."""
    rng = np.random.default_rng(2)
    lost = np.concatenate([np.zeros(1806, bool), np.ones(368, bool), [False], rng.random(500) < lossy])
    paths, looks = LossSegments(1), []
    paths.limits[:], paths.is_found[:] = 0.01, True
    paths.begin(np.array([0]), np.zeros(1))
    for number, packets in enumerate(lost[: len(lost) // PACKETS * PACKETS].reshape(-1, PACKETS)):
        looks.append(take(paths, 10.0 * number, packets, lost[number * PACKETS - 1] if number else False))
    clean, dead, now = paths.segments(0)[:3]

    assert (clean.state, dead.state) == (CLEAN, DEAD)
    assert dead.lost.sent == dead.lost.lost >= 340
    assert dead.since.at_s == pytest.approx(900.0 + 5 * SPACING_S)
    assert now.since.at_s == pytest.approx(1080.0 + 14 * SPACING_S)
    assert now.lost.ratio == pytest.approx(lossy, abs=0.1)
    assert any(looks[110:]) == (lossy > 0.0)


def test_a_path_that_flaps_has_each_outage():
    _, paths = followed([(0.0, 60), *((1.0, 2), (0.0, 2)) * 7])

    ends = [end_s for _, end_s in paths.outages[0]]
    assert ends == [620.0 + 40.0 * number for number in range(7)]


def test_a_loss_that_grows_is_another_segment():
    segments, _ = followed([(0.0, 60), (0.03, 60), (0.3, 20)])

    assert states(segments) == ["clean", "lossy", "lossy"]
    assert abs(segments[2].since.at_s - 1200.0) <= 10.0
    assert segments[2].lost.is_above(segments[1].lost)


def test_a_path_that_never_answered_is_dead_from_the_first():
    segments, _ = followed([(1.0, 6)])

    assert states(segments) == ["dead"]
    assert not segments[0].since.is_bounded


def test_a_stray_loss_is_no_segment():
    segments, paths = followed([(0.0005, 720)], seed=3)

    assert states(segments) == ["clean"]
    assert not paths.is_above[0]


@pytest.mark.parametrize("seed", range(5))
def test_a_loss_below_the_limit_is_not_above_it(seed):
    looks = []
    followed([(0.004, 360)], limit=0.01, seed=seed, looks=looks)

    assert sum(above for _, above, _ in looks) <= 4


def test_a_loss_above_the_limit_is_told_until_it_is_over():
    looks = []
    followed([(0.0, 90), (0.05, 60), (0.0, 60)], looks=looks)
    told = [at_s for at_s, above, _ in looks if above]

    assert 900.0 < told[0] <= 1000.0
    assert 1490.0 <= told[-1] <= 1600.0
    assert len(told) >= 0.9 * (told[-1] - told[0]) / 10.0


def test_a_path_without_a_limit_is_never_above_it():
    _, paths = followed([(0.5, 30)], limit=np.nan)

    assert not paths.is_above[0]
    assert paths.states[0] == LOSSY


def test_a_loss_that_is_dated_later_has_only_its_packets():
    """What follows an outage may begin with packets that tell no state: looked back upon, they were clean."""
    _, paths = followed([(0.0, 60), (1.0, 12), (0.3, 12)])
    *earlier, lossy = paths.segments(0)
    assert states(paths.segments(0)) == ["clean", "dead", "lossy"]
    later = Moment(lossy.since.at_s + 30.0, lossy.since.at_s + 20.0, lossy.since.at_s + 40.0)
    clean = LossSegment(CLEAN, lossy.since, LostPackets(60.0, 0.0))

    paths.date(0, [*earlier, clean], later, np.array([lossy.lost.sent - 60.0, lossy.lost.lost, 0.0, 0.0]))

    assert states(paths.segments(0)) == ["clean", "dead", "clean", "lossy"]
    assert paths.segments(0)[-2] == clean
    rest = paths.segments(0)[-1]
    assert (rest.since, rest.lost.sent, rest.lost.lost) == (later, lossy.lost.sent - 60.0, lossy.lost.lost)


def test_two_lost_packets_may_be_a_loss_above_the_limit():
    """Not one alone, and not any more after some bursts without a loss."""
    told, intervals, paths = [], [], LossSegments(1)
    paths.limits[:] = 0.01
    paths.begin(np.array([0]), np.array([0.0]))
    for burst in range(300):
        packets = np.zeros(PACKETS, dtype=np.bool_)
        packets[3] = burst in (250, 253)
        take(paths, 10.0 * burst, packets)
        told.append(bool(paths.may_be_above[0]))
        intervals.append(paths.filter.interval(0))

    assert not any(told[:250])
    assert told[253]
    assert not any(told[265:])
    assert states(paths.segments(0)) == ["clean"]
    assert intervals[253][0] < 0.01 < intervals[253][1]
    assert intervals[249][1] < 0.01


@pytest.mark.parametrize("lost_last", [2, 6, 14, 19])
def test_an_outage_in_which_an_own_test_ran_is_told(lost_last):
    """The silence begins anew after the test, and the loss before it has packets alone that were lost."""
    paths, told = LossSegments(1), []
    paths.begin(np.array([0]), np.zeros(1))
    clean, half, none = (np.arange(PACKETS) >= PACKETS - lost for lost in (0, lost_last, PACKETS))
    bursts = [*[clean] * 60, half, *[none] * 9]
    for number, packets in enumerate(bursts):
        if number == 62:
            paths.begin_silence(np.array([0]))
        take(paths, 10.0 * number, packets)
        told.append(int(paths.states[0]))

    assert told[66:] == [DEAD] * 4
