"""PingER's sixteen metrics and those that came with them, as pure functions on arrays.

In: `rtts_ms`, an array of shape (bursts, packets) of milliseconds in the order of sending, NaN or None where the packet
was lost; a single burst may be given as one row. Where bursts differ in length, rows are filled up with NaN and `sent`
is the number of packets sent in each row (a number for all, or an array of them). A burst without packets does not
count. Bursts have the same packet size, unless a function takes two.

Out: a figure for all bursts given, with its unit in the name and None where it is undefined, so that absence is never
0; functions named `…_by_burst` give an array of shape (bursts,) with NaN there.
Quantiles interpolate linearly between order statistics, as NumPy's default and PostgreSQL's `percentile_cont` do.

Sources: the definitions of PingER (L. Cottrell, W. Matthews, C. Logg, "Tutorial on Internet Monitoring and PingER at
SLAC"); RFC 2681 for the round trip, RFC 7680 for loss, RFC 3393 and RFC 5481 for delay variation. Not here: a
loss's band and bounds (`monitor.analysis.loss`, `monitor.analysis.binomial`), and
other models of throughput (`monitor.analysis.tcp`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from monitor.analysis.bursts import as_bursts, averages, interquartile_ranges, sent_and_lost
from monitor.analysis.figures import milliseconds
from monitor.analysis.tcp import mathis_estimate
from monitor.arrays import Bools, Floats, Ints

FIBRE_ROUND_TRIP_KM_PER_MS = 100.0
"""Light in fibre goes 200 km in 1 ms, hence 100 km there and back."""


@dataclass(frozen=True, slots=True)
class RttSummary:
    """RTTs of all packets received in a period, in milliseconds."""

    min_ms: float
    p25_ms: float
    median_ms: float
    p75_ms: float
    p90_ms: float
    p95_ms: float
    max_ms: float
    avg_ms: float


@dataclass(frozen=True, slots=True)
class LossRuns:
    """Runs of consecutive lost packets within a burst.

    `runs_of_length` maps a length in packets to the number of runs. Without loss the longest is 0 and the mean
    undefined.
    """

    runs_of_length: dict[int, int]
    longest_packets: int
    mean_packets: float | None


@dataclass(frozen=True, slots=True)
class Occurrence:
    """Frequency of an event: `bursts_ratio` is the share of bursts (0 to 1) with it, `packets` the number of
    packets."""

    bursts_ratio: float
    packets: int


@dataclass(frozen=True, slots=True)
class MathisIndex:
    """The Mathis (Reno) index of PingER's tables. With `is_floor` nothing was lost, and the true index is this or
    more."""

    throughput_bps: float
    is_floor: bool


@dataclass(frozen=True, slots=True)
class Directness:
    """PingER's alpha, never clamped: 1 is a straight fibre. `problem` is the error of an alpha above 1."""

    alpha: float
    problem: str | None


@dataclass(frozen=True, slots=True)
class SizeDifference:
    """Difference between large and small packets of a path; None where either size has no such figure.

    `rtt_min_ms` is the difference of the minimum RTTs: the time to serialise the extra bytes on every link, there and
    back, without queueing. `rtt_ms_per_byte` is its share for a byte: the sum of 8/rate over those links.
    `rtt_paired_ms` is the median over pairs of bursts of the difference of their minimum RTTs, which includes queueing.
    `loss_ratio` is the difference of the pooled losses (-1 to 1), positive where bytes rather than packets are dropped,
    as by bit errors or buffers counted in bytes.
    """

    rtt_min_ms: float | None
    rtt_paired_ms: float | None
    rtt_ms_per_byte: float | None
    loss_ratio: float | None


def loss_ratio(rtts_ms: ArrayLike, sent: ArrayLike | None = None) -> float | None:
    """Lost over sent, pooled over all bursts (RFC 7680, section 4.1); 0 to 1, None when nothing was sent."""
    was_sent, lost = sent_and_lost(rtts_ms, sent)
    return _ratio(lost.sum(), was_sent.sum())


