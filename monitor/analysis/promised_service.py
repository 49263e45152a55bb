"""Judge a promised service with 95% confidence (Clopper and Pearson, by `monitor.analysis.binomial`) by the share of
tests below `SHORT_OF` of the promise. Callers leave out tests with host limits or unknown limits."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from monitor.analysis.binomial import lower_bound, upper_bound

# Headers of packets and frames take 3 to 6% of a contract's rate, and tests vary.
SHORT_OF = 0.9


class ServiceVerdict(StrEnum):
    KEPT = "kept"
    NOT_KEPT = "not kept"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, slots=True)
class ServiceCounts:
    tests: int  # that prove something about the promised rate
    short: int
    left_out: int
    bursts: int = 0  # measured by policer tests
    bursts_short: int = 0


@dataclass(frozen=True, slots=True)
class ServiceFinding:
    """A verdict with the share of tests that fell short."""

    verdict: ServiceVerdict
    counts: ServiceCounts
    short_ratio: float | None
    low_ratio: float | None  # 90% confidence interval; None without tests
    high_ratio: float | None
    falls_short: str | None = None  # the promise that is not kept: rate or burst


def judge_service(counts: ServiceCounts, kept_ratio: float, *, burst_promised: bool = False) -> ServiceFinding:
    """Judge the promise that `kept_ratio` of the tests reach it."""
    rate, low, high = _judge(counts.tests, counts.short, kept_ratio)
    verdict, falls_short = rate, "rate" if rate is ServiceVerdict.NOT_KEPT else None
    if burst_promised and rate is not ServiceVerdict.NOT_KEPT:
        burst, _, _ = _judge(counts.bursts, counts.bursts_short, kept_ratio)
        if burst is not ServiceVerdict.KEPT:
            verdict, falls_short = burst, "burst" if burst is ServiceVerdict.NOT_KEPT else None
    short_ratio = counts.short / counts.tests if counts.tests else None
    return ServiceFinding(verdict, counts, short_ratio, low, high, falls_short)


def _judge(tests: int, short: int, kept_ratio: float) -> tuple[ServiceVerdict, float | None, float | None]:
    if not tests:
        return ServiceVerdict.CANNOT_TELL, None, None
    low, high = float(lower_bound(short, tests)), float(upper_bound(short, tests))
    permitted = 1.0 - kept_ratio
    if low > permitted:
        return ServiceVerdict.NOT_KEPT, low, high
    return ServiceVerdict.KEPT if high <= permitted else ServiceVerdict.CANNOT_TELL, low, high
