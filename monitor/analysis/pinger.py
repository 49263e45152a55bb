"""The PingER metrics of round-trip times, as pure functions on arrays.

In: `rtts_ms`, an array of shape (bursts, packets) of milliseconds in the order of sending, NaN where the packet was
lost; a single burst may be given as one row. Out: figures with their unit in the name; NaN where a figure is
undefined, so that absence is never 0. Quantiles interpolate linearly between order statistics, as NumPy's default and
PostgreSQL's `percentile_cont` do.

Sources: the definitions of PingER (L. Cottrell, W. Matthews, C. Logg, "Tutorial on Internet Monitoring and PingER at
SLAC"); RFC 2681 for the round trip, RFC 7680 for loss, RFC 3393 and RFC 5481 for delay variation. Not here: estimates
of throughput (`monitor.analysis.tcp`) and bounds on loss (`monitor.analysis.binomial`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

ZERO_LOSS_BOUND = 3.0
"""With none lost of N the loss is below 3/N with 95% confidence ("rule of three": -ln 0.05 = 2.996)."""

Floats = NDArray[np.float64]


class LossBand(StrEnum):
    """PingER's words for a loss. Each bound belongs to the worse band."""

    EXCELLENT = "excellent"
    GOOD = "good"
    ACCEPTABLE = "acceptable"
    POOR = "poor"
    VERY_POOR = "very poor"
    BAD = "bad"


LOSS_BAND_UPPER_RATIOS = (
    (0.001, LossBand.EXCELLENT),
    (0.01, LossBand.GOOD),
    (0.025, LossBand.ACCEPTABLE),
    (0.05, LossBand.POOR),
    (0.12, LossBand.VERY_POOR),
)


@dataclass(frozen=True, slots=True)
class RttSummary:
    """Round trips of all packets received in a period, in milliseconds; all NaN when nothing was received."""

    min_ms: float
    p25_ms: float
    median_ms: float
    p75_ms: float
    p95_ms: float
    max_ms: float
    avg_ms: float


def loss_ratio(rtts_ms: ArrayLike) -> float:
    """Lost over sent, pooled over all bursts (RFC 7680, section 4.1); 0 to 1, NaN when nothing was sent."""
    rtts = _bursts(rtts_ms)
    return float(np.isnan(rtts).sum() / rtts.size) if rtts.size else math.nan


def rtt_summary(rtts_ms: ArrayLike) -> RttSummary:
    """Minimum, quartiles, P95, maximum and mean of all round trips received, pooled over the bursts."""
    rtts = _bursts(rtts_ms)
    received = rtts[~np.isnan(rtts)]
    if not received.size:
        return RttSummary(*(math.nan,) * 7)
    p25_ms, median_ms, p75_ms, p95_ms = np.quantile(received, (0.25, 0.5, 0.75, 0.95)).tolist()
    return RttSummary(
        min_ms=float(received.min()),
        p25_ms=p25_ms,
        median_ms=median_ms,
        p75_ms=p75_ms,
        p95_ms=p95_ms,
        max_ms=float(received.max()),
        avg_ms=float(received.mean()),
    )


def rtt_iqr_ms(rtts_ms: ArrayLike) -> Floats:
    """P75 minus P25 of the round trips within each burst, shape (bursts,); NaN where nothing was received."""
    return _interquartile_range(_bursts(rtts_ms))


def ipdv_ms(rtts_ms: ArrayLike) -> Floats:
    """Delay variation within each burst: the interquartile range of the signed differences, shape (bursts,).

    A difference is R[i] - R[i-1] of two packets sent one after the other that both came back (RFC 3393, section 2;
    RFC 5481, section 4.1); one lost packet therefore takes two differences away. NaN where no such pair is left.
    """
    return _interquartile_range(np.diff(_bursts(rtts_ms), axis=1))


def unreachability(rtts_ms: ArrayLike) -> float:
    """Share of bursts with every packet lost; 0 to 1, NaN without bursts."""
    rtts = _bursts(rtts_ms)
    return float(np.isnan(rtts).all(axis=1).mean()) if rtts.size else math.nan


def zero_loss_frequency(rtts_ms: ArrayLike) -> float:
    """Share of bursts with no packet lost (PingER's quiescence); 0 to 1, NaN without bursts."""
    rtts = _bursts(rtts_ms)
    return float((~np.isnan(rtts)).all(axis=1).mean()) if rtts.size else math.nan


def conditional_loss_probability(rtts_ms: ArrayLike) -> float:
    """Probability that a packet is lost when the one before it in its burst was; 0 to 1.

    Pairs of consecutive losses over losses that have a successor in their burst; NaN when there is no such loss.
    """
    lost = np.isnan(_bursts(rtts_ms))
    first = lost[:, :-1]
    with_successor = first.sum()
    return float((first & lost[:, 1:]).sum() / with_successor) if with_successor else math.nan


def loss_bound_ratio(sent: int, received: int) -> float | None:
    """The upper 95% bound of the loss where nothing was lost, 3/sent; None where something was, or nothing was sent."""
    if sent == 0 or received < sent:
        return None
    return min(1.0, ZERO_LOSS_BOUND / sent)


def loss_band(ratio: float | None) -> LossBand | None:
    """PingER's band of a loss (under 0.1% excellent, 1% good, 2.5% acceptable, 5% poor, 12% very poor, else bad)."""
    if ratio is None or math.isnan(ratio):
        return None
    if not 0.0 <= ratio <= 1.0:
        raise ValueError(f"loss ratio {ratio} is not between 0 and 1; give lost/sent, not a percentage")
    return next((band for upper, band in LOSS_BAND_UPPER_RATIOS if ratio < upper), LossBand.BAD)


def _bursts(rtts_ms: ArrayLike) -> Floats:
    rtts = np.atleast_2d(np.asarray(rtts_ms, dtype=np.float64))
    if rtts.ndim != 2:
        raise ValueError(f"round trips have {rtts.ndim} dimensions; give an array of shape (bursts, packets)")
    return rtts


def _interquartile_range(rows: Floats) -> Floats:
    """P75 minus P25 of what is not NaN in each row; NaN for rows without a value."""
    result = np.full(len(rows), np.nan)
    some = ~np.isnan(rows).all(axis=1) if rows.shape[1] else np.zeros(len(rows), dtype=bool)
    if some.any():
        lower, upper = np.nanquantile(rows[some], (0.25, 0.75), axis=1)
        result[some] = upper - lower
    return result
