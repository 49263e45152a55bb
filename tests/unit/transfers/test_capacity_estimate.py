"""Capacity estimates from packet trains over a simulated path: a chain of FIFO queues, each with its rate and cross
traffic, which knows nothing about the estimator."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.capacity.estimate import Estimate, estimate
from probes.capacity.spec import CapacityVerdict
from probes.capacity.trains import EchoTrain, least_delayed

LARGE, SMALL = 1500, 375
SHAPES = [(2, LARGE)] * 30 + [(10, LARGE)] * 8 + [(10, SMALL)] * 4
PAUSE_S = 0.2
PROPAGATION_S = 0.01
SEND_GAP_S = 3e-6
OTHER_BYTES = 1000


@dataclass(frozen=True)
class Hop:
    """A link; `load` is the share of its rate used by cross traffic, `per_packet_s` a fixed delay per packet."""

    mbps: float
    load: float = 0.0
    per_packet_s: float = 0.0


def through(hop: Hop, arrivals_s: Sequence[float], ip_bytes: int, rng: random.Random) -> list[float]:
    """The departure times from a link's queue of packets with these arrival times, beside random cross traffic."""
    rate_bps = hop.mbps * 1e6
    free_at_s = other_s = arrivals_s[0] - 0.05
    between_s = OTHER_BYTES * 8 / (rate_bps * hop.load) if hop.load else float("inf")
    other_s += rng.expovariate(1 / between_s) if hop.load else float("inf")
    departures = []
    for arrival_s in arrivals_s:
        while other_s <= arrival_s:
            free_at_s = max(free_at_s, other_s) + OTHER_BYTES * 8 / rate_bps
            other_s += rng.expovariate(1 / between_s)
        free_at_s = max(free_at_s, arrival_s) + ip_bytes * 8 / rate_bps + hop.per_packet_s
        departures.append(free_at_s)
    return departures


def simulated_train(hops: Sequence[Hop], count: int, ip_bytes: int, start_s: float, rng: random.Random) -> EchoTrain:
    """A train over all hops in both directions, all answered, with exact timestamps."""
    sent_s = [start_s + number * SEND_GAP_S for number in range(count)]
    times_s = sent_s
    for hop in hops:
        times_s = [time_s + PROPAGATION_S for time_s in through(hop, times_s, ip_bytes, rng)]
    sent_ns, arrived_ns = (np.round(np.array(each) * 1e9).astype(np.int64) for each in (sent_s, times_s))
    return EchoTrain(ip_bytes, sent_ns, arrived_ns, (arrived_ns - sent_ns).astype(float), np.ones(count, bool))


def trains_over(*hops: Hop, seed: int = 1) -> list[EchoTrain]:
    rng = random.Random(seed)
    shapes = rng.sample(SHAPES, len(SHAPES))
    return [
        simulated_train(hops, count, size, 1 + number * PAUSE_S, rng) for number, (count, size) in enumerate(shapes)
    ]


def changed(trains: Sequence[EchoTrain], change: Callable[[EchoTrain], EchoTrain]) -> Estimate:
    return estimate([change(train) for train in trains])


def without(train: EchoTrain, lost: Sequence[bool] | np.ndarray) -> EchoTrain:
    return replace(train, round_trip_ns=np.where(lost, np.nan, train.round_trip_ns))


def arriving(train: EchoTrain, arrived_ns: np.ndarray) -> EchoTrain:
    arrived_ns = arrived_ns.astype(np.int64)
    return replace(train, arrived_ns=arrived_ns, round_trip_ns=(arrived_ns - train.sent_ns).astype(float))


rates_mbps = st.floats(0.3, 400)
wider = st.floats(1, 50)


@given(narrow=rates_mbps, ratios=st.lists(wider, min_size=1, max_size=4), place=st.integers(0, 4))
def test_over_an_idle_path_the_narrowest_link_is_measured(narrow, ratios, place):
    hops = [Hop(narrow * ratio) for ratio in ratios]
    hops.insert(min(place, len(hops)), Hop(narrow))

    estimated = estimate(trains_over(*hops))

    assert (estimated.verdict, estimated.method) == (CapacityVerdict.MEASURED, "pairs and trains")
    assert estimated.capacity_bps == pytest.approx(narrow * 1e6, rel=0.01)
    assert estimated.low_bps <= estimated.capacity_bps <= estimated.high_bps


