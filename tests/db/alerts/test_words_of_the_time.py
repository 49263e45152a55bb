"""Sentences about an incident are true at the time at which they are shown."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from monitor.alerts.evidence import tested_direction as direction_by_tests
from monitor.alerts.evidence.evidence import evidence
from monitor.alerts.evidence.facts import HostTest, PathTests
from monitor.alerts.evidence.gather import stated_cause, stored_facts
from monitor.alerts.evidence.ticket import ticket_text
from tests.db.alert_rows import make_mesh
from tests.db.evidence_rows import NOW, finding, gathered, incident, lossy

pytestmark = pytest.mark.django_db
NEWEST = PathTests("slac", "cern", "slac", "cern", before=1, before_bps=4e7, after=1, after_bps=5e5)


@pytest.fixture
def row():
    paths = make_mesh(["slac", "cern", "niit"], NOW - timedelta(days=2))
    lossy(paths["slac → cern"], paths["cern → slac"])
    row = incident(finding(paths["slac → cern"], figures={"sent": 80, "lost": 20}))
    gathered(row)
    return row


def facts_of(row, **fields):
    facts = stored_facts(row)
    assert facts is not None
    return replace(facts, **fields)


def test_a_cause_does_not_call_an_incident_over_that_goes_on(row):
    """Though the newest bursts were good by chance when the evidence was gathered."""
    cause = stated_cause(facts_of(row, tests=(NEWEST,), ended_at=NOW), row)

    assert "no test of cern → slac since the onset" in cause.sentence
    assert "while it lasted" not in cause.sentence


@pytest.mark.parametrize(
    ("before", "was_ratio", "is_told"), [(1, 0.246, False), (8, 0.246, False), (1, 0.001, False), (8, 0.001, True)]
)
def test_retransmissions_are_compared_with_fewer_ones_of_several_tests(row, before, was_ratio, is_told):
    test = replace(NEWEST, before=before, before_resent_ratio=was_ratio, after_resent_ratio=0.156)

    text = direction_by_tests.tested_direction(facts_of(row, tests=(test,))).text

    assert "15.6% retransmitted" in text
    assert ("retransmitted (was " in text) == is_told


def test_a_test_that_is_not_delivered_is_said_to_be_so_by_the_time_of_the_evidence(row):
    test = HostTest("slac → niit", NOW - timedelta(minutes=3), NOW - timedelta(minutes=2), None)

    ticket = ticket_text(row, replace(evidence(row, NOW), own_tests=(test,)))

    assert "not delivered by 2026-11-21 10:05:00 UTC" in ticket
    assert "no result yet" not in ticket


def test_a_test_that_ran_when_the_evidence_was_gathered_is_said_to_be_running(row):
    test = HostTest("slac → niit", NOW - timedelta(seconds=2), NOW + timedelta(seconds=3), None)

    ticket = ticket_text(row, replace(evidence(row, NOW + timedelta(minutes=1)), own_tests=(test,)))

    assert "10:04:58 to 10:05:03 UTC, running at 2026-11-21 10:05:00 UTC" in ticket
    assert "not delivered" not in ticket
