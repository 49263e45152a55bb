from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import fisher_exact

from probes.ping.rate_limit import REQUESTS, ROUNDS, can_detect, faster_spacing_s, longest_s, loses_more, max_targets

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
    assert longest <= ROUNDS * (REQUESTS * spacing_s + timeout_s)


@given(st.integers(1, 10_000), spacings_s, floors_s)
def test_the_check_sends_no_faster_than_the_measurement(targets, spacing_s, floor_s):
    together = max_targets(targets, spacing_s, floor_s)

    assert 1 <= together <= targets
    assert together == 1 or together / faster_spacing_s(spacing_s, floor_s) <= targets / spacing_s * (1 + 1e-9)
