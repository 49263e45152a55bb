"""Statements after an outage of a site whose first replies, on half of its paths, came during a throughput test, so
that they are apart from the packets that count. It is long enough for the rule of paths without any reply."""

from __future__ import annotations

from datetime import timedelta

import pytest

from monitor.alerts.evidence.evidence import evidence
from monitor.alerts.incidents import queries
from monitor.alerts.models import Incident, IncidentPath
from monitor.archive.upkeep import freshness
from monitor.overview.mesh_state import load_mesh_state
from monitor.web.pages.status.load import load_status
from tests.db.finding_levels import level_of
from tests.db.site_outage_rows import DOWN, SiteOutage, evaluate_at
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_worker")]
UP = DOWN + timedelta(seconds=213.5)


def is_tested(name, at):
    """A test toward in2p3 that begins within a cycle and ends in the next."""
    return name.endswith("→ in2p3") and UP - timedelta(seconds=6.5) <= at < UP + timedelta(seconds=3.5)


def test_first_replies_during_a_test_end_an_outage(monkeypatch):
    times_s = (-20, 20, 30, 40, 70, 190, 200, 210, 220, 230, 240, 260, 330, 350)
    for at_s, at in evaluate_at(SiteOutage(UP, is_tested).plant(360), times_s):
        monkeypatch.setattr("django.utils.timezone.now", lambda at=at: at)
        if at_s == 210:
            assert IncidentPath.objects.filter(rule="unreachable").exists()
        if at_s >= 230:
            assert_ended(at)
    assert Incident.objects.get().closed_at is not None


def assert_ended(at):
    (incident,) = [queries.incident_with_paths(pk) for pk in Incident.objects.values_list("pk", flat=True)]
    assert lacks(evidence(incident, at).likely, "Was interrupted", "last reply 2026-11-26 05:35:2",
                 "answered again by 2026-11-26 05:39:0") == []  # fmt: skip
    status = load_status(at)
    assert [public.symptom for public in (*status.open, *status.past)] == ["no reply"]
    assert "packet loss" not in status.state
    if incident.closed_at is None:
        assert lacks(incident.title, "in2p3 answers again since 05:39:0", "dead from 05:35:2") == []
        state = load_mesh_state(freshness.load(), at)
        assert (state.tally.with_problems, state.tally.over) == (0, 8), state.sentence
        assert incident.title in state.sentence
    for row in incident.paths.all():
        first_reply = level_of(row).first_reply
        assert first_reply is not None, (at, row)
        assert UP - timedelta(seconds=1.5) <= first_reply <= UP + timedelta(seconds=1.5)
