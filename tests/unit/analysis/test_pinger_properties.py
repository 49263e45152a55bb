"""PingER's metrics compared with a second implementation in plain Python, and laws that hold for any bursts: order,
pooling, scale, bounds, and that unsent packets change nothing."""

import itertools
import math
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracles import pinger

LOST = math.nan
unhurried = settings(deadline=None)

packets = st.one_of(st.none(), st.floats(0.001, 2000.0))
bursts_of_packets = st.lists(st.lists(packets, max_size=8), max_size=8)
counts = st.lists(st.integers(0, 5), min_size=1, max_size=20)

OF_ALL_BURSTS = {
    "loss ratio": pinger.loss_ratio,
    "unreachability": pinger.unreachability,
    "zero loss": pinger.zero_loss_frequency,
    "unpredictability": pinger.unpredictability,
    "conditional loss": pinger.conditional_loss_probability,
    "mean loss burst": pinger.mean_loss_burst,
    "mos": pinger.mos,
    "throughput": lambda rtts_ms, sent: getattr(pinger.throughput(rtts_ms, sent), "throughput_bps", None),
    "mean run": lambda rtts_ms, sent: getattr(pinger.loss_runs(rtts_ms, sent), "mean_packets", None),
    "average": lambda rtts_ms, _: getattr(pinger.rtt_summary(rtts_ms), "avg_ms", None),
    "P90": lambda rtts_ms, _: getattr(pinger.rtt_summary(rtts_ms), "p90_ms", None),
    "IQR": lambda rtts_ms, _: pinger.rtt_iqr_ms(rtts_ms),
    "IPDV": lambda rtts_ms, _: pinger.ipdv_ms(rtts_ms),
    "absolute IPDV": lambda rtts_ms, _: pinger.absolute_ipdv_ms(rtts_ms),
}
IN_ANY_ORDER_OF_PACKETS = ("loss ratio", "unreachability", "zero loss", "unpredictability", "average", "P90", "IQR")
SHARES = ("loss ratio", "unreachability", "zero loss", "unpredictability", "conditional loss")


def as_rows(bursts):
    """The array and the number of packets sent in each burst."""
    rtts_ms = np.full((len(bursts), max(map(len, bursts), default=0)), LOST)
    for row, burst in zip(rtts_ms, bursts, strict=True):
        row[: len(burst)] = [LOST if rtt is None else rtt for rtt in burst]
    return rtts_ms, [len(burst) for burst in bursts]


def figures(bursts):
    return {name: metric(*as_rows(bursts)) for name, metric in OF_ALL_BURSTS.items()}


def close(figure):
    return None if figure is None else pytest.approx(figure, rel=1e-9, abs=1e-6)


def quantile(values, share):
    """Linear interpolation between order statistics, from its definition."""
    ordered = sorted(values)
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


def iqr(values):
    return quantile(values, 0.75) - quantile(values, 0.25) if values else None


def mean(values):
    return statistics.fmean(values) if values else None


def replies(burst):
    return [rtt for rtt in burst if rtt is not None]


def jumps(burst):
    return [after - before for before, after in itertools.pairwise(burst) if None not in (before, after)]


def run_lengths(burst):
    return [len(list(run)) for lost, run in itertools.groupby(burst, lambda rtt: rtt is None) if lost]


def plain_unpredictability(bursts):
    successes = [len(replies(burst)) / len(burst) for burst in bursts]
    rates = [2000.0 / statistics.fmean(replies(burst)) for burst in bursts if replies(burst)]
    if not rates:
        return None
    r, s = mean(rates) / max(rates), mean(successes) / max(successes)
    return math.hypot(1 - r, 1 - s) / math.sqrt(2)


def plain_mos(rtt_avg_ms, jitter_ms, loss_percent):
    """The latency costs 1 point of R per 40 ms up to 160 ms, and above that 1 per 10 ms."""
    latency = rtt_avg_ms + 2 * jitter_ms + 10
    r = 93.2 - min(latency, 160) / 40 - max(latency - 160, 0) / 10 - 2.5 * loss_percent
    r = sorted((0, r, 100))[1]
    return max(1, np.polyval([-7e-6, 1120e-6, 0.035 - 0.042, 1], r))


