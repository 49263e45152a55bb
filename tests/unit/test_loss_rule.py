"""The loss rule as a decision on counts. Bounds come from the binomial distribution summed term by term."""

import math
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.alerts.rules import loss as rules
from monitor.alerts.rules.loss import Evidence, Verdict
from monitor.mesh.alert_rules import LossRule


@dataclass(frozen=True)
class Window:
    path_id: int
    sent: int
    received: int
    bursts: int = 1
    lossy_bursts: int = 3


def judged(lost: int, sent: int, threshold: float = 0.01) -> Evidence:
    (evidence,) = rules.judge([Window(1, sent, sent - lost)], LossRule(above_ratio=threshold, window_s=600))
    return evidence


def probability_of_at_least(lost: int, sent: int, ratio: float) -> float:
    return 1.0 - math.fsum(math.comb(sent, k) * ratio**k * (1 - ratio) ** (sent - k) for k in range(lost))


counts = st.integers(1, 1000).flatmap(lambda sent: st.tuples(st.integers(0, sent), st.just(sent)))
thresholds = st.floats(0.0005, 0.5)


@given(counts, thresholds)
def test_fires_only_when_the_counts_are_improbable_at_the_threshold(counted, threshold):
    """If the true loss were the threshold, so many lost packets would have had a chance under 5%."""
    lost, sent = counted

    if judged(lost, sent, threshold).verdict is Verdict.FIRING:
        assert probability_of_at_least(lost, sent, threshold) < 0.05 + 1e-9


@given(counts, thresholds)
def test_fires_whenever_two_packets_are_lost_and_the_counts_are_improbable(counted, threshold):
    lost, sent = counted

    if lost >= 2 and probability_of_at_least(lost, sent, threshold) < 0.05 - 1e-9:
        assert judged(lost, sent, threshold).verdict is Verdict.FIRING


@given(st.integers(1, 100_000), st.floats(1e-6, 0.99))
def test_never_fires_for_one_lost_packet(sent, threshold):
    assert judged(1, sent, threshold).verdict is not Verdict.FIRING


def test_one_lost_of_one_would_pass_the_bound_alone():
    """Why the bound is not enough: 1 lost of 1 has a lower bound of 5%."""
    evidence = judged(1, 1)

    assert evidence.loss_lower_ratio == pytest.approx(0.05)
    assert evidence.verdict is Verdict.UNDECIDED


@pytest.mark.parametrize(
    ("lost", "sent", "verdict"),
    [
        (0, 200, Verdict.LOW),
        (1, 200, Verdict.LOW),  # 0.5% is half the threshold
        (2, 200, Verdict.UNDECIDED),
        (5, 200, Verdict.UNDECIDED),  # 2.5%, but at least 0.99% with 95% confidence
        (6, 200, Verdict.FIRING),  # 3%, at least 1.3%
        (24, 1140, Verdict.FIRING),
        (200, 200, Verdict.FIRING),
        (0, 0, Verdict.NO_DATA),
    ],
)
def test_verdicts_at_a_threshold_of_one_percent(lost, sent, verdict):
    assert judged(lost, sent).verdict is verdict


@given(counts, thresholds)
def test_what_fires_is_never_clear(counted, threshold):
    evidence = judged(*counted, threshold)

    assert not (evidence.verdict is Verdict.FIRING and evidence.is_clear(sent_when_fired=1))


@pytest.mark.parametrize(
    ("lost", "sent", "sent_when_fired", "clear"),
    [
        (0, 200, 200, True),
        (0, 100, 200, True),
        (0, 99, 200, False),  # under half of the packets that fired
        (0, 100, 5000, True),  # a hundred are always enough
        (1, 200, 200, True),
        (2, 200, 200, False),  # 1%: between half the threshold and firing
        (0, 0, 200, False),  # no data is not clear
    ],
)
def test_clear_needs_half_the_threshold_and_enough_packets(lost, sent, sent_when_fired, clear):
    assert judged(lost, sent).is_clear(sent_when_fired) is clear


def test_the_sentence_gives_the_figures_the_bound_and_the_threshold():
    text = rules.describe(judged(24, 1140), datetime(2026, 11, 21, 10, 5, tzinfo=UTC))

    assert text == (
        "loss 2.1% (24 of 1,140 packets in 10 min to 2026-11-21 10:05 UTC; at least 1.5% with 95% confidence), "
        "threshold 1%"
    )


@pytest.mark.parametrize(("lossy_bursts", "verdict"), [(2, Verdict.UNDECIDED), (3, Verdict.FIRING)])
def test_an_interruption_shorter_than_a_cycle_does_not_fire(lossy_bursts, verdict):
    """One cycle is two bursts, one of each size."""
    window = Window(1, sent=200, received=180, lossy_bursts=lossy_bursts)

    (evidence,) = rules.judge([window], LossRule(above_ratio=0.01, window_s=600))

    assert evidence.verdict is verdict