def late_ratio(late_by_burst: ArrayLike, sent: ArrayLike) -> float | None:
    """Packets answered after the timeout over packets sent, pooled; 0 to 1, None when nothing was sent.

    Late packets are among the lost: this is the share of the packets, not of the losses.
    """
    late, sent_packets = np.broadcast_arrays(np.asarray(late_by_burst), np.asarray(sent))
    if (late < 0).any() or (late > sent_packets).any():
        raise ValueError("late packets must be between 0 and the packets sent of their burst")
    return _ratio(late.sum(), sent_packets.sum())


def unreachability(rtts_ms: ArrayLike, sent: ArrayLike | None = None) -> float | None:
    """Share of bursts with every packet lost; 0 to 1, None without bursts."""
    success = _success_ratios(rtts_ms, sent)
    return _ratio((success == 0.0).sum(), success.size)


def zero_loss_frequency(rtts_ms: ArrayLike, sent: ArrayLike | None = None) -> float | None:
    """Share of bursts with no packet lost (PingER's quiescence); 0 to 1, None without bursts."""
    success = _success_ratios(rtts_ms, sent)
    return _ratio((success == 1.0).sum(), success.size)


def conditional_loss_probability(rtts_ms: ArrayLike, sent: ArrayLike | None = None) -> float | None:
    """Probability that a packet is lost when the packet before it in its burst was; 0 to 1.

    Pairs of consecutive losses over losses that have a successor in their burst; None without such a loss. J.-C. Bolot,
    "End-to-end packet delay and loss behavior in the Internet" (SIGCOMM 1993).
    """
    was_sent, lost = sent_and_lost(rtts_ms, sent)
    with_successor = lost[:, :-1] & was_sent[:, 1:]
    return _ratio((with_successor & lost[:, 1:]).sum(), with_successor.sum())


def mean_loss_burst(rtts_ms: ArrayLike, sent: ArrayLike | None = None) -> float | None:
    """Mean number of packets lost in a row: 1/(1 - CLP), 1 or more (Bolot 1993).

    It corrects for runs cut off by the end of a burst, which the mean of `loss_runs` does not. None where CLP is
    undefined, and where it is 1: no run was seen to end, so the data give no upper limit to its length.
    """
    probability = conditional_loss_probability(rtts_ms, sent)
    return None if probability is None or probability == 1.0 else 1.0 / (1.0 - probability)


def loss_runs(rtts_ms: ArrayLike, sent: ArrayLike | None = None) -> LossRuns | None:
    """Lengths of the runs of consecutive losses in each burst (RFC 3357, loss periods); None when nothing was sent."""
    was_sent, lost = sent_and_lost(rtts_ms, sent)
    if not was_sent.any():
        return None
    _, lengths = _loss_run_lengths(lost)
    present, runs = np.unique(lengths, return_counts=True)
    return LossRuns(
        runs_of_length=dict(zip(present.tolist(), runs.tolist(), strict=True)),
        longest_packets=int(lengths.max(initial=0)),
        mean_packets=_ratio(lengths.sum(), lengths.size),
    )


def longest_loss_run_by_burst(rtts_ms: ArrayLike, sent: ArrayLike | None = None) -> Ints:
    """Packets of the longest run of consecutive losses in each burst, shape (bursts,); 0 where nothing was lost."""
    _, lost = sent_and_lost(rtts_ms, sent)
    bursts, lengths = _loss_run_lengths(lost)
    longest = np.zeros(len(lost), dtype=np.int64)
    np.maximum.at(longest, bursts, lengths)
    return longest