def plain_throughput_bps(rtt_avg_ms, lost, sent):
    loss = lost / sent if lost else min(3 / sent, 1)
    return 1460 * 8 * 1000 / (rtt_avg_ms * math.sqrt(loss))


@unhurried
@given(bursts_of_packets)
def test_losses_equal_their_definitions(bursts):
    sent = [burst for burst in bursts if burst]
    lost = [[rtt is None for rtt in burst] for burst in sent]
    followed = [pair for burst in lost for pair in itertools.pairwise(burst) if pair[0]]

    figures_of_all = figures(bursts)

    assert figures_of_all["loss ratio"] == close(mean([was_lost for burst in lost for was_lost in burst]))
    assert figures_of_all["unreachability"] == close(mean([all(burst) for burst in lost]))
    assert figures_of_all["zero loss"] == close(mean([not any(burst) for burst in lost]))
    assert figures_of_all["conditional loss"] == close(mean([after for _, after in followed]))


@unhurried
@given(bursts_of_packets)
def test_loss_runs_equal_their_definition(bursts):
    runs = [run_lengths(burst) for burst in bursts]
    lengths = [length for burst in runs for length in burst]

    loss_runs = pinger.loss_runs(*as_rows(bursts))
    longest = pinger.longest_loss_run_by_burst(*as_rows(bursts))

    assert longest.tolist() == [max(burst, default=0) for burst in runs]
    if any(bursts):
        assert loss_runs.runs_of_length == {length: lengths.count(length) for length in lengths}
        assert loss_runs.longest_packets == max(lengths, default=0)
        assert loss_runs.mean_packets == close(mean(lengths))


@unhurried
@given(bursts_of_packets)
def test_the_mean_loss_run_counts_only_runs_that_ended(bursts):
    """1/(1 - CLP) by counting: a loss at the end of a run but not of the burst is a run that ended."""
    followed = sum(rtt is None for burst in bursts for rtt in burst[:-1])
    ended = sum(pair[0] is None and pair[1] is not None for burst in bursts for pair in itertools.pairwise(burst))

    assert pinger.mean_loss_burst(*as_rows(bursts)) == close(followed / ended if ended else None)


@unhurried
@given(bursts_of_packets, st.lists(st.floats(0.0, 1.0), min_size=1, max_size=5))
def test_rtts_equal_their_definitions(bursts, shares):
    rtts_ms, _ = as_rows(bursts)
    received = [rtt for burst in bursts for rtt in replies(burst)]

    summary = pinger.rtt_summary(rtts_ms)
    quantiles_ms = pinger.rtt_quantiles_ms(rtts_ms, shares)

    if not received:
        assert summary is None
        assert quantiles_ms is None
        return
    assert (summary.min_ms, summary.max_ms) == (min(received), max(received))
    assert summary.avg_ms == close(statistics.fmean(received))
    assert summary.median_ms == close(statistics.median(received))
    in_order = (summary.p25_ms, summary.p75_ms, summary.p90_ms, summary.p95_ms)
    assert in_order == close([quantile(received, share) for share in (0.25, 0.75, 0.9, 0.95)])
    assert quantiles_ms == close([quantile(received, share) for share in shares])


@unhurried
@given(bursts_of_packets)
def test_delay_variations_equal_their_definitions(bursts):
    rtts_ms, _ = as_rows(bursts)
    ranges = [iqr(replies(burst)) for burst in bursts]
    pooled = [jump for burst in bursts for jump in jumps(burst)]

    figures_of_all = figures(bursts)

    assert figures_of_all["IQR"] == close(mean([iqr_ms for iqr_ms in ranges if iqr_ms is not None]))
    assert figures_of_all["IPDV"] == close(iqr(pooled))
    assert figures_of_all["absolute IPDV"] == close(iqr([abs(jump) for jump in pooled]))
    by_burst = [LOST if iqr_ms is None else iqr_ms for iqr_ms in ranges]
    assert pinger.rtt_iqr_by_burst_ms(rtts_ms) == pytest.approx(by_burst, nan_ok=True, abs=1e-6)
    ipdv_by_burst = [iqr(jumps(burst)) if jumps(burst) else LOST for burst in bursts]
    assert pinger.ipdv_by_burst_ms(rtts_ms) == pytest.approx(ipdv_by_burst, nan_ok=True, abs=1e-6)


