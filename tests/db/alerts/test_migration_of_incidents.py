"""Incidents that were there before their history was kept: migrated on a database that has some."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from monitor.alerts.models import Incident, IncidentTurn

AT = datetime(2026, 3, 14, 12, tzinfo=UTC)
BEFORE = [("alerts", "0004_history_and_deeds")]
FILLS = [("alerts", "0005_history_of_what_was")]


def later(hours):
    return AT + timedelta(hours=hours)


@pytest.mark.django_db(transaction=True)
def test_older_incidents_are_kept_with_the_history_of_their_rows():
    newest = MigrationExecutor(connection).loader.graph.leaf_nodes()
    executor = MigrationExecutor(connection)
    executor.migrate(BEFORE)
    try:
        then = executor.loader.project_state(BEFORE).apps
        make = then.get_model("alerts", "Incident").objects.create
        lasting = make(rule="loss", cause="cern", opened_at=AT, summary="loss 3%")
        ended = make(
            rule="rtt", cause="slac", opened_at=AT, summary="round trips up", acknowledged_at=later(1),
            acknowledged_by="les", reopened_at=later(2), reopenings=1, closed_at=later(3), closing="back",
        )  # fmt: skip
        known = make(rule="loss", cause="fnal", opened_at=AT, summary="loss 5%")
        then.get_model("alerts", "IncidentTurn").objects.create(
            incident_id=known.pk, at=later(5), turn="found", note="as it was written then"
        )
        MigrationExecutor(connection).migrate(FILLS)
    finally:
        MigrationExecutor(connection).migrate(newest)

    def turns(incident):
        return list(
            IncidentTurn.objects.filter(incident_id=incident.pk).values_list("at", "turn", "note").order_by("at")
        )

    assert turns(lasting) == [(AT, "found", "loss 3%")]
    assert turns(ended) == [
        (AT, "found", "round trips up"),
        (later(1), "acknowledged", "les"),
        (later(2), "reopened", ""),
        (later(3), "resolved", "back"),
    ]
    assert turns(known) == [(later(5), "found", "as it was written then")], "a history that is there is left alone"
    assert Incident.objects.get(pk=ended.pk).reopenings == 1
    assert MigrationExecutor(connection).migration_plan(newest) == [], "other tests find the whole database"
    assert sorted(Incident.objects.values_list("cause", "summary")) == [
        ("cern", "loss 3%"), ("fnal", "loss 5%"), ("slac", "round trips up")
    ]  # fmt: skip
