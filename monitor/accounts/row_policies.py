"""Policies of row-level security: the rows of a table that a reader with limits sees (`monitor.accounts.read_limits`).

A migration that makes a table says there whose rows they are: `row_policies.by_path("burst_day")` is one of its
operations. `soundings.sites` has the ids of the sites that may be read; a path is readable if both of its ends are.
The tables' owner is exempt. A hypertable has no policy, but a line in `TIME_SERIES` of `monitor.accounts.limited_role`.
Migrations run this, so it changes in no way that a database which has them would miss.
"""

from __future__ import annotations

from django.db.migrations import RunSQL

SITES = "SELECT unnest(string_to_array(current_setting('soundings.sites', true), ',')::bigint[])"
PATHS = "SELECT id FROM path"
HOSTS = "SELECT id FROM host"


def by_path(*tables: str) -> RunSQL:
    """Show rows of readable paths, by their path_id."""
    return policies(dict.fromkeys(tables, f"path_id IN ({PATHS})"))


def by_site(*tables: str) -> RunSQL:
    """Show rows of readable sites, by their site_id."""
    return policies(dict.fromkeys(tables, f"site_id IN ({SITES})"))


def by_host(*tables: str) -> RunSQL:
    """Show rows of the hosts of readable sites, by their host_id."""
    return policies(dict.fromkeys(tables, f"host_id IN ({HOSTS})"))


def policies(readable: dict[str, str]) -> RunSQL:
    """Show the rows that fulfil a condition, by table."""
    make = [
        statement
        for table, condition in readable.items()
        for statement in (
            f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY",
            f"CREATE POLICY readable ON {table} USING ({condition})",
        )
    ]
    drop = [
        statement
        for table in readable
        for statement in (f"DROP POLICY readable ON {table}", f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY")
    ]
    return RunSQL(tuple(make), tuple(drop))
