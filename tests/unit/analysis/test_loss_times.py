"""The promised time until the loss rule fires: of the rule itself, and in its limits."""

import numpy as np
import pytest

from monitor.alerts.detect.rules.loss import LossRule
from monitor.alerts.detect.rules.loss_times import detection_time
from tests.planted.loss_times import LAB, LAB_RULE, first_finding_s


@pytest.mark.parametrize("ratio", [0.05, 0.2])
def test_nine_of_ten_paths_have_a_finding_within_the_promise(ratio):
    """By the rule on snapshots of other random bursts; 0.9 and 0.5 with three standard errors of 60 paths."""
    fired_s, promised = first_finding_s(ratio, 60), detection_time(ratio, LAB_RULE, LAB)

    assert np.mean(fired_s <= promised.most_s) >= 0.78
    assert np.mean(fired_s <= promised.half_s) >= 0.3
    assert np.mean(fired_s < promised.half_s) <= 0.7


def test_less_loss_takes_longer_and_near_the_threshold_over_an_hour():
    medians_s = [detection_time(ratio, LAB_RULE, LAB).half_s for ratio in (0.03, 0.05, 0.1, 0.2)]

    assert medians_s == sorted(medians_s, reverse=True)
    near = detection_time(0.012, LAB_RULE, LAB)
    assert (near.half_s, near.most_s) == (None, None)
    assert detection_time(0.05, LossRule(above_ratio=0.02), LAB).half_s > medians_s[1]