def rtt_summary(rtts_ms: ArrayLike) -> RttSummary | None:
    """Minimum, maximum and mean RTT, quartiles, P90 and P95, pooled over the bursts (RFC 2681, section 4).

    None when nothing was received. RTTs have a heavy tail: compare medians and quantiles, not means.
    """
    received = _received(rtts_ms)
    if not received.size:
        return None
    p25_ms, median_ms, p75_ms, p90_ms, p95_ms = np.quantile(received, (0.25, 0.5, 0.75, 0.9, 0.95)).tolist()
    return RttSummary(
        min_ms=float(received.min()),
        p25_ms=p25_ms,
        median_ms=median_ms,
        p75_ms=p75_ms,
        p90_ms=p90_ms,
        p95_ms=p95_ms,
        max_ms=float(received.max()),
        avg_ms=float(received.mean()),
    )


def rtt_quantiles_ms(rtts_ms: ArrayLike, shares: Sequence[float]) -> tuple[float, ...] | None:
    """The quantiles at `shares` (0 to 1) of all received RTTs, in ms; None when nothing was received."""
    received = _received(rtts_ms)
    return tuple(np.quantile(received, shares).tolist()) if received.size else None


def rtt_iqr_ms(rtts_ms: ArrayLike) -> float | None:
    """P75 minus P25 of the RTTs of a burst; of several bursts, the mean of theirs.

    None when nothing was received. It excludes variation between bursts, which the quartiles of `rtt_summary` include.
    """
    ranges_ms = rtt_iqr_by_burst_ms(rtts_ms)
    return _average(ranges_ms[~np.isnan(ranges_ms)])


def rtt_iqr_by_burst_ms(rtts_ms: ArrayLike) -> Floats:
    """P75 minus P25 of the RTTs within each burst, shape (bursts,); NaN where nothing was received."""
    return interquartile_ranges(as_bursts(rtts_ms))


def ipdv_ms(rtts_ms: ArrayLike) -> float | None:
    """Delay variation: the interquartile range of the signed differences, pooled over the bursts.

    A difference is R[i] - R[i-1] of two packets sent consecutively in a burst that both came back (RFC 3393, section 2;
    RFC 5481, section 4.1); a lost packet therefore removes two differences. None where no such pair is left.
    """
    return _pooled_interquartile_range(_differences(rtts_ms))


def ipdv_by_burst_ms(rtts_ms: ArrayLike) -> Floats:
    """`ipdv_ms` of each burst by itself, shape (bursts,); NaN where no pair is left."""
    return interquartile_ranges(_differences(rtts_ms))


def absolute_ipdv_ms(rtts_ms: ArrayLike) -> float | None:
    """Delay variation as perfSONAR counts it: as `ipdv_ms`, but of the absolute values of the differences.

    Another number, not another way to the same: never compare the two.
    """
    return _pooled_interquartile_range(np.abs(_differences(rtts_ms)))


def duplicates(duplicates_by_burst: ArrayLike) -> Occurrence | None:
    """Replies beyond the first to a request (RFC 5560), from their count in each burst; None without bursts."""
    return _occurrence(duplicates_by_burst)


def out_of_order(reordered_by_burst: ArrayLike) -> Occurrence | None:
    """Replies that a later request's reply overtook (RFC 4737), from their count in each burst; None without bursts."""
    return _occurrence(reordered_by_burst)


def unpredictability(rtts_ms: ArrayLike, sent: ArrayLike | None = None) -> float | None:
    """How far bursts fall short of the best of them: sqrt(((1 - r)² + (1 - s)²) / 2), 0 to 1 (H.-W. Braun, in PingER).

    s is the mean over the greatest share of packets received in a burst, r the mean over the greatest rate; the rate of
    a burst is its bytes there and back (2000 for PingER's large packets) over its mean RTT, so that r does not
    depend on the size. A completely lost burst has a share, 0, and no rate. 0 for a single burst; None when
    nothing was received, and where a mean RTT is 0.
    """
    received_ratios = _success_ratios(rtts_ms, sent)
    with np.errstate(divide="ignore"):
        rates = 1.0 / averages(as_bursts(rtts_ms))
    rates = rates[~np.isnan(rates)]
    if not rates.size or np.isinf(rates).any():
        return None
    r = rates.mean() / rates.max()
    s = received_ratios.mean() / received_ratios.max()
    return float(np.sqrt(((1.0 - r) ** 2 + (1.0 - s) ** 2) / 2.0))


