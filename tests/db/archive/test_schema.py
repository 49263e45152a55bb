import pytest
from django.core.management import call_command
from django.db import connection

pytestmark = [pytest.mark.django_db, pytest.mark.timescale]


def test_the_migrations_equal_the_models():
    call_command("makemigrations", "--check", "--dry-run", verbosity=0)


def test_the_database_uses_utc():
    with connection.cursor() as cursor:
        cursor.execute("SHOW timezone")

        assert cursor.fetchone() == ("UTC",)
