"""Colours of the dashboards: Okabe and Ito's palette, which colour-blind people can tell apart.

Grafana's letters are dark on fills with brightness above 180 of 255, else white: fills are light or dark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grafana_foundation_sdk.builders.dashboard import ThresholdsConfig
from grafana_foundation_sdk.models.dashboard import (
    DashboardRangeMapOptions,
    DashboardSpecialValueMapOptions,
    DynamicConfigValue,
    RangeMap,
    SpecialValueMap,
    SpecialValueMatch,
    Threshold,
    ThresholdsMode,
    ValueMap,
    ValueMapping,
    ValueMappingResult,
)

from monitor.analysis.loss import LOSS_BAND_UPPER_RATIOS
from monitor.present.conditions import Condition

ORANGE, SKY, GREEN = "#E69F00", "#56B4E9", "#009E73"
BLUE, RED, PURPLE = "#0072B2", "#D55E00", "#CC79A7"
YELLOW, GREY = "#F0E442", "#8E8E8E"
# Grafana's name for the colour of text in its theme: nothing to note.
TEXT = "text"

# The page's, of a path or site that is down.
BLACK = "#111111"
NO_DATA = "#6B6B6B"
NO_PATH = "transparent"

# Lower bound (None is below all), colour of the fill, and label, ascending.
Bands = Sequence[tuple[float | None, str, str]]

# Excellent and good loss have a single colour, apart from no loss.
_LOSS_FILLS = ("#F0E442", "#FFB84D", "#B34700", "#8A3A6B")
_LOSS_LABELS = ("1–2.5%", "2.5–5%", "5–12%", "≥ 12%")
LOSS_BANDS: Bands = (
    (0.0, "#00664B", "no loss"),
    (1e-9, "#9AD4F5", "< 1%"),
    *zip((upper for upper, _ in LOSS_BAND_UPPER_RATIOS[1:]), _LOSS_FILLS, _LOSS_LABELS, strict=True),
    (1.0, BLACK, "100%"),
)
# In the order of the conditions' numbers, in at most seven letters, which a cell of 20 columns has room for.
CONDITION_BANDS: Bands = tuple(
    (float(condition), fill, label)
    for condition, (fill, label) in zip(
        Condition,
        (
            ("#00664B", "normal"), ("#9AD4F5", "awaited"), ("#6B46A8", "tests"), ("#8A5300", "overdue"),
            ("#F0E442", "suspect"), ("#B34700", "bad"), ("#8A3A6B", "flaps"), (BLACK, "dead"),
            ("#4A5763", "aside"), ("#5B3A1E", "denied"),
        ),
        strict=True,
    )
)  # fmt: skip
RTT_BANDS: Bands = (
    (0.0, "#DCEBF8", "< 10 ms"),
    (10.0, "#9CC7EA", "10–50"),
    (50.0, "#1F6FB0", "50–150"),
    (150.0, "#174F80", "150–300"),
    (300.0, "#0B2C4A", "≥ 300 ms"),
)
THROUGHPUT_BANDS: Bands = (
    (0.0, "#B34700", "< 10 M"),
    (1e7, "#FFB84D", "10–100 M"),
    (1e8, "#DCEBF8", "0.1–1 G"),
    (1e9, "#9CC7EA", "1–10 G"),
    (1e10, "#1F6FB0", "≥ 10 G"),
)

# A hue for each family of rules, none of them green: an incident is never good news.
RULE_COLOURS: Mapping[str, str] = {
    "unreachable": "#7A1F00",
    "loss": RED,
    "loss_regression": "#F2935C",
    "shared_loss": "#F7B58A",
    "rtt": BLUE,
    "rtt_median": "#3D94C9",
    "rtt_p95": SKY,
    "rtt_minimum": "#9AD4F5",
    "rtt_drift": "#004C77",
    "jitter": PURPLE,
    "route_change": "#5B3A1E",
    "mos": "#8A3A6B",
    "throughput": ORANGE,
    "throughput_limit": "#FFB84D",
    "throughput_drop": YELLOW,
    "request_response": "#C97B4A",
    "request_response_limit": "#9C5A2E",
    "estimate": "#B8A51F",
    "reordering": "#A88BD4",
    "duplicates": "#6F4FA8",
    "no_data": GREY,
}


def thresholds(steps: Sequence[tuple[float | None, str]]) -> ThresholdsConfig:
    coloured = [Threshold(value=value, color=colour) for value, colour in steps]
    return ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(coloured)


def limits(*steps: tuple[float | None, str], below: str = TEXT) -> list[DynamicConfigValue]:
    return [DynamicConfigValue("thresholds", thresholds(((None, below), *steps)).build())]


def without_a_figure() -> list[ValueMapping]:
    """Map null to "no data", NaN (no path) to a dash, and -1 (a site and itself) to nothing."""
    # Grafana colours null and NaN like zero.
    return [
        _special(SpecialValueMatch.NULL, "no data", NO_DATA),
        _special(SpecialValueMatch.NA_N, "–", NO_PATH),
        ValueMap(options={"-1": ValueMappingResult(text=" ", color=NO_PATH)}),
    ]


def null_as(text: str) -> SpecialValueMap:
    # Grafana colours null by the lowest limit.
    return _special(SpecialValueMatch.NULL, text, TEXT)


def _special(match: SpecialValueMatch, text: str, colour: str) -> SpecialValueMap:
    result = ValueMappingResult(text=text, color=colour)
    return SpecialValueMap(DashboardSpecialValueMapOptions(match=match, result=result))


def below(least: float, text: str) -> RangeMap:
    """Map what is above 0 and less than `least` to a text."""
    return RangeMap(DashboardRangeMapOptions(from_val=1e-9, to=least, result=ValueMappingResult(text=text)))


def texts(entries: Sequence[tuple[str, str]]) -> ValueMap:
    return ValueMap(
        options={
            str(number): ValueMappingResult(text=label, color=colour) for number, (label, colour) in enumerate(entries)
        }
    )
