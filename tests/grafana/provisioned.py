"""The committed dashboards and alert rules as lists of requests: which queries Grafana sends together, and in which
order.

Variables are resolved as when a dashboard is opened: in their order, each by the plugin, its options with the values of
the previous variables.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import yaml

from dashboards.alert_rules import EXPRESSION
from dashboards.render import ALERTING_DIR, JSON_DIR
from tests.grafana.frontend import (
    FrontendError,
    Option,
    Selection,
    built_in,
    interpolate,
    interval_ms,
    options,
    relative,
    step_ms,
)
from tests.grafana.plugin import Request

PROVISIONED = ALERTING_DIR.parent
WIDTH_PX = 1440
COLUMNS = 24
ANNOTATION_POINTS = 100
VARIABLE_POINTS, VARIABLE_INTERVAL_MS = 100, 60_000
ALERT_POINTS, ALERT_INTERVAL_MS = 43_200, 1_000
"""Numbers that Grafana sends along where neither panel nor rule has its own."""

Variable = Mapping[str, Any]
Selections = dict[str, Selection]
Rows = Sequence[Mapping[str, Any]]
Period = tuple[datetime, datetime]


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A dashboard's file, with the minimum step of its data source."""

    name: str
    content: Mapping[str, Any]
    least_ms: int

    @property
    def variables(self) -> list[Variable]:
        variables: list[Variable] = self.content["templating"]["list"]
        return variables

    @property
    def panels(self) -> list[Mapping[str, Any]]:
        """Its panels with queries, including those in collapsed rows."""
        panels = [inner for panel in self.content["panels"] for inner in (panel, *panel.get("panels", ()))]
        return [panel for panel in panels if panel.get("targets")]

    @property
    def annotations(self) -> list[Mapping[str, Any]]:
        return [entry for entry in self.content["annotations"]["list"] if "rawSql" in entry.get("target", {})]

    def period(self, now: datetime) -> Period:
        """Its default period."""
        return relative(self.content["time"]["from"], now), relative(self.content["time"]["to"], now)

    def panel_request(self, panel: Mapping[str, Any], selections: Selections, period: Period) -> Request:
        points = panel.get("maxDataPoints") or WIDTH_PX * panel["gridPos"]["w"] // COLUMNS
        least_ms = interval_ms(panel["interval"]) if panel.get("interval") else self.least_ms
        models = [target for target in panel["targets"] if not target.get("hide")]
        return _request(models, selections, period, step_ms(*period, points, least_ms), points)

    def annotation_request(self, annotation: Mapping[str, Any], selections: Selections, period: Period) -> Request:
        step = step_ms(*period, ANNOTATION_POINTS, self.least_ms)
        return _request([annotation["target"]], selections, period, step, ANNOTATION_POINTS)


def _request(
    models: Sequence[Mapping[str, Any]], selections: Selections, period: Period, step: int, points: int
) -> Request:
    constants = built_in(*period, step)
    interpolated = [{**model, "rawSql": interpolate(model["rawSql"], selections, constants)} for model in models]
    return Request(*period, step, points, interpolated)


def variable_request(variable: Variable, sql: str, period: Period) -> Request:
    """The query of a variable with the values inserted."""
    model = {"refId": variable["name"], "rawSql": sql, "format": "table"}
    return Request(*period, VARIABLE_INTERVAL_MS, VARIABLE_POINTS, [model])


def dashboards() -> list[Dashboard]:
    """All committed dashboards."""
    least_ms = interval_ms(data_source()["jsonData"]["timeInterval"])
    return [
        Dashboard(file.stem, json.loads(file.read_text(encoding="utf-8")), least_ms)
        for file in sorted(JSON_DIR.glob("*.json"))
    ]


def data_source() -> dict[str, Any]:
    """The provisioned data source; environment variables in it are not replaced."""
    file = PROVISIONED / "datasources" / "soundings.yaml"
    (source,) = yaml.safe_load(file.read_text(encoding="utf-8"))["datasources"]
    return dict(source)


