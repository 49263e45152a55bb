"""Exact binomial bounds, compared with published intervals, closed forms and the binomial sum itself."""

from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.analysis.binomial import lower_bound, upper_bound


def probability_of_at_most(lost, sent, ratio):
    return sum(comb(sent, k) * ratio**k * (1 - ratio) ** (sent - k) for k in range(lost + 1))


def test_ten_of_a_hundred_has_the_published_interval():
    # R's binom.confint(10, 100, methods = "exact"), two-sided 95%
    assert lower_bound(10, 100, confidence=0.975) == pytest.approx(0.04900469, abs=1e-8)
    assert upper_bound(10, 100, confidence=0.975) == pytest.approx(0.17622260, abs=1e-8)


@pytest.mark.parametrize("sent", [1, 10, 1000])
def test_no_loss_and_total_loss_have_closed_forms(sent):
    assert lower_bound(0, sent) == 0.0
    assert upper_bound(0, sent) == pytest.approx(1 - 0.05 ** (1 / sent))
    assert lower_bound(sent, sent) == pytest.approx(0.05 ** (1 / sent))
    assert upper_bound(sent, sent) == 1.0


@given(st.integers(1, 120).flatmap(lambda sent: st.tuples(st.integers(0, sent), st.just(sent))))
def test_the_bound_of_a_loss_has_a_tail_of_5_percent(counts):
    lost, sent = counts

    if lost > 0:
        at_least = 1 - probability_of_at_most(lost - 1, sent, float(lower_bound(lost, sent)))
        assert at_least == pytest.approx(0.05, abs=1e-6)
    if lost < sent:
        at_most = probability_of_at_most(lost, sent, float(upper_bound(lost, sent)))
        assert at_most == pytest.approx(0.05, abs=1e-6)


def test_arrays_broadcast_and_zero_sent_has_no_bound():
    lower = lower_bound([0, 0, 5], [0, 10, 10])
    upper = upper_bound([0, 0, 5], [0, 10, 10])

    assert np.isnan(lower[0])
    assert np.isnan(upper[0])
    assert lower[1] < lower[2] < 0.5 < upper[2]


def test_more_lost_than_sent_is_an_error():
    with pytest.raises(ValueError, match="between 0 and sent"):
        lower_bound(11, 10)
