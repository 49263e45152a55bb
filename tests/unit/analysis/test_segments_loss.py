"""Stretches of loss: the filter and the look back against all rows of stretches, counted one by one."""

from itertools import combinations, product
from math import exp, lgamma, log

import numpy as np
import pytest
from scipy.integrate import quad

from monitor.analysis.segments.chain_sums import from_first_reply, sums_in_order, sums_of_whole, sums_without_order
from monitor.analysis.segments.loss_filter import LossFilter
from monitor.analysis.segments.loss_onset import onset_of_loss, onset_probabilities
from monitor.analysis.segments.stretches import (
    CHANGE_S,
    CLEAN,
    DEAD,
    FIRST,
    LOSSY,
    PRIOR_LOST,
    PRIOR_RECEIVED,
    RUN_LOST,
    RUN_RECEIVED,
    log_likelihood,
)

EVERY_S = 10.0
BURSTS = [
    [0, 0, 0, 0, 0, 0, 0, 0],
    [0, 1, 1, 0, 0, 0, 0, 0],
    [1, 1, 1, 1, 1, 1, 1, 1],
    [0, 0, 0, 1, 0, 1, 1, 0],
    [0, 0, 0, 0, 0, 0, 1, 0],
]


def beta(a, b):
    return exp(lgamma(a) + lgamma(b) - lgamma(a + b))


def marginal(state, bursts):
    """Of bursts whose chains begin anew, by gamma functions."""
    after_received, lost_then, after_lost, lost_again = sum(sums_in_order(burst) for burst in bursts)
    a, b = PRIOR_LOST[state], PRIOR_RECEIVED[state]
    lost, sent = lost_then + lost_again, after_received + after_lost
    alone = beta(a + lost, b + sent - lost) / beta(a, b)
    if state == DEAD:
        return alone / 2.0
    of_first = beta(a + lost_then, b + after_received - lost_then) / beta(a, b)
    of_next = beta(RUN_LOST + lost_again, RUN_RECEIVED + after_lost - lost_again) / beta(RUN_LOST, RUN_RECEIVED)
    return (alone + of_first * of_next) / 2.0


def every_row(bursts):
    """Each row of stretches as (probability, [(state, first burst), ...]), not normalised."""
    count = len(bursts)
    chance = EVERY_S / CHANGE_S
    for cuts in (cut for size in range(count) for cut in combinations(range(1, count), size)):
        firsts = (0, *cuts)
        for states in product((CLEAN, LOSSY, DEAD), repeat=len(firsts)):
            probability = FIRST[states[0]]
            for number, (state, first) in enumerate(zip(states, firsts, strict=True)):
                last = firsts[number + 1] if number + 1 < len(firsts) else count
                probability *= marginal(state, bursts[first:last])
                probability *= (1.0 - chance[state].sum()) ** (last - first - 1)
                if number:
                    probability *= chance[states[number - 1], state]
            if probability:
                yield probability, list(zip(states, firsts, strict=True))


def followed(bursts):
    loss = LossFilter(1)
    for number, burst in enumerate(bursts):
        loss.update(np.array([0]), number * EVERY_S, EVERY_S * (number > 0), sums_in_order([burst]))
    return loss


def test_the_likelihood_of_a_stretch_is_the_integral_over_its_loss():
    packets = [0, 1, 0, 0, 0, 0, 1, 0]
    sums = sums_in_order(packets)
    a, b = PRIOR_LOST[LOSSY], PRIOR_RECEIVED[LOSSY]

    def chain(next_lost):
        """The probability of the packets with losses in runs, by the loss after a lost packet, over q's prior."""
        after_lost, again = sums[2], sums[3]
        first = beta(a + sums[1], b + sums[0] - sums[1]) / beta(a, b)
        prior = next_lost ** (RUN_LOST - 1) * (1 - next_lost) ** (RUN_RECEIVED - 1) / beta(RUN_LOST, RUN_RECEIVED)
        return first * next_lost**again * (1 - next_lost) ** (after_lost - again) * prior

    alone = beta(a + 2, b + 6) / beta(a, b)
    assert float(log_likelihood(np.int8(LOSSY), sums)) == pytest.approx(log((alone + quad(chain, 0, 1)[0]) / 2))


def test_the_filter_has_the_probabilities_of_all_rows_of_stretches():
    for count in range(1, len(BURSTS) + 1):
        rows = list(every_row(BURSTS[:count]))
        total = sum(probability for probability, _ in rows)
        by_state = [sum(p for p, row in rows if row[-1][0] == state) / total for state in (CLEAN, LOSSY, DEAD)]

        loss = followed(BURSTS[:count])

        assert [float(loss.probability(state)[0]) for state in (CLEAN, LOSSY, DEAD)] == pytest.approx(
            by_state, rel=1e-9
        )


