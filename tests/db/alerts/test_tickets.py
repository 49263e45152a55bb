"""The text of an incident for a ticket: addresses, figures, and excluded causes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from monitor.alerts.detect.shares import Share
from monitor.alerts.evidence.evidence import evidence
from monitor.alerts.evidence.facts import FailedBurst, HostTest
from monitor.alerts.evidence.ticket import ticket_text
from monitor.alerts.evidence.words import headline
from monitor.alerts.models import Severity
from tests.db.alert_rows import make_mesh
from tests.db.evidence_rows import BEGAN, NOW, finding, gathered, incident, lossy
from tests.facts import lacks

pytestmark = pytest.mark.django_db


@pytest.fixture
def paths():
    return make_mesh(["slac", "cern", "niit"], NOW - timedelta(days=2))


def test_the_ticket_has_addresses_figures_and_excluded_causes(paths, settings):
    settings.PUBLIC_URL = "https://soundings.example.org"
    lossy(paths["slac → cern"], paths["cern → slac"])
    shares = [Share("paths to slac", 0, 2), Share("elsewhere", 1, 3)]
    row = incident(
        finding(paths["slac → cern"], figures={"sent": 80, "lost": 20}, severity=Severity.CRITICAL), shares=shares
    )

    text = ticket_text(row, gathered(row))

    assert lacks(text.splitlines()[0], headline(row)) == []
    for part in (
        "Severity:      critical\n",
        "paths to slac: normal (2 paths)",
        "elsewhere: 1 of 3 paths bad",
        "slac → cern: 192.0.2.1 to 192.0.2.2, IPv4",
        "20 of 80",
        "25% (15 to 36%)",
        "< 0.23%",
        "TTL of replies        54",
        "All times UTC.",
        f"https://soundings.example.org/incidents/{row.pk}/",
    ):
        assert part in text
    assert "None" not in text
    assert "nan" not in text


def test_a_newly_opened_incident_has_a_ticket(paths):
    row = incident(finding(paths["slac → cern"]))

    assert "Pending: evidence is being gathered." in ticket_text(row, evidence(row, NOW))


def test_the_ticket_names_outcomes_as_the_pages_do(paths):
    lossy(paths["slac → cern"], paths["cern → slac"])
    row = incident(finding(paths["slac → cern"]))
    test = HostTest("slac → cern", BEGAN, NOW, "refused")
    failed = FailedBurst("slac → cern", BEGAN, "tool_failure", None)

    text = ticket_text(row, replace(gathered(row), own_tests=(test,), failures=(failed,)))

    assert lacks(text, "UTC test error", "UTC, no connection") == []
    assert "refused" not in text
