"""Grafana's PostgreSQL data source; each query is a statement in `sql/` with Grafana's macros."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Literal, Self

from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.variants import Dataquery
from grafana_foundation_sdk.models.dashboard import DataSourceRef

from monitor.agents.late_agents import LATE_AFTER
from monitor.present.conditions import Condition

SQL_DIR = Path(__file__).parent / "sql"
# A matrix of more sites does not fit on a screen.
MOST_SITES_BY_NAME = 24
LATE_AFTER_MIN = LATE_AFTER // timedelta(minutes=1)

# The plugin was renamed from "postgres" to "grafana-postgresql-datasource" within Grafana 10. The new name is unknown
# before, the old one is an alias since, so only the old one works in every version from 10 to 12.
DATA_SOURCE_TYPE = "postgres"
DATA_SOURCE_UID = "soundings"
DATA_SOURCE = DataSourceRef(type_val=DATA_SOURCE_TYPE, uid=DATA_SOURCE_UID)


# The selected path, or the path between the same hosts in the reverse direction.
Direction = Literal["forward", "reverse"]

_SELECTED = "NULLIF(${path:sqlstring}, '')::integer"
_PATH_ID = {"forward": _SELECTED, "reverse": f"reporting.reverse_of({_SELECTED})"}

_OF_SIZE = "\n    WHERE packet_bytes = NULLIF(${packet_bytes:sqlstring}, '')::integer"

# The parts of `sql/matrix.sql` that differ, by the name of the query.
MATRICES = {
    "matrix_loss": {
        "figure": "loss in the period, pooled over it, of the\n-- worst path between the two; null where nothing was"
        " sent",
        "pooled": "SUM(sent) AS sent, SUM(received) AS received",
        "view": "ping",
        "of_size": _OF_SIZE,
        "worst": "MAX((sent - received)::float8 / NULLIF(sent, 0))",
        "badness": "worst",
        "column": "Loss",
    },
    "matrix_rtt": {
        "figure": "mean RTT in the period, ms, of the\n-- slowest path between the two; null without replies",
        "pooled": "SUM(rtt_avg_ms * received) / NULLIF(SUM(received), 0) AS rtt_avg_ms",
        "view": "ping",
        "of_size": _OF_SIZE,
        "worst": "MAX(rtt_avg_ms)",
        "badness": "worst",
        "column": "RTT",
    },
    "matrix_throughput": {
        "figure": "mean of the throughput tests in the period,\n-- bit/s, of the slowest path between the two; null"
        " without a result",
        "pooled": "SUM(throughput_avg_bps * tests_measured) / NULLIF(SUM(tests_measured), 0) AS throughput_bps",
        "view": "throughput",
        "of_size": "",
        "worst": "MIN(throughput_bps)",
        "badness": "-worst",
        "column": "Throughput",
    },
}


def sql(name: str, direction: Direction = "forward") -> str:
    """Text of `sql/NAME.sql`, or of a query of `MATRICES`, with its comment, which the panel's editor shows.
    `{path}` is the ID of the selected path, or of its reverse path."""
    text = (SQL_DIR / f"{'matrix' if name in MATRICES else name}.sql").read_text(encoding="utf-8").strip()
    parts = {
        "late_after_min": str(LATE_AFTER_MIN),
        "path": _PATH_ID[direction],
        "conditions": ", ".join(f"'{condition.name.lower()}'" for condition in Condition),
        "most_sites": str(MOST_SITES_BY_NAME),
        **MATRICES.get(name, {}),
    }
    # Not str.format: Grafana's variables are in braces too.
    for part, value in parts.items():
        text = text.replace(f"{{{part}}}", value)
    return text


@dataclass(frozen=True, slots=True)
class SqlQuery(Dataquery, Builder["SqlQuery"]):
    """For SQL data sources of Grafana 10 to 12; its own builder.

    `time_series` has time in the first column and series in others; `table` shows rows unchanged.
    """

    ref_id: str
    raw_sql: str
    format: Literal["time_series", "table"]

    def build(self) -> Self:
        return self

    def to_json(self) -> dict[str, object]:
        return {
            "datasource": DATA_SOURCE,
            "editorMode": "code",
            "format": self.format,
            "rawQuery": True,
            "rawSql": self.raw_sql,
            "refId": self.ref_id,
        }
