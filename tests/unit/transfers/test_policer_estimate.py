"""Policers, shapers, links and loss that were planted in simulated paths, against what the trains are said to show."""

import pytest

from probes.policer.cells import as_cells, cells_of_packet
from probes.policer.estimate import estimate, first_train
from probes.policer.spec import PolicerVerdict
from probes.policer.trains import UdpTrain
from tests.unit.transfers.policer_paths import ChangingLink, LabPath, LossBursts, Shaper, measured

RATES_MBPS = (1, 10, 50)
BURSTS = (15_000, 50_000, 200_000, 1_000_000)
WITHIN = 0.1
POLICER, SHAPER, LINK, NO_LIMIT, UNDETERMINED = PolicerVerdict
LIMITS = (POLICER, SHAPER)


def policer(rate_mbps, burst_bytes, seed=1, **settings):
    return LabPath(seed, policer_mbps=rate_mbps, policer_bytes=burst_bytes, **settings)


@pytest.mark.parametrize("rate_mbps", RATES_MBPS)
@pytest.mark.parametrize("burst_bytes", BURSTS)
def test_rate_and_burst_of_a_policer_within_10_percent(rate_mbps, burst_bytes):
    found, _ = measured(policer(rate_mbps, burst_bytes), seed=burst_bytes)
    assert found.verdict is POLICER
    assert found.sustained_bps == pytest.approx(rate_mbps * 1e6, rel=WITHIN)
    assert found.burst_bytes == pytest.approx(burst_bytes, rel=WITHIN)


@pytest.mark.parametrize(
    ("rate_mbps", "burst_bytes"),
    [(1, 15_000), (1, 200_000), (10, 15_000), (10, 50_000), (10, 1_000_000), (50, 50_000), (50, 1_000_000)],
)
def test_rate_and_burst_of_a_shaper_within_10_percent(rate_mbps, burst_bytes):
    path = Shaper(rate_mbps * 1e6, burst_bytes, queue_bytes=rate_mbps * 1e6 / 8 * 0.2)
    found, _ = measured(path, seed=burst_bytes)
    assert found.verdict is SHAPER
    assert found.sustained_bps == pytest.approx(rate_mbps * 1e6, rel=WITHIN)
    assert found.burst_bytes == pytest.approx(burst_bytes, rel=WITHIN)


@pytest.mark.parametrize("rate_mbps", [10, 50])
@pytest.mark.parametrize("queue_ms", [20, 100])
def test_link_with_a_queue_is_neither_policer_nor_shaper(rate_mbps, queue_ms):
    found, _ = measured(LabPath(1, rate_mbps=rate_mbps, queue_ms=queue_ms), seed=queue_ms)
    assert found.verdict is LINK
    assert found.sustained_bps == pytest.approx(rate_mbps * 1e6, rel=WITHIN)
    assert found.burst_bytes is None


def test_path_without_a_limit_below_the_trains():
    found, trains = measured(LabPath(1), seed=1)
    assert found.verdict is NO_LIMIT
    assert len(trains) == 1


def test_limit_near_the_rate_of_the_trains_cannot_be_told():
    found, _ = measured(policer(80, 50_000), seed=1)
    assert found.verdict is UNDETERMINED


def test_bucket_that_fills_for_too_long_has_no_burst():
    found, _ = measured(policer(0.5, 1_000_000), seed=1)
    assert found.verdict is POLICER
    assert found.sustained_bps == pytest.approx(0.5e6, rel=WITHIN)
    assert found.burst_bytes is None
    assert "burst unknown" in found.detail


def test_policer_with_random_loss_beside_it():
    found, _ = measured(policer(10, 200_000, loss_ratio=0.0005), seed=3)
    assert found.verdict in (POLICER, UNDETERMINED)
    if found.verdict is POLICER:
        assert found.sustained_bps == pytest.approx(10e6, rel=WITHIN)


