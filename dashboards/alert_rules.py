"""Grafana's alert rules, for those who live there: our incidents, and what can stop with Soundings itself.

`build()` gives what Grafana provisions from `provisioning/alerting/soundings.json`. The first fires for each open
incident, with the rule of ours that found it as a label: Grafana judges nothing anew, so both say the same of each
cause. All are paused while SOUNDINGS_GRAFANA_ALERTS_PAUSED is true, since the centre notifies by itself. There is no
other dollar in them: provisioning takes it for a variable of the environment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dashboards.postgres import DATA_SOURCE_UID, SqlQuery, sql

FOLDER = "Soundings"
PAUSED = "$SOUNDINGS_GRAFANA_ALERTS_PAUSED"
EXPRESSION = "__expr__"
WINDOW_S = 600
"""Grafana wants a period for each query; these look at what is so now."""


@dataclass(frozen=True, slots=True)
class GrafanaRule:
    """It fires for each row of sql/`query`.sql whose number is above `above`, after `for_s` seconds of that."""

    uid: str
    title: str
    query: str
    above: float
    for_s: int
    summary: str
    labels: dict[str, str]
    no_data: str


def rules() -> list[GrafanaRule]:
    """All of them. No incident is no row, and well; no sign of life from the centre is not."""
    system = {"soundings": "system"}
    return [
        GrafanaRule(
            uid="soundings-incident",
            title="Soundings: an incident is open",
            query="alert_incidents",
            above=0,
            for_s=0,
            summary="{{ .Labels.cause }}: {{ .Labels.rule }} on {{ .Values.A }} paths",
            labels={"soundings": "network"},
            no_data="OK",
        ),
        GrafanaRule(
            uid="soundings-agent-silent",
            title="Soundings: an agent delivers nothing",
            query="alert_agent_silent",
            above=300,
            for_s=60,
            summary="{{ .Labels.site }}: nothing was accepted from its agent for more than 5 minutes",
            labels=system,
            no_data="OK",
        ),
        GrafanaRule(
            uid="soundings-centre-stopped",
            title="Soundings: beat or worker has stopped",
            query="alert_centre_stopped",
            above=300,
            for_s=0,
            summary="beat or worker did nothing for more than 5 minutes: no summaries, no alerts, no reports",
            labels=system,
            no_data="Alerting",
        ),
        GrafanaRule(
            uid="soundings-summaries-behind",
            title="Soundings: summaries are behind",
            query="alert_summaries_behind",
            above=600,
            for_s=300,
            summary="an hour has waited for its summary for more than 10 minutes; all figures are that old",
            labels=system,
            no_data="OK",
        ),
    ]


def build() -> dict[str, Any]:
    """The provisioning file, as Grafana 10 to 12 read it."""
    groups = (("Soundings: network", "network"), ("Soundings: system", "system"))
    return {
        "apiVersion": 1,
        "groups": [
            {
                "orgId": 1,
                "name": name,
                "folder": FOLDER,
                "interval": "1m",
                "rules": [_provisioned(rule) for rule in rules() if rule.labels["soundings"] == kind],
            }
            for name, kind in groups
        ],
    }


def _provisioned(rule: GrafanaRule) -> dict[str, Any]:
    """Query A gives one number a row, its texts as labels; C is true where that is above the limit."""
    query = SqlQuery("A", sql(rule.query), "table")
    threshold = {
        "refId": "C",
        "type": "threshold",
        "datasource": {"type": EXPRESSION, "uid": EXPRESSION},
        "expression": "A",
        "conditions": [{"evaluator": {"type": "gt", "params": [rule.above]}}],
    }
    return {
        "uid": rule.uid,
        "title": rule.title,
        "condition": "C",
        "for": f"{rule.for_s}s",
        "isPaused": PAUSED,
        "noDataState": rule.no_data,
        "execErrState": "Error",
        "labels": rule.labels,
        "annotations": {"summary": rule.summary},
        "data": [_data("A", DATA_SOURCE_UID, query.to_json()), _data("C", EXPRESSION, threshold)],
    }


def _data(ref_id: str, source: str, model: dict[str, Any]) -> dict[str, Any]:
    return {
        "refId": ref_id,
        "datasourceUid": source,
        "relativeTimeRange": {"from": WINDOW_S, "to": 0},
        "model": model,
    }
