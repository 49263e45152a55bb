"""The figures of many groups computed at once, compared with `pinger` for each group."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.analysis.summaries import burst_figures, grouped_weighted_medians
from tests.oracles import pinger

PACKETS = 6
packets = st.one_of(st.just(math.nan), st.floats(2**-10, 1000.0, width=32))
bursts = st.tuples(st.integers(0, 3), st.lists(packets, min_size=1, max_size=PACKETS))
GROUPS = 4


def filled(rows):
    return np.array([row + [math.nan] * (PACKETS - len(row)) for row in rows]).reshape(len(rows), PACKETS)


def close_to(value):
    return pytest.approx(math.nan if value is None else value, rel=1e-6, abs=1e-9, nan_ok=True)


@given(st.lists(bursts, max_size=20))
def test_each_group_has_the_figures_of_its_bursts(columns):
    group = np.array([number for number, _ in columns], dtype=np.int64)
    rows, sent = filled([rtts for _, rtts in columns]), np.array([len(rtts) for _, rtts in columns], dtype=np.int64)

    figures = burst_figures(group, rows, sent, GROUPS)

    for number in range(GROUPS):
        own, own_sent = rows[group == number], sent[group == number]
        summary = pinger.rtt_summary(own)
        for name in ("min", "p25", "median", "p75", "p90", "p95", "max", "avg"):
            expected = None if summary is None else getattr(summary, f"{name}_ms")
            assert getattr(figures, f"rtt_{name}_ms")[number] == close_to(expected), name
        assert figures.rtt_iqr_ms[number] == close_to(pinger.rtt_iqr_ms(own))
        assert figures.ipdv_ms[number] == pytest.approx(close_to(pinger.ipdv_ms(own)).expected, abs=2e-4, nan_ok=True)
        followed, paired = figures.losses_followed[number], figures.losses_paired[number]
        assert (paired / followed if followed else None) == pinger.conditional_loss_probability(own, own_sent)


@given(st.lists(bursts, max_size=20))
def test_unpredictability_follows_from_means_and_maxima(columns):
    group = np.array([number for number, _ in columns], dtype=np.int64)
    rows, sent = filled([rtts for _, rtts in columns]), np.array([len(rtts) for _, rtts in columns], dtype=np.int64)

    figures = burst_figures(group, rows, sent, GROUPS)

    for number in range(GROUPS):
        with np.errstate(invalid="ignore"):
            r = figures.rate_avg_per_ms[number] / figures.rate_max_per_ms[number]
            s = figures.received_avg_ratio[number] / figures.received_max_ratio[number]
        own = group == number
        expected = pinger.unpredictability(rows[own], sent[own]) if own.any() else None
        assert math.sqrt(((1 - r) ** 2 + (1 - s) ** 2) / 2) == close_to(expected)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-50, 50), st.integers(0, 5)), max_size=40))
def test_a_weighted_median_has_half_of_the_weight_at_or_below_it(entries):
    group, values, weights = np.array(entries).reshape(-1, 3).T

    medians = grouped_weighted_medians(group, values.astype(float), weights, GROUPS)

    for number in range(GROUPS):
        repeated = sorted(
            value for group_number, value, weight in entries if group_number == number for _ in range(weight)
        )
        expected = repeated[(len(repeated) - 1) // 2] if repeated else math.nan
        assert medians[number] == pytest.approx(expected, nan_ok=True)
