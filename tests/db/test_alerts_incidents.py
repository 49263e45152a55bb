"""The life of an incident: one opening and one closing whatever the order and the number of evaluators."""

from __future__ import annotations

import threading
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from django.db import IntegrityError, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monitor.alerts import incidents
from monitor.alerts.incidents import Finding
from monitor.alerts.models import Incident, IncidentPath, Notification
from monitor.alerts.rules import Evidence
from tests.db.alert_rows import at_once, make_mesh

NOW = datetime(2026, 11, 21, 10, 5, tzinfo=UTC)
CAUSE = "cern ↔ slac"


@pytest.fixture
def two_paths(db):
    paths = make_mesh(["slac", "cern"], NOW)
    return paths["slac → cern"], paths["cern → slac"]


def finding(path, lost=24, sent=1140, lower=0.0146):
    return Finding(str(path), Evidence(path.pk, 600, sent, lost, lower, 0.01))


def after(minutes: float) -> datetime:
    return NOW + timedelta(minutes=minutes)


def test_opening_records_the_path_its_evidence_and_a_sentence(two_paths):
    out, _ = two_paths

    assert incidents.open_or_extend("loss", CAUSE, [finding(out)], NOW) is True

    incident = Incident.objects.get()
    assert (incident.opened_at, incident.closed_at, incident.is_open) == (NOW, None, True)
    assert incident.summary == (
        "slac → cern: loss 2.1% (24 of 1,140 packets in 10 min to 2026-11-21 10:05 UTC; at least 1.5% with 95% "
        "confidence), threshold 1%"
    )
    evidence = IncidentPath.objects.get()
    assert (evidence.path_id, evidence.sent, evidence.lost, evidence.window_s) == (out.pk, 1140, 24, 600)
    assert (evidence.loss_lower_ratio, evidence.threshold_ratio) == (0.0146, 0.01)


def test_both_directions_at_once_are_one_incident_with_their_packets_pooled(two_paths):
    incidents.open_or_extend("loss", CAUSE, [finding(path) for path in two_paths], NOW)

    incident = Incident.objects.get()
    assert incident.summary.startswith("cern ↔ slac: loss 2.1% (48 of 2,280 packets in 10 min")
    assert incident.paths.count() == 2


def test_the_other_direction_later_extends_the_open_incident(two_paths):
    out, back = two_paths
    incidents.open_or_extend("loss", CAUSE, [finding(out)], NOW)

    assert incidents.open_or_extend("loss", CAUSE, [finding(out), finding(back)], after(2)) is False

    incident = Incident.objects.get()
    assert [row.path_id for row in incident.paths.order_by("added_at")] == [out.pk, back.pk]
    assert "; also cern → slac: loss 2.1%" in incident.summary
    assert incident.summary.count("slac → cern") == 1
    assert Notification.objects.count() == 1


def test_firing_on_changes_nothing(two_paths):
    out, _ = two_paths
    incidents.open_or_extend("loss", CAUSE, [finding(out)], NOW)
    before = list(IncidentPath.objects.values())

    assert incidents.open_or_extend("loss", CAUSE, [finding(out, lost=300)], after(5)) is False

    assert list(IncidentPath.objects.values()) == before


def test_closing_happens_once(two_paths):
    out, _ = two_paths
    incidents.open_or_extend("loss", CAUSE, [finding(out)], NOW)
    incident = Incident.objects.get()

    assert incidents.close(incident.pk, [out.pk], "slac → cern: loss 0%", after(20)) is True
    assert incidents.close(incident.pk, [out.pk], "again", after(21)) is False

    incident.refresh_from_db()
    assert (incident.closed_at, incident.closing) == (after(20), "slac → cern: loss 0%")
    assert list(Notification.objects.order_by("pk").values_list("change", flat=True)) == ["opened", "closed"]


def test_a_path_that_the_closer_has_not_seen_keeps_the_incident_open(two_paths):
    out, back = two_paths
    incidents.open_or_extend("loss", CAUSE, [finding(out), finding(back)], NOW)

    assert incidents.close(Incident.objects.get().pk, [out.pk], "slac → cern: loss 0%", after(20)) is False

    assert Incident.objects.get().is_open