@settings(max_examples=60)
@given(narrow=st.floats(1, 200), load=st.floats(0.05, 0.4), seed=st.integers(0, 10**6))
def test_cross_traffic_on_the_narrow_link_does_not_hide_it(narrow, load, seed):
    estimated = estimate(trains_over(Hop(1000), Hop(narrow, load), Hop(1000), seed=seed))

    assert estimated.verdict is CapacityVerdict.MEASURED
    assert estimated.capacity_bps == pytest.approx(narrow * 1e6, rel=0.1)


@settings(max_examples=60)
@given(narrow=st.floats(5, 100), seed=st.integers(0, 10**6))
def test_cross_traffic_elsewhere_does_not_hide_the_narrow_link(narrow, seed):
    estimated = estimate(trains_over(Hop(2 * narrow, 0.3), Hop(narrow), Hop(2 * narrow, 0.3), seed=seed))

    assert estimated.verdict is CapacityVerdict.MEASURED
    assert estimated.capacity_bps == pytest.approx(narrow * 1e6, rel=0.2)


def with_stamp_errors(mbps: float, seed: int, deviation_ns: float):
    """The estimate over a link where each reply's timestamp has a normal error of this deviation."""
    noise = np.random.default_rng(seed)
    return changed(
        trains_over(Hop(1000), Hop(mbps), seed=seed),
        lambda train: arriving(train, train.arrived_ns + noise.normal(0, deviation_ns, len(train))),
    )


@pytest.mark.parametrize("mbps", [10.0, 50.0, 100.0])
def test_stamp_errors_of_10_us_do_not_hide_it(mbps):
    estimates = [with_stamp_errors(mbps, seed, 10_000) for seed in range(200)]

    assert {estimate.verdict for estimate in estimates} == {CapacityVerdict.MEASURED}
    assert sum(estimate.capacity_bps == pytest.approx(mbps * 1e6, rel=0.2) for estimate in estimates) >= 198


@pytest.mark.parametrize("mbps", [10.0, 50.0, 100.0])
def test_larger_stamp_errors_may_hide_it_but_give_no_false_rate(mbps):
    estimates = [with_stamp_errors(mbps, seed, 20_000) for seed in range(200)]
    rates_bps = [estimate.capacity_bps for estimate in estimates if estimate.verdict is CapacityVerdict.MEASURED]

    assert {estimate.verdict for estimate in estimates} <= {CapacityVerdict.MEASURED, CapacityVerdict.UNSETTLED}
    assert sum(bps == pytest.approx(mbps * 1e6, rel=0.2) for bps in rates_bps) >= 0.98 * len(rates_bps)


@given(factor=st.sampled_from([2, 3, 7]))
def test_capacity_scales_with_the_speed_of_the_path(factor):
    trains = trains_over(Hop(1000), Hop(40, 0.3))
    before = estimate(trains)

    after = changed(
        trains,
        lambda train: replace(
            train,
            sent_ns=train.sent_ns * factor,
            arrived_ns=train.arrived_ns * factor,
            round_trip_ns=train.round_trip_ns * factor,
        ),
    )

    assert after.capacity_bps == pytest.approx(before.capacity_bps / factor)


def test_the_order_of_the_trains_does_not_matter():
    trains = trains_over(Hop(1000), Hop(40, 0.3))

    assert estimate(trains) == estimate(trains[::-1])


def test_a_single_delay_of_the_sender_per_train_is_tolerated():
    def delayed(train: EchoTrain) -> EchoTrain:
        held_ns = np.where(np.arange(len(train)) > 0, 2_000_000, 0) if len(train) > 2 else 0
        return replace(train, sent_ns=train.sent_ns + held_ns, arrived_ns=train.arrived_ns + held_ns)

    measured = changed(trains_over(Hop(1000), Hop(50)), delayed)

    assert measured.verdict is CapacityVerdict.MEASURED
    assert measured.capacity_bps == pytest.approx(50e6, rel=0.01)


