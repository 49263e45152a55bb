"""Grant rights to the database role for readers with limits, after each migration.

TimescaleDB does not compress tables with row-level security: instead of `TIME_SERIES` the role sees views in a schema
that it searches first.
"""

from __future__ import annotations

from typing import Any

from django.db import ProgrammingError, connections, transaction

# Role that the application takes while it answers a reader with limits (`monitor.accounts.read_limits`).
LIMITED = "soundings_limited"
IS_THERE = "SELECT FROM pg_roles WHERE rolname = %s"
# The hypertables; all have a path_id.
TIME_SERIES = (
    "burst",
    "throughput_test",
    "burst_hour",
    "capacity_result",
    "trace",
    "direction_burst",
    "interface_result",
)
SCHEMA = "limited"
VIEW = """
CREATE OR REPLACE VIEW limited.{table} AS SELECT * FROM public.{table} WHERE path_id IN (
    SELECT path.id FROM public.path
    JOIN public.host AS source ON source.id = path.source_id
    JOIN public.host AS destination ON destination.id = path.destination_id
    WHERE source.site_id IN (SELECT unnest(string_to_array(current_setting('soundings.sites'), ',')::bigint[]))
        AND destination.site_id IN (SELECT unnest(string_to_array(current_setting('soundings.sites'), ',')::bigint[]))
)
"""
# Views in the schema reporting by which pages count planned and measured bursts of the sites that they show.
FOR_COVERAGE = ("plan", "path_source", "ping")
# The owner's tables and views only: an extension may have put others into the schema.
WITHOUT_RIGHTS = """
SELECT format('GRANT SELECT, INSERT, UPDATE, DELETE ON %%I.%%I TO %%I', nspname, relname, %(role)s::text)
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE (nspname = 'public' AND relkind IN ('r', 'p', 'v') AND relname <> ALL (%(time_series)s) OR nspname = %(schema)s
        OR nspname = 'reporting' AND relname = ANY (%(for_coverage)s))
    AND pg_has_role(relowner, 'USAGE')
    AND NOT (
        has_table_privilege(%(role)s, pg_class.oid, 'SELECT') AND has_table_privilege(%(role)s, pg_class.oid, 'INSERT')
        AND has_table_privilege(%(role)s, pg_class.oid, 'UPDATE')
        AND has_table_privilege(%(role)s, pg_class.oid, 'DELETE')
    )
UNION ALL
SELECT format('GRANT USAGE ON SCHEMA %%I TO %%I', nspname, %(role)s::text)
FROM pg_namespace
WHERE nspname IN ('public', 'reporting', %(schema)s) AND NOT has_schema_privilege(%(role)s, oid, 'USAGE')
"""


def give_rights(*, using: str = "default", **_: Any) -> None:
    """Grant missing rights; create the role where the application may, else an administrator does (`manage.py database
    role`)."""
    with connections[using].cursor() as cursor:
        cursor.execute(IS_THERE, [LIMITED])
        if cursor.fetchone() is None:
            try:
                with transaction.atomic(using):
                    cursor.execute(f"CREATE ROLE {LIMITED}")
            except ProgrammingError:
                return
        cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        # Earlier migrations, to which a test or a restore may go, have not made all of them.
        there = set(connections[using].introspection.table_names(cursor))
        for table in there.intersection(TIME_SERIES):
            cursor.execute(VIEW.format(table=table))
        names = {"time_series": list(TIME_SERIES), "for_coverage": list(FOR_COVERAGE)}
        cursor.execute(WITHOUT_RIGHTS, {"role": LIMITED, "schema": SCHEMA, **names})
        for (statement,) in cursor.fetchall():
            cursor.execute(statement)
