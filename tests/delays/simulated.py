"""Pings of paths whose RTT rises and falls at known moments.

In: a path, a fault and a cadence. Out: a figure of each burst, its median or minimum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tests.losses.simulated import Cadence

Floats = NDArray[np.float64]
Figure = Callable[[Floats], Floats]
"""Of the RTTs of bursts, shape (bursts, packets)."""
Shape = tuple[int, int]

LEAST_MS = 0.02
"""No packet is faster."""
BEFORE_CYCLES, AFTER_CYCLES = 100, 60
LASTS_S, LASTS_CYCLES = 2400.0, 40.0
"""Of a fault, whichever is longer."""


def no_waits(rng: np.random.Generator, shape: Shape) -> Floats:
    return np.zeros(shape)


def median(rtts_ms: Floats) -> Floats:
    return np.asarray(np.median(rtts_ms, axis=1))


def minimum(rtts_ms: Floats) -> Floats:
    return np.asarray(rtts_ms.min(axis=1))


@dataclass(frozen=True)
class SimulatedPath:
    """A path without a fault: the least RTT, and the waits of packets above it."""

    words: str
    base_ms: float
    waits_ms: Callable[[np.random.Generator, Shape], Floats]
    rounding_ms: float = 0.0


@dataclass(frozen=True)
class Fault:
    """A longer RTT: by `rise_ms` at seconds since the onset, and by `waits_ms`, which vary from packet to packet."""

    words: str
    rise_ms: Callable[[Floats], Floats] = np.zeros_like
    waits_ms: Callable[[np.random.Generator, Shape], Floats] = no_waits
    lasts_s: float | None = None
    matters_after_s: float = 0.0
    """Since the onset, until it has risen by the least rise."""

    @property
    def has_level(self) -> bool:
        """Whether it moves all packets alike."""
        return self.waits_ms is no_waits

    def until_s(self, cadence: Cadence) -> float:
        return self.lasts_s or max(LASTS_S, LASTS_CYCLES * cadence.every_s)


@dataclass(frozen=True)
class SimulatedRuns:
    """Seconds since the onset at which bursts begin, and their figures in ms, both of shape (runs, bursts)."""

    at_s: Floats
    figures_ms: Floats


def _lab(rng: np.random.Generator, shape: Shape) -> Floats:
    return np.abs(rng.normal(0.0, 0.08, shape))


def _wide_area(rng: np.random.Generator, shape: Shape) -> Floats:
    """With spikes of 2% of the packets, and of all packets of 1% of the bursts."""
    spikes_ms = np.where(rng.random(shape) < 0.02, 5.0 * rng.pareto(1.5, shape), 0.0)
    whole = np.where(rng.random((shape[0], 1)) < 0.01, rng.exponential(25.0, (shape[0], 1)), 0.0)
    return rng.exponential(0.4, shape) + spikes_ms + whole


def _busy(rng: np.random.Generator, shape: Shape) -> Floats:
    return rng.gamma(0.7, 8.0, shape) + rng.pareto(3.0, shape)


def _local(rng: np.random.Generator, shape: Shape) -> Floats:
    spikes_ms = np.where(rng.random(shape) < 0.01, rng.exponential(2.0, shape), 0.0)
    return rng.exponential(0.05, shape) + spikes_ms


LAB = SimulatedPath("44 ms, quiet", 44.0, _lab)
WIDE_AREA = SimulatedPath("100 ms, spikes", 100.0, _wide_area)
BUSY = SimulatedPath("20 ms, a queue", 20.0, _busy)
LOCAL = SimulatedPath("0.05 ms", 0.05, _local)
ROUNDED = SimulatedPath("0.05 ms, whole ms", 0.05, _local, rounding_ms=1.0)


def step(rise_ms: float) -> Fault:
    return Fault(f"+{rise_ms:g} ms", lambda since_s: np.full_like(since_s, rise_ms))


SLOW = Fault(
    "+2 ms each 30 s to 48", lambda s: np.minimum(2.0 * (np.floor(s / 30.0) + 1.0), 48.0), matters_after_s=90.0
)
QUEUE = Fault("a queue, mean 40 ms", waits_ms=lambda rng, shape: rng.exponential(40.0, shape))
JITTER = Fault("±30 ms for 6.5 min", waits_ms=lambda rng, shape: rng.uniform(-30.0, 30.0, shape), lasts_s=390.0)


def simulate(path: SimulatedPath, fault: Fault, cadence: Cadence, seeds: range, figure: Figure) -> SimulatedRuns:
    """A run for each seed, from BEFORE_CYCLES before the onset to AFTER_CYCLES after the end."""
    runs = [_run(path, fault, cadence, seed, figure) for seed in seeds]
    return SimulatedRuns(np.stack([at_s for at_s, _ in runs]), np.stack([figures_ms for _, figures_ms in runs]))


def simulate_steady(path: SimulatedPath, cadence: Cadence, hours: float, seeds: range) -> SimulatedRuns:
    """Medians of runs without a fault."""
    at_s = np.arange(0.0, 3600.0 * hours, cadence.every_s)
    shape = len(at_s), cadence.packets
    runs = [median(_rounded(path, path.base_ms + path.waits_ms(_chances(path, None, cadence, seed), shape)))
            for seed in seeds]  # fmt: skip
    return SimulatedRuns(np.broadcast_to(at_s, (len(runs), len(at_s))), np.stack(runs))


def _run(path: SimulatedPath, fault: Fault, cadence: Cadence, seed: int, figure: Figure) -> tuple[Floats, Floats]:
    rng, until_s = _chances(path, fault, cadence, seed), fault.until_s(cadence)
    cycles = BEFORE_CYCLES + int(until_s / cadence.every_s) + AFTER_CYCLES
    at_s: Floats = np.asarray(cadence.every_s * (np.arange(cycles) - BEFORE_CYCLES + rng.random()))
    sent_s = at_s[:, np.newaxis] + cadence.spacing_s * np.arange(cadence.packets)
    lasts = (sent_s >= 0.0) & (sent_s < until_s)
    longer_ms = np.where(lasts, fault.rise_ms(sent_s) + fault.waits_ms(rng, sent_s.shape), 0.0)
    return at_s, figure(_rounded(path, path.base_ms + path.waits_ms(rng, sent_s.shape) + longer_ms))


def _rounded(path: SimulatedPath, rtts_ms: Floats) -> Floats:
    rtts = np.maximum(rtts_ms, LEAST_MS)
    return np.asarray(np.round(rtts / path.rounding_ms) * path.rounding_ms if path.rounding_ms else rtts)


def _chances(path: SimulatedPath, fault: Fault | None, cadence: Cadence, seed: int) -> np.random.Generator:
    words = f"{path.words} {fault.words if fault else ''}".encode()
    return np.random.default_rng([seed, round(cadence.every_s), cadence.packets, *words])
