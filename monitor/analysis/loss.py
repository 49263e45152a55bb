"""Interpretation of a counted loss: its band, or its upper bound where none was lost. `binomial` has exact bounds."""

from __future__ import annotations

import math
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike

from monitor.arrays import Floats

# Without loss in N packets the loss is below 3/N with 95% confidence ("rule of three": -ln 0.05 = 2.996).
ZERO_LOSS_BOUND = 3.0

OUTAGE_CHANCE = 1e-3
# Cycles without any reply before a path may have an outage.
OUTAGE_CYCLES = 2
# Packets in a row; fewer may be lost together by chance.
LEAST_UNANSWERED = 4


class LossBand(StrEnum):
    """PingER's names of loss bands. Each bound belongs to the worse band."""

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


def zero_loss_bound_ratio(sent: ArrayLike) -> Floats:
    """Upper 95% bound of the loss where none of `sent` packets was lost, at most 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        bound: Floats = np.minimum(ZERO_LOSS_BOUND / np.asarray(sent, dtype=np.float64), 1.0)
    return bound


def loss_bound_ratio(sent: int, received: int) -> float | None:
    """Upper 95% bound of the loss, 3/sent; None with loss, or where nothing was sent."""
    if sent == 0 or received < sent:
        return None
    return min(ZERO_LOSS_BOUND / sent, 1.0)


def is_outage(sent: float, received: float, unanswered: float) -> bool:
    """Whether the newest `unanswered` of `sent` packets are an outage: at most OUTAGE_CHANCE at the loss before."""
    if unanswered <= 0:
        return False
    before = sent - unanswered
    if before <= 0:
        return unanswered >= LEAST_UNANSWERED
    ratio = min(max((before - received) / before, 0.0), 1.0)
    return unanswered >= LEAST_UNANSWERED and ratio**unanswered <= OUTAGE_CHANCE


def loss_band(ratio: float | None) -> LossBand | None:
    """PingER's band of a loss (under 0.1% excellent, 1% good, 2.5% acceptable, 5% poor, 12% very poor, else bad)."""
    if ratio is None or math.isnan(ratio):
        return None
    if not 0.0 <= ratio <= 1.0:
        raise ValueError(f"loss ratio {ratio} is not between 0 and 1; give lost/sent, not a percentage")
    return next((band for upper, band in LOSS_BAND_UPPER_RATIOS if ratio < upper), LossBand.BAD)