@unhurried
@given(bursts_of_packets)
def test_derived_metrics_equal_their_definitions(bursts):
    received = [rtt for burst in bursts for rtt in replies(burst)]
    sent = sum(map(len, bursts))
    lost = sent - len(received)
    jitter_ms = iqr([jump for burst in bursts for jump in jumps(burst)])

    figures_of_all = figures(bursts)

    assert figures_of_all["unpredictability"] == close(plain_unpredictability([burst for burst in bursts if burst]))
    assert figures_of_all["throughput"] == close(plain_throughput_bps(mean(received), lost, sent) if received else None)
    assert figures_of_all["mos"] == close(
        None if jitter_ms is None else plain_mos(mean(received), jitter_ms, 100 * lost / sent)
    )


@unhurried
@given(st.data(), bursts_of_packets)
def test_the_order_of_bursts_does_not_matter(data, bursts):
    shuffled = data.draw(st.permutations(bursts))

    assert figures(shuffled) == {name: close(figure) for name, figure in figures(bursts).items()}


@unhurried
@given(st.data(), bursts_of_packets)
def test_the_order_of_packets_matters_only_where_it_is_measured(data, bursts):
    shuffled = [data.draw(st.permutations(burst)) for burst in bursts]

    before, after = figures(bursts), figures(shuffled)

    for name in IN_ANY_ORDER_OF_PACKETS:
        assert after[name] == close(before[name]), name


@unhurried
@given(bursts_of_packets)
def test_reversed_bursts_have_the_same_variation_and_loss_runs(bursts):
    backwards = [burst[::-1] for burst in bursts]

    before, after = figures(bursts), figures(backwards)

    for name in ("IPDV", "absolute IPDV", "mean run"):
        assert after[name] == close(before[name]), name


@unhurried
@given(bursts_of_packets, bursts_of_packets)
def test_two_periods_are_pooled_by_their_counts(first, second):
    """Ratios are weighted by packets or by bursts, never by period; runs, duplicates and minima add up."""
    figures_of_all, other, both = figures(first), figures(second), figures(first + second)

    for name, weight in (("loss ratio", lambda burst: len(burst)), ("unreachability", bool), ("zero loss", bool)):
        weights = [sum(map(weight, first)), sum(map(weight, second))]
        parts = [share * n for share, n in zip((figures_of_all[name], other[name]), weights, strict=True) if n]
        assert both[name] == close(sum(parts) / sum(weights) if sum(weights) else None), name
    minima_ms = [summary.min_ms for half in (first, second) if (summary := pinger.rtt_summary(as_rows(half)[0]))]
    if minima_ms:
        assert pinger.rtt_summary(as_rows(first + second)[0]).min_ms == min(minima_ms)


@unhurried
@given(counts, counts)
def test_occurrences_are_pooled_by_their_counts(first, second):
    earlier, other, both = map(pinger.duplicates, (first, second, first + second))

    assert both.packets == earlier.packets + other.packets
    with_any = earlier.bursts_ratio * len(first) + other.bursts_ratio * len(second)
    assert both.bursts_ratio == pytest.approx(with_any / (len(first) + len(second)))


@unhurried
@given(bursts_of_packets, st.integers(0, 3), st.integers(0, 3))
def test_unsent_packets_change_nothing(bursts, more_packets, more_bursts):
    rtts_ms, sent = as_rows(bursts)
    padded_ms = np.pad(rtts_ms, ((0, more_bursts), (0, more_packets)), constant_values=LOST)

    padded = {name: metric(padded_ms, sent + [0] * more_bursts) for name, metric in OF_ALL_BURSTS.items()}

    assert padded == {name: close(figure) for name, figure in figures(bursts).items()}


@unhurried
@given(bursts_of_packets, st.floats(0.1, 1000.0))
def test_a_longer_path_has_the_same_variation(bursts, longer_ms):
    moved = [[None if rtt is None else rtt + longer_ms for rtt in burst] for burst in bursts]

    before, after = figures(bursts), figures(moved)

    for name in ("IQR", "IPDV", "absolute IPDV"):
        assert after[name] == close(before[name]), name


