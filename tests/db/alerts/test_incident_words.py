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


def test_an_age_is_stated_once_the_evidence_tells_the_onset(path):
    row = incident(path)

    assert lacks(words.brief(row, NOW + 4 * SECOND), "loss 20%", "detected 2026-11-21 12:30 UTC") == []
    assert "2 min" not in words.brief(row, NOW + 4 * SECOND)
    row.began_at = NOW - 87 * SECOND
    assert lacks(words.brief(row, NOW + 4 * SECOND), "loss 20%", "for 91 s") == []


def test_times_within_ten_minutes_are_to_the_second(path):
    began_at = NOW.replace(second=36)
    short = incident(path, began_at=began_at, ended_at=began_at + 22 * SECOND, closed_at=began_at + 150 * SECOND)

    assert words.period(short) == "from 2026-11-21 12:30:36 to 12:30:58 UTC"
    short.ended_at = began_at + 90 * SECOND
    assert words.period(short) == "from 2026-11-21 12:30:36 to 12:32:06 UTC"
    short.ended_at, short.closed_at = began_at + 600 * SECOND, began_at + 700 * SECOND
    assert words.period(short) == "from 2026-11-21 12:30 to 12:40 UTC"


@pytest.mark.parametrize(("now_ms", "has_peak"), [(300.0, False), (297.0, False), (250.0, True)])
def test_a_peak_within_noise_of_the_present_is_not_told(path, now_ms, has_peak):
    row = Incident.objects.create(rule="rtt", cause="cern ↔ slac", opened_at=NOW, began_at=NOW, summary="s")
    level = {"unit": "ms", "now": now_ms, "peak": 300.2, "window_s": 60.0}
    IncidentPath.objects.create(
        incident=row, path=path, rule="rtt", sentence="RTT", since=NOW, added_at=NOW, level=level,
        figures={"figure": "median", "before_ms": 182.0, "after_ms": 300.2},
    )  # fmt: skip

    assert ("300.2" in words.headline(queries.incident_with_paths(row.pk))) == has_peak


def test_a_peak_known_as_an_interval_is_stated_as_that(path):
    row = incident(path, began_at=NOW - 300 * SECOND)
    worst = {"sent": 200.0, "lost": 40.0, "together": 1.0}
    level = {
        "unit": "loss_ratio", "now": 0.0, "peak": 0.2, "sent": 200, "window_s": 60.0, "worst": worst,
        "since": (NOW - 60 * SECOND).isoformat(), "recovered_at": (NOW - 60 * SECOND).isoformat(),
        "is_ended": True,
    }  # fmt: skip
    IncidentPath.objects.update(level=level)
    Incident.objects.filter(pk=row.pk).update(worst_loss=worst)
    over = queries.incident_with_paths(row.pk)

    said = words.brief(over, NOW)

    assert " to " in said
    assert "up to" not in said
    assert is_over(over)
    facts = evidence(over, NOW)
    facts = replace(facts, cause=replace(facts.cause, next_step="Check errors and drops."))
    for stated in (ticket_text(over, facts), incident_text.body(over, IncidentChange.OPENED, facts)):
        assert "Next step" not in stated


BEGAN = NOW - 600 * SECOND


def at(seconds):
    return (BEGAN + seconds * SECOND).isoformat()


def loss_level(lost, sent, worst=None, **fields):
    worst = worst or (lost, sent)
    return {
        "unit": "loss_ratio", "now": lost / sent, "sent": sent, "window_s": 120.0, "peak": worst[0] / worst[1],
        "worst": {"sent": float(worst[1]), "lost": float(worst[0])}, **fields,
    }  # fmt: skip


def with_levels(levels, **fields):
    """An open incident of loss that began ten minutes ago by default, with such a level on each of these paths."""
    paths = watched()
    fields = {"cause": "cern ↔ slac", "began_at": BEGAN, **fields}
    row = Incident.objects.create(rule="loss", opened_at=NOW, summary="s", **fields)
    for name, level in levels.items():
        IncidentPath.objects.create(
            incident=row, path=paths[name], rule="loss", sentence="loss", since=BEGAN, added_at=NOW, level=level,
            figures={"lost": 20, "sent": 100}, is_over=level is None,
        )  # fmt: skip
    return queries.incident_with_paths(row.pk)