def test_random_loss_is_no_limit_on_icmp():
    rng = np.random.default_rng(5)

    measured = changed(trains_over(Hop(1000), Hop(20)), lambda train: without(train, rng.random(len(train)) < 0.1))

    assert (measured.verdict, measured.detail) == (CapacityVerdict.MEASURED, None)
    assert measured.capacity_bps == pytest.approx(20e6, rel=0.01)


def test_too_few_pairs_after_loss_are_reported():
    rng = np.random.default_rng(5)

    measured = changed(trains_over(Hop(1000), Hop(20)), lambda train: without(train, rng.random(len(train)) < 0.5))

    assert (measured.verdict, measured.capacity_bps) == (CapacityVerdict.LOSSY, None)
    assert "of 30 pairs" in measured.detail


def test_trains_answered_only_at_their_heads_met_an_icmp_limit():
    measured = changed(trains_over(Hop(5000)), lambda train: without(train, np.arange(len(train)) >= 1))

    assert (measured.verdict, measured.capacity_bps) == (CapacityVerdict.RATE_LIMITED, None)
    assert "100%" in measured.detail
    assert "0%" in measured.detail


def test_pairs_that_pass_an_icmp_limit_give_the_capacity():
    measured = changed(trains_over(Hop(1000), Hop(20)), lambda train: without(train, np.arange(len(train)) >= 4))

    assert (measured.verdict, measured.method) == (CapacityVerdict.MEASURED, "pairs")
    assert measured.capacity_bps == pytest.approx(20e6, rel=0.01)
    assert "rate-limited" in measured.detail


def test_no_reply_is_reported():
    measured = changed(trains_over(Hop(20)), lambda train: without(train, np.ones(len(train), bool)))

    assert (measured.verdict, measured.capacity_bps, measured.low_bps) == (CapacityVerdict.NO_REPLY, None, None)


def test_without_kernel_stamps_there_is_no_estimate():
    measured = changed(trains_over(Hop(20)), lambda train: replace(train, stamped=np.zeros(len(train), bool)))

    assert (measured.verdict, measured.capacity_bps, measured.low_bps) == (CapacityVerdict.UNSTAMPED, None, None)


def test_gaps_already_in_the_requests_give_a_lower_bound():
    def with_spaced_requests(train: EchoTrain) -> EchoTrain:
        return replace(train, sent_ns=train.arrived_ns - 20_000_000)

    measured = changed(trains_over(Hop(1000), Hop(50)), with_spaced_requests)

    assert (measured.verdict, measured.capacity_bps, measured.high_bps) == (CapacityVerdict.OWN_LIMIT, None, None)
    assert measured.low_bps == pytest.approx(50e6, rel=0.01)


