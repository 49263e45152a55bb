"""The Mathis estimate, compared with RFC 9438's table of average windows and figures computed by hand."""

import numpy as np
import pytest

from monitor.analysis.tcp import mathis_bps, mathis_estimate

RFC_9438_RENO_WINDOW = {1e-2: 12, 1e-3: 38, 1e-4: 120, 1e-5: 379, 1e-6: 1200, 1e-7: 3795, 1e-8: 12000}


def test_the_average_window_equals_rfc_9438_table_1():
    rates_bps = mathis_bps(100.0, list(RFC_9438_RENO_WINDOW), constant=1.2)

    windows = rates_bps * 0.1 / (1460 * 8)
    assert np.round(windows).tolist() == list(RFC_9438_RENO_WINDOW.values())


def test_one_percent_at_100_ms_gives_1168_kbps():
    assert mathis_bps(100.0, 0.01) == pytest.approx(1_168_000)


def test_segments_of_six_times_the_size_give_six_times_the_rate():
    assert mathis_bps(180.0, 1e-4, mss_bytes=8760) == pytest.approx(6 * mathis_bps(180.0, 1e-4))


@pytest.mark.parametrize(
    ("rtt_ms", "loss_ratio"),
    [(np.nan, 0.1), (0.0, 0.1), (-1.0, 0.1), (10.0, 0.0), (10.0, -0.1), (10.0, 1.1), (10.0, np.nan)],
)
def test_where_the_model_is_undefined_there_is_no_estimate(rtt_ms, loss_ratio):
    assert np.isnan(mathis_bps(rtt_ms, loss_ratio))


def test_losses_are_pooled_into_an_estimate():
    rate_bps, is_floor = mathis_estimate([100.0, 50.0], [1000, 400], [990, 396])

    assert rate_bps == pytest.approx([1_168_000, 2_336_000])
    assert is_floor.tolist() == [False, False]


def test_no_loss_gives_a_floor_at_3_over_n():
    rate_bps, is_floor = mathis_estimate(100.0, 300, 300)

    assert rate_bps == pytest.approx(1_168_000)
    assert is_floor


@pytest.mark.parametrize("sent", [1, 2, 3])
def test_the_floor_never_assumes_more_than_all_packets_lost(sent):
    rate_bps, is_floor = mathis_estimate(100.0, sent, sent)

    assert rate_bps == pytest.approx(116_800)
    assert is_floor


def test_no_packets_or_no_replies_give_no_estimate_and_no_floor():
    rate_bps, is_floor = mathis_estimate([None, None, 10.0], [0, 10, 0], [0, 0, 0])

    assert np.isnan(rate_bps).all()
    assert not is_floor.any()
