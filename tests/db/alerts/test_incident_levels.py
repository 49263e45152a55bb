"""Current and peak figures of an open incident, and its severity."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection

from dashboards.reader import grant
from monitor.alerts.evaluate import evaluate
from monitor.alerts.evidence import gather
from monitor.alerts.evidence.evidence import evidence
from monitor.alerts.evidence.ticket import ticket_text
from monitor.alerts.evidence.words import headline, period, since
from monitor.alerts.incidents import queries
from monitor.alerts.models import HistoryEvent, Incident, IncidentTurn
from monitor.mesh.models import Mesh
from monitor.present.words import lost_text
from tests.db.alert_rows import make_bursts, make_mesh, only
from tests.db.finding_levels import level_of
from tests.db.grafana import of_dashboard, run
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_worker")]
ONSET = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def path():
    paths = make_mesh(["slac", "cern", "niit"], ONSET - timedelta(days=2), loss={"above_ratio": 0.01, "window_s": 600})
    make_bursts(paths["slac → cern"], [0] * 120, ONSET - 120 * MINUTE)
    return paths["slac → cern"]


def lose(path, lost_packets, since):
    """A burst per minute, each with so many of ten packets lost; evaluated after each."""
    for number, lost in enumerate(lost_packets):
        make_bursts(path, [lost], since + number * MINUTE)
        evaluate(since + (number + 1) * MINUTE)


def open_incident():
    (incident,) = queries.open_incidents()
    return incident


@pytest.fixture
def grafana():
    """The titles that a query of a dashboard shows."""
    with connection.cursor() as cursor:
        grant(cursor, "of the test")

    def titles(dashboard, where, column="Title"):
        variables = {"group": "*", "family": "4", "packet_bytes": "100", "site": "slac"}
        rows = run(of_dashboard(dashboard)[where], variables, ONSET - 120 * MINUTE, ONSET + 240 * MINUTE)
        return [row[column] for row in rows]

    return titles


def row_now():
    (row,) = open_incident().paths.filter(is_over=False)
    return row


def test_lists_have_the_title_with_the_loss_of_now(path, grafana):
    lose(path, [2] * 30, ONSET)
    during, level = headline(open_incident()), level_of(row_now())
    Incident.objects.update(title="")
    unknown = grafana("mesh", "Open incidents/A")
    lose(path, [5] * 15, ONSET + 30 * MINUTE)
    after, worse = headline(open_incident()), level_of(row_now())

    assert lacks(during, "cern ↔ slac loses", "20%", "10:00:00 UTC") == []
    assert (level.now, level.peak) == (pytest.approx(0.2), pytest.approx(0.2))
    assert unknown == [open_incident().summary]
    assert lacks(after, "cern ↔ slac loses", lost_text(worse.counts)) == []
    assert worse.peak == worse.now > 0.25
    lists = [("mesh", "Open incidents/A")]
    lists += [(dashboard, "Incidents, newest first/A") for dashboard in ("alerts", "site")]
    assert [grafana(*place) for place in lists] == [[after]] * 3
    assert grafana("mesh", "@Incidents", "text") == [after]

    lose(path, [0] * 60, ONSET + 45 * MINUTE)
    (incident,) = Incident.objects.exclude(closed_at=None)
    over = headline(queries.incident_with_paths(incident.pk))

    assert lacks(over, "cern ↔ slac lost", "%, from ", "2026-11-21 10:00", " to 10:") == [], over
    assert [grafana(*place) for place in lists] == [[], [over], [over]]


def test_current_loss_excludes_packets_before_the_onset(path):
    lose(path, [2] * 9, ONSET)
    (row,) = open_incident().paths.all()
    found_after = (row.added_at - ONSET) / MINUTE

    assert found_after < 9
    assert level_of(row).now == pytest.approx(0.2)


def test_severity_rises_with_the_loss_and_never_falls(path):
    lose(path, [1, 1, 1, 0] * 8, ONSET)
    before = open_incident()
    lose(path, [3] * 10, ONSET + 32 * MINUTE)
    during = open_incident()
    lose(path, [1, 0] * 6, ONSET + 42 * MINUTE)

    assert (before.severity, during.severity, open_incident().severity) == ("warning", "critical", "critical")
    turn = IncidentTurn.objects.get(turn=HistoryEvent.WORSENED)
    assert lacks(turn.note, "warning to critical", "slac → cern", "loss ") == []
    assert ONSET + 32 * MINUTE < turn.at <= ONSET + 42 * MINUTE


def test_loss_of_20_percent_is_critical_from_the_start(path):
    lose(path, [2] * 15, ONSET)

    assert Incident.objects.get().severity == "critical"


def test_a_severity_set_in_mesh_toml_stays(path):
    Mesh.objects.update(alerts=only(loss={"above_ratio": 0.01, "window_s": 600, "severity": "notice"}))

    lose(path, [3] * 15, ONSET)

    assert Incident.objects.get().severity == "notice"


def test_a_resolved_incident_keeps_its_peak(path):
    lose(path, [2] * 15, ONSET)
    lose(path, [0] * 60, ONSET + 15 * MINUTE)

    incident = Incident.objects.get()
    assert incident.closed_at is not None
    assert level_of(incident.paths.get()).peak == pytest.approx(0.2, abs=0.01)
    assert lacks(headline(incident), "lost", "20%") == []


def test_a_ticket_says_until_when_the_severity_was_lower(path):
    lose(path, [1, 1, 1, 0] * 8, ONSET)
    before = ticket_text(open_incident(), evidence(open_incident(), ONSET + 32 * MINUTE))
    lose(path, [3] * 10, ONSET + 32 * MINUTE)
    turn = IncidentTurn.objects.get(turn=HistoryEvent.WORSENED)
    during = ticket_text(open_incident(), evidence(open_incident(), ONSET + 42 * MINUTE))

    assert lacks(before, "Severity:      warning\nDetected:") == []
    assert lacks(during, f"Severity:      critical, warning until {turn.at:%Y-%m-%d %H:%M:%S} UTC\nDetected:") == []


def test_a_loss_has_its_onset_from_its_detection_on(path):
    lose(path, [2] * 9, ONSET)
    incident = open_incident()
    before = headline(incident)
    gather.store_facts(incident, ONSET + 9 * MINUTE)

    for title in (before, headline(open_incident())):
        assert title.endswith(f"since {ONSET:%H:%M:%S} UTC")
    assert abs(since(open_incident()) - ONSET) < MINUTE


def test_a_loss_without_an_onset_is_dated_by_its_detection(path):
    lose(path, [2] * 9, ONSET)
    Incident.objects.update(began_at=None)

    incident = open_incident()
    assert since(incident) == incident.opened_at
    assert period(incident) == f"detected {incident.opened_at:%Y-%m-%d %H:%M} UTC"
