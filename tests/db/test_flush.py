"""The database after a test that commits."""

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.core.management import call_command
from django.db import connection

from monitor.mesh.models import Site
from tests import flush
from tests.db.pages_mesh import make_mesh

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