def throughput(rtts_ms: ArrayLike, sent: ArrayLike | None = None) -> MathisIndex | None:
    """Mathis et al. (1997) as in PingER's tables: MSS·8/(RTT·sqrt(p)), MSS 1460 bytes, C = 1, in bit/s.

    RTT is the mean RTT and p the pooled loss. Where nothing was lost p is taken at its upper 95% bound, 3/sent,
    and the result is a floor. None when nothing was received, and for a mean RTT of 0.
    """
    was_sent, lost = sent_and_lost(rtts_ms, sent)
    rtt_avg_ms = _average(_received(rtts_ms))
    if rtt_avg_ms is None:
        return None
    sent_packets = was_sent.sum()
    rate_bps, is_floor = mathis_estimate(rtt_avg_ms, sent_packets, sent_packets - lost.sum())
    return None if np.isnan(rate_bps) else MathisIndex(float(rate_bps), bool(is_floor))


def mos(rtts_ms: ArrayLike, sent: ArrayLike | None = None) -> float | None:
    """Mean opinion score of a telephone call, 1 to 4.5: `mos_of` mean RTT, `ipdv_ms` and pooled loss.

    None when nothing was received, and where there is no IPDV.
    """
    return mos_of(_average(_received(rtts_ms)), ipdv_ms(rtts_ms), loss_ratio(rtts_ms, sent))


def mos_of(rtt_avg_ms: float | None, jitter_ms: float | None, loss_ratio: float | None) -> float | None:
    """Mean opinion score of an RTT in ms, a jitter in ms and a loss (0 to 1); None where an argument is None.

    PingER's short form of the E-model: the effective latency and the loss are subtracted from R, and ITU-T G.107, Annex
    B, converts R to the score. That cubic dips to 0.99 for R between 0 and 6.5; it is clamped to 1.
    """
    if rtt_avg_ms is None or jitter_ms is None or loss_ratio is None:
        return None
    if math.isnan(rtt_avg_ms + jitter_ms + loss_ratio):
        return None
    if not 0.0 <= loss_ratio <= 1.0:
        raise ValueError(f"loss ratio {loss_ratio} is not between 0 and 1; give lost/sent, not a percentage")
    effective_ms = rtt_avg_ms + 2.0 * jitter_ms + 10.0
    r = 93.2 - (effective_ms / 40.0 if effective_ms < 160.0 else (effective_ms - 120.0) / 10.0)
    r = min(100.0, max(0.0, r - 2.5 * 100.0 * loss_ratio))
    return max(1.0, 1.0 + 0.035 * r + 7e-6 * r * (r - 60.0) * (100.0 - r))


def directness(distance_km: float, rtt_min_ms: float | None) -> Directness | None:
    """PingER's alpha: great-circle km over 100 times the minimum RTT in ms, the speed of light in fibre.

    0 to 1 on any real path, low where the route makes detours; above 1 the packets were faster than light in a straight
    fibre, so that a coordinate is wrong or the answer came from elsewhere. None without an RTT above 0.
    """
    if distance_km < 0.0:
        raise ValueError(f"distance {distance_km} km is below 0")
    if rtt_min_ms is None or math.isnan(rtt_min_ms) or rtt_min_ms <= 0.0:
        return None
    alpha = distance_km / (FIBRE_ROUND_TRIP_KM_PER_MS * rtt_min_ms)
    return Directness(alpha, _faster_than_light(distance_km, rtt_min_ms) if alpha > 1.0 else None)


