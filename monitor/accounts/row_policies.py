"""Row-level security policies of tables, for migrations.

A path is readable if both ends are in `soundings.sites`. Hypertables have no policy, but a line in `TIME_SERIES` of
`limited_role`. Released migrations run this: do not change its effect.
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
    """Show rows of readable sites' hosts, by their host_id."""
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