@dataclass(frozen=True, slots=True)
class AlertRule:
    """A provisioned rule: each of its queries by itself, the whole rule, and the letter of its condition."""

    uid: str
    queries: tuple[Request, ...]
    whole: Request
    condition: str


def alert_rules(now: datetime) -> list[AlertRule]:
    """All provisioned rules. Nothing is replaced in their queries, since rules have no dashboard."""
    provisioned = json.loads((ALERTING_DIR / "soundings.json").read_text(encoding="utf-8"))
    return [_alert_rule(rule, now) for group in provisioned["groups"] for rule in group["rules"]]


def _alert_rule(rule: Mapping[str, Any], now: datetime) -> AlertRule:
    queries = tuple(_alert_request(data, now) for data in rule["data"] if data["datasourceUid"] != EXPRESSION)
    expressions = [
        {**data["model"], "refId": data["refId"]} for data in rule["data"] if data["datasourceUid"] == EXPRESSION
    ]
    models = [model for request in queries for model in request.models]
    whole = replace(queries[0], models=models, expressions=expressions)
    return AlertRule(rule["uid"], queries, whole, rule["condition"])


def _alert_request(data: Mapping[str, Any], now: datetime) -> Request:
    model, period = data["model"], data["relativeTimeRange"]
    since, until = (now - timedelta(seconds=period[end]) for end in ("from", "to"))
    step, points = model.get("intervalMs", ALERT_INTERVAL_MS), model.get("maxDataPoints", ALERT_POINTS)
    return Request(since, until, step, points, [model])


def resolve(
    variables: Sequence[Variable],
    rows_of: Callable[[Variable, str], Rows],
    selections: Selections | None = None,
) -> Iterator[Selections]:
    """All combinations of options, in the order of the options, so that the first is that of a newly opened dashboard.

    `rows_of` gives the rows of a variable's query with the values inserted. A variable without options is empty.
    """
    selections = selections or {}
    if len(selections) == len(variables):
        yield selections
        return
    variable = variables[len(selections)]
    offered = offered_by(variable, rows_of, selections)
    for selection in choices(variable, offered):
        yield from resolve(variables, rows_of, {**selections, variable["name"]: selection})


def offered_by(variable: Variable, rows_of: Callable[[Variable, str], Rows], selections: Selections) -> list[Option]:
    """Options of a variable with the values of the previous variables."""
    kind, text = variable["type"], variable.get("query") or ""
    if kind == "query":
        sql = text["rawSql"] if isinstance(text, dict) else text
        return options(rows_of(variable, interpolate(sql, selections, {})))
    if kind in ("custom", "interval", "constant", "textbox"):
        values = [text] if kind in ("constant", "textbox") else [part.strip() for part in text.split(",")]
        pairs = [value.split(" : ", 1) if kind == "custom" else [value] for value in values]
        return [Option(pair[0].strip(), pair[-1].strip()) for pair in pairs]
    raise FrontendError(f"a variable of the type {kind} is not known: {variable['name']}")


def choices(variable: Variable, offered: Sequence[Option]) -> list[Selection]:
    """Selections to test: each option, and all together where the variable allows it."""
    multi, with_all = bool(variable.get("multi")), bool(variable.get("includeAll"))
    values = tuple(option.value for option in offered)
    selected = [Selection((value,), is_quoted=multi or with_all) for value in values]
    if with_all:
        own = variable.get("allValue")
        selected.insert(0, Selection((own,), is_raw=True) if own else Selection(values, is_quoted=True))
    elif multi and len(values) > 1:
        selected.append(Selection(values, is_quoted=True))
    return selected or [nothing(variable)]


def nothing(variable: Variable) -> Selection:
    """A variable without a value: an empty text, or no values where it may have several."""
    return Selection((), is_quoted=True) if variable.get("multi") else Selection(("",))


def hostile(selections: Selections, text: str) -> Selections:
    """The selections with a text from the address bar in each variable that is not numeric."""
    return {
        name: selection if selection.text.isdecimal() or not selection.text else Selection((text,), selection.is_quoted)
        for name, selection in selections.items()
    }
