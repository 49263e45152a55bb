"""PingER's metrics compared with published vectors and figures computed by hand, including undefined cases."""

import doctest
import math
from pathlib import Path

import numpy as np
import pytest

from monitor.analysis import loss
from monitor.analysis.loss import LossBand
from tests.facts import lacks
from tests.oracles import pinger
from tests.oracles.pinger import LossRuns, Occurrence

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "method" / "metrics.md"
LOST = math.nan
FIVE_ROUND_TRIPS = [100, 102, 103, 100, 99]
ALL_LOST = [[LOST] * 10] * 3
NOTHING = np.empty((0, 10))
OF_ROUND_TRIPS = (
    pinger.rtt_summary,
    pinger.rtt_iqr_ms,
    pinger.ipdv_ms,
    pinger.absolute_ipdv_ms,
    pinger.unpredictability,
    pinger.throughput,
    pinger.mos,
)
OF_LOSSES = (
    pinger.loss_ratio,
    pinger.unreachability,
    pinger.zero_loss_frequency,
    pinger.conditional_loss_probability,
    pinger.mean_loss_burst,
    pinger.loss_runs,
)


def answered(sequences, sent=10):
    """A burst of which only these sequence numbers were answered."""
    return [1.0 if sequence in sequences else LOST for sequence in range(sent)]


