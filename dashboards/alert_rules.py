"""Grafana's alert rules: open incidents, and failures of Soundings itself.

Rules are paused while SOUNDINGS_GRAFANA_ALERTS_PAUSED is true, since the centre sends notifications. No other dollar
sign may occur: provisioning would expand it as an environment variable.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dashboards.postgres import DATA_SOURCE_UID, LATE_AFTER_MIN, SqlQuery, sql

FOLDER = "Soundings"
PAUSED = "$SOUNDINGS_GRAFANA_ALERTS_PAUSED"
EXPRESSION = "__expr__"
# Grafana requires a period for each query; these queries read the current state.
WINDOW_S = 600


@dataclass(frozen=True, slots=True)
class GrafanaRule:
    """Rule that fires for rows of sql/`query`.sql with numbers above `above` for `for_s` seconds."""

    uid: str
    title: str
    query: str
    above: float
    for_s: int
    summary: str
    labels: dict[str, str]
    no_data: str
    panel: tuple[str, int]  # of the alert's link: UID of the dashboard, and the panel's number
    annotations: dict[str, str] = field(default_factory=dict)


def rules() -> list[GrafanaRule]:
    """Without data, rules of incidents are OK, and the rule of the centre's heartbeat alerts."""
    system = {"soundings": "system"}
    return [
        GrafanaRule(
            uid="soundings-incident",
            title="Soundings: open incident",
            query="alert_incidents",
            above=0,
            for_s=0,
            summary="Incident {{ .Labels.incident }} on {{ .Values.A }} paths: {{ .Labels.opening }}",
            labels={"soundings": "network"},
            no_data="OK",
            panel=("soundings-mesh", 2),
            annotations={"title": "{{ .Labels.opening }}", "page": "{{ .Labels.page }}"},
        ),
        GrafanaRule(
            uid="soundings-agent-silent",
            title="Soundings: agent silent",
            query="alert_agent_silent",
            above=60 * LATE_AFTER_MIN,
            for_s=60,
            summary=(
                f"{{{{ .Labels.site }}}}: no results accepted from its agent for more than {LATE_AFTER_MIN} minutes"
            ),
            labels=system,
            no_data="OK",
            panel=("soundings-system", 8),
        ),
        GrafanaRule(
            uid="soundings-centre-stopped",
            title="Soundings: beat or worker stopped",
            query="alert_centre_stopped",
            above=300,
            for_s=0,
            summary="no heartbeat of beat and worker for more than 5 minutes: no rollups, alerts or reports",
            labels=system,
            no_data="Alerting",
            panel=("soundings-system", 1),
        ),
        GrafanaRule(
            uid="soundings-summaries-behind",
            title="Soundings: rollups delayed",
            query="alert_summaries_behind",
            above=600,
            for_s=300,
            summary="a rollup has been pending for more than 10 minutes; all figures are delayed by that time",
            labels=system,
            no_data="OK",
            panel=("soundings-system", 3),
        ),
    ]


def build() -> dict[str, Any]:
    """Build the provisioning file for Grafana 10 to 12."""
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
    # Query A returns labelled numbers by row; C compares them with the threshold.
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
        "annotations": {
            "summary": rule.summary,
            "__dashboardUid__": rule.panel[0],
            "__panelId__": str(rule.panel[1]),
            **rule.annotations,
        },
        "data": [_data("A", DATA_SOURCE_UID, query.to_json()), _data("C", EXPRESSION, threshold)],
    }


def _data(ref_id: str, source: str, model: dict[str, Any]) -> dict[str, Any]:
    return {
        "refId": ref_id,
        "datasourceUid": source,
        "relativeTimeRange": {"from": WINDOW_S, "to": 0},
        "model": model,
    }
