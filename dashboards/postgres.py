"""Grafana's PostgreSQL data source: its reference, queries, and the text of a query.

A query is a file in `sql/` with a single statement, which may contain Grafana's macros and variables.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Literal, Self

from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.variants import Dataquery
from grafana_foundation_sdk.models.dashboard import DataSourceRef

from monitor.agents.late_agents import LATE_AFTER

SQL_DIR = Path(__file__).parent / "sql"
LATE_AFTER_MIN = LATE_AFTER // timedelta(minutes=1)

# The plugin was renamed from "postgres" to "grafana-postgresql-datasource" within Grafana 10. The new name is unknown
# before, the old one is an alias since, so only the old one works in every version from 10 to 12.
DATA_SOURCE_TYPE = "postgres"
DATA_SOURCE_UID = "soundings"
DATA_SOURCE = DataSourceRef(type_val=DATA_SOURCE_TYPE, uid=DATA_SOURCE_UID)


Direction = Literal["forward", "reverse"]
"""The selected path, or the path between the same hosts in the reverse direction."""

_SELECTED = "NULLIF(${path:sqlstring}, '')::integer"
_PATH_ID = {"forward": _SELECTED, "reverse": f"reporting.reverse_of({_SELECTED})"}


def sql(name: str, direction: Direction = "forward") -> str:
    """The text of `sql/NAME.sql` with its comment, which the panel's editor shows.

    `{late_after_min}` in it is the time without a delivery after which an agent counts as late, in minutes; `{path}` is
    the ID of the selected path, or of its reverse path.
    """
    text = (SQL_DIR / f"{name}.sql").read_text(encoding="utf-8").strip()
    return text.replace("{late_after_min}", str(LATE_AFTER_MIN)).replace("{path}", _PATH_ID[direction])


@dataclass(frozen=True, slots=True)
class SqlQuery(Dataquery, Builder["SqlQuery"]):
    """A target of a panel, as the SQL data sources of Grafana 10 to 12 read it; it is its own builder.

    With `time_series` the first column is the time and each other column a series; `table` shows the rows unchanged.
    """

    ref_id: str
    raw_sql: str
    format: Literal["time_series", "table"]

    def build(self) -> Self:
        return self

    def to_json(self) -> dict[str, object]:
        """The dict that the SDK's `JSONEncoder` expects."""
        return {
            "datasource": DATA_SOURCE,
            "editorMode": "code",
            "format": self.format,
            "rawQuery": True,
            "rawSql": self.raw_sql,
            "refId": self.ref_id,
        }
