"""Figures of hops and differences of delay, on planted loss, rate limits and delays."""

from __future__ import annotations

import numpy as np
import pytest

from monitor.analysis.routes.hops import delay_differences, delay_rises, hop_figures


def traces(rtts_ms, loss, seed=1, count=60, noise_ms=0.2):
    """Traces of three probes a hop with the RTT and the loss of each hop; a loss of 1 is a silent hop."""
    random = np.random.default_rng(seed)
    return [
        [
            [
                None if random.random() < lost else rtt + random.exponential(noise_ms)
                for _ in range(3)
            ]
            for rtt, lost in zip(rtts_ms, loss, strict=True)
        ]
        for _ in range(count)
    ]  # fmt: skip


def test_loss_at_a_middle_hop_alone_is_its_rate_limit():
    figures = hop_figures(traces([1, 5, 9, 12, 20], [0, 0.6, 0, 1, 0]))

    assert [hop.is_limited for hop in figures] == [False, True, False, False, False]
    assert [hop.is_silent for hop in figures] == [False, False, False, True, False]
    assert figures[1].sent == 180
    assert figures[1].loss_low < 0.6 < figures[1].loss_high


def test_loss_that_goes_on_to_the_end_is_the_paths():
    figures = hop_figures(traces([1, 5, 9, 12, 20], [0, 0, 0.2, 0.2, 0.2]))

    assert not any(hop.is_limited for hop in figures)


def test_a_router_that_limits_besides_the_loss_is_marked():
    figures = hop_figures(traces([1, 5, 9, 12, 20], [0, 0.1, 0.1, 0.7, 0.1]))

    assert [hop.is_limited for hop in figures] == [False, False, False, True, False]


def test_probes_beyond_the_end_of_a_trace_are_lost():
    figures = hop_figures([[[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]], [[1.0, 1.0]]])

    assert [(hop.sent, hop.lost) for hop in figures] == [(4, 0), (4, 2), (4, 2)]


def test_delay_differences_skip_silent_hops_and_may_be_negative():
    result = delay_differences(traces([10, 25, 18, 30], [0, 0, 1, 0]))

    assert [(entry.near_ttl, entry.far_ttl) for entry in result] == [(1, 2), (2, 4)]
    assert [round(entry.interval_ms.median) for entry in result] == [15, 5]
    negative = delay_differences(traces([10, 40, 31], [0, 0, 0]))[1].interval_ms
    assert negative.low < -9.0 < negative.high
    assert negative.high < 0.0


def test_added_delay_is_found_between_its_hops():
    before, after = traces([1, 5, 9, 20], [0] * 4, seed=2), traces([1, 5, 17, 28], [0] * 4, seed=3)

    (rise,) = delay_rises(before, after)

    assert (rise.near_ttl, rise.far_ttl) == (2, 3)
    assert rise.shift_ms == pytest.approx(8.0, abs=0.2)


def test_the_same_delay_rarely_rises():
    rises = [
        delay_rises(traces([1, 5, 9], [0] * 3, seed, 20, 3.0), traces([1, 5, 9], [0] * 3, seed + 500, 20, 3.0))
        for seed in range(40)
    ]

    assert sum(bool(rise) for rise in rises) <= 2


def test_no_traces_have_no_hops():
    assert hop_figures([]) == []
    assert delay_differences([]) == []
