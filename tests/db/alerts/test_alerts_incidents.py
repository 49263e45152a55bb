"""The life of an incident: a single opening and ending for any order and number of evaluators."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from django.db import IntegrityError, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monitor.alerts.detect.rules.finding import RuleFinding
from monitor.alerts.incidents import lifecycle
from monitor.alerts.models import Incident, IncidentPath, IncidentState, Notification
from monitor.alerts.notify.deliver import deliver
from tests.db.alert_rows import at_once, make_mesh
from tests.facts import lacks

NOW = datetime(2026, 11, 21, 10, 5, tzinfo=UTC)
CAUSE = "cern ↔ slac"
WAIT = timedelta(seconds=lifecycle.CONFIRM_S)


@pytest.fixture
def two_paths(db):
    paths = make_mesh(["slac", "cern"], NOW)
    return paths["slac → cern"], paths["cern → slac"]


def finding(path, rule="loss"):
    return RuleFinding(rule, path.pk, str(path), f"{rule} is high", NOW, {"sent": 1140, "lost": 24})


def after(minutes: float) -> datetime:
    return NOW + timedelta(minutes=minutes)


def keys(*paths, rule="loss"):
    return [(path.pk, rule) for path in paths]


def opened(*paths) -> Incident:
    """An open incident on these paths that was notified at NOW."""
    lifecycle.add_findings(CAUSE, [finding(path) for path in paths], NOW - WAIT)
    incident = Incident.objects.get(closed_at=None)
    lifecycle.open_if_confirmed(incident.pk, NOW)
    lifecycle.queue_notifications(incident.pk, NOW)
    return incident


def notified() -> list[str]:
    return list(Notification.objects.order_by("pk").values_list("change", flat=True))


def test_a_new_incident_is_pending_with_evidence_and_a_sentence(two_paths):
    out, _ = two_paths

    assert lifecycle.add_findings(CAUSE, [finding(out)], NOW) is True

    incident = Incident.objects.get()
    assert (incident.state, incident.opened_at, incident.rule) == (IncidentState.PENDING, NOW, "loss")
    assert incident.summary == "slac → cern: loss is high"
    row = IncidentPath.objects.get()
    assert (row.path_id, row.rule, row.since, row.figures) == (out.pk, "loss", NOW, {"sent": 1140, "lost": 24})
    assert notified() == []


def test_it_opens_once_after_its_confirmation_time(two_paths):
    lifecycle.add_findings(CAUSE, [finding(two_paths[0])], NOW)
    incident = Incident.objects.get()

    assert lifecycle.open_if_confirmed(incident.pk, NOW + WAIT - timedelta(seconds=1)) is False
    assert lifecycle.open_if_confirmed(incident.pk, NOW + WAIT) is True
    assert lifecycle.open_if_confirmed(incident.pk, NOW + 2 * WAIT) is False

    assert Incident.objects.get().state == IncidentState.OPEN


def test_an_incident_that_ends_while_pending_is_deleted(two_paths):
    lifecycle.add_findings(CAUSE, [finding(two_paths[0])], NOW)

    assert lifecycle.close(Incident.objects.get().pk, keys(two_paths[0]), "over", NOW + WAIT) is True

    assert not Incident.objects.exists()
    assert notified() == []


def test_an_opening_is_notified_once(two_paths):
    incident = opened(two_paths[0])

    assert lifecycle.queue_notifications(incident.pk, after(1)) is False

    assert notified() == ["opened"]


def test_the_rule_of_an_incident_is_its_most_severe(two_paths):
    out, back = two_paths

    lifecycle.add_findings(CAUSE, [finding(out, "jitter"), finding(back, "unreachable"), finding(out, "loss")], NOW)

    incident = Incident.objects.get()
    assert incident.rule == "unreachable"
    assert incident.summary.startswith("cern → slac: unreachable is high")
    assert lacks(incident.summary, "slac → cern: loss", "slac → cern: jitter") == []


def test_the_other_direction_later_extends_the_open_incident(two_paths):
    out, back = two_paths
    opened(out)

    assert lifecycle.add_findings(CAUSE, [finding(out), finding(back)], after(2)) is False

    incident = Incident.objects.get()
    assert [row.path_id for row in incident.paths.order_by("added_at")] == [out.pk, back.pk]
    assert lacks(incident.summary, "slac → cern: loss is high", "also", "cern → slac: loss is high") == []
    assert notified() == ["opened"]


def test_a_path_of_an_open_incident_joins_no_other(two_paths):
    opened(two_paths[0])

    assert lifecycle.add_findings("another cause", [finding(two_paths[0])], after(1)) is False

    assert Incident.objects.count() == 1


def test_it_ends_once_and_the_end_is_notified(two_paths):
    incident = opened(two_paths[0])

    assert lifecycle.close(incident.pk, keys(two_paths[0]), "loss 0%", after(20)) is True
    assert lifecycle.close(incident.pk, keys(two_paths[0]), "again", after(21)) is False

    incident.refresh_from_db()
    assert (incident.state, incident.closed_at, incident.closing) == (IncidentState.RESOLVED, after(20), "loss 0%")
    assert notified() == ["opened", "closed"]


def test_a_path_unknown_to_the_closer_keeps_the_incident_open(two_paths):
    incident = opened(*two_paths)

    assert lifecycle.close(incident.pk, keys(two_paths[0]), "loss 0%", after(20)) is False
    assert lifecycle.close(incident.pk, keys(*two_paths, rule="rtt"), "loss 0%", after(20)) is False

    assert Incident.objects.get().closed_at is None


def test_an_evaluation_older_than_the_end_does_not_open_again(two_paths):
    out, _ = two_paths
    incident = opened(out)
    lifecycle.close(incident.pk, keys(out), "over", after(20))

    assert lifecycle.add_findings(CAUSE, [finding(out)], after(19)) is False

    assert Incident.objects.get().closed_at == after(20)


def test_an_evaluation_older_than_the_opening_does_not_end_it(two_paths):
    incident = opened(two_paths[0])

    assert lifecycle.close(incident.pk, keys(two_paths[0]), "over", after(-1)) is False


def test_a_problem_that_returns_soon_reopens_the_incident(two_paths):
    out, back = two_paths
    incident = opened(out)
    lifecycle.acknowledge(incident.pk, "les", after(1))
    lifecycle.close(incident.pk, keys(out), "over", after(20))

    assert lifecycle.add_findings(CAUSE, [finding(back)], after(34)) is False

    again = Incident.objects.get()
    assert (again.state, again.opened_at, again.reopened_at) == (IncidentState.OPEN, incident.opened_at, after(34))
    assert (again.reopenings, again.closing, again.summary) == (1, "", "cern → slac: loss is high")
    assert set(again.paths.values_list("path_id", "is_over")) == {(out.pk, True), (back.pk, False)}


def test_another_problem_soon_after_is_an_incident_of_its_own(two_paths):
    """Its begin, cause and texts would be those of the first: as of an outage, and of a longer route 12 min later."""
    out, back = two_paths
    incident = opened(out)
    lifecycle.close(incident.pk, keys(out), "over", after(20))

    assert lifecycle.add_findings(CAUSE, [finding(back, rule="rtt")], after(32)) is True

    first, second = Incident.objects.order_by("pk")
    assert (first.pk, first.state, first.reopenings) == (incident.pk, IncidentState.RESOLVED, 0)
    assert (second.rule, second.opened_at, second.reopened_at) == ("rtt", after(32), None)
    # Either returns to its own.
    lifecycle.close(second.pk, [(back.pk, "rtt")], "over", after(33))
    assert lifecycle.add_findings(CAUSE, [finding(out)], after(34)) is False
    assert Incident.objects.get(pk=first.pk).reopened_at == after(34)


def test_a_problem_that_returns_late_is_a_new_incident(two_paths):
    out, _ = two_paths
    incident = opened(out)
    lifecycle.close(incident.pk, keys(out), "over", after(20))

    assert lifecycle.add_findings(CAUSE, [finding(out)], after(36)) is True

    assert Incident.objects.count() == 2


def test_a_flapping_incident_notifies_four_times(two_paths, settings):
    settings.NOTIFY_URLS = ["log://"]
    out, _ = two_paths
    incident = opened(out)
    deliver(NOW)
    for minute in range(10, 60, 10):
        lifecycle.close(incident.pk, keys(out), "over", after(minute))
        deliver(after(minute))
        lifecycle.add_findings(CAUSE, [finding(out)], after(minute + 5))
        lifecycle.queue_notifications(incident.pk, after(minute + 5))
        deliver(after(minute + 5))
    lifecycle.close(incident.pk, keys(out), "over", after(60))
    for minute in (60, 74, 75, 76):
        deliver(after(minute))

    sent = Notification.objects.exclude(sent_at=None).order_by("sent_at").values_list("change", "sent_at")
    assert list(sent) == [("opened", NOW), ("closed", after(10)), ("reopened", after(15)), ("closed", after(75))]


def test_the_end_of_an_unnotified_incident_is_not_notified(two_paths):
    lifecycle.add_findings(CAUSE, [finding(two_paths[0])], NOW - WAIT)
    incident = Incident.objects.get()
    lifecycle.open_if_confirmed(incident.pk, NOW)

    lifecycle.close(incident.pk, keys(two_paths[0]), "over", after(20))

    assert notified() == []


WIDER = "slac"


def two_incidents(out, back):
    """Two notified incidents, the first opened earlier."""
    first = opened(out)
    lifecycle.add_findings("another cause", [finding(back)], NOW)
    second = Incident.objects.get(cause="another cause")
    lifecycle.open_if_confirmed(second.pk, after(1))
    lifecycle.queue_notifications(second.pk, after(1))
    return first, second


def test_incidents_of_a_common_cause_are_merged(two_paths):
    out, back = two_paths
    first, second = two_incidents(out, back)

    assert lifecycle.merge({CAUSE, "another cause"}, WIDER, after(5)) == 1
    assert lifecycle.merge({CAUSE, "another cause"}, WIDER, after(5)) == 0

    whole, part = (Incident.objects.get(pk=incident.pk) for incident in (first, second))
    assert (whole.cause, whole.state) == (WIDER, IncidentState.OPEN)
    assert set(whole.paths.values_list("path_id", "is_over")) == {(out.pk, False), (back.pk, False)}
    assert "cern → slac: loss is high" in whole.summary
    assert (part.state, part.closed_at, part.merged_into) == (IncidentState.RESOLVED, after(5), whole)
    assert part.closing == f"part of incident {whole.pk}: slac"
    assert list(part.paths.values_list("path_id", "is_over")) == [(back.pk, True)], "it keeps its own evidence"
    assert [turn.turn for turn in part.turns.order_by("pk")][-1] == "merged"


def test_the_end_of_a_merged_part_is_notified_with_the_whole(two_paths):
    first, second = two_incidents(*two_paths)

    lifecycle.merge({CAUSE, "another cause"}, WIDER, after(5))
    assert notified() == ["opened", "opened"], "merging notifies nobody"
    for evaluation in (6, 7):
        assert lifecycle.queue_notifications(first.pk, after(evaluation)) is (evaluation == 6), (
            "of the paths that joined it"
        )
    assert notified() == ["opened", "opened"], "and every recipient has been notified already"

    lifecycle.close(first.pk, keys(*two_paths), "over", after(20))
    lifecycle.add_findings(WIDER, [finding(two_paths[0])], after(25))
    lifecycle.queue_notifications(first.pk, after(25))
    lifecycle.close(first.pk, keys(two_paths[0]), "over", after(40))

    closed = Notification.objects.filter(change="closed").order_by("incident_id")
    assert list(closed.values_list("incident_id", "reopening")) == [(first.pk, 1), (second.pk, 0)]


def test_the_end_of_a_merged_part_is_silent_while_others_last(two_paths):
    out, back = two_paths
    first, second = two_incidents(out, back)
    lifecycle.merge({CAUSE, "another cause"}, WIDER, after(5))
    of_part = Notification.objects.filter(incident=second, change="closed")

    lifecycle.close(first.pk, keys(out, back), "over", after(20))
    lifecycle.add_findings(WIDER, [finding(out)], after(25))
    assert not of_part.exists()

    lifecycle.close(first.pk, keys(out), "over", after(40))
    assert of_part.get().due_at == after(40) + timedelta(seconds=lifecycle.REOPEN_S)


def test_merging_keeps_the_notified_incident(two_paths):
    out, back = two_paths
    incident_before = opened(out)
    lifecycle.add_findings("another cause", [finding(back)], NOW - 2 * WAIT)

    assert lifecycle.merge({CAUSE, "another cause"}, WIDER, after(1)) == 1

    assert [incident.pk for incident in Incident.objects.all()] == [incident_before.pk], (
        "the pending incident is deleted"
    )
    assert incident_before.paths.filter(is_over=False).count() == 2


def test_an_evaluation_older_than_an_incident_does_not_merge_it(two_paths):
    two_incidents(*two_paths)

    assert lifecycle.merge({CAUSE, "another cause"}, WIDER, after(-0.1)) == 0
    assert Incident.objects.filter(closed_at=None).count() == 2


def test_a_returning_part_is_not_reopened(two_paths):
    out, back = two_paths
    first, second = two_incidents(out, back)
    lifecycle.merge({CAUSE, "another cause"}, WIDER, after(5))
    lifecycle.close(first.pk, keys(out, back), "over", after(6))

    assert lifecycle.add_findings("another cause", [finding(back)], after(8)) is True

    second.refresh_from_db()
    assert second.closed_at is not None


def test_a_part_of_a_part_is_a_part_of_the_whole(two_paths):
    out, back = two_paths
    first, second = two_incidents(out, back)
    lifecycle.merge({CAUSE, "another cause"}, WIDER, after(5))
    lifecycle.add_findings("third", [finding(out, "rtt")], NOW - 3 * WAIT)
    third = Incident.objects.get(cause="third")
    lifecycle.open_if_confirmed(third.pk, NOW)
    lifecycle.queue_notifications(third.pk, NOW)

    lifecycle.merge({"third", WIDER}, "everything", after(6))

    assert set(third.parts.values_list("pk", flat=True)) == {first.pk, second.pk}
    assert Incident.objects.filter(closed_at=None).count() == 1


def test_acknowledging_happens_once_and_stores_the_person(two_paths):
    incident = opened(two_paths[0])

    assert lifecycle.acknowledge(incident.pk, "les", after(1)) is True
    assert lifecycle.acknowledge(incident.pk, "warren", after(2)) is False

    incident.refresh_from_db()
    assert (incident.state, incident.acknowledged_by, incident.acknowledged_at) == (
        IncidentState.ACKNOWLEDGED,
        "les",
        after(1),
    )
    assert lifecycle.close(incident.pk, keys(two_paths[0]), "over", after(20)) is True
    assert lifecycle.acknowledge(incident.pk, "warren", after(21)) is False


def test_the_database_refuses_two_lasting_incidents_of_a_cause(two_paths):
    Incident.objects.create(rule="loss", cause=CAUSE, opened_at=NOW, summary="first")

    with pytest.raises(IntegrityError, match="one_open_incident_per_cause"), transaction.atomic():
        Incident.objects.create(rule="loss", cause=CAUSE, opened_at=NOW, summary="second")


def test_other_integrity_errors_are_not_taken_for_a_lost_race(two_paths):
    missing = RuleFinding("loss", 999_999, "nowhere", "loss", NOW, {})

    with transaction.get_connection().cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")

    with pytest.raises(IntegrityError, match="foreign key"):
        lifecycle.add_findings(CAUSE, [missing], NOW)


CAUSES = (CAUSE, "all of slac")
evaluations = st.lists(
    st.tuples(
        st.integers(0, 90),  # the moment, in minutes: in any order
        st.lists(st.integers(0, 3), max_size=4, unique=True),  # firing rules: two paths, two rules
        st.sampled_from(CAUSES),  # the cause by which this evaluation groups new paths
        st.booleans(),  # whether it is silenced
        st.booleans(),  # whether somebody acknowledges
        st.sampled_from([None, *CAUSES]),  # the cause that explains all lasting incidents, if any
    ),
    max_size=15,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(evaluations)
def test_any_order_of_evaluations_keeps_the_invariants(two_paths, steps):
    """Invariants for any sequence of steps; the messages are those that deliveries would send."""
    fault_keys = [(path, rule) for path in two_paths for rule in ("loss", "rtt")]
    with transaction.atomic():
        for minute, firing, cause, is_silenced, is_acknowledged, merged in steps:
            now = after(minute)
            if merged:
                lifecycle.merge(CAUSES, merged, now)
            if firing:
                lifecycle.add_findings(cause, [finding(*fault_keys[index]) for index in firing], now)
            clear = [(fault_keys[n][0].pk, fault_keys[n][1]) for n in range(4) if n not in firing]
            for incident in Incident.objects.filter(closed_at=None):
                lifecycle.close(incident.pk, clear, "clear", now, is_silenced=is_silenced)
            for incident in Incident.objects.filter(closed_at=None):
                lifecycle.open_if_confirmed(incident.pk, now)
                if not is_silenced:
                    lifecycle.queue_notifications(incident.pk, now)
                if is_acknowledged:
                    lifecycle.acknowledge(incident.pk, "les", now)
            check_rows()
        check_messages()
        transaction.set_rollback(True)


def check_rows():
    lasting = Incident.objects.filter(closed_at=None)
    assert Counter(lasting.values_list("cause", flat=True)).most_common(1) in ([], *([(c, 1)] for c in CAUSES))
    rows = IncidentPath.objects.filter(is_over=False)
    assert set(rows.values_list("incident_id", flat=True)) == set(lasting.values_list("pk", flat=True)), (
        "an incident without paths"
    )
    assert len(set(rows.values_list("path_id", "rule"))) == rows.count(), "a path's rule in two incidents"


def check_messages():
    """The messages of each incident: opened, then closed and reopened in turn; a closed incident has its message, if
    notified."""
    by_incident = defaultdict(list)
    for row in Notification.objects.order_by("pk"):
        by_incident[row.incident_id].append(row)
    for rows in by_incident.values():
        changes = [row.change for row in rows]
        assert changes[0] == "opened"
        assert set(changes[1:]) <= {"reopened", "closed"}
        assert all(a != b for a, b in pairwise(changes) if b == "closed"), changes
    for incident in Incident.objects.exclude(told_at=None):
        assert by_incident[incident.pk], "marked as notified without a message"
        assert incident.closed_at is None or (
            incident.merged_into is not None and incident.merged_into.closed_at is None
        )


@pytest.mark.django_db(transaction=True)
def test_concurrent_evaluators_make_one_incident_of_all_paths(monkeypatch):
    """The worst case is forced: all of them see that there is none before the first creates it."""
    paths = list(make_mesh(["slac", "cern"], NOW).values())
    all_have_looked = threading.Barrier(4)

    def look_and_wait(*_):
        assert not Incident.objects.exists()
        all_have_looked.wait(timeout=30)
        return False

    monkeypatch.setattr(lifecycle, "_reopen", look_and_wait)

    results = at_once(4, lambda number: lifecycle.add_findings(CAUSE, [finding(paths[number % 2])], NOW))

    assert sorted(results) == [False, False, False, True]
    assert Incident.objects.count() == 1
    assert IncidentPath.objects.count() == 2


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("cause", ["the same", "each its own"])
def test_a_path_added_by_four_at_once_is_in_a_single_incident(cause):
    path = next(iter(make_mesh(["slac", "cern"], NOW).values()))

    at_once(
        4, lambda number: lifecycle.add_findings(cause if cause == "the same" else str(number), [finding(path)], NOW)
    )

    assert IncidentPath.objects.filter(is_over=False).count() == 1
    assert Incident.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_concurrent_closers_and_notifiers_act_once():
    paths = list(make_mesh(["slac", "cern"], NOW).values())
    lifecycle.add_findings(CAUSE, [finding(path) for path in paths], NOW - WAIT)
    incident = Incident.objects.get()

    assert sorted(at_once(4, lambda _: lifecycle.open_if_confirmed(incident.pk, NOW))) == [False, False, False, True]
    assert sorted(at_once(4, lambda _: lifecycle.queue_notifications(incident.pk, NOW))) == [False, False, False, True]
    ended = at_once(4, lambda number: lifecycle.close(incident.pk, keys(*paths), f"closer {number}", after(20)))

    assert sorted(ended) == [False, False, False, True]
    assert notified() == ["opened", "closed"]


@pytest.mark.django_db(transaction=True)
def test_concurrent_mergers_merge_once_and_lose_nothing():
    paths = list(make_mesh(["slac", "cern"], NOW).values())
    two_incidents(*paths)

    merged = at_once(4, lambda _: lifecycle.merge({CAUSE, "another cause"}, WIDER, after(5)))

    assert sorted(merged) == [0, 0, 0, 1]
    whole = Incident.objects.get(closed_at=None)
    assert set(whole.paths.filter(is_over=False).values_list("path_id", flat=True)) == {path.pk for path in paths}