def null_paths(seed):
    """Paths without a token bucket: no limit, links, loss at random and in bursts, links whose rate changes."""
    yield LabPath(seed)
    for loss_ratio in (0.0001, 0.001, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97, 0.99):
        yield LabPath(seed, loss_ratio=loss_ratio)
    for rate_mbps, queue_ms in ((2, 50), (10, 3), (10, 50), (30, 10), (60, 5)):
        yield LabPath(seed, rate_mbps=rate_mbps, queue_ms=queue_ms)
    yield LabPath(seed, rate_mbps=20, queue_ms=40, loss_ratio=0.02)
    for mean_s in (0.05, 0.2, 0.5, 1.0, 3.0):
        yield LossBursts(seed, mean_s, mean_s / 2)
        yield ChangingLink(seed, mean_s)
    yield ChangingLink(seed, 1.0, queue_bytes=15_000)


def test_at_most_2_percent_of_statements_without_a_bucket_are_wrong():
    verdicts = [
        measured(path, seed, stall_s=stall_s, noise_s=noise_s)[0].verdict
        for seed in range(4)
        for stall_s, noise_s in ((0.0, 0.0002), (0.01, 0.001))
        for path in null_paths(seed)
    ]
    assert sum(verdict in LIMITS for verdict in verdicts) <= 0.02 * len(verdicts)


def test_stalls_of_the_sender_do_not_make_figures_wrong():
    """Of each statement made, rate and burst are within 10%; where a host is too busy nothing is stated."""
    found = [
        (rate_mbps, burst_bytes, measured(policer(rate_mbps, burst_bytes), seed, noise_s=0.001, stall_s=0.01)[0])
        for rate_mbps in RATES_MBPS
        for burst_bytes in BURSTS
        for seed in range(3)
    ]
    stated = [(rate_mbps, burst, limit) for rate_mbps, burst, limit in found if limit.verdict is not UNDETERMINED]
    wrong = [
        limit
        for rate_mbps, burst, limit in stated
        if limit.verdict is not POLICER
        or limit.sustained_bps != pytest.approx(rate_mbps * 1e6, rel=WITHIN)
        or (limit.burst_bytes is not None and limit.burst_bytes != pytest.approx(burst, rel=WITHIN))
    ]
    assert len(stated) >= 0.8 * len(found)
    assert not wrong


def test_no_packet_arrived_and_drops_of_the_receiver_are_no_limit():
    plan = first_train(100e6, 4_000_000)
    sent_s = plan.send_times_s()
    lost = UdpTrain(plan.ip_bytes, sent_s, sent_s * float("nan"))
    assert estimate([lost]).verdict is UNDETERMINED
    _, trains = measured(policer(10, 50_000), seed=1)
    assert estimate(trains, host_drops=7).verdict is UNDETERMINED
    assert "7 packets" in estimate(trains, host_drops=7).detail


def test_first_train_is_bounded_in_bytes_and_seconds():
    fast, slow = first_train(100e6, 4_000_000), first_train(1e6, 4_000_000)
    assert fast.packets * fast.ip_bytes <= 4_000_000
    assert slow.send_times_s()[-1] <= 2.0


@pytest.mark.parametrize(("ip_bytes", "cells"), [(40, 2), (41, 2), (576, 13), (1500, 32), (9180, 192)])
def test_cells_of_a_packet(ip_bytes, cells):
    """By hand: 40 + 8 + 8 = 56 bytes are two cells, 9180 + 16 = 9196 bytes are 191.6 cells."""
    assert cells_of_packet(ip_bytes) == cells


def test_contract_in_cells():
    """A bucket of 10 packets of 1500 bytes, 320 cells, at half of the peak: 639 cells pass at once."""
    contract = as_cells(10e6, 15_000, 20e6, 1500)
    assert contract.scr == pytest.approx(10e6 / 8 / 1500 * 32)
    assert contract.pcr == pytest.approx(2 * contract.scr)
    assert contract.mbs == pytest.approx(1 + 319 / 0.5)
    assert contract.scr_bps == pytest.approx(10e6 / 1500 * 32 * 53)
    assert as_cells(10e6, None, 20e6, 1500).mbs is None
