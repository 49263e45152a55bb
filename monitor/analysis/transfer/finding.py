"""The limit of a transfer, with a sentence and evidence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from monitor.analysis.transfer.signs import Signs


class Verdict(StrEnum):
    """Limits of a transfer. `LOSS` is of unknown cause (queue, policer or line), `HOST_QUEUE` of the sender's own
    interface."""

    WINDOW_LIMITED = "window-limited"
    RANDOM_LOSS = "random loss"
    LOSS = "loss"
    POLICER = "policer"
    BOTTLENECK_QUEUE = "bottleneck queue"
    APPLICATION_LIMITED = "application-limited"
    SLOW_RECEIVER = "slow receiver"
    CPU_BOUND = "CPU-bound"
    HOST_QUEUE = "host queue"
    REORDERING = "reordering"
    UNDETERMINED = "undetermined"


@dataclass(frozen=True, slots=True)
class EvidenceFigure:
    """A piece of evidence; the unit "" is a ratio."""

    name: str
    value: float
    unit: str


@dataclass(frozen=True, slots=True)
class TransferFinding:
    verdict: Verdict
    sentence: str
    evidence: tuple[EvidenceFigure, ...] = ()


def rate_figure(signs: Signs) -> EvidenceFigure:
    return EvidenceFigure("steady throughput", signs.throughput_bps, "bit/s")


def loss_events_text(signs: Signs) -> str:
    return f"{signs.loss_events} loss event{'' if signs.loss_events == 1 else 's'}"


def flight_bytes(signs: Signs) -> float:
    """Bytes in flight by the steady throughput and the RTT."""
    return signs.throughput_bps / 8.0 * signs.rtt_ms / 1000.0


def size_text(size_bytes: float) -> str:
    """Two significant digits: 1.5 MB, 79 kB."""
    if math.isnan(size_bytes):
        return "an unknown size"
    scale, unit = next(((s, u) for s, u in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")) if size_bytes >= s), (1.0, "B"))
    number = size_bytes / scale
    return f"{number:.1f} {unit}" if number < 9.95 else f"{number:.0f} {unit}"


def rounded_up(size_bytes: float) -> str:
    """Round up to whole MB above 512 kB, to a power of two in kB below."""
    if size_bytes > 512e3:
        return f"{math.ceil(size_bytes / 1e6)} MB"
    return f"{2 ** math.ceil(math.log2(max(1.0, size_bytes / 1000.0)))} kB"
