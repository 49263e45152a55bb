"""The interval of a loss by its packets."""

from __future__ import annotations

import pytest
from scipy.stats import beta

from monitor.analysis.changes.present import LostPackets


@pytest.mark.parametrize(("lost", "sent"), [(3, 20), (24, 480), (100, 500)])
def test_the_interval_is_that_of_clopper_and_pearson(lost, sent):
    low, high = beta.ppf(0.01, lost, sent - lost + 1), beta.ppf(0.99, lost + 1, sent - lost)

    assert LostPackets(sent, lost).interval == pytest.approx((low, high))
    assert LostPackets(2 * sent, 2 * lost, together=2.0).interval == pytest.approx((low, high))
    assert LostPackets(sent, 0).interval == pytest.approx((0.0, 1.0 - 0.02 ** (1.0 / sent)))
