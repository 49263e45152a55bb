"""The part of Grafana that runs in the browser: insertion of variables into queries, options of variables, the step of
a panel. Pure; macros are replaced by the plugin.

Sources: "Variable syntax" and "Global variables" of Grafana's documentation; the format registry of @grafana/scenes,
which renders dashboards from Grafana 10.4 on; `SqlDatasource.interpolateVariable` and `ResponseParser` of its SQL data
sources; `rangeUtil.calculateInterval` of @grafana/data.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

# $name, [[name]] or [[name:format]], ${name}, ${name.field} or ${name:format}.
VARIABLE = re.compile(r"\$(\w+)|\[\[(\w+?)(?::(\w+))?\]\]|\$\{(\w+)(?:\.([^:^}]+))?(?::([^}]+))?\}")

# Upper limit of an interval and its rounded step, ms.
STEPS_MS = (
    (10, 1),
    (15, 10),
    (35, 20),
    (75, 50),
    (150, 100),
    (350, 200),
    (750, 500),
    (1_500, 1_000),
    (3_500, 2_000),
    (7_500, 5_000),
    (12_500, 10_000),
    (17_500, 15_000),
    (25_000, 20_000),
    (45_000, 30_000),
    (90_000, 60_000),
    (210_000, 120_000),
    (450_000, 300_000),
    (750_000, 600_000),
    (1_050_000, 900_000),
    (1_500_000, 1_200_000),
    (2_700_000, 1_800_000),
    (5_400_000, 3_600_000),
    (9_000_000, 7_200_000),
    (16_200_000, 10_800_000),
    (32_400_000, 21_600_000),
    (86_400_000, 43_200_000),
    (604_800_000, 86_400_000),
    (1_814_400_000, 604_800_000),
    (3_628_800_000, 2_592_000_000),
)
YEAR_MS = 31_536_000_000
UNITS_MS = {
    "y": YEAR_MS,
    "M": 2_592_000_000,
    "w": 604_800_000,
    "d": 86_400_000,
    "h": 3_600_000,
    "m": 60_000,
    "s": 1_000,
    "ms": 1,
}
SHOWN_UNITS = ("y", "d", "h", "m", "s", "ms")


class FrontendError(Exception):
    """A dashboard uses a variable, format or kind of variable that Grafana, or this module, does not know."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The selected values of a variable.

    `is_quoted` where it may have several, so that the data source quotes them; `is_raw` for a custom value of All,
    which no format applies to.
    """

    values: tuple[str, ...]
    is_quoted: bool = False
    is_raw: bool = False

    @property
    def text(self) -> str:
        return ",".join(self.values)


@dataclass(frozen=True, slots=True)
class Option:
    text: str
    value: str


def interpolate(text: str, selections: Mapping[str, Selection], built_in: Mapping[str, str]) -> str:
    """Insert the values of variables into a query. Macros stay: no variable has their names.

    Raises `FrontendError` for an unknown variable or format; Grafana would send the text unchanged.
    """

    def replace(match: re.Match[str]) -> str:
        name = match[1] or match[2] or match[4]
        if name in built_in and (match[3] or match[5] or match[6]) is None:
            return built_in[name]
        if name not in selections:
            if name.startswith("__") and match[1]:
                return match[0]  # a macro
            raise FrontendError(f"no variable {name}: {match[0]}")
        if match[5]:
            raise FrontendError(f"no variable of a dashboard has fields: {match[0]}")
        return formatted(selections[name], match[3] or match[6])

    return VARIABLE.sub(replace, text)


def formatted(selection: Selection, name: str | None) -> str:
    """The values as text in a format; without a format, as by the SQL data sources."""
    if selection.is_raw:
        return selection.text
    if name is None:
        if not selection.is_quoted:
            return selection.text.replace("'", "''")
        return ",".join("'" + value.replace("'", "''") + "'" for value in selection.values)
    if name not in FORMATS:
        raise FrontendError(f"no format {name}")
    return FORMATS[name](selection)


def _sqlstring(selection: Selection) -> str:
    escaped = (value.replace("'", "''").replace('"', '\\"') for value in selection.values)
    return ",".join(f"'{value}'" for value in escaped)


FORMATS: Mapping[str, Callable[[Selection], str]] = {
    "raw": lambda selection: selection.text,
    "csv": lambda selection: selection.text,
    "sqlstring": _sqlstring,
}


def options(rows: Sequence[Mapping[str, Any]]) -> list[Option]:
    """Options of a query variable from the rows of its query. Of two with the same text, Grafana keeps the first."""
    offered: dict[str, Option] = {}
    for row in rows:
        if "__text" in row and "__value" in row:
            offered.setdefault(str(row["__text"]), Option(str(row["__text"]), str(row["__value"])))
        else:
            for value in row.values():
                offered.setdefault(str(value), Option(str(value), str(value)))
    return list(offered.values())


def hidden_by_their_text(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Values that cannot be selected, since another option has the same text."""
    offered = {option.value for option in options(rows)}
    return [str(row["__value"]) for row in rows if "__text" in row and str(row["__value"]) not in offered]


def step_ms(since: datetime, until: datetime, points: int, least_ms: int) -> int:
    """Step of a panel: its period by its width, rounded, and at least the minimum of the data source or panel."""
    exact_ms = (until - since) / timedelta(milliseconds=1) / points
    rounded = next((step for limit, step in STEPS_MS if exact_ms < limit), YEAR_MS)
    return max(rounded, least_ms)


def interval_ms(text: str) -> int:
    """Duration of an interval in Grafana's notation: 1h, 30s, 500ms, >1m."""
    match = re.fullmatch(r">?(\d+)(ms|[yMwdhms])", text)
    if match is None:
        raise FrontendError(f"no interval: {text}")
    return int(match[1]) * UNITS_MS[match[2]]


def interval_text(milliseconds: int) -> str:
    """An interval in its largest whole unit, as inserted into a query."""
    for unit in SHOWN_UNITS:
        if milliseconds >= UNITS_MS[unit]:
            return f"{milliseconds // UNITS_MS[unit]}{unit}"
    return "1ms"


def built_in(since: datetime, until: datetime, interval: int) -> dict[str, str]:
    """Global variables of a query: its step and period."""
    range_ms = round((until - since) / timedelta(milliseconds=1))
    return {
        "__interval": interval_text(interval),
        "__interval_ms": str(interval),
        "__from": str(round(since.timestamp() * 1000)),
        "__to": str(round(until.timestamp() * 1000)),
        "__range": f"{round(range_ms / 1000)}s",
        "__range_s": str(round(range_ms / 1000)),
        "__range_ms": str(range_ms),
    }


def relative(text: str, now: datetime) -> datetime:
    """A moment of a dashboard's default period: now, or now-6h. Raises `FrontendError` for other forms."""
    match = re.fullmatch(r"now(?:-(\d+(?:ms|[yMwdhms])))?", text)
    if match is None:
        raise FrontendError(f"no moment: {text}")
    return now - timedelta(milliseconds=interval_ms(match[1]) if match[1] else 0)
