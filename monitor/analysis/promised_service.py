"""Whether a path gives the promised service, by the share of its tests that fall short of it. No I/O.

In: counts of tests. Out: a `ServiceFinding`. A test falls short below `SHORT_OF` of the promise; the caller leaves out
tests that fell short by a limit of a host, or by one that is unknown: they prove nothing about the service.

The promise is not kept where the share that falls short is above the permitted share with 95% confidence, kept where it
is not above it with 95% confidence (Clopper and Pearson, by `monitor.analysis.binomial`); else it cannot be told.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from monitor.analysis.binomial import lower_bound, upper_bound

SHORT_OF = 0.9
"""Of the promise: headers of packets and frames take 3 to 6% of a contract's rate, and tests vary."""


class ServiceVerdict(StrEnum):
    """Whether the promised service was kept."""

    KEPT = "kept"
    NOT_KEPT = "not kept"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, slots=True)
class ServiceCounts:
    """Tests of a path over a period: those that say something about the promised rate, the number that fell short of
    it, and those left out. The same of the bursts that policer tests measured."""

    tests: int
    short: int
    left_out: int
    bursts: int = 0
    bursts_short: int = 0


@dataclass(frozen=True, slots=True)
class ServiceFinding:
    """A verdict with the share of tests that fell short and its 90% confidence interval; None without tests.
    `falls_short` names the promise that is not kept: rate or burst."""

    verdict: ServiceVerdict
    counts: ServiceCounts
    short_ratio: float | None
    low_ratio: float | None
    high_ratio: float | None
    falls_short: str | None = None


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