def with_losses(lost, sent, rtt_ms=100.0):
    """Bursts of ten with `lost` losses in all, the first packet of each burst."""
    rtts_ms = np.full((sent // 10, 10), rtt_ms)
    rtts_ms[:lost, 0] = LOST
    return rtts_ms


def test_a_published_burst_of_slac_has_its_summary():
    """A line of PingER's raw data: min, average and max as printed by `ping` for these ten RTTs."""
    burst = [0.287, 0.380, 0.467, 0.391, 0.327, 0.387, 0.291, 0.332, 0.255, 0.299]

    summary = pinger.rtt_summary(burst)

    assert (summary.min_ms, summary.max_ms) == (0.255, 0.467)
    assert summary.avg_ms == pytest.approx(0.341, abs=0.001)
    assert summary.median_ms == pytest.approx((0.327 + 0.332) / 2)
    assert pinger.loss_ratio(burst) == 0.0


def test_the_published_example_of_five_rtts():
    summary = pinger.rtt_summary(FIVE_ROUND_TRIPS)

    assert (summary.min_ms, summary.max_ms, summary.median_ms) == (99, 103, 100)
    assert summary.avg_ms == pytest.approx(100.8)


def test_quantiles_lie_between_order_statistics():
    """Of 0, 10 … 100 the quantile of a share is 100 times the share."""
    rtts_ms = np.arange(0.0, 101.0, 10.0)

    summary = pinger.rtt_summary(rtts_ms)

    assert (summary.p25_ms, summary.p75_ms) == (25.0, 75.0)
    assert (summary.p90_ms, summary.p95_ms) == pytest.approx((90.0, 95.0))
    assert pinger.rtt_quantiles_ms(rtts_ms, (0.0, 0.01, 0.999, 1.0)) == pytest.approx((0.0, 1.0, 99.9, 100.0))


def test_none_is_a_lost_packet():
    assert pinger.loss_ratio([100, None, 103, None, 99]) == 2 / 5
    assert pinger.rtt_summary([100, None, 103, None, 99]).max_ms == 103


def test_the_iqr_of_a_period_is_the_mean_over_bursts():
    """1…5 has 2, 10…50 has 20; pooled they would have 24.25, since the bursts differ more than their packets do."""
    bursts = [[1, 2, 3, 4, 5], [10, 20, 30, 40, 50], [LOST] * 5]

    assert pinger.rtt_iqr_by_burst_ms(bursts) == pytest.approx([2.0, 20.0, LOST], nan_ok=True)
    assert pinger.rtt_iqr_ms(bursts) == pytest.approx(11.0)


def test_ipdv_is_signed_and_perfsonars_jitter_is_not():
    """Differences +2, +1, -3, -1 have quartiles -1.5 and 1.25; their absolute values have 1 and 2.25."""
    assert pinger.ipdv_ms(FIVE_ROUND_TRIPS) == pytest.approx(2.75)
    assert pinger.ipdv_by_burst_ms(FIVE_ROUND_TRIPS) == pytest.approx([2.75])
    assert pinger.absolute_ipdv_ms(FIVE_ROUND_TRIPS) == pytest.approx(1.25)


def test_a_lost_packet_removes_both_of_its_differences():
    """The remaining differences are +2 (100 to 102) and -1 (100 to 99), with an IQR of half of 3; 102 and 100 were not
    consecutive."""
    assert pinger.ipdv_ms([100, 102, LOST, 100, 99]) == pytest.approx(1.5)


def test_ipdv_of_a_period_pools_differences_within_each_burst():
    """+1, +1, +5 and -1 pooled have quartiles 0.5 and 2."""
    bursts = [[10, 11, 12], [100, 105, 104]]

    assert pinger.ipdv_ms(bursts) == pytest.approx(1.5)
    assert pinger.ipdv_by_burst_ms(bursts) == pytest.approx([0.0, 3.0])


def test_published_conditional_loss_probability():
    """10 sent, 0 1 2 5 6 7 8 9 received: one pair of consecutive losses of two losses."""
    burst = answered({0, 1, 2, 5, 6, 7, 8, 9})

    assert pinger.conditional_loss_probability(burst) == 0.5
    assert pinger.mean_loss_burst(burst) == 2.0
    assert pinger.loss_runs(burst) == LossRuns({2: 1}, longest_packets=2, mean_packets=2.0)


def test_conditional_loss_probability_stays_within_a_burst():
    last_lost, first_lost = [1.0, 1.0, LOST], [LOST, 1.0, 1.0]

    assert pinger.conditional_loss_probability([last_lost, first_lost]) == 0.0
    assert pinger.conditional_loss_probability([last_lost, last_lost]) is None
    assert pinger.loss_runs([last_lost, first_lost]).runs_of_length == {1: 2}


def test_loss_runs_that_never_end_have_no_mean():
    """The probability is 1, and 1/(1 - 1) is undefined; the longest run is still known."""
    assert pinger.conditional_loss_probability(ALL_LOST) == 1.0
    assert pinger.mean_loss_burst(ALL_LOST) is None
    assert pinger.loss_runs(ALL_LOST) == LossRuns({10: 3}, longest_packets=10, mean_packets=10.0)


def test_the_mean_loss_run_of_a_gilbert_path_equals_its_chains():
    """A lost packet is followed by a loss with probability 0.75, so that the mean run is 4: more than the mean of the
    runs in bursts of ten, which truncate many of them."""
    random = np.random.default_rng(1995)
    lost = np.zeros((20_000, 10), dtype=bool)
    state = random.random(20_000) < 0.2
    for packet in range(10):
        lost[:, packet] = state
        state = random.random(20_000) < np.where(state, 0.75, 0.0625)
    rtts_ms = np.where(lost, LOST, 10.0)

    assert pinger.conditional_loss_probability(rtts_ms) == pytest.approx(0.75, abs=0.01)
    assert pinger.mean_loss_burst(rtts_ms) == pytest.approx(4.0, abs=0.15)
    assert pinger.loss_runs(rtts_ms).mean_packets < 3.5


def test_loss_runs_have_lengths_and_a_maximum():
    bursts = [answered({0, 2, 3, 7, 9}), answered(range(10)), answered({4, 5})]

    assert pinger.loss_runs(bursts) == LossRuns({1: 2, 3: 1, 4: 2}, longest_packets=4, mean_packets=13 / 5)
    assert pinger.longest_loss_run_by_burst(bursts).tolist() == [3, 0, 4]


def test_without_losses_there_are_no_runs():
    assert pinger.loss_runs(FIVE_ROUND_TRIPS) == LossRuns({}, longest_packets=0, mean_packets=None)


def test_loss_is_pooled_over_packets_and_counted_over_bursts():
    bursts = [[1.0, 1.0, 1.0, 1.0], [LOST, LOST, LOST, LOST], [1.0, LOST, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]]

    assert pinger.loss_ratio(bursts) == 5 / 16
    assert pinger.unreachability(bursts) == 1 / 4
    assert pinger.zero_loss_frequency(bursts) == 2 / 4


def test_packets_not_sent_are_not_lost():
    """Three sent, the second lost, and a burst that could not begin: 1 of 3 lost, in the only burst that was sent."""
    rows, sent = [[5.0, LOST, 6.0, LOST, LOST], [LOST] * 5], [3, 0]

    assert pinger.loss_ratio(rows, sent) == pytest.approx(1 / 3)
    assert pinger.unreachability(rows, sent) == 0.0
    assert pinger.zero_loss_frequency(rows, sent) == 0.0
    assert pinger.conditional_loss_probability(rows, sent) == 0.0
    assert pinger.loss_runs(rows, sent).runs_of_length == {1: 1}
    assert pinger.unpredictability(rows, sent) == 0.0


def test_a_single_number_of_sent_packets_applies_to_all_bursts():
    assert pinger.loss_ratio([[1.0, 2.0, LOST], [1.0, LOST, LOST]], 2) == 1 / 4


@pytest.mark.parametrize("sent", [-1, 4, [1, 4]])
def test_sent_packets_must_fit_the_rows(sent):
    with pytest.raises(ValueError, match=r"\bsent\b.* 0 .* 3 packets"):
        pinger.loss_ratio([[1.0, LOST, LOST], [1.0, LOST, LOST]], sent)


def test_a_reply_to_an_unsent_packet_is_an_error():
    with pytest.raises(ValueError, match=r"round trip after the packets.* sent"):
        pinger.loss_ratio([[1.0, LOST, 2.0]], 2)


def test_duplicates_and_reordering_count_per_burst_and_packet():
    assert pinger.duplicates([0, 3, 0, 1]) == Occurrence(bursts_ratio=0.5, packets=4)
    assert pinger.out_of_order([0, 0, 2, 0]) == Occurrence(bursts_ratio=0.25, packets=2)
    assert pinger.duplicates(0) == Occurrence(bursts_ratio=0.0, packets=0)


def test_without_bursts_duplicates_are_undefined():
    assert pinger.duplicates([]) is None
    assert pinger.out_of_order([]) is None


def test_a_negative_count_is_an_error():
    with pytest.raises(ValueError, match="below 0"):
        pinger.out_of_order([0, -1])


def test_late_packets_are_a_ratio_of_those_sent():
    assert pinger.late_ratio([0, 2, 1], [10, 10, 30]) == pytest.approx(3 / 50)
    assert pinger.late_ratio([0, 2, 1], 10) == pytest.approx(3 / 30)
    assert pinger.late_ratio([0], [0]) is None


@pytest.mark.parametrize("late", [[-1], [11]])
def test_late_packets_must_not_exceed_those_sent(late):
    with pytest.raises(ValueError, match=r"late packets.* 0 .*packets sent"):
        pinger.late_ratio(late, [10])


def test_the_published_unpredictability():
    """Success 91 of at most 100%, rate 4.75 of at most 10.15 bytes/ms: one burst at the maximum, nine at 90% and
    4.15."""
    rtts_ms = np.full((10, 100), 2000.0 / 4.15)
    rtts_ms[1:, :10] = LOST
    rtts_ms[0] = 2000.0 / 10.15

    assert pinger.unpredictability(rtts_ms) == pytest.approx(0.381, abs=0.001)


def test_a_constant_path_is_predictable():
    assert pinger.unpredictability([[10.0, LOST, 10.0], [LOST, 10.0, 10.0]]) == pytest.approx(0.0)


def test_a_lost_burst_counts_in_the_success_but_not_in_the_rate():
    """Success 1 of 2 at most 1, rate at its maximum: sqrt(0.5² / 2)."""
    assert pinger.unpredictability([[10.0, 10.0], [LOST, LOST]]) == pytest.approx(math.sqrt(0.125))


@pytest.mark.parametrize(("lost", "sent", "throughput_bps"), [(10, 1000, 1_168_000), (1, 1000, 3_693_500)])
def test_published_throughputs_at_100_ms(lost, sent, throughput_bps):
    index = pinger.throughput(with_losses(lost, sent))

    assert index.throughput_bps == pytest.approx(throughput_bps, rel=1e-4)
    assert not index.is_floor


def test_without_loss_the_throughput_is_a_floor():
    """0 of 300: less than 1%, hence at least the throughput at 1%."""
    index = pinger.throughput(with_losses(0, 300))

    assert index.throughput_bps == pytest.approx(1_168_000)
    assert index.is_floor


def test_the_number_of_sent_packets_sets_the_floor():
    padded = np.full((30, 20), LOST)
    padded[:, :10] = with_losses(0, 300)

    assert pinger.throughput(padded, 10) == pinger.throughput(with_losses(0, 300))


@pytest.mark.parametrize(
    ("rtt_avg_ms", "jitter_ms", "loss_ratio", "score"),
    [(20, 1, 0.0, 4.393), (100, 5, 0.01, 4.279), (300, 20, 0.05, 2.980), (200, 10, 0.38, 1.0)],
)
def test_published_mean_opinion_scores(rtt_avg_ms, jitter_ms, loss_ratio, score):
    assert pinger.mos_of(rtt_avg_ms, jitter_ms, loss_ratio) == pytest.approx(score, abs=0.0005)


@pytest.mark.parametrize(
    ("rtt_avg_ms", "r", "score"), [(118, 90, 4.34), (242, 80, 4.03), (342, 70, 3.60), (442, 60, 3.10), (542, 50, 2.58)]
)
def test_the_scores_of_itu_t_g_107_table_b_1(rtt_avg_ms, r, score):
    """The RTT is chosen to give this R without jitter and loss. At 80 the table rounds 4.024 to 4.03."""
    assert pinger.mos_of(rtt_avg_ms, 0.0, 0.0) == pytest.approx(score, abs=0.007), r


def test_above_160_ms_each_ms_of_latency_costs_four_times_more():
    """A cost in R, computed back from the cubic: 1/40 of a point per ms just below, 1/10 just above."""
    below, at_160_ms, above = (pinger.mos_of(rtt_ms, 0.0, 0.0) for rtt_ms in (149.5, 150.0, 150.5))

    assert (at_160_ms - above) / (below - at_160_ms) == pytest.approx(4.0, abs=0.02)


def test_the_scale_of_scores_begins_at_1():
    """36% of loss leaves R at 2.4, where the cubic alone gives 0.99."""
    assert pinger.mos_of(20.0, 1.0, 0.36) == 1.0


def test_the_score_is_computed_from_the_bursts():
    """Mean 101, differences ±2 (quartiles -2 and 2), 4 of 16 lost."""
    bursts = [[100.0, 102.0] * 3 + [LOST] * 2] * 2

    assert pinger.mos(bursts) == pinger.mos_of(101.0, 4.0, 0.25)


@pytest.mark.parametrize("figures", [(None, 1.0, 0.0), (1.0, None, 0.0), (1.0, 1.0, None), (LOST, 1.0, 0.0)])
def test_with_an_input_missing_there_is_no_score(figures):
    assert pinger.mos_of(*figures) is None


@pytest.mark.parametrize("loss_ratio", [-0.01, 2.5])
def test_a_score_refuses_a_percentage(loss_ratio):
    with pytest.raises(ValueError, match="not a percentage"):
        pinger.mos_of(20.0, 1.0, loss_ratio)


def test_a_straight_fibre_has_an_alpha_of_1_and_a_detour_less():
    assert pinger.directness(5000.0, 50.0) == pinger.Directness(1.0, None)
    assert pinger.directness(5000.0, 200.0) == pinger.Directness(0.25, None)


def test_an_rtt_below_light_in_fibre_is_explained_not_clamped():
    direct = pinger.directness(8300.0, 40.0)

    assert direct.alpha == pytest.approx(2.075)
    assert direct.problem.startswith("8,300 km and back")
    assert lacks(direct.problem, "fibre 83.00 ms", "reply", " 40.00 ms", "coordinates of both sites", "address") == []


@pytest.mark.parametrize("rtt_min_ms", [None, LOST, 0.0])
def test_without_an_rtt_there_is_no_alpha(rtt_min_ms):
    assert pinger.directness(5000.0, rtt_min_ms) is None


def test_a_negative_distance_is_an_error():
    with pytest.raises(ValueError, match="-1 km is below 0"):
        pinger.directness(-1, 10.0)


def test_large_packets_take_longer_by_their_serialization_time():
    """900 bytes more, in both directions on a line of 10 Mbit/s, are 14,400 bits: 1.44 ms, 1.6 µs per byte."""
    queue_ms = np.array([[0.0, 3.0, 7.0], [2.0, 0.5, 9.0], [4.0, 1.0, 1.5]])
    small, large = 20.0 + queue_ms, 21.44 + queue_ms[:, ::-1]
    large[0, 0] = LOST

    difference = pinger.size_difference(small, large, small_bytes=100, large_bytes=1000)

    assert difference.rtt_min_ms == pytest.approx(1.44)
    assert difference.rtt_ms_per_byte == pytest.approx(0.0016)
    assert difference.rtt_paired_ms == pytest.approx(1.44)
    assert difference.loss_ratio == pytest.approx(1 / 9)


def test_queueing_of_large_packets_shows_in_pairs_of_a_burst():
    small = np.full((5, 2), 20.0)
    large = np.array([[21.0] * 2] + [[30.0] * 2] * 4)

    difference = pinger.size_difference(small, large, small_bytes=100, large_bytes=1000)

    assert difference.rtt_min_ms == 1.0
    assert difference.rtt_paired_ms == 10.0


def test_a_size_without_replies_has_a_difference_in_loss_only():
    difference = pinger.size_difference([[20.0] * 4], [[LOST] * 4], small_bytes=100, large_bytes=9000)

    assert difference == pinger.SizeDifference(None, None, None, 1.0)


def test_the_sizes_may_have_sent_different_numbers():
    small, large = [[20.0, LOST, LOST, LOST]], [[21.0, LOST, 21.0, LOST]]

    difference = pinger.size_difference(small, large, small_bytes=100, large_bytes=1000, small_sent=1, large_sent=4)

    assert difference.loss_ratio == 0.5


def test_bursts_of_two_sizes_must_be_paired():
    with pytest.raises(ValueError, match=r"^1 bursts of small.*\b2 of large"):
        pinger.size_difference([[1.0]], [[1.0], [2.0]], small_bytes=100, large_bytes=1000)


def test_the_sizes_must_be_small_and_large():
    with pytest.raises(ValueError, match=r"^100 bytes.* not more than 1000\b"):
        pinger.size_difference([[1.0]], [[1.0]], small_bytes=1000, large_bytes=100)


def test_total_loss_has_a_loss_and_a_reachability():
    assert pinger.loss_ratio(ALL_LOST) == 1.0
    assert pinger.unreachability(ALL_LOST) == 1.0
    assert pinger.zero_loss_frequency(ALL_LOST) == 0.0


@pytest.mark.parametrize("metric", OF_ROUND_TRIPS, ids=lambda metric: metric.__name__)
def test_total_loss_has_no_rtt(metric):
    assert metric(ALL_LOST) is None
    assert np.isnan(pinger.ipdv_by_burst_ms(ALL_LOST)).all()
    assert np.isnan(pinger.rtt_iqr_by_burst_ms(ALL_LOST)).all()
    assert pinger.rtt_quantiles_ms(ALL_LOST, (0.5,)) is None


@pytest.mark.parametrize("nothing", [NOTHING, [], [[]], np.empty((3, 0))], ids=["no bursts", "empty", "row", "rows"])
@pytest.mark.parametrize("metric", OF_ROUND_TRIPS + OF_LOSSES, ids=lambda metric: metric.__name__)
def test_with_zero_sent_every_metric_is_undefined(metric, nothing):
    assert metric(nothing) is None


def test_with_zero_sent_there_are_as_many_rows_as_bursts():
    assert pinger.ipdv_by_burst_ms(NOTHING).shape == (0,)
    assert pinger.longest_loss_run_by_burst(np.empty((3, 0))).tolist() == [0, 0, 0]


def test_a_burst_of_one_packet_has_no_ipdv_and_no_score():
    bursts = [[5.0], [6.0]]

    assert np.isnan(pinger.ipdv_by_burst_ms(bursts)).all()
    assert pinger.ipdv_ms(bursts) is None
    assert pinger.mos(bursts) is None


def test_an_rtt_of_zero_is_a_number_and_gives_no_rate():
    bursts = [[0.0, 0.0], [5.0, 5.0]]

    assert pinger.rtt_summary(bursts).min_ms == 0.0
    assert pinger.unpredictability(bursts) is None
    assert pinger.throughput([[0.0, 0.0]]) is None


def test_an_array_of_three_dimensions_is_refused():
    with pytest.raises(ValueError, match="3 dimensions"):
        pinger.loss_ratio(np.zeros((2, 2, 2)))


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
def test_loss_bands_have_pingers_limits(ratio, band):
    assert loss.loss_band(ratio) is band


def test_a_percentage_is_not_a_loss_ratio():
    with pytest.raises(ValueError, match="not a percentage"):
        loss.loss_band(2.5)


@pytest.mark.parametrize(
    ("sent", "received", "bound"), [(300, 300, 0.01), (2, 2, 1.0), (300, 299, None), (10, 0, None), (0, 0, None)]
)
def test_the_bound_of_zero_observed_losses(sent, received, bound):
    assert loss.loss_bound_ratio(sent, received) == bound


def test_the_session_in_the_document_runs_as_printed():
    failures, examples = doctest.testfile(str(DOCUMENT), module_relative=False, optionflags=doctest.ELLIPSIS)

    assert examples > 10
    assert failures == 0
