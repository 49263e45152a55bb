"""Calibration of a loss by measured tests: known truths are found again, and nothing is claimed of too little.

Days are made by RFC 3649's window of Reno, 1.2/sqrt(p) segments a round trip, without timeouts and resent packets, of
which there are few at these losses; so what the factor should be is known without the model under test.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

from monitor.analysis.tcp import (
    LEAST_STRETCHES,
    Calibration,
    CongestionControl,
    Loss,
    MeasuredDay,
    Rtt,
    Sign,
    TransferSettings,
    calibrate,
    estimate,
    stretches,
)

RENO = CongestionControl.RENO
RTT_MS = 50.0
PINGS = 200_000


def reno(loss_ratio):
    return 1460 * 8 * 1.2 / math.sqrt(loss_ratio) / (RTT_MS / 1000)


def day(loss_ratio, made=1.0, noise=1.0, streams=1, **fields):
    """A day whose pings met that loss and whose TCP met `made` times it."""
    lost = round(PINGS * loss_ratio)
    return MeasuredDay(RTT_MS, lost, PINGS, streams * noise * reno(made * lost / PINGS), **fields)


LOSSES = [loss / 10_000 for loss in (1.0, 2.0, 1.5, 4.0, 1.0, 3.0, 1.2, 2.2, 5.0, 1.0, 1.8, 2.7)]


def random_days(count, made, noise, seed):
    """Days whose loss is drawn, whose pings are counted by chance, and whose tests scatter."""
    random = np.random.default_rng(seed)
    losses = 0.0002 * np.exp(0.5 * random.standard_normal(count))
    return [
        MeasuredDay(RTT_MS, int(random.binomial(PINGS, loss)), PINGS, reno(made * loss) * math.exp(scatter))
        for loss, scatter in zip(losses, noise * random.standard_normal(count), strict=True)
    ]


@pytest.mark.parametrize("made", [0.2, 0.5, 3.0])
@pytest.mark.parametrize("streams", [1, 4])
def test_the_factor_that_the_days_were_made_with_is_found(made, streams):
    calibration = calibrate([day(loss, made, streams=streams) for loss in LOSSES], RENO, streams)

    # Half of the loss gives a rate of sqrt(2) times as much.
    assert calibration.loss_factor == pytest.approx(made, rel=0.03)
    assert calibration.raw_error_factor == pytest.approx(max(made, 1 / made) ** 0.5, rel=0.05)
    assert calibration.error_factor < 1.02
    assert calibration.helps


def test_one_day_gone_wrong_changes_nothing():
    days = [day(loss, 0.5) for loss in LOSSES]
    spoilt = [replace(days[0], measured_bps=1000.0), *days[1:]]

    assert calibrate(spoilt, RENO).loss_factor == pytest.approx(calibrate(days, RENO).loss_factor, rel=0.05)


def test_calibration_does_not_help_where_the_model_is_right():
    scatter = [1.3, 1 / 1.3, 1.1, 1 / 1.1] * 3

    calibration = calibrate([day(loss, 1.0, noise) for loss, noise in zip(LOSSES, scatter, strict=True)], RENO)

    assert not calibration.helps
    assert calibration.error_factor >= calibration.raw_error_factor


def test_a_stretch_is_estimated_without_its_own_figure():
    """Nine tests of one loss get 2^-1, 2^0 … 2^7 times what is expected: each is estimated by the other eight."""
    calibration = calibrate([day(0.0002, 1.0, 2.0**power) for power in range(-1, 8)], RENO)

    # By hand: all between the middle two of eight are as good, and the one is taken that changes least. Without one of
    # -1 to 2 that is 3, without one of 4 to 7 it is 2; and without 3 itself, it is 2 and not 3.
    by_hand = [4, 3, 2, 1, 1, 2, 3, 4, 5]
    assert math.log2(calibration.error_factor) == pytest.approx(sum(by_hand) / 9, abs=0.03)


def cubic(loss_ratio, rtt_ms):
    """RFC 9438, section 5.1: the larger of CUBIC's window with C = 0.4 and that of a Reno with the same reduction."""
    by_cubic = 1.054 * (rtt_ms / 1000 / loss_ratio) ** 0.75
    return 1460 * 8 * max(by_cubic, math.sqrt(1.5 / loss_ratio)) / (rtt_ms / 1000)


