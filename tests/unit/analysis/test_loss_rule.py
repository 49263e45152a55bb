"""The loss rule as a decision on counts. Probabilities come from the binomial distribution summed term by term, or from
random paths."""

import math
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.alerts.detect.rules import loss as rules
from monitor.alerts.detect.rules.loss import LossCounts, LossRule
from monitor.alerts.detect.rules.windows import CLEAR_CHANCE, FiredLevel, Windows, clearing
from monitor.analysis import binomial
from tests.facts import lacks
from tests.planted import paths, simulated

PATH = paths.apart(1)[1]
SIZE = 6e-8
"""About the probability allowed for each comparison of a path with a cycle per minute."""


def judged(lost: int, sent: int, threshold: float = 0.01, lossy: int | None = None) -> LossCounts:
    """Bursts of one packet, so that no losses are correlated, unless `lossy` bursts are given."""
    bursts, had = (sent, lost) if lossy is None else (sent // 10, lossy)
    return rules.loss_window((bursts, had, sent, sent - lost), threshold, 600)


def probability_of_at_least(lost: int, sent: int, ratio: float) -> float:
    return math.fsum(math.comb(sent, k) * ratio**k * (1 - ratio) ** (sent - k) for k in range(lost, sent + 1))


counts = st.integers(1, 1000).flatmap(lambda sent: st.tuples(st.integers(0, sent), st.just(sent)))
thresholds = st.floats(0.0005, 0.5)


@given(counts, thresholds)
def test_it_fires_only_if_the_loss_is_improbable_at_the_limit(counted, threshold):
    lost, sent = counted
    chance = probability_of_at_least(lost, sent, threshold)

    if judged(lost, sent, threshold).fires(SIZE):
        assert chance < SIZE * (1 + 1e-6)
    if lost >= 3 and chance < SIZE * (1 - 1e-6):
        assert judged(lost, sent, threshold).fires(SIZE)


@pytest.mark.parametrize("lost", [1, 2])
@given(st.integers(2, 100_000), st.floats(1e-6, 0.99))
def test_it_never_fires_for_one_or_two_lost_packets(lost, sent, threshold):
    assert not judged(lost, sent, threshold).fires(1.0)


@pytest.mark.parametrize(
    ("lost", "sent", "fires"),
    [
        (
            6,
            200,
            False,
        ),  # 3%, at least 1.3% with 95% confidence: significant for a single evaluation, not for a year of them
        (13, 200, False),
        (14, 200, True),
        (20, 1000, False),
        (40, 1000, True),
        (200, 200, True),
        (0, 0, False),
    ],
)
def test_verdicts_at_a_threshold_of_1_percent(lost, sent, fires):
    assert (probability_of_at_least(lost, sent, 0.01) < SIZE) is fires or sent == 0, "by another formula"
    assert judged(lost, sent).fires(SIZE) is fires


@pytest.mark.parametrize(("lossy", "fires"), [(2, False), (3, True)])
def test_an_interruption_shorter_than_a_cycle_does_not_fire(lossy, fires):
    """A cycle is two bursts, of different sizes."""
    assert rules.loss_window((10, lossy, 100, 100 - 10 * lossy), 0.01, 600).fires(1e-6) is fires


def test_correlated_losses_are_weaker_evidence():
    apart, together = judged(40, 1000, lossy=33), judged(40, 1000, lossy=4)

    assert together.chance > 100 * apart.chance


def test_bursts_that_lose_all_or_nothing_count_as_one_packet():
    """If half of their packets had been lost independently, 999 of 1,000 bursts would have lost some."""
    assert binomial.clustering(1000, 500, 10_000, 5000) == pytest.approx(1000 * (1 - 2.0**-10) / 500)
    assert binomial.clustering(1000, 10, 10_000, 100) == pytest.approx(10, rel=0.05)


def test_independent_losses_count_each():
    random = np.random.default_rng(1)
    lost = random.binomial(10, 0.05, (400, 500))

    factors = binomial.clustering(500, (lost > 0).sum(axis=1), 5000, lost.sum(axis=1))

    assert factors.mean() < 1.02


@pytest.mark.parametrize(
    ("lost", "sent", "sent_when_fired", "clear"),
    [
        (0, 200, 200, True),
        (0, 100, 200, True),
        (0, 99, 200, False),  # less than half of the packets that fired
        (0, 1000, 5000, False),
        (1, 200, 200, True),
        (2, 200, 200, False),  # 1%: between half the threshold and firing
        (0, 0, 200, False),  # no data is not clear
    ],
)
def test_clear_needs_half_the_threshold_and_enough_packets(lost, sent, sent_when_fired, clear):
    """20% was lost over ten minutes when it fired; a longer window still holds that."""
    lengths = Windows({"bursts": np.array([sent, sent])}, (600.0, 6000.0), (600.0, 6000.0))
    is_low = np.array([judged(lost, sent).is_low, False])
    fired = FiredLevel(0.0, 600.0, 0.2, sent_when_fired)

    place = clearing(lengths, is_low, np.array([lost, lost]), np.array([sent, sent]), fired, PATH, paths.BEGAN)

    assert (place == 0) is clear


@pytest.mark.parametrize(("lost", "sent", "ratio"), [(0, 100, 0.02), (1, 600, 0.02), (2, 200, 0.05), (3, 1000, 0.015)])
def test_clear_needs_a_loss_improbable_at_the_fired_level(lost, sent, ratio):
    chance = math.fsum(math.comb(sent, k) * ratio**k * (1 - ratio) ** (sent - k) for k in range(lost + 1))
    lengths = Windows({"bursts": np.array([sent, 0])}, (600.0, 6000.0), (600.0, 6000.0))
    columns = (np.array([True, False]), np.array([lost, 0.0]), np.array([sent, 0.0]))

    place = clearing(lengths, *columns, FiredLevel(0.0, 600.0, ratio, sent), PATH, paths.BEGAN)

    assert (place == 0) is (chance <= CLEAR_CHANCE)


def test_the_sentence_has_the_figures_the_bound_and_the_limit():
    text = rules.describe(judged(40, 1140), datetime(2026, 11, 21, 10, 5, tzinfo=UTC))

    packets = ("(40 of 1,140 packets", " 10 min ", " 2026-11-21 10:05:00 UTC")
    assert lacks(text, "loss 3.5%", *packets, "at least 2.7%", " 95% confidence", "threshold 1%") == []


def alarms_at(ratio, cycles, count=40, alerts=None):
    """The alarms of the rule on random paths with these losses per cycle, of shape (cycles,)."""
    random = np.random.default_rng(11)
    source = simulated.RecordedSource(
        paths.bursts(count, cycles, ratio, random), past=paths.past(count, float(ratio[0]), random)
    )
    runner = simulated.Replay(paths.scope(paths.apart(count), alerts=alerts), source, ("loss",))
    for now in simulated._cycles(1, cycles):
        runner.at(now)
    return [alarm for alarm in runner.alarms if alarm.opened_at is not None]


def test_a_path_at_its_permitted_loss_raises_no_alarm():
    assert alarms_at(np.full(300, LossRule().above_ratio), 300) == []


def test_half_an_hour_of_loss_is_a_single_incident_that_ends():
    """Windows of hours still contain the loss long after it."""
    ratio = np.zeros(360)
    ratio[60:90] = 0.5

    (alarm,) = alarms_at(ratio, 360, count=1)

    ends_at = paths.BEGAN + (90 + LossRule().window_s / 60) * simulated.timedelta(minutes=1)
    assert alarm.reopenings == 0
    assert ends_at - simulated.timedelta(minutes=5) < alarm.ended_at < ends_at + simulated.timedelta(minutes=20)


def test_loss_slightly_above_the_threshold_is_detected_in_hours():
    """3% of packets, 20 per minute: the power of the test needs an hour and a half for nine of ten paths."""
    ratio = np.r_[np.zeros(60), np.full(180, 0.03)]

    paths_found = {path_id for alarm in alarms_at(ratio, 240) for path_id, _ in alarm.ever}

    assert len(paths_found) >= 36


def test_an_alarm_ends_no_sooner_than_it_took_to_fire():
    """It fires over longer windows than `window_s`, as does loss slightly above the threshold."""
    ratio = np.r_[np.zeros(60), np.full(360, 0.02)]
    window_s = 7200

    alarms = alarms_at(ratio, 420, count=5, alerts={"loss": {"window_s": window_s}})

    fired = [rise for alarm in alarms for rise in alarm.ever.values() if rise.figures["window_s"] > window_s]
    assert fired
    assert all(finding.figures["clear_s"] == finding.figures["window_s"] for finding in fired)


def test_windows_begin_at_half_of_window_s():
    ratio = np.zeros(120)
    ratio[60:65] = 0.5

    assert len(alarms_at(ratio, 120, count=1, alerts={"loss": {"above_ratio": 0.2}})) == 1
    assert alarms_at(ratio, 120, count=1, alerts={"loss": {"above_ratio": 0.2, "window_s": 7200}}) == []