@unhurried
@given(bursts_of_packets, st.sampled_from([0.5, 2.0, 8.0]))
def test_times_and_rates_scale_and_unpredictability_does_not(bursts, factor):
    scaled = [[None if rtt is None else rtt * factor for rtt in burst] for burst in bursts]

    before, after = figures(bursts), figures(scaled)

    for name, power in (("average", 1), ("IQR", 1), ("IPDV", 1), ("throughput", -1), ("unpredictability", 0)):
        assert after[name] == close(None if before[name] is None else before[name] * factor**power), name


@unhurried
@given(bursts_of_packets)
def test_metrics_stay_within_their_bounds(bursts):
    figures_of_all = figures(bursts)

    assert all(0.0 <= figures_of_all[name] <= 1.0 for name in SHARES if figures_of_all[name] is not None)
    assert figures_of_all["mos"] is None or 1.0 <= figures_of_all["mos"] <= 4.5
    assert figures_of_all["mean loss burst"] is None or figures_of_all["mean loss burst"] >= 1.0
    assert all(
        figures_of_all[name] is None or figures_of_all[name] >= 0.0
        for name in ("IQR", "IPDV", "absolute IPDV", "throughput")
    )


@unhurried
@given(st.integers(1, 6).flatmap(lambda size: st.lists(st.lists(packets, min_size=size, max_size=size), min_size=1)))
def test_loss_lies_between_unreachability_and_lossy_ratio(bursts):
    """If all bursts have the same length."""
    figures_of_all = figures(bursts)

    assert figures_of_all["unreachability"] <= figures_of_all["loss ratio"] + 1e-12
    assert figures_of_all["loss ratio"] <= 1.0 - figures_of_all["zero loss"] + 1e-12


@unhurried
@given(bursts_of_packets)
def test_rtts_are_ordered_as_their_names(bursts):
    summary = pinger.rtt_summary(as_rows(bursts)[0])

    if summary is not None:
        least_to_greatest = [
            summary.min_ms, summary.p25_ms, summary.median_ms, summary.p75_ms, summary.p90_ms, summary.p95_ms,
            summary.max_ms,
        ]  # fmt: skip
        assert least_to_greatest == sorted(least_to_greatest)


@unhurried
@given(st.floats(0.0, 1000.0), st.floats(0.0, 100.0), st.floats(0.0, 1.0), st.floats(0.0, 50.0), st.floats(0.0, 1.0))
def test_a_score_never_improves_by_delay_jitter_or_loss(rtt_ms, jitter_ms, loss, more_ms, more_loss):
    score = pinger.mos_of(rtt_ms, jitter_ms, loss)

    assert pinger.mos_of(rtt_ms + more_ms, jitter_ms, loss) <= score + 1e-12
    assert pinger.mos_of(rtt_ms, jitter_ms + more_ms, loss) <= score + 1e-12
    assert pinger.mos_of(rtt_ms, jitter_ms, min(1.0, loss + more_loss)) <= score + 1e-12


@unhurried
@given(st.lists(st.tuples(st.lists(packets, max_size=6), st.lists(packets, max_size=6)), max_size=6))
def test_the_difference_of_two_sizes_equals_its_definition(pairs):
    small, large = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    least = [min((rtt for burst in size for rtt in replies(burst)), default=None) for size in (small, large)]
    steps = [min(replies(b)) - min(replies(a)) for a, b in pairs if replies(a) and replies(b)]
    lost = [mean([rtt is None for burst in size for rtt in burst]) for size in (small, large)]
    (small_ms, small_sent), (large_ms, large_sent) = as_rows(small), as_rows(large)

    difference = pinger.size_difference(
        small_ms, large_ms, small_bytes=100, large_bytes=600, small_sent=small_sent, large_sent=large_sent
    )

    step_ms = None if None in least else least[1] - least[0]
    assert difference.rtt_min_ms == close(step_ms)
    assert difference.rtt_ms_per_byte == close(None if step_ms is None else step_ms / 500)
    assert difference.rtt_paired_ms == close(statistics.median(steps) if steps else None)
    assert difference.loss_ratio == close(None if None in lost else lost[1] - lost[0])