def size_difference(
    small_rtts_ms: ArrayLike,
    large_rtts_ms: ArrayLike,
    *,
    small_bytes: int,
    large_bytes: int,
    small_sent: ArrayLike | None = None,
    large_sent: ArrayLike | None = None,
) -> SizeDifference:
    """The large packets against the small ones, where row i of both arrays is from the same cycle of measurement.

    Raises ValueError where the arrays do not pair up or the sizes are not small and large.
    """
    small, large = as_bursts(small_rtts_ms), as_bursts(large_rtts_ms)
    if len(small) != len(large):
        raise ValueError(f"{len(small)} bursts of small packets, {len(large)} of large ones; give those made together")
    if not 0 < small_bytes < large_bytes:
        raise ValueError(f"{large_bytes} bytes are not more than {small_bytes}; give the larger size second")
    small_min_ms, large_min_ms = _minima(small), _minima(large)
    rtt_min_ms = _difference(_least(large_min_ms), _least(small_min_ms))
    pairs_ms = large_min_ms - small_min_ms
    pairs_ms = pairs_ms[~np.isnan(pairs_ms)]
    return SizeDifference(
        rtt_min_ms=rtt_min_ms,
        rtt_paired_ms=float(np.median(pairs_ms)) if pairs_ms.size else None,
        rtt_ms_per_byte=None if rtt_min_ms is None else rtt_min_ms / (large_bytes - small_bytes),
        loss_ratio=_difference(loss_ratio(large, large_sent), loss_ratio(small, small_sent)),
    )


def _least(values: Floats) -> float | None:
    least = float(np.fmin.reduce(values, initial=np.nan))
    return None if math.isnan(least) else least


def _pooled_interquartile_range(values: Floats) -> float | None:
    pooled = values[~np.isnan(values)]
    if not pooled.size:
        return None
    lower, upper = np.quantile(pooled, (0.25, 0.75)).tolist()
    return float(upper - lower)


def _average(values: Floats) -> float | None:
    return float(values.mean()) if values.size else None


def _occurrence(counts_by_burst: ArrayLike) -> Occurrence | None:
    counts = np.atleast_1d(np.asarray(counts_by_burst))
    if (counts < 0).any():
        raise ValueError("a count of packets is below 0")
    if not counts.size:
        return None
    return Occurrence(bursts_ratio=float((counts > 0).mean()), packets=int(counts.sum()))


def _ratio(part: int, whole: int) -> float | None:
    return float(part / whole) if whole else None


def _difference(minuend: float | None, subtrahend: float | None) -> float | None:
    return None if minuend is None or subtrahend is None else minuend - subtrahend


def _received(rtts_ms: ArrayLike) -> Floats:
    rtts = as_bursts(rtts_ms)
    return rtts[~np.isnan(rtts)]


def _differences(rtts_ms: ArrayLike) -> Floats:
    return np.diff(as_bursts(rtts_ms), axis=1)


def _faster_than_light(distance_km: float, rtt_min_ms: float) -> str:
    return (
        f"{distance_km:,.0f} km and back take light in fibre {milliseconds(distance_km / FIBRE_ROUND_TRIP_KM_PER_MS)},"
        f" a reply came in {milliseconds(rtt_min_ms)}: check the coordinates of both sites, and that the address"
        " answers from its site"
    )


def _success_ratios(rtts_ms: ArrayLike, sent: ArrayLike | None) -> Floats:
    """Received over sent (0 to 1) of each burst with packets sent; the others are left out."""
    was_sent, lost = sent_and_lost(rtts_ms, sent)
    sent_packets = was_sent.sum(axis=1)
    some = sent_packets > 0
    ratios: Floats = 1.0 - lost.sum(axis=1)[some] / sent_packets[some]
    return ratios


def _loss_run_lengths(lost: Bools) -> tuple[Ints, Ints]:
    """Burst index and length in packets of every run of consecutive losses within a burst, in order."""
    bursts, packets = lost.shape
    framed = np.zeros((bursts, packets + 2), dtype=np.int8)
    framed[:, 1:-1] = lost
    steps = np.diff(framed, axis=1)
    rows, starts = np.nonzero(steps == 1)
    _, ends = np.nonzero(steps == -1)
    return rows, ends - starts


def _minima(rtts: Floats) -> Floats:
    """The minimum of each row's values."""
    least: Floats = np.fmin.reduce(rtts, axis=1, initial=np.nan)
    return least