def test_an_evaluation_older_than_the_closing_does_not_open_again(two_paths):
    out, _ = two_paths
    incidents.open_or_extend("loss", CAUSE, [finding(out)], NOW)
    incidents.close(Incident.objects.get().pk, [out.pk], "over", after(20))

    assert incidents.open_or_extend("loss", CAUSE, [finding(out)], after(19)) is False
    assert incidents.open_or_extend("loss", CAUSE, [finding(out)], after(21)) is True

    assert Incident.objects.count() == 2


def test_an_evaluation_older_than_the_opening_does_not_close(two_paths):
    out, _ = two_paths
    incidents.open_or_extend("loss", CAUSE, [finding(out)], NOW)

    assert incidents.close(Incident.objects.get().pk, [out.pk], "over", after(-1)) is False


def test_the_database_refuses_a_second_open_incident_of_a_cause(two_paths):
    Incident.objects.create(rule="loss", cause=CAUSE, opened_at=NOW, summary="first")

    with pytest.raises(IntegrityError, match="one_open_incident_per_cause"), transaction.atomic():
        Incident.objects.create(rule="loss", cause=CAUSE, opened_at=NOW, summary="second")


def test_other_integrity_errors_are_not_taken_for_a_lost_race(two_paths):
    out, _ = two_paths

    with pytest.raises(IntegrityError, match="path_once_per_incident"), transaction.atomic():
        incidents.open_or_extend("loss", CAUSE, [finding(out), finding(out)], NOW)


evaluations = st.lists(
    st.tuples(st.integers(0, 60), st.sampled_from([frozenset(), frozenset({0}), frozenset({1}), frozenset({0, 1})])),
    max_size=12,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(evaluations)
def test_any_order_of_evaluations_keeps_one_incident_and_one_message_for_each_change(two_paths, steps):
    """Evaluations have their own moments, in any order; each finds some of the two paths firing, the others clear."""
    with transaction.atomic():
        opened = closed = 0
        for minute, firing in steps:
            if firing:
                findings = [finding(two_paths[index]) for index in sorted(firing)]
                opened += incidents.open_or_extend("loss", CAUSE, findings, after(minute))
            clear = [path.pk for index, path in enumerate(two_paths) if index not in firing]
            for incident in Incident.objects.filter(closed_at=None):
                closed += incidents.close(incident.pk, clear, "clear", after(minute))
            assert Incident.objects.filter(closed_at=None).count() == opened - closed <= 1

        changes = Counter(Notification.objects.values_list("incident_id", "change"))
        assert Incident.objects.count() == opened
        assert Incident.objects.exclude(closed_at=None).count() == closed
        assert sum(changes.values()) == opened + closed
        assert set(changes.values()) <= {1}
        transaction.set_rollback(True)


@pytest.mark.django_db(transaction=True)
def test_evaluators_at_once_open_one_incident_with_all_paths(monkeypatch):
    """The worst case is forced: all of them have seen that nothing is open before the first of them opens."""
    paths = list(make_mesh(["slac", "cern"], NOW).values())
    all_have_looked = threading.Barrier(4)

    def look_and_wait(rule, cause):
        assert not Incident.objects.exists()
        all_have_looked.wait(timeout=30)

    monkeypatch.setattr(incidents, "_open_id", look_and_wait)

    results = at_once(4, lambda number: incidents.open_or_extend("loss", CAUSE, [finding(paths[number % 2])], NOW))

    assert sorted(results) == [False, False, False, True]
    assert Incident.objects.count() == 1
    assert IncidentPath.objects.count() == 2
    assert Notification.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_closers_at_once_close_once():
    paths = list(make_mesh(["slac", "cern"], NOW).values())
    incidents.open_or_extend("loss", CAUSE, [finding(path) for path in paths], NOW)
    incident_id, path_ids = Incident.objects.get().pk, [path.pk for path in paths]

    results = at_once(4, lambda number: incidents.close(incident_id, path_ids, f"closer {number}", after(20)))

    assert sorted(results) == [False, False, False, True]
    assert Notification.objects.filter(change="closed").count() == 1
