"""Pings of paths whose loss begins, pauses and ends at known moments. In: a plan of losses. Out: columns of bursts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tests.unit.analysis.loss_of_paths import lost_packets

Floats = NDArray[np.float64]
Lost = NDArray[np.bool_]
Columns = tuple[Floats, Floats, Floats]
"""Begin in seconds, packets sent, packets received."""
Planted = list[tuple[float, float]]
"""Seconds, and the loss from then on."""


@dataclass(frozen=True)
class Cadence:
    """Bursts of so many packets, at most a second apart, begin every `every_s`."""

    every_s: float
    packets: int

    @property
    def spacing_s(self) -> float:
        return min(self.every_s / self.packets, 1.0)

    @property
    def lasts_s(self) -> float:
        """Of a burst, from its first packet to its last."""
        return self.spacing_s * (self.packets - 1)

    def __str__(self) -> str:
        return f"{self.packets} each {self.every_s:.0f} s"


CADENCES = (Cadence(10.0, 10), Cadence(10.0, 20), Cadence(30.0, 20), Cadence(60.0, 20))


def packets(rng: np.random.Generator, cadence: Cadence, planted: Planted, begin_s: float, until_s: float, run: int,
            stray: float) -> tuple[Floats, Lost]:  # fmt: skip
    """The begin of each burst of a path, and whether each of its packets is lost, in sending order.

    A packet is lost with the loss of its own time, in runs of `run` packets on average; besides that with the
    probability `stray`.
    """
    at_s = np.arange(begin_s + rng.uniform(0.0, cadence.every_s), until_s - cadence.lasts_s, cadence.every_s)
    sent_s = at_s[:, np.newaxis] + cadence.spacing_s * np.arange(cadence.packets)
    begins_s, losses = (np.array(column) for column in zip((-np.inf, 0.0), *planted, strict=True))
    ratios = losses[np.searchsorted(begins_s, sent_s, side="right") - 1]
    return at_s, lost_packets(rng, ratios.ravel(), run).reshape(sent_s.shape) | (rng.random(sent_s.shape) < stray)


def bursts(rng: np.random.Generator, cadence: Cadence, planted: Planted, begin_s: float, until_s: float, run: int,
           stray: float) -> Columns:  # fmt: skip
    """The same packets, counted by burst."""
    at_s, lost = packets(rng, cadence, planted, begin_s, until_s, run, stray)
    sent = np.full(len(at_s), float(cadence.packets))
    return at_s, sent, sent - lost.sum(axis=1)


def merged(every: list[Columns]) -> Columns:
    """The bursts of several paths in the order of their begin."""
    at_s, sent, received = (np.concatenate(columns) for columns in zip(*every, strict=True))
    order = np.argsort(at_s, kind="stable")
    return at_s[order], sent[order], received[order]
