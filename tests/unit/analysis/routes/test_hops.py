"""Figures of hops, on planted loss and rate limits."""

from __future__ import annotations

import numpy as np

from monitor.analysis.routes.hops import hop_figures


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


def test_no_traces_have_no_hops():
    assert hop_figures([]) == []
