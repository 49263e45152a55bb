"""Times and durations in the words of an incident: planted rows, and the sentences about them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from monitor.alerts.detect.shares import Share
from monitor.alerts.evidence import words
from monitor.alerts.evidence.ending import is_over
from monitor.alerts.evidence.evidence import evidence
from monitor.alerts.evidence.path_tests import own_tests
from monitor.alerts.evidence.ticket import ticket_text
from monitor.alerts.evidence.titles import title_of
from monitor.alerts.incidents import queries
from monitor.alerts.models import Incident, IncidentChange, IncidentPath
from monitor.alerts.notify import incident_text
from monitor.mesh.models import KindName, Measurement, Slot, SlotHost
from monitor.mesh.models import Test as MeshTest
from tests.db.incident_rows import NOW, lossy, watched
from tests.facts import lacks

pytestmark = pytest.mark.django_db
SECOND = timedelta(seconds=1)


@pytest.fixture
def path():
    return watched()["slac → cern"]


def incident(path, **fields):
    """Loss whose rule has a window of two minutes, detected now."""
    row = Incident.objects.create(rule="loss", cause="cern ↔ slac", opened_at=NOW, summary="s", **fields)
    IncidentPath.objects.create(
        incident=row, path=path, rule="loss", sentence="loss", since=NOW - 120 * SECOND, added_at=NOW,
        figures={"lost": 20, "sent": 100}, is_over=row.closed_at is not None,
    )  # fmt: skip
    return queries.incident_with_paths(row.pk)


def test_a_loss_is_dated_once_the_evidence_tells_the_onset(path):
    row = incident(path)

    assert lacks(title_of(row, [], NOW), "cern ↔ slac: loss 20%", "detected 2026-11-21 12:30 UTC") == []
    assert words.lasted_s(row, NOW + 4 * SECOND) == 4.0
    row.began_at = NOW - 87 * SECOND
    assert lacks(title_of(row, [], NOW), "cern ↔ slac: loss 20%", "since 2026-11-21 12:28 UTC") == []
    assert words.lasted_s(row, NOW + 4 * SECOND) == 91.0


def test_times_within_ten_minutes_are_to_the_second(path):
    began_at = NOW.replace(second=36)
    short = incident(path, began_at=began_at, ended_at=began_at + 22 * SECOND, closed_at=began_at + 150 * SECOND)

    assert words.period(short) == "from 2026-11-21 12:30:36 to 12:30:58 UTC"
    short.ended_at = began_at + 90 * SECOND
    assert words.period(short) == "from 2026-11-21 12:30:36 to 12:32:06 UTC"
    short.ended_at, short.closed_at = began_at + 600 * SECOND, began_at + 700 * SECOND
    assert words.period(short) == "from 2026-11-21 12:30 to 12:40 UTC"


def test_an_incident_that_is_over_has_no_next_step(path):
    over = incident(path, began_at=NOW - 300 * SECOND, over_since=NOW - 60 * SECOND)

    assert is_over(over)
    facts = evidence(over, NOW)
    facts = replace(facts, cause=replace(facts.cause, next_step="Check errors and drops."))
    for stated in (ticket_text(over, facts), incident_text.body(over, IncidentChange.OPENED, facts)):
        assert "Next step" not in stated
    assert words.lasted_s(over, NOW) == 240.0


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({}, "cern ↔ slac"),
        ({"toward": "slac → cern"}, "slac → cern"),
        ({"toward": "slac outbound"}, "cern ↔ slac"),
        ({"closed_at": NOW, "toward": "slac → cern"}, "slac → cern"),
    ],
)
def test_a_title_begins_with_the_place_and_has_one_begin(path, fields, place):
    title = title_of(incident(path, began_at=NOW - 600 * SECOND, **fields), [], NOW)

    assert title.startswith(f"{place}: loss 20%")
    assert title.count("since") + title.count("from") == 1


def test_the_message_of_an_end_has_the_duration_not_an_age(path):
    began_at = NOW - 23 * SECOND
    row = incident(path, began_at=began_at, ended_at=NOW, closed_at=NOW + 77 * SECOND, title="slac → cern lost 20%")

    assert incident_text.subject(row, IncidentChange.CLOSED) == "RESOLVED, lasted 23 s: slac → cern lost 20%"


def test_a_test_of_ours_has_its_own_length_not_that_of_its_slot(path):
    parameters = {"duration_s": 5, "omit_s": 0}
    test = MeshTest.objects.create(name="tcp", kind=KindName.THROUGHPUT, every_s=3600, parameters=parameters)
    measurement = Measurement.objects.create(path=path, test=test, started_at=NOW - 3600 * SECOND)
    slot = Slot.objects.create(measurement=measurement, starts_at=NOW, ends_at=NOW + 10 * SECOND, outcome="measured")
    SlotHost.objects.create(slot=slot, host=path.source, starts_at=slot.starts_at, ends_at=slot.ends_at)

    (told,) = own_tests([path.source_id], NOW - 60 * SECOND, NOW + 60 * SECOND)

    assert told.ends_at - told.starts_at == 5 * SECOND


def test_shares_of_a_resolved_incident_wait_for_nothing(path):
    row = lossy(path)
    Incident.objects.update(shares=[{"where": "elsewhere", "bad": 0, "known": 6, "unclear": 4}])
    open_now = queries.incident_with_paths(row.pk)
    Incident.objects.update(closed_at=NOW)
    resolved = queries.incident_with_paths(row.pk)

    assert [share.text for share in evidence(open_now, NOW).shares] == [
        "elsewhere: not clear yet for 4 of 6 paths, 2 normal"
    ]
    assert [share.text for share in evidence(resolved, NOW).shares] == [
        "elsewhere: not clear for 4 of 6 paths, 2 normal"
    ]
    assert Share("elsewhere", 0, 6).text == "all other paths normal (6 paths)"
