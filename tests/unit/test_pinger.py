"""PingER's metrics against published vectors, and against the plain definition written out in Python."""

import itertools
import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from monitor.analysis import pinger
from monitor.analysis.pinger import LossBand

LOST = math.nan

bursts_of_round_trips = arrays(
    np.float64,
    array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=8),
    elements=st.one_of(st.just(LOST), st.floats(0.001, 2000.0)),
)


def quantile(values: list[float], share: float) -> float:
    """Linear interpolation between order statistics, from its definition."""
    ordered = sorted(values)
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


def iqr(values: list[float]) -> float:
    return quantile(values, 0.75) - quantile(values, 0.25) if values else math.nan


def test_a_published_burst_of_slac():
    """A line of PingER's raw data: min, average and max as `ping` printed them for these ten round trips."""
    burst = [0.287, 0.380, 0.467, 0.391, 0.327, 0.387, 0.291, 0.332, 0.255, 0.299]

    summary = pinger.rtt_summary(burst)

    assert (summary.min_ms, summary.max_ms) == (0.255, 0.467)
    assert summary.avg_ms == pytest.approx(0.341, abs=0.001)
    assert summary.median_ms == pytest.approx((0.327 + 0.332) / 2)
    assert pinger.loss_ratio(burst) == 0.0


def test_published_example_of_five_round_trips():
    summary = pinger.rtt_summary([100, 102, 103, 100, 99])

    assert (summary.min_ms, summary.max_ms, summary.median_ms) == (99, 103, 100)
    assert summary.avg_ms == pytest.approx(100.8)


def test_ipdv_keeps_the_sign_of_the_differences():
    """Differences +2, +1, -3, -1: quartiles -1.5 and 1.25. Absolute values would give 2.25 - 1 instead."""
    assert pinger.ipdv_ms([100, 102, 103, 100, 99]) == pytest.approx([2.75])


def test_a_lost_packet_takes_both_of_its_differences_away():
    """Left are +2 (100 to 102) and -1 (100 to 99); 102 and 100 were not sent one after the other."""
    assert pinger.ipdv_ms([100, 102, LOST, 100, 99]) == pytest.approx([iqr([2.0, -1.0])])


def test_published_conditional_loss_probability():
    """10 sent, 0 1 2 5 6 7 8 9 received: one pair of consecutive losses of two losses."""
    received = {0, 1, 2, 5, 6, 7, 8, 9}
    burst = [1.0 if sequence in received else LOST for sequence in range(10)]

    assert pinger.conditional_loss_probability(burst) == 0.5


def test_conditional_loss_probability_does_not_reach_over_the_end_of_a_burst():
    last_lost, first_lost = [1.0, 1.0, LOST], [LOST, 1.0, 1.0]

    assert pinger.conditional_loss_probability([last_lost, first_lost]) == 0.0
    assert math.isnan(pinger.conditional_loss_probability([last_lost, last_lost]))


def test_loss_is_pooled_over_packets_and_counted_over_bursts():
    bursts = [[1.0, 1.0, 1.0, 1.0], [LOST, LOST, LOST, LOST], [1.0, LOST, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]]

    assert pinger.loss_ratio(bursts) == 5 / 16
    assert pinger.unreachability(bursts) == 1 / 4
    assert pinger.zero_loss_frequency(bursts) == 2 / 4


def test_total_loss_has_a_loss_and_no_round_trip():
    bursts = [[LOST] * 10] * 3

    summary = pinger.rtt_summary(bursts)

    assert pinger.loss_ratio(bursts) == 1.0
    assert pinger.unreachability(bursts) == 1.0
    assert math.isnan(summary.min_ms)
    assert math.isnan(summary.avg_ms)
    assert np.isnan(pinger.ipdv_ms(bursts)).all()
    assert np.isnan(pinger.rtt_iqr_ms(bursts)).all()


def test_nothing_sent_is_undefined_everywhere():
    nothing = np.empty((0, 10))

    assert math.isnan(pinger.loss_ratio(nothing))
    assert math.isnan(pinger.rtt_summary(nothing).median_ms)
    assert math.isnan(pinger.unreachability(nothing))
    assert math.isnan(pinger.zero_loss_frequency(nothing))
    assert math.isnan(pinger.conditional_loss_probability(nothing))
    assert pinger.ipdv_ms(nothing).shape == (0,)


def test_a_burst_of_one_packet_has_no_delay_variation():
    assert np.isnan(pinger.ipdv_ms([[5.0], [6.0]])).all()


@given(bursts_of_round_trips)
def test_every_metric_is_what_its_definition_says(bursts):
    rows = bursts.tolist()
    received = [value for row in rows for value in row if not math.isnan(value)]
    lost = [[math.isnan(value) for value in row] for row in rows]
    with_successor = [(row[i], row[i + 1]) for row in lost for i in range(len(row) - 1) if row[i]]

    summary = pinger.rtt_summary(bursts)

    assert pinger.loss_ratio(bursts) == pytest.approx(sum(map(sum, lost)) / bursts.size)
    assert pinger.unreachability(bursts) == pytest.approx(sum(map(all, lost)) / len(rows))
    assert pinger.zero_loss_frequency(bursts) == pytest.approx(sum(not any(row) for row in lost) / len(rows))
    assert pinger.conditional_loss_probability(bursts) == pytest.approx(
        sum(second for _, second in with_successor) / len(with_successor) if with_successor else LOST, nan_ok=True
    )
    if received:
        assert (summary.min_ms, summary.max_ms) == (min(received), max(received))
        assert summary.avg_ms == pytest.approx(statistics.fmean(received))
        assert summary.median_ms == pytest.approx(statistics.median(received))
        assert summary.p95_ms == pytest.approx(quantile(received, 0.95))


@given(bursts_of_round_trips)
def test_ranges_of_each_burst_are_what_their_definition_says(bursts):
    rows = bursts.tolist()
    kept = [[value for value in row if not math.isnan(value)] for row in rows]
    neighbours = [list(itertools.pairwise(row)) for row in rows]
    differences = [[b - a for a, b in pairs if not (math.isnan(a) or math.isnan(b))] for pairs in neighbours]

    assert pinger.rtt_iqr_ms(bursts) == pytest.approx([iqr(row) for row in kept], nan_ok=True)
    assert pinger.ipdv_ms(bursts) == pytest.approx([iqr(row) for row in differences], nan_ok=True, abs=1e-9)


@pytest.mark.parametrize(
    ("ratio", "band"),
    [
        (0.0, LossBand.EXCELLENT),
        (0.00099, LossBand.EXCELLENT),
        (0.001, LossBand.GOOD),
        (0.0099, LossBand.GOOD),
        (0.02, LossBand.ACCEPTABLE),
        (0.025, LossBand.POOR),
        (0.05, LossBand.VERY_POOR),
        (0.12, LossBand.BAD),
        (1.0, LossBand.BAD),
        (None, None),
        (LOST, None),
    ],
)
def test_loss_bands(ratio, band):
    assert pinger.loss_band(ratio) is band


def test_a_percentage_is_not_a_loss_ratio():
    with pytest.raises(ValueError, match="not a percentage"):
        pinger.loss_band(2.5)
