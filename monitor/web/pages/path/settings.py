"""Best settings of a path by its scheduled sweeps."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, tzinfo

from monitor.analysis import figures
from monitor.analysis.sweeps.best_setting import LEAST_TESTS, BestSetting, SettingRate, setting_text
from monitor.archive.scheduled_settings import ScheduledSettings, scheduled_settings

UNKNOWN = "–"


@dataclass(frozen=True, slots=True)
class RateRow:
    setting: str
    mean: str
    interval: str
    tests: int
    remark: str  # compares it with the fastest


@dataclass(frozen=True, slots=True)
class HoursRow:
    """The best setting in some hours, or candidates until it is proven."""

    hours: str
    is_proven: bool
    setting: str
    mean: str
    interval: str


@dataclass(frozen=True, slots=True)
class SettingsView:
    """A scheduled sweep's results; rows are empty with too few tests."""

    scheduled: ScheduledSettings
    rates: tuple[RateRow, ...]
    parts: tuple[HoursRow, ...]


def load_settings(path_id: int, now: datetime, zone: tzinfo) -> tuple[SettingsView, ...]:
    return tuple(_view(row) for row in scheduled_settings(path_id, now, zone))


def _view(row: ScheduledSettings) -> SettingsView:
    best = row.best
    if best is None:
        return SettingsView(row, (), ())
    rates = tuple(_rate(rate, best.day) for rate in best.day.rates)
    return SettingsView(row, rates, tuple(_part(part) for part in best.parts))


def _rate(rate: SettingRate, day: BestSetting) -> RateRow:
    if rate.tests < LEAST_TESTS:
        remark = "too few tests"
    elif rate in day.equal:
        remark = "best" if day.is_proven else "may be the best"
    else:
        remark = "slower"
    return RateRow(setting_text(rate.setting), figures.bit_rate(rate.mean_bps), _interval(rate), rate.tests, remark)


def _part(part: BestSetting) -> HoursRow:
    hours = f"{part.begin_h:02}:00–{part.end_h:02}:00"
    if part.is_proven:
        fastest = part.rates[0]
        return HoursRow(
            hours, True, setting_text(fastest.setting), figures.bit_rate(fastest.mean_bps), _interval(fastest)
        )
    smallest = part.smallest
    return HoursRow(
        hours,
        False,
        f"cannot tell; smallest of {len(part.equal)}: {setting_text(smallest.setting)}",
        figures.bit_rate(smallest.mean_bps),
        _interval(smallest),
    )


def _interval(rate: SettingRate) -> str:
    if rate.low_bps is None or rate.high_bps is None:
        return UNKNOWN
    return f"{figures.bit_rate(rate.low_bps)} to {figures.bit_rate(rate.high_bps)}"