@pytest.mark.parametrize(
    "bursts", [BURSTS, BURSTS[3:], [BURSTS[0], BURSTS[2], BURSTS[2]], BURSTS[:1] * 3 + BURSTS[1:2]]
)
def test_the_onset_has_the_probabilities_of_all_rows(bursts):
    by_burst = np.zeros(len(bursts))
    for probability, row in every_row(bursts):
        if row[-1][0] == CLEAN:
            continue
        begun = len(row) - 1
        while begun and row[begun - 1][0] != CLEAN:
            begun -= 1
        by_burst[row[begun][1]] += probability

    sums = np.concatenate([sums_in_order([burst]) for burst in bursts], axis=1)
    found = onset_probabilities(EVERY_S * np.arange(len(bursts)), sums)

    assert found == pytest.approx(by_burst / by_burst.sum(), rel=1e-9)


def test_paths_are_followed_apart_from_each_other():
    both = LossFilter(2)
    for number, burst in enumerate(BURSTS):
        both.update(np.array([1]), number * EVERY_S, EVERY_S * (number > 0), sums_in_order([burst]))
    alone = followed(BURSTS)

    assert both.above(0.01)[1] == alone.above(0.01)[0]
    assert both.levels()[1] == alone.levels()[0]
    assert both.probability(CLEAN)[0] == FIRST[CLEAN]


def test_sums_of_whole_bursts_need_no_order():
    for was_lost in (False, True):
        for packets in ([0] * 5, [1] * 5):
            sent, received = len(packets), len(packets) - sum(packets)

            assert (sums_of_whole(sent, received, was_lost) == sums_in_order(packets, was_lost)).all()


@pytest.mark.parametrize("was_lost", [False, True])
@pytest.mark.parametrize("unanswered", [0, 1, 4])
def test_sums_from_the_first_reply_are_those_of_the_packets_since(unanswered, was_lost):
    lost = np.array([*[True] * unanswered, False, False, True, False, True])
    sums = sums_in_order(lost, was_lost)

    since = sums_in_order(lost[unanswered:], was_lost or unanswered > 0)
    assert from_first_reply(sums, unanswered, was_lost).tolist() == since.tolist()


def test_counts_alone_keep_the_packets_and_the_lost():
    sums = sums_without_order([20.0, 10.0], [19.0, 0.0])

    assert (sums[0] + sums[2]).tolist() == [20.0, 10.0]
    assert (sums[1] + sums[3]).tolist() == [1.0, 10.0]


def test_nothing_has_no_onset():
    assert onset_of_loss([], np.zeros((4, 0))) is None


def test_a_clear_onset_is_dated_within_a_burst():
    lost = np.zeros((60, 20), dtype=bool)
    lost[40:, ::3] = True

    onset = onset_of_loss(EVERY_S * np.arange(60), sums_in_order(lost))

    assert (onset.earliest, onset.at, onset.latest) == (40, 40, 40)


@pytest.mark.parametrize(("packets", "ratio"), [(1, 0.3), (10, 0.02), (20, 1.0)])
def test_a_calm_begin_of_the_window_changes_no_onset(packets, ratio):
    rng = np.random.default_rng(packets)
    lost = rng.random((700, packets)) < np.where(np.arange(700) < 600, 0.0, ratio)[:, np.newaxis]
    at_s, sums = EVERY_S * np.arange(700), sums_in_order(lost)

    onset = onset_of_loss(at_s, sums)

    below = onset_probabilities(at_s, sums).cumsum()
    earliest, at, latest = np.searchsorted(below, [0.025, 0.5, 0.975])
    assert (onset.at, onset.latest) == (at, latest)
    assert abs(onset.earliest - earliest) <= 1


@pytest.mark.parametrize("packets", [300, 2**15 - 1, 2**15])
def test_a_likelihood_is_the_same_with_and_without_a_table(packets):
    sums = np.array([packets, 2.0, 0.0, 0.0])[:, np.newaxis]
    found = log_likelihood(np.array([LOSSY], dtype=np.int8), sums)
    alone = lgamma(2 + 0.7) + lgamma(packets - 2 + 4.0) - lgamma(packets + 4.7)

    assert found == pytest.approx(alone - lgamma(0.7) - lgamma(4.0) + lgamma(4.7), rel=1e-9)


def test_a_limit_of_all_packets_is_never_exceeded():
    loss = followed([BURSTS[2]] * 5)

    assert loss.above(1.0)[0] == 0.0
    assert loss.above(0.5)[0] > 0.99


def test_a_settled_path_is_followed_as_exactly_and_cheaper():
    rng = np.random.default_rng(7)
    lost = rng.random((200, 10)) < np.where(np.arange(200) < 150, 0.0005, 0.2)[:, np.newaxis]
    eager, lazy = LossFilter(1), LossFilter(1)
    for number, burst in enumerate(lost):
        given = np.array([0]), number * EVERY_S, EVERY_S * (number > 0), sums_in_order([burst])
        eager.update(*given)
        lazy.take(*given)
    lazy.settle(np.array([0]))

    assert lazy.above(0.01)[0] == pytest.approx(eager.above(0.01)[0], abs=1e-6)
    assert lazy.levels()[0].ratio == pytest.approx(eager.levels()[0].ratio, rel=0.02)