def test_leaving_a_stretch_out_excludes_its_own_factor():
    """With CUBIC a factor that is right for no other stretch can be the best for all the others together: its rate
    falls with the power 3/4 of a small loss, and with the power 1/2 of one above 0.055% at 100 ms.

    Four stretches want the factor 2 and four 16, at a loss seen of 0.03% and 0.01%; the ninth wants 8.
    """
    wanted = [(3e-4, 2.0)] * 4 + [(1e-4, 16.0)] * 4 + [(1e-4, 8.0)]
    days = [MeasuredDay(100.0, round(1e6 * seen), 1_000_000, cubic(factor * seen, 100.0)) for seen, factor in wanted]

    calibration = calibrate(days, CongestionControl.CUBIC)

    # By hand, each error |log(factor taken/factor wanted)|/2 above 0.055%. For the eight others 8 would be as good as
    # 16, and change less; but 8 is the ninth's own. With 2 the four of 16 are further off than with 16 the four of 2,
    # since from 5.5 down the power is 3/4. So the ninth gets 16. Without one of the others 8 is a factor like any
    # other, and the best.
    by_hand = [math.log(8 / 2) / 2] * 4 + [math.log(16 / 8) / 2] * 4 + [math.log(16 / 8) / 2]
    assert math.log(calibration.error_factor) == pytest.approx(sum(by_hand) / 9, abs=0.01)
    # Timeouts, which the days here have none of, make the factor a little less.
    assert calibration.loss_factor == pytest.approx(8.0, rel=0.06)


def test_days_with_few_losses_are_joined_and_none_is_dropped():
    lost = [0, 4, 0, 7, 30, 0, 3, 0, 8, 2]

    joined = stretches([MeasuredDay(10.0 + place, few, 1000, 1e6) for place, few in enumerate(lost)])

    assert [(stretch.lost, stretch.sent) for stretch in joined] == [(11, 4000), (30, 1000), (13, 5000)]
    assert joined[0].rtt_ms == 11.5
    assert sum(stretch.sent for stretch in joined) == 10_000


@pytest.mark.parametrize("lost", [[], [0] * 40, [1] * 9])
def test_days_that_lost_too_little_make_no_stretch(lost):
    assert stretches([MeasuredDay(10.0, few, 1000, 1e6) for few in lost]) == []


def test_too_few_stretches_give_none():
    days = [day(loss, 0.5) for loss in LOSSES]

    assert calibrate(days[: LEAST_STRETCHES - 1], RENO) is None
    assert calibrate(days[:LEAST_STRETCHES], RENO) is not None
    assert calibrate([], RENO) is None


def test_what_the_capacity_held_back_is_not_laid_to_the_loss():
    """Half of the days the path was full at a quarter of what the loss let through."""
    full = [replace(day(loss), measured_bps=reno(loss) / 4, capacity_bps=reno(loss) / 4) for loss in LOSSES[:7]]

    calibration = calibrate([*full, *(day(loss) for loss in LOSSES[7:])], RENO)

    assert calibration.loss_factor == pytest.approx(1.0, abs=0.03)


def test_a_path_that_fills_against_its_loss_has_less_of_it():
    """Pings are dropped that data is not: 0.02% of them, and the path is full at four times what that would let."""
    full_bps = 4 * reno(0.0002)

    calibration = calibrate(
        [replace(day(0.0002), measured_bps=full_bps, capacity_bps=full_bps) for _ in range(9)], RENO
    )

    assert calibration.helps
    assert calibration.loss_factor <= 1 / 16 * 1.05


def test_four_of_five_days_to_come_lie_in_the_interval():
    inside = []
    for seed in range(200):
        *before, after = random_days(10, 0.5, 0.3, seed)
        calibration = calibrate(before, RENO)
        expected = reno(calibration.loss_factor * after.lost / after.sent)
        inside.append(calibration.low_ratio <= after.measured_bps / expected <= calibration.high_ratio)

    # 80% of 200 have a standard deviation of 2.8%.
    assert np.mean(inside) == pytest.approx(0.8, abs=0.085)


