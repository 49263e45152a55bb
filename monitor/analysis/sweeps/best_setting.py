"""The best setting of a path in each part of the day, from a scheduled sweep, or that it is not proven.

Log rates by Student's and Welch's tests at 5%, Bonferroni-corrected for comparisons with the truly best alone (J. Hsu,
Multiple Comparisons, 1996, chapter 4).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # as in monitor.analysis.binomial

from monitor.analysis.sweeps.sweet_spot import SweepSetting, plane_label
from monitor.analysis.tcp import wording

HOURS = 24
# Lengths of the parts of a day; the shortest with enough tests is used.
WIDTHS_H = (1, 2, 3, 4, 6, 8, 12)

LEAST_TESTS = 3
# Chance of a wrong statement about a path, over all its parts of the day.
ERROR = 0.05
CONFIDENCE = 0.95
# Of the logarithm of a rate: tests that agree by chance do not make a setting certain.
LEAST_DEVIATION = 0.03


@dataclass(frozen=True, slots=True)
class SettingTest:
    setting: SweepSetting
    hour: int  # of its start, 0 to 23
    throughput_bps: float


@dataclass(frozen=True, slots=True)
class SettingRate:
    setting: SweepSetting
    tests: int
    mean_bps: float  # geometric mean
    low_bps: float | None  # of the 95% interval; None with fewer than two tests
    high_bps: float | None


@dataclass(frozen=True, slots=True)
class BestSetting:
    """The settings of some hours of the day."""

    begin_h: int
    end_h: int
    rates: tuple[SettingRate, ...]  # of the tested settings, fastest first
    equal: tuple[SettingRate, ...]  # not proven slower than the fastest, including it
    lacking: int  # settings with too few tests to compare

    @property
    def is_proven(self) -> bool:
        return len(self.equal) == 1 and not self.lacking

    @property
    def smallest(self) -> SettingRate:
        """Setting not proven slower with the fewest streams, then the smallest window."""
        return min(self.equal, key=lambda rate: (rate.setting.streams, rate.setting.window_bytes, rate.setting))


@dataclass(frozen=True, slots=True)
class BestSettings:
    """Best settings over the whole day, and in its parts."""

    tests: int  # all
    settings: int
    day: BestSetting
    parts: tuple[BestSetting, ...]  # empty with too few tests


def best_settings(tests: Collection[SettingTest], grid: Collection[SweepSetting]) -> BestSettings | None:
    """The best settings of `grid`; None without a test of at least two of them."""
    rows = [test for test in tests if test.setting in grid and test.throughput_bps > 0.0]
    if len({row.setting for row in rows}) < 2:
        return None
    width_h = next((width for width in WIDTHS_H if _suffices(rows, grid, width)), None)
    number = 1 if width_h is None else 1 + HOURS // width_h
    level = ERROR / ((len(grid) - 1) * number)
    begins = range(0) if width_h is None else range(0, HOURS, width_h)
    parts = tuple(_part(rows, grid, begin_h, width_h or HOURS, level) for begin_h in begins)
    return BestSettings(len(rows), len(grid), _part(rows, grid, 0, HOURS, level), parts)


def sentences(best: BestSettings, zone: str) -> list[str]:
    lines = [f"All day: {_statement(best.day)}."]
    if not best.parts:
        lines.append(
            f"Cannot tell how it changes in the day: {best.tests} tests of {best.settings} settings, fewer than"
            f" {LEAST_TESTS} of each in each half of it."
        )
        return lines
    proven = [part for part in best.parts if part.is_proven]
    fastest = dict.fromkeys(part.rates[0].setting for part in proven)
    if len(fastest) > 1:
        told = "; ".join(
            f"{setting_text(setting)} from {_hours([part for part in proven if part.rates[0].setting == setting])}"
            for setting in fastest
        )
        lines.append(f"The best setting changes in the day ({zone}): {told}.")
    elif len(proven) == len(best.parts):
        lines.append("It is the best in every part of the day.")
    else:
        lines.append("Cannot tell whether it changes in the day: the parts of the day do not prove different settings.")
    return lines


def setting_text(setting: SweepSetting) -> str:
    """A setting with its congestion control, MSS and block size, if it has them."""
    label = plane_label(setting.plane)
    return f"{setting}, {label}" if label else str(setting)


def part_text(part: BestSetting) -> str:
    """The statement on a part of the day, with a capital letter."""
    text = _statement(part)
    return text[0].upper() + text[1:]


def _statement(part: BestSetting) -> str:
    fastest = part.rates[0]
    if part.is_proven:
        return f"{setting_text(fastest.setting)} is the best, {wording.rate(fastest.mean_bps)}{_interval(fastest)}"
    if part.lacking:
        return f"cannot tell: {part.lacking} of the settings with fewer than {LEAST_TESTS} tests"
    others = len(part.equal) - 1
    smallest = (
        "it is also the smallest of them"
        if part.smallest == fastest
        else f"the smallest of them is {setting_text(part.smallest.setting)}, {wording.rate(part.smallest.mean_bps)}"
    )
    return (
        f"cannot tell which is the best: {setting_text(fastest.setting)}, {wording.rate(fastest.mean_bps)}"
        f"{_interval(fastest)}, is not proven faster than {others} other{'' if others == 1 else 's'}; {smallest}"
    )


def _interval(rate: SettingRate) -> str:
    if rate.low_bps is None or rate.high_bps is None:
        return ""
    return f" (95% CI {wording.rate(rate.low_bps)} to {wording.rate(rate.high_bps)})"


def _hours(parts: Sequence[BestSetting]) -> str:
    """Parts of the day in words; neighbours as one."""
    begins = [part.begin_h for part in parts if part.begin_h not in {other.end_h for other in parts}]
    ends = [part.end_h for part in parts if part.end_h not in {other.begin_h for other in parts}]
    return ", ".join(f"{begin_h}:00 to {end_h}:00" for begin_h, end_h in zip(begins, ends, strict=True))


def _suffices(rows: Collection[SettingTest], grid: Collection[SweepSetting], width_h: int) -> bool:
    counts: dict[tuple[SweepSetting, int], int] = defaultdict(int)
    for row in rows:
        counts[row.setting, row.hour // width_h] += 1
    return all(counts[setting, part] >= LEAST_TESTS for setting in grid for part in range(HOURS // width_h))


def _part(
    rows: Collection[SettingTest], grid: Collection[SweepSetting], begin_h: int, width_h: int, level: float
) -> BestSetting:
    logs: dict[SweepSetting, list[float]] = defaultdict(list)
    for row in rows:
        if begin_h <= row.hour < begin_h + width_h:
            logs[row.setting].append(math.log(row.throughput_bps))
    rates = sorted((_rate(setting, values) for setting, values in logs.items()), key=lambda rate: -rate.mean_bps)
    compared = {setting: values for setting, values in logs.items() if len(values) >= LEAST_TESTS}
    fastest = next((rate for rate in rates if rate.setting in compared), rates[0])
    equal = [rate for rate in rates if rate.setting in compared and not _is_slower(rate, fastest, compared, level)]
    return BestSetting(
        begin_h, begin_h + width_h, tuple(rates), tuple(equal or [fastest]), len(set(grid) - compared.keys())
    )


def _rate(setting: SweepSetting, values: Sequence[float]) -> SettingRate:
    mean = float(np.mean(values))
    if len(values) < 2:
        return SettingRate(setting, len(values), math.exp(mean), None, None)
    half = float(scipy.special.stdtrit(len(values) - 1, (1.0 + CONFIDENCE) / 2.0)) * math.sqrt(
        _variance_of_mean(values)
    )
    return SettingRate(setting, len(values), math.exp(mean), math.exp(mean - half), math.exp(mean + half))


def _variance_of_mean(values: Sequence[float]) -> float:
    return max(float(np.var(values, ddof=1)), LEAST_DEVIATION**2) / len(values)


def _is_slower(
    rate: SettingRate, fastest: SettingRate, logs: Mapping[SweepSetting, Sequence[float]], level: float
) -> bool:
    """Whether a setting is slower, by Welch's one-sided test."""
    slow, fast = logs[rate.setting], logs[fastest.setting]
    parts = [_variance_of_mean(values) for values in (slow, fast)]
    freedom = sum(parts) ** 2 / sum(
        part**2 / (len(values) - 1) for part, values in zip(parts, (slow, fast), strict=True)
    )
    deviations = (float(np.mean(fast)) - float(np.mean(slow))) / math.sqrt(sum(parts))
    return bool(scipy.special.stdtr(freedom, -deviations) < level)
