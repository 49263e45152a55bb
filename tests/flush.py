"""Empty the database after a test that commits, as Django's `flush` does, in a tenth of its processor time.

`flush` truncates all 64 tables and lets `post_migrate` create content types, permissions and roles again. Here only
tables with rows are truncated, with those that refer to them. The rows of `post_migrate` stay, unless a test has
changed them: then Django's `flush` runs. Neither resets sequences: a test that relies on primary keys says
`reset_sequences`, and Django resets them before that test.
"""

from __future__ import annotations

from django.db import OperationalError, connection
from django.test import TransactionTestCase
from psycopg.errors import DeadlockDetected

OF_POST_MIGRATE = ("django_content_type", "auth_permission", "auth_group", "auth_group_permissions")
ATTEMPTS = 3

_flush_all = TransactionTestCase._fixture_teardown
_set_up = TransactionTestCase._fixture_setup.__func__  # type: ignore[attr-defined]
_as_migrated: list[str] = []


def flush_filled_tables() -> None:
    """Let Django's test cases that commit leave the database empty in this way."""
    TransactionTestCase._fixture_setup = classmethod(_note_and_set_up)  # type: ignore[assignment, method-assign]
    TransactionTestCase._fixture_teardown = flush  # type: ignore[method-assign]


def flush(case: TransactionTestCase) -> None:
    """Empty the database after a test of `case`."""
    assert case.available_apps is None, "not supported: flush would not create the rows of post_migrate"
    assert not case.serialized_rollback, "not supported"
    if _rows_of_post_migrate() in _as_migrated:
        truncate_filled_tables()
    else:
        _flush_all(case)
        _as_migrated[:] = [_rows_of_post_migrate()]


def truncate_filled_tables() -> None:
    """Truncate the tables with rows, but those of `post_migrate`; again where the last request of a page that is being
    closed waits for one of them and has another."""
    for left in reversed(range(ATTEMPTS)):
        try:
            _truncate_filled_tables()
            break
        except OperationalError as error:
            if not left or not isinstance(error.__cause__, DeadlockDetected):
                raise


def _truncate_filled_tables() -> None:
    tables = connection.introspection.django_table_names(only_existing=True, include_views=False)
    others = [name for name in tables if name not in OF_POST_MIGRATE]
    filled = " UNION ALL ".join(f"SELECT '{name}' WHERE EXISTS (SELECT 1 FROM \"{name}\")" for name in others)
    with connection.cursor() as cursor:
        cursor.execute(filled)
        names = [f'"{name}"' for (name,) in cursor.fetchall()]
        if names:
            cursor.execute(f"TRUNCATE {', '.join(names)} CASCADE")


def _note_and_set_up(case: type[TransactionTestCase]) -> None:
    # All tests before the first that commits were rolled back.
    if not _as_migrated:
        _as_migrated.append(_rows_of_post_migrate())
    _set_up(case)


def _rows_of_post_migrate() -> str:
    hashes = ", ".join(
        f"(SELECT md5(string_agg(row::text, '|' ORDER BY row::text)) FROM {name} AS row)" for name in OF_POST_MIGRATE
    )
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT concat_ws(' ', {hashes})")
        return str(cursor.fetchone()[0])
