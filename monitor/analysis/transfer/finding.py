"""The limit of a transfer, with a sentence and evidence."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """Limits of a transfer."""

    WINDOW_LIMITED = "window-limited"
    RANDOM_LOSS = "random loss"
    POLICER = "policer"
    BOTTLENECK_QUEUE = "bottleneck queue"
    APPLICATION_LIMITED = "application-limited"
    SLOW_RECEIVER = "slow receiver"
    CPU_BOUND = "CPU-bound"
    REORDERING = "reordering"
    UNDETERMINED = "undetermined"


@dataclass(frozen=True, slots=True)
class EvidenceFigure:
    """A piece of evidence: name, value and unit ("" is a ratio)."""

    name: str
    value: float
    unit: str


@dataclass(frozen=True, slots=True)
class TransferFinding:
    """A verdict with its sentence and evidence."""

    verdict: Verdict
    sentence: str
    evidence: tuple[EvidenceFigure, ...] = ()
