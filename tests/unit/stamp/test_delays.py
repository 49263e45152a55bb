"""Delays of each direction and the clocks' offset, against planted ones."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.stamp.clocks import from_adjtimex, from_chrony
from probes.stamp.delays import RawDelays, offset_interval, summaries

DELAYS_MS = st.floats(0, 500)


@given(
    st.lists(st.tuples(DELAYS_MS, DELAYS_MS), min_size=1, max_size=20),
    st.floats(-1e6, 1e6),
    st.one_of(st.none(), st.floats(0, 1e3)),
)
def test_the_interval_contains_the_planted_offset(delays, offset_ms, slack_ms) -> None:
    """Whatever the clocks differ by, and whatever they claim that is true."""
    claimed_ms = None if slack_ms is None else abs(offset_ms) + slack_ms
    forward_ms = min(forward for forward, _ in delays) + offset_ms
    reverse_ms = min(reverse for _, reverse in delays) - offset_ms

    interval = offset_interval(forward_ms, reverse_ms, claimed_ms)

    assert interval is not None
    assert interval.clocks_agree
    assert interval.lo_ms - 1e-6 <= offset_ms <= interval.hi_ms + 1e-6
    # No delay within the interval is negative.
    assert forward_ms - interval.hi_ms >= -1e-6
    assert reverse_ms + interval.lo_ms >= -1e-6


def test_clocks_that_claim_too_much_are_told_apart() -> None:
    # Planted: the clocks differ by a second, and claim a millisecond.
    interval = offset_interval(1010.0, -990.0, 1.0)

    assert interval is not None
    assert not interval.clocks_agree
    assert (interval.lo_ms, interval.hi_ms) == (990.0, 1010.0)


def test_summaries_agree_with_numpy() -> None:
    rng = np.random.default_rng(1)
    delays_ms = rng.normal(20, 3, (40, 12))
    delays_ms[rng.random(delays_ms.shape) < 0.3] = np.nan
    delays_ms[0] = np.nan

    figures = summaries(delays_ms)

    assert figures[0] == {}
    for row, known in zip(figures[1:], delays_ms[1:], strict=True):
        assert row["min_ms"] == pytest.approx(np.nanmin(known), abs=1e-6)
        assert row["median_ms"] == pytest.approx(np.nanmedian(known), abs=1e-6)
        assert row["p95_ms"] == pytest.approx(np.nanpercentile(known, 95), abs=1e-6)
        assert row["max_ms"] == pytest.approx(np.nanmax(known), abs=1e-6)
        differences = [abs(b - a) for a, b in pairwise(known) if not np.isnan(b - a)]
        assert row["ipdv_ms"] == (pytest.approx(np.mean(differences), abs=1e-6) if differences else None)


def test_delays_of_packets_without_stamps_are_unknown() -> None:
    sent_ns = np.array([[1_000_000]])
    delays = RawDelays.of(sent_ns, np.array([[0]]), np.array([[3_000_000]]), sent_ns * 9, np.array([[True]]))

    assert np.isnan(delays.forward_ms).all()
    assert delays.reverse_ms.tolist() == [[6.0]]


CHRONY = (
    "C0A80101,ntp.example,2,1794873600.123,-0.000012000,0.000003000,0.000021000,-12.345,0.001,0.021,"
    "0.004000000,0.000800000,64.2,{}\n"
)


@pytest.mark.parametrize(("leap", "error_ms"), [("Normal", 2.812), ("Not synchronised", None)])
def test_chrony_bounds_the_error_by_delay_and_dispersion(leap: str, error_ms: float | None) -> None:
    # chronyc(1), tracking: |system time| + root dispersion + root delay / 2 = 0.012 + 0.8 + 2 ms.
    bound = from_chrony(CHRONY.format(leap))

    assert bound is not None
    assert bound.error_ms == (None if error_ms is None else pytest.approx(error_ms))
    assert bound.is_synchronised == (error_ms is not None)


@pytest.mark.parametrize("line", ["", "506 Cannot talk to daemon\n", ",".join("x" * 14)])
def test_other_answers_of_chronyc_tell_nothing(line: str) -> None:
    assert from_chrony(line) is None


@pytest.mark.parametrize(("answer", "status", "error_ms"), [(0, 0x2001, 16.0), (5, 0x40, None), (0, 0x40, None)])
def test_the_kernel_tells_a_bound_only_if_synchronised(answer: int, status: int, error_ms: float | None) -> None:
    assert from_adjtimex(answer, status, 16_000).error_ms == error_ms
