import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import fisher_exact

from probes.packets.rate_limit import (
    REQUESTS,
    ROUNDS,
    SLOWER_REQUESTS,
    Answered,
    can_detect,
    faster_spacing_s,
    is_limited,
    longest_s,
    loses_more,
    max_targets,
    slower_spacing_s,
)

spacings_s = st.floats(0.01, 3600)
floors_s = st.floats(0.0, 60)


@given(st.data(), st.integers(1, 400), st.integers(1, 40))
def test_the_verdict_equals_fishers_exact_test(data, slow_sent, fast_sent):
    slow_lost, fast_lost = data.draw(st.integers(0, slow_sent)), data.draw(st.integers(0, fast_sent))

    table = [[fast_lost, fast_sent - fast_lost], [slow_lost, slow_sent - slow_lost]]
    probability = fisher_exact(table, alternative="greater").pvalue

    # Two ways of computing the same sum may differ in the last digits, which matter only at the limit itself.
    if abs(probability - 0.01) > 1e-9:
        assert loses_more(slow_sent, slow_lost, fast_sent, fast_lost) == (probability < 0.01)


def test_only_a_much_higher_loss_is_significant():
    assert not loses_more(20, 10, 15, 8)
    assert loses_more(20, 1, 15, 15)


def test_it_is_exact_for_the_longest_measurement_too():
    table = [[15, 0], [9_000, 21_000]]

    assert loses_more(30_000, 9_000, 15, 15) == (fisher_exact(table, alternative="greater").pvalue < 0.01)


def test_without_requests_on_either_side_there_is_no_verdict():
    assert not loses_more(0, 0, 15, 15)
    assert not loses_more(20, 5, 0, 0)


@given(spacings_s, floors_s)
def test_the_checks_rate_is_between_its_floor_and_the_measured(spacing_s, floor_s):
    faster_s = faster_spacing_s(spacing_s, floor_s)

    assert faster_s <= spacing_s
    assert faster_s >= min(spacing_s, max(floor_s, 0.02))
    assert can_detect(spacing_s, floor_s) == (2 * faster_s <= spacing_s)


@given(spacings_s, st.floats(0.001, 60), floors_s)
def test_the_check_lasts_for_its_requests_and_their_timeouts(spacing_s, timeout_s, floor_s):
    longest = longest_s(spacing_s, timeout_s, floor_s)

    last_request_s = (REQUESTS - 1) * faster_spacing_s(spacing_s, floor_s)
    assert longest >= ROUNDS * (last_request_s + timeout_s)
    slower_s = SLOWER_REQUESTS * min(10 * spacing_s, 2.0) + timeout_s
    assert longest <= ROUNDS * (REQUESTS * spacing_s + timeout_s) + slower_s
    assert spacing_s < 1 or longest <= ROUNDS * (REQUESTS * spacing_s + timeout_s)


@given(st.integers(1, 10_000), spacings_s, floors_s)
def test_the_check_sends_no_faster_than_the_measurement(targets, spacing_s, floor_s):
    together = max_targets(targets, spacing_s, floor_s)

    assert 1 <= together <= targets
    assert together == 1 or together / faster_spacing_s(spacing_s, floor_s) <= targets / spacing_s * (1 + 1e-9)


SPACING_S, MIN_SPACING_S = 0.2, 0.02


class Limit:
    """A token bucket of one reply."""

    def __init__(self, per_s: float) -> None:
        self.per_s, self.tokens, self.at_s = per_s, 1.0, 0.0

    def answers(self, at_s: float) -> bool:
        self.tokens = min(1.0, self.tokens + (at_s - self.at_s) * self.per_s)
        self.at_s = at_s
        if self.tokens < 1 - 1e-9:
            return False
        self.tokens -= 1
        return True


def judged(answers: Callable[[float], bool], sent: int = 10, spacing_s: float = SPACING_S) -> bool | None:
    """The verdict on a target that answers, or not, at each time."""
    now_s = 0.0

    def sent_every(each_s: float, count: int) -> Answered:
        nonlocal now_s
        received = 0
        for _ in range(count):
            now_s += each_s
            received += answers(now_s)
        now_s += 2.0
        return Answered(count, received)

    slow = sent_every(spacing_s, sent)
    if not 0 < slow.received < slow.sent:
        return None
    slower_s = slower_spacing_s(slow, spacing_s, MIN_SPACING_S)
    slower = None if slower_s is None else sent_every(slower_s, SLOWER_REQUESTS)
    fast = [sent_every(faster_spacing_s(spacing_s, MIN_SPACING_S), REQUESTS) for _ in range(ROUNDS)]
    return is_limited(slow, fast, slower, spacing_s, MIN_SPACING_S)


@pytest.mark.parametrize("sent", [10, 20, 40])
def test_a_limit_of_one_reply_a_second_is_found(sent):
    assert judged(Limit(1.0).answers, sent) is True


@pytest.mark.parametrize("per_s", [0.2, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 4.5])
@pytest.mark.parametrize("sent", [10, 20, 40, 100])
@pytest.mark.parametrize("spacing_s", [0.1, 0.2, 0.5, 1.0])
def test_a_limit_is_never_called_none(per_s, sent, spacing_s):
    assert judged(Limit(per_s).answers, sent, spacing_s) is not False


@pytest.mark.parametrize("loss", [0.05, 0.2, 0.5, 0.65, 0.8, 0.9, 0.95])
@pytest.mark.parametrize("sent", [10, 20, 40])
def test_random_loss_is_called_a_limit_in_under_one_percent(loss, sent):
    chance = random.Random(f"{loss} {sent}")

    verdicts = [judged(lambda _: chance.random() >= loss, sent) for _ in range(1000)]

    assert verdicts.count(True) <= 10


def test_a_path_that_recovers_is_not_called_limited():
    assert judged(lambda at_s: at_s > 1.6) is not True


def test_without_power_there_is_no_verdict():
    assert is_limited(Answered(10, 2), [Answered(15, 0)] * 2, None, SPACING_S, MIN_SPACING_S) is None
    assert is_limited(Answered(100, 90), [Answered(15, 13)] * 2, None, SPACING_S, MIN_SPACING_S) is False
