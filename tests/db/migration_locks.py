"""Work that a migration does while deliveries wait for it: a step between `tests/db/archive/test_migrations.py` and
Django.

Run as `python -m tests.db.migration_locks` with SOUNDINGS_DATABASE_URL it applies all migrations that the database does
not have, one by one, and prints for each whether it read or changed rows of a large table while it held a lock that a
delivery waits for; with APP.NAME it migrates to these, and looks at nothing. The server itself says which locks are
held and how many rows were read, so nothing is timed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

WRITTEN = (
    *("burst", "throughput_test", "capacity_result", "dirty_hour", "received_batch", "refused_result", "delivered_day"),
    *("cycle_day", "agent_gap", "agent_account", "slot", "agent_token", "agent_health", "clock_off_period"),
    *("undiagnosed_test", "trace", "route", "path_route", "plan_change"),
)
READ = ("site", "host", "path", "measurement", "test")
"""The tables of a delivery."""
LARGE = (
    *("burst", "throughput_test", "capacity_result", "dirty_hour", "received_batch", "refused_result", "delivered_day"),
    *(f"{result}_{tier}" for result in ("burst", "throughput") for tier in ("hour", "day", "month", "year")),
    *("dirty_summary", "slot", "cycle_day", "agent_gap", "trace", "route", "path_route"),
)
"""The tables that grow without a limit."""
HELD = """
    SELECT DISTINCT relname FROM pg_locks INNER JOIN pg_class ON pg_class.oid = relation
    WHERE pid = pg_backend_pid() AND (
        relname = ANY(%(written)s)
        AND mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
        OR relname = ANY(%(read)s) AND mode IN ('ExclusiveLock', 'AccessExclusiveLock')
    )
"""
"""Locks that a delivery would wait for: it takes RowExclusiveLock to write, and RowShareLock at most to read."""
TOUCHED = """
    SELECT coalesce(parent.relname, stat.relname), sum(
        coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) + n_tup_ins + n_tup_upd + n_tup_del
    )::bigint
    FROM pg_stat_xact_all_tables AS stat
    LEFT JOIN pg_inherits ON inhrelid = relid
    LEFT JOIN pg_class AS parent ON parent.oid = inhparent
    GROUP BY 1
"""
"""Rows read and written in this transaction, those of chunks with their table. Rewriting a table or building an
index reads every row."""


def under_lock(work: Callable[[], None]) -> dict[str, int]:
    """Run `work` in its own transaction; return the number of rows of each large table it touched, if at its end it
    held a lock that deliveries wait for."""
    from django.db import connection, transaction

    with transaction.atomic(), connection.cursor() as cursor:
        there = set(connection.introspection.table_names(cursor))
        before = _touched(cursor)
        work()
        cursor.execute(HELD, {"written": list(there & set(WRITTEN)), "read": list(there & set(READ))})
        locks = cursor.fetchall()
        after = _touched(cursor)
    rows = {table: after[table] - before.get(table, 0) for table in LARGE if table in after}
    return {table: count for table, count in rows.items() if count} if locks else {}


def _touched(cursor) -> dict[str, int]:
    cursor.execute(TOUCHED)
    return dict(cursor.fetchall())


def main() -> None:
    import django

    django.setup()
    from django.db import connection
    from django.db.migrations.executor import MigrationExecutor

    executor = MigrationExecutor(connection)
    if sys.argv[1:]:
        executor.migrate([tuple(target.split(".")) for target in sys.argv[1:]])
        return
    state = executor._create_project_state(with_applied_migrations=True)
    for migration, _ in executor.migration_plan(executor.loader.graph.leaf_nodes()):
        locks: dict[str, int] = {}

        def apply(migration=migration) -> None:
            nonlocal state
            state = executor.apply_migration(state, migration)

        if migration.atomic:
            locks = under_lock(apply)
        else:
            apply()
        print(f"{migration}: {locks or 'good'}")


if __name__ == "__main__":
    main()
