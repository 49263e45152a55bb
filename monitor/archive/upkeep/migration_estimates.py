"""Estimate how long pending migrations take, by the rows they read; reading no rows counts as `LEAST_S`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import sqlparse
from django.db import connection, migrations
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState

from monitor.archive.statements import run_statement
from monitor.archive.upkeep.releases import Migration
from probes.quantities import counted, duration_text

# Assumed, of a slow disk: an estimate is to be too long rather than too short.
ROWS_PER_S = 100_000
INDEX_BYTES_PER_ROW = 50
LEAST_S = 0.1
# Estimates from here on are announced before the migration begins.
LONG_S = 10.0

READS_ROWS = re.compile(
    r"^\s*(UPDATE|DELETE|INSERT|WITH|CREATE (UNIQUE )?INDEX|ALTER TABLE .*\b(VALIDATE|ADD CONSTRAINT|TYPE)\b)",
    re.IGNORECASE | re.DOTALL,
)
NOT_VALID = re.compile(r"\bNOT VALID\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PendingMigration:
    """Migration that is not applied, and rows that it reads by table; None where it runs Python."""

    key: Migration
    rows: Mapping[str, int] | None

    @property
    def estimate_s(self) -> float | None:
        return None if self.rows is None else LEAST_S + sum(self.rows.values()) / ROWS_PER_S

    @property
    def is_long(self) -> bool:
        return self.estimate_s is None or self.estimate_s >= LONG_S

    @property
    def least_bytes(self) -> int:
        """Disk space for an index or second version of the rows read."""
        return sum((self.rows or {}).values()) * INDEX_BYTES_PER_ROW

    def text(self) -> str:
        name = ".".join(self.key)
        if self.rows is None or self.estimate_s is None:
            return f"{name}: duration unknown; it goes through rows in Python"
        tables = ", ".join(f"{counted(count, 'row')} of {table}" for table, count in sorted(self.rows.items()) if count)
        return f"{name}: about {duration_text(self.estimate_s)}" + (f", for {tables}" if tables else "")


def pending_migrations() -> list[PendingMigration]:
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if not plan:
        return []
    names, rows = run_statement("sizes_now")
    counts = {row[names.index("name")]: row[names.index("row_estimate")] for row in rows}
    return [
        PendingMigration((migration.app_label, migration.name), _rows_read(migration, counts, executor))
        for migration, _ in plan
    ]


def estimate_s(pending: list[PendingMigration]) -> float | None:
    """Total duration; None where any is unknown."""
    estimates = [migration.estimate_s for migration in pending]
    known_s = [estimate for estimate in estimates if estimate is not None]
    return sum(known_s) if len(known_s) == len(estimates) else None


def _rows_read(
    migration: migrations.Migration, counts: Mapping[str, int], executor: MigrationExecutor
) -> dict[str, int] | None:
    # A new database has no rows; parsing the statements of all migrations takes a third of its migration's time.
    if not any(counts.values()):
        return {}
    # Python that follows a new table, such as that which makes it a hypertable, works on no rows.
    makes_tables = any(isinstance(operation, migrations.CreateModel) for operation in migration.operations)
    runs_python = any(isinstance(operation, migrations.RunPython) for operation in migration.operations)
    if runs_python and not makes_tables:
        return None
    state = executor.loader.project_state((migration.app_label, migration.name))
    tables = {table for operation in migration.operations for table in _tables_read(operation, migration, state)}
    return {table: counts[table] for table in tables if counts.get(table, 0) > 0}


def _tables_read(operation: Operation, migration: migrations.Migration, state: ProjectState) -> Iterator[str]:
    if isinstance(operation, migrations.AddIndex | migrations.AddConstraint):
        model = state.models.get((migration.app_label, operation.model_name_lower))
        if model is not None:
            yield str(model.options.get("db_table", f"{migration.app_label}_{operation.model_name_lower}"))
    if isinstance(operation, migrations.RunSQL):
        for statement in _statements(operation.sql):
            if READS_ROWS.match(statement) and not NOT_VALID.search(statement):
                yield from re.findall(r"\w+", statement.lower())


def _statements(sql: Any) -> Iterator[str]:
    parts = sql if isinstance(sql, list | tuple) else [sql]
    for part in parts:
        text = part if isinstance(part, str) else part[0]
        yield from sqlparse.split(sqlparse.format(text, strip_comments=True))