def test_calibrated_estimates_of_days_to_come_are_nearer():
    """And where there is nothing to calibrate, the price is small."""

    def mean_errors(made):
        raw, used = [], []
        for seed in range(100):
            *before, after = random_days(13, made, 0.3, seed)
            calibration = calibrate(before, RENO)
            loss_ratio, factor = after.lost / after.sent, calibration.loss_factor if calibration.helps else 1.0
            raw.append(abs(math.log(after.measured_bps / reno(loss_ratio))))
            used.append(abs(math.log(after.measured_bps / reno(factor * loss_ratio))))
        return np.mean(raw), np.mean(used)

    raw, used = mean_errors(0.25)
    assert raw > math.log(1.9)
    assert used < math.log(1.4)
    raw, used = mean_errors(1.0)
    assert used < 1.1 * raw


HALF = Calibration(0.5, 12, 1.1, 1.4, 0.8, 1.3)
PLAIN = TransferSettings(control=RENO, window_bytes=1e9, capacity_bps=1e12)


def limit(estimated, name="loss"):
    return next(limit for limit in estimated.limits if limit.name == name)


def test_an_estimate_takes_the_loss_that_tcp_makes():
    seen = Loss.counted(40, 20_000)

    estimated = estimate(Rtt(RTT_MS), seen, PLAIN, calibration=HALF)

    assert estimated.throughput_bps == pytest.approx(estimate(Rtt(RTT_MS), Loss(0.001), PLAIN).throughput_bps, rel=1e-9)
    assert estimated.reno_index_bps == estimate(Rtt(RTT_MS), seen, PLAIN).reno_index_bps


def test_the_interval_is_that_of_loss_and_calibration_together():
    seen = Loss.counted(40, 20_000)
    plain = limit(estimate(Rtt(RTT_MS), seen, PLAIN))

    loss_limit = limit(estimate(Rtt(RTT_MS), seen, PLAIN, calibration=HALF))

    # Errors of a product: the squares of the logarithms add up. That of the loss is the same at half of it.
    low, high = (math.log(end / loss_limit.throughput_bps) for end in (loss_limit.low_bps, loss_limit.high_bps))
    own_low, own_high = (math.log(end / plain.throughput_bps) for end in (plain.low_bps, plain.high_bps))
    assert low == pytest.approx(-math.hypot(own_low, math.log(0.8)), rel=0.02)
    assert high == pytest.approx(math.hypot(own_high, math.log(1.3)), rel=0.02)


def test_with_no_loss_a_calibrated_floor_is_a_floor():
    seen = Loss.counted(0, 3000)

    loss_limit = limit(estimate(Rtt(RTT_MS), seen, PLAIN, calibration=HALF))

    # 3/N is 0.001; half of it, and the lower end of the interval.
    at_half = estimate(Rtt(RTT_MS), Loss(0.0005), PLAIN).throughput_bps
    assert loss_limit.sign is Sign.AT_LEAST
    assert loss_limit.throughput_bps == pytest.approx(0.8 * at_half, rel=1e-9)


def test_where_everything_was_lost_nothing_is_calibrated():
    seen = Loss.counted(10, 10)

    assert estimate(Rtt(RTT_MS), seen, PLAIN, calibration=HALF) == estimate(Rtt(RTT_MS), seen, PLAIN)
    assert estimate(Rtt(RTT_MS), Loss(1.0), PLAIN, calibration=HALF).throughput_bps == 0.0


def test_advice_is_told_in_the_loss_that_ping_sees():
    seen = Loss.counted(40, 20_000)

    estimated = estimate(Rtt(RTT_MS), seen, PLAIN, calibration=HALF)

    # Following it gives what it promises.
    kept = estimate(Rtt(RTT_MS), Loss(estimated.advice.loss_ratio), PLAIN, calibration=HALF)
    assert kept.throughput_bps == pytest.approx(2 * estimated.throughput_bps, rel=1e-6)


def test_so_many_packets_without_a_loss_tell():
    path = replace(PLAIN, capacity_bps=50e6)
    wanted = estimate(Rtt(RTT_MS), Loss.counted(0, 100), path, calibration=HALF).packets_to_tell

    assert estimate(Rtt(RTT_MS), Loss.counted(0, wanted), path, calibration=HALF).packets_to_tell is None
    assert estimate(Rtt(RTT_MS), Loss.counted(0, wanted - 1), path, calibration=HALF).packets_to_tell == wanted


def test_no_factor_makes_more_than_all_of_a_loss():
    estimated = estimate(Rtt(RTT_MS), Loss.counted(400, 1000), PLAIN, calibration=replace(HALF, loss_factor=100.0))

    assert 0.0 < estimated.throughput_bps < 10_000
