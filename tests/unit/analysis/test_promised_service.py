"""Promised services that were kept, not kept, and that cannot be told, by counts of tests."""

import numpy as np
import pytest
from scipy.stats import binom

from monitor.analysis.promised_service import ServiceCounts, ServiceVerdict, judge_service

KEPT, NOT_KEPT, CANNOT_TELL = ServiceVerdict


@pytest.mark.parametrize(
    ("tests", "short", "verdict"),
    [
        (0, 0, CANNOT_TELL),
        (58, 0, CANNOT_TELL),
        (59, 0, KEPT),
        (4, 1, CANNOT_TELL),
        (4, 2, NOT_KEPT),
        (160, 31, NOT_KEPT),
    ],
)
def test_verdict_by_the_number_of_tests(tests, short, verdict):
    """0.95^58 = 5.1% and 0.95^59 = 4.8%; of 4 tests 2 are short in 1.4% of cases at a share of 5%."""
    assert judge_service(ServiceCounts(tests, short, 0), 0.95).verdict is verdict


def test_evidence_has_the_share_and_its_interval():
    finding = judge_service(ServiceCounts(160, 31, 8), 0.95)
    assert finding.short_ratio == pytest.approx(31 / 160)
    assert binom.cdf(31, 160, finding.high_ratio) == pytest.approx(0.05, abs=1e-6)
    assert binom.sf(30, 160, finding.low_ratio) == pytest.approx(0.05, abs=1e-6)
    assert finding.falls_short == "rate"


def test_promised_burst_must_be_kept_as_well():
    rate_kept = {"tests": 100, "short": 0, "left_out": 0}
    for bursts, short, verdict in ((0, 0, CANNOT_TELL), (7, 7, NOT_KEPT), (60, 0, KEPT)):
        counts = ServiceCounts(**rate_kept, bursts=bursts, bursts_short=short)
        assert judge_service(counts, 0.95, burst_promised=True).verdict is verdict
        assert judge_service(counts, 0.95).verdict is KEPT
    assert judge_service(ServiceCounts(100, 0, 0, 7, 7), 0.95, burst_promised=True).falls_short == "burst"


@pytest.mark.parametrize(("share", "wrong"), [(0.05, NOT_KEPT), (0.0501, KEPT), (0.0, NOT_KEPT), (0.3, KEPT)])
def test_at_most_one_in_twenty_verdicts_is_wrong(share, wrong):
    """Exactly, by the binomial distribution: the probability of all counts with the wrong verdict."""
    for tests in (7, 42, 168):
        counts = np.arange(tests + 1)
        verdicts = [judge_service(ServiceCounts(tests, int(short), 0), 0.95).verdict for short in counts]
        chance = sum(binom.pmf(short, tests, share) for short in counts if verdicts[short] is wrong)
        assert chance <= 0.05 + 1e-9