def test_gaps_below_the_stamp_resolution_give_no_estimate():
    def compressed(train: EchoTrain) -> EchoTrain:
        return arriving(train, train.arrived_ns[0] + (train.arrived_ns - train.arrived_ns[0]) // 2)

    measured = changed(trains_over(Hop(5000)), compressed)

    assert (measured.verdict, measured.capacity_bps, measured.low_bps) == (CapacityVerdict.RESOLUTION, None, None)


def test_identical_stamps_give_no_estimate():
    measured = changed(trains_over(Hop(1000)), lambda train: arriving(train, np.full(len(train), train.arrived_ns[-1])))

    assert (measured.verdict, measured.capacity_bps) == (CapacityVerdict.RESOLUTION, None)


@given(every_us=st.integers(30, 60))
def test_replies_in_batches_give_no_estimate(every_us):
    def coalesced(train: EchoTrain) -> EchoTrain:
        step_ns = every_us * 1000
        batch = -(-train.arrived_ns // step_ns)
        place = np.arange(len(train)) - np.searchsorted(batch, batch)
        return arriving(train, batch * step_ns + place * 900)

    measured = changed(trains_over(Hop(5000), Hop(900)), coalesced)

    assert (measured.verdict, measured.capacity_bps) == (CapacityVerdict.BATCHED, None)


def test_a_fixed_delay_per_packet_is_not_the_rate_of_a_link():
    estimated = estimate(trains_over(Hop(1000), Hop(1000, per_packet_s=0.001), Hop(1000)))

    assert (estimated.verdict, estimated.capacity_bps) == (CapacityVerdict.PER_PACKET, None)
    assert "988 echoes/s" in estimated.detail  # 1 ms, and 12 µs on the link


@settings(max_examples=40)
@given(late_share=st.floats(0.05, 0.6), late_s=st.floats(0.0005, 0.01), seed=st.integers(0, 10**6))
def test_a_busy_host_limiting_echoes_is_never_a_link(late_share, late_s, seed):
    rng = random.Random(seed)

    def answered_late(train: EchoTrain) -> EchoTrain:
        late_ns = [rng.expovariate(1e-9 / late_s) if rng.random() < late_share else 0.0 for _ in range(len(train))]
        return arriving(train, train.arrived_ns[0] + np.cumsum(1e6 + np.array(late_ns)))

    estimated = changed(trains_over(Hop(1000)), answered_late)

    assert estimated.verdict not in (CapacityVerdict.MEASURED, CapacityVerdict.OWN_LIMIT), estimated
    assert estimated.capacity_bps is None


def test_small_trains_sent_slowly_leave_open_if_it_is_a_link():
    def sent_slowly(train: EchoTrain) -> EchoTrain:
        if train.ip_bytes == LARGE:
            return train
        return replace(train, sent_ns=train.arrived_ns - 10**7)

    limited = changed(trains_over(Hop(1000), Hop(1000, per_packet_s=0.001), Hop(1000)), sent_slowly)
    link = changed(trains_over(Hop(1000), Hop(10), Hop(1000)), sent_slowly)

    assert (limited.verdict, limited.capacity_bps) == (CapacityVerdict.UNSETTLED, None)
    assert (link.verdict, link.capacity_bps) == (CapacityVerdict.MEASURED, pytest.approx(10e6, rel=0.01))


def test_a_links_headers_are_not_taken_for_delay_per_packet():
    ethernet_s = 38 * 8 / 100e6

    estimated = estimate(trains_over(Hop(1000), Hop(100, per_packet_s=ethernet_s)))

    assert estimated.verdict is CapacityVerdict.MEASURED
    assert estimated.capacity_bps == pytest.approx(100e6 * 1500 / 1538, rel=0.01)


def test_trains_outweigh_pairs_sent_on_a_shapers_tokens():
    def credited(train: EchoTrain) -> EchoTrain:
        credit_ns = np.where(np.arange(len(train)) > 0, 70_000, 0)
        return arriving(train, train.arrived_ns - credit_ns)

    measured = changed(trains_over(Hop(1000), Hop(50)), credited)

    assert (measured.verdict, measured.method) == (CapacityVerdict.MEASURED, "trains")
    assert measured.capacity_bps == pytest.approx(50e6, rel=0.01)


def test_gaps_of_all_sizes_are_undetermined():
    rng = np.random.default_rng(3)

    def scattered(train: EchoTrain) -> EchoTrain:
        steps_ns = np.cumsum(10 ** rng.uniform(5, 6.5, len(train)))
        return arriving(train, train.arrived_ns[0] + steps_ns)

    measured = changed(trains_over(Hop(1000)), scattered)

    assert (measured.verdict, measured.capacity_bps) == (CapacityVerdict.UNSETTLED, None)
    assert 0 < measured.low_bps < measured.high_bps
    assert "pairs" in measured.detail


def test_reordered_or_incomplete_trains_are_ignored():
    [train] = [each for each in trains_over(Hop(20))[:40] if len(each) == 10][:1]

    assert train.is_complete
    assert not arriving(train, train.arrived_ns[[1, 0, *range(2, 10)]]).is_complete
    assert not without(train, np.arange(10) == 4).is_complete
    assert not replace(train, stamped=np.arange(10) != 4).is_complete


@given(sums=st.lists(st.integers(1, 10**9), min_size=1, max_size=40, unique=True))
def test_the_least_delayed_trains_are_a_quarter_and_at_least_3(sums):
    trains = [
        EchoTrain(LARGE, np.array([0, 1]), np.array([each, each + 1]), np.array([each, 0.0]), np.ones(2, bool))
        for each in sums
    ]

    delays_ns = [train.delay_sum_ns for train in least_delayed(trains)]

    assert delays_ns == sorted(sums)[: len(delays_ns)]
    assert len(delays_ns) == min(len(sums), max(3, -(-len(sums) // 4)))
