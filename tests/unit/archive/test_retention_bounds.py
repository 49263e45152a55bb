"""Each table has a stated bound, and its variable is set everywhere."""

from django.apps import apps
from django.conf import settings

from monitor.archive.retention_bounds import BOUNDS, raw_tables
from monitor.archive.upkeep.records import RECORDS, SESSIONS
from monitor.environment import VARIABLES

OF_MIGRATIONS = "django_migrations"
"""Django's own table of applied migrations, which is not a model of an app."""


def test_each_table_of_a_model_has_a_bound():
    """A new table fails here until `monitor.archive.retention_bounds` states its bound."""
    tables = {model._meta.db_table for model in apps.get_models(include_auto_created=True) if model._meta.managed}

    assert tables - BOUNDS.keys() == set(), "tables without a bound"
    assert BOUNDS.keys() - tables - {OF_MIGRATIONS} == set(), "bounds without a table"


def test_a_bound_by_time_has_a_key_with_a_finite_default():
    keys = {bound.key for bound in BOUNDS.values() if bound.key is not None}

    assert keys == settings.RETENTION_DAYS.keys()
    assert {bound.variable for bound in BOUNDS.values() if bound.key} == {
        name for name in VARIABLES if name.startswith("SOUNDINGS_RETENTION_")
    }
    assert 0 not in settings.RETENTION_DAYS.values()


def test_every_table_bounded_by_time_has_a_deleting_task():
    bounded = {table for table, bound in BOUNDS.items() if bound.key is not None}
    deleted = {**raw_tables(), **{records.table: records.key for records in RECORDS}}
    with_another = {
        "cold_file",
        *("slot_request", "slot_host", "slot_uplink", "throughput_sweep_cell"),
        *("incident_path", "incident_evidence", "incident_turn", "notification"),
    }

    assert bounded == deleted.keys() | with_another
    assert {table: BOUNDS[table].key for table in deleted} == deleted
    assert SESSIONS.table in BOUNDS