STEADY = loss_level(30, 100, since=at(480))
FADING = loss_level(5, 100, (80, 100))
CHANGED = loss_level(30, 100, (80, 100), has_changed=True, since=at(300))
WHOLE = loss_level(10, 300, window_s=600.0, since=at(0))
PART = loss_level(10, 300, window_s=360.0, since=at(240))
STALE = loss_level(30, 100, is_stale=True, newest_at=at(300))
SILENT = loss_level(30, 100) | {"now": None, "newest_at": at(300)}
CLEAN = loss_level(0, 100, (30, 100), is_ended=True, since=at(300), recovered_at=at(300))
DIRECTED = {"toward": "slac → cern", "toward_by": "STAMP"}
TITLES = {
    "steady": (STEADY, {}, "% now on cern ↔ slac, since 2026-11-21 12:20 UTC"),
    "steady in a direction": (STEADY, DIRECTED, "% now from slac to cern, since 2026-11-21 12:20"),
    "of a site": (STEADY, {"toward": "slac outbound", "toward_by": "STAMP"}, "% now from slac, "),
    "of a hop": (STEADY, {"cause": "hop rtr", **DIRECTED}, "% now on hop rtr, from slac to cern, "),
    "less than before": (FADING, DIRECTED, "% now from slac to cern, peak 69 to 89%, since"),
    "changed": (CHANGED, {}, "% since 12:25:00 UTC on cern ↔ slac, peak 69 to 89%, began"),
    "of all its time": (WHOLE, {}, "% on cern ↔ slac, since 2026-11-21 12:20 UTC"),
    "of a part": (PART, {}, "% in the last 6 min on cern ↔ slac, began 2026-11-21 12:20 UTC"),
    "not of now": (STALE, {}, "% as of 12:25:00 UTC on cern ↔ slac, began 2026-11-21 12:20 UTC"),
    "without a figure": (SILENT, {}, " on cern ↔ slac, no newer data since 12:25:00 UTC, began 2026-11-21 12:20 UTC"),
    "over": (CLEAN, DIRECTED, "since 12:25:00 UTC (below 3.9%) from slac to cern, peak 19 to 42%, began"),
}


@pytest.mark.parametrize("case", TITLES)
def test_a_title_has_one_time_for_each_figure(case):
    """Each time with a word that tells whose it is, and the place after the figure, in plain words."""
    level, fields, told = TITLES[case]

    title = words.headline(with_levels({"slac → cern": level}, **fields))

    assert lacks(title, "loss", told) == []
    assert [word for word in ("at its peak", "so far", "by pings", "direction by") if word in title] == []
    assert title.count("since") <= 1


CLAUSES = {
    "steady": (STEADY, "% for 10 min"),
    "changed": (loss_level(30, 100, has_changed=True, since=at(300)), "% since 12:25:00 UTC, began 10 min ago"),
    "of all its time": (WHOLE, "% for 10 min"),
    "not of now": (STALE, "% as of 12:25:00 UTC"),
}


@pytest.mark.parametrize("case", CLAUSES)
def test_a_clause_has_a_duration_of_the_present_only(case):
    level, told = CLAUSES[case]
    # With a path that has newer data, of another rule.
    row = with_levels({"slac → cern": level, "cern → slac": None})
    other = IncidentPath.objects.get(path__source__site__name="cern")
    other.rule, other.is_over, other.level = "rtt", False, {"unit": "ms", "now": 9.0, "peak": 9.0, "window_s": 60.0}
    other.save()

    clause = words.brief(queries.incident_with_paths(row.pk), NOW)

    assert lacks(clause, "cern ↔ slac loss ", told) == []
    assert ("UTC for" in clause, clause.count(" for ")) == (False, int("for" in told))


def test_pings_of_one_end_tell_no_direction():
    clause = words.brief(with_levels({"cern → slac": STEADY}), NOW)

    assert lacks(clause, "cern ↔ slac loss ", "% for 10 min", "pings from cern", "direction unknown") == []
    assert "→" not in clause


@pytest.mark.parametrize("closed_at", [None, NOW])
@pytest.mark.parametrize("named", [DIRECTED, {"cause": "cern ↔ slac"}], ids=["directed", "pair"])
@pytest.mark.parametrize(
    "levels",
    [
        {"cern → slac": STEADY, "slac → cern": STEADY},
        {"cern → slac": STEADY, "slac → cern": None},
        {"cern → slac": CLEAN, "slac → cern": CLEAN},
        {"cern → slac": CLEAN, "slac → cern": None},
    ],
    ids=["goes on", "one goes on", "both wait", "one waits"],
)
def test_an_incident_keeps_its_place_to_its_end(levels, named, closed_at):
    row = with_levels(levels, **named)
    row.closed_at = closed_at

    place = named.get("toward", "cern ↔ slac")
    assert words.brief(row, NOW).startswith(f"{place} ")
    assert f" {words.place(row)}" in words.headline(row)
    assert words.place(row) == ("from slac to cern" if "toward" in named else "on cern ↔ slac")


def test_the_message_of_an_end_has_the_duration_not_an_age(path):
    began_at = NOW - 23 * SECOND
    row = incident(path, began_at=began_at, ended_at=NOW, closed_at=NOW + 77 * SECOND)

    assert incident_text.subject(row, IncidentChange.CLOSED).startswith("RESOLVED, lasted 23 s: loss")


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
