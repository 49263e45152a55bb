"""The committed queries of Grafana, run as Grafana would run them: panels, variables, annotations and alert rules.

Variables and `$__interval` are replaced by Grafana's front end, macros by its PostgreSQL data source; `expand` does
both, by the table of macros in Grafana's documentation ("PostgreSQL query editor"). The role is the read-only role.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection

from dashboards.panels import COVERS
from dashboards.reader import ROLE
from dashboards.render import ALERTING_DIR, JSON_DIR

INTERVAL_S = 3600
"""The panel's step in these tests."""


@dataclass(frozen=True, slots=True)
class Query:
    """A query: its dashboard, its place there (panel's title and target, or variable's name), and its SQL."""

    dashboard: str
    where: str
    sql: str

    def __str__(self) -> str:
        return f"{self.dashboard}: {self.where}"


def queries() -> list[Query]:
    """All queries of all committed dashboards and alert rules."""
    collected = []
    for file in sorted(JSON_DIR.glob("*.json")):
        name, dashboard = file.stem, json.loads(file.read_text())
        collected += [Query(name, f"${v['name']}", v["query"]) for v in dashboard["templating"]["list"]]
        collected += [Query(name, f"@{a['name']}", a["target"]["rawSql"]) for a in dashboard["annotations"]["list"]]
        collected += [
            Query(name, f"{panel['title'].removesuffix(COVERS)}/{target['refId']}", target["rawSql"])
            for row_or_panel in dashboard["panels"]
            for panel in (row_or_panel, *row_or_panel.get("panels", ()))
            for target in panel.get("targets", ())
        ]
    provisioned = json.loads((ALERTING_DIR / "soundings.json").read_text())
    for group in provisioned["groups"]:
        for rule in group["rules"]:
            collected += [
                Query("alert rules", rule["uid"], data["model"]["rawSql"])
                for data in rule["data"]
                if "rawSql" in data["model"]
            ]
    return collected


def of_dashboard(name: str) -> dict[str, str]:
    """The queries of a dashboard by their place."""
    return {query.where: query.sql for query in queries() if query.dashboard == name}


def _time_group(args: list[str], since: str, until: str) -> str:
    step_s = _seconds(args[1])
    return f"floor(extract(epoch from {args[0]})/{step_s})*{step_s}"


def _seconds(interval: str) -> int:
    match = re.fullmatch(r"'?(\d+)([smhd])'?", interval)
    assert match is not None, interval
    return int(match[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86_400}[match[2]]


MACROS: Mapping[str, Callable[[list[str], str, str], str]] = {
    "__time": lambda args, since, until: f'{args[0]} AS "time"',
    "__timeFilter": lambda args, since, until: f"{args[0]} BETWEEN '{since}' AND '{until}'",
    "__timeFrom": lambda args, since, until: f"'{since}'",
    "__timeTo": lambda args, since, until: f"'{until}'",
    "__timeGroup": _time_group,
    "__timeGroupAlias": lambda args, since, until: f'{_time_group(args, since, until)} AS "time"',
}
# A variable in the text: $name, ${name} or ${name:format}.
VARIABLE = re.compile(r"\$(\w+)|\$\{(\w+)(?::(\w+))?\}")
# A macro call: its arguments end at the first closing bracket.
MACRO = re.compile(r"\$([_a-zA-Z0-9]+)\(([^)]*)\)")
BUILT_IN = {"__interval": f"{INTERVAL_S}s", "__interval_ms": str(INTERVAL_S * 1000)}


def expand(sql: str, variables: Mapping[str, str], since: datetime, until: datetime) -> str:
    """The statement that reaches the database. A macro or variable unknown to Grafana is a KeyError."""

    def variable(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if name in BUILT_IN:
            return BUILT_IN[name]
        if name.startswith("__"):
            return match[0]
        escaped = variables[name].replace("'", "''")
        return {None: escaped, "raw": variables[name], "sqlstring": f"'{escaped}'"}[match[3]]

    def macro(match: re.Match[str]) -> str:
        args = [argument.strip(" ") for argument in match[2].split(",")]
        return MACROS[match[1]](args, rfc3339(since), rfc3339(until))

    return MACRO.sub(macro, VARIABLE.sub(variable, sql))


def rfc3339(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def run(sql: str, variables: Mapping[str, str], since: datetime, until: datetime) -> list[dict[str, Any]]:
    """The rows of a query, each a dict by column, read as the role that Grafana uses."""
    with connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL ROLE {ROLE}")
        cursor.execute(expand(sql, variables, since, until))
        columns = [column.name for column in cursor.description]
        assert len(set(columns)) == len(columns), "Grafana would show two columns under the same name"
        rows = [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]
        cursor.execute("RESET ROLE")
    return rows


def tables_read(sql: str, variables: Mapping[str, str], since: datetime, until: datetime) -> set[str]:
    """The tables that the plan of a query reads; chunks of a hypertable count as the hypertable."""
    with connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL ROLE {ROLE}")
        cursor.execute(f"EXPLAIN (FORMAT JSON) {expand(sql, variables, since, until)}")
        plan = cursor.fetchone()[0]
        cursor.execute("RESET ROLE")
        cursor.execute(
            "SELECT child.relname, parent.relname FROM pg_inherits"
            " JOIN pg_class AS child ON child.oid = inhrelid JOIN pg_class AS parent ON parent.oid = inhparent"
        )
        of_chunk = dict(cursor.fetchall())
    return {of_chunk.get(name, name) for name in _relations(plan[0]["Plan"])}


def _relations(node: dict[str, Any]) -> set[str]:
    own = {node["Relation Name"]} if "Relation Name" in node else set()
    return own.union(*(_relations(child) for child in node.get("Plans", ())))


def about(value: Any) -> Any:
    """For a number, equal within the precision of a `real` column; anything else must be identical."""
    return pytest.approx(value, rel=1e-6, nan_ok=True) if isinstance(value, (int, float)) else value
