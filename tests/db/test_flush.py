"""The database after a test that commits."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.core.management import call_command
from django.db import OperationalError, connection, transaction

from monitor.mesh.models import Site
from tests import flush
from tests.db.pages_mesh import make_mesh
from tests.lab import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


def rows():
    """The number of rows of each table that has any."""
    counts = {}
    with connection.cursor() as cursor:
        for name in connection.introspection.django_table_names(only_existing=True, include_views=False):
            cursor.execute(f'SELECT count(*) FROM "{name}"')
            counts[name] = cursor.fetchone()[0]
    return {name: count for name, count in counts.items() if count}


class Case:
    """The settings of a test case that flush reads, and the databases of Django's."""

    available_apps = None
    serialized_rollback = False

    @classmethod
    def _databases_names(cls, include_mirrors=True):
        return ["default"]


def test_the_quick_flush_leaves_the_rows_that_djangos_leaves():
    make_mesh()
    User.objects.create(username="ada").groups.add(Group.objects.first())
    assert Site.objects.exists()

    flush.truncate_filled_tables()
    quick = rows()
    call_command("flush", interactive=False, verbosity=0)

    assert quick == rows()
    assert "auth_permission" in quick
    assert "auth_user" not in quick


def test_a_changed_role_is_as_migrated_after_the_flush():
    def migrated():
        return set(Group.objects.values_list("name")), set(Permission.objects.values_list("codename"))

    before = migrated()
    Group.objects.create(name="passing")
    Permission.objects.first().delete()
    assert migrated() != before

    flush.flush(Case())

    assert migrated() == before


def test_a_request_that_ends_late_is_waited_for():
    make_mesh()
    first, *_, last = (name for name in rows() if name not in flush.OF_POST_MIGRATE)
    has_last = Event()

    def read_the_last_and_then_the_first():
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute(f'SELECT count(*) FROM "{last}"')
                has_last.set()
                # The flush has the first table by then, and waits for the last.
                wait_until(lambda: is_waited_for(cursor, last), "the flush waits for a table")
                cursor.execute(f'SELECT count(*) FROM "{first}"')
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as readers:
        reader = readers.submit(read_the_last_and_then_the_first)
        assert has_last.wait(30)
        flush.truncate_filled_tables()
        # The database ends one of the two, as a rule the flush, which waits longer.
        assert reader.exception() is None or isinstance(reader.exception(), OperationalError)

    assert not Site.objects.exists()


def is_waited_for(cursor, table):
    cursor.execute("SELECT EXISTS (SELECT FROM pg_locks WHERE relation = %s::regclass AND NOT granted)", [table])
    return cursor.fetchone()[0]
