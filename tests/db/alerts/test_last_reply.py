"""The last reply before an outage of a site that begins while a throughput test ends, in a cycle whose first packets
were set aside: wherever it is stated, and beside the onset."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta

import pytest

from monitor.alerts.evidence import words
from monitor.alerts.evidence.evidence import evidence
from monitor.alerts.incidents import queries
from monitor.alerts.models import Incident
from tests.db.site_outage_rows import DOWN, SiteOutage, evaluate_at

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_worker")]
UP = DOWN + timedelta(seconds=150)
NEAR_S = 1.2
"""Packets of the same size are a second apart, and texts have whole seconds."""


def clock_after(text, before):
    found = re.search(rf"{before}(?:\d{{4}}-\d\d-\d\d )?(\d\d:\d\d:\d\d)", text)
    assert found, (before, text)
    return datetime.combine(DOWN.date(), time.fromisoformat(found[1]), UTC)


def off_s(at):
    return abs((at - DOWN).total_seconds())


@pytest.mark.parametrize("tested", ["", "→ in2p3"])
def test_the_last_reply_is_the_last_answered_packet_and_not_after_the_onset(tested, monkeypatch):
    """A test from before the burst in which the outage begins until half a second before it."""
    outage = SiteOutage(UP, lambda name, at: name.endswith(tested) and -9.0 <= (at - DOWN).total_seconds() < -0.5)
    stated = 0

    for at_s, at in evaluate_at(outage.plant(310), (-20, 20, 30, 40, 50, 70, 100, 150, 180, 220, 260, 300)):
        monkeypatch.setattr("django.utils.timezone.now", lambda at=at: at)
        for incident in [queries.incident_with_paths(pk) for pk in Incident.objects.values_list("pk", flat=True)]:
            facts = evidence(incident, at)
            if "dead since" in incident.title:
                stated += 1
                last_reply = clock_after(incident.title, "dead since ")
                assert off_s(last_reply) <= NEAR_S, (at_s, incident.title)
                assert last_reply <= incident.began_at, (at_s, incident.title, incident.began_at)
            if "last reply" in facts.likely:
                last_reply = clock_after(facts.likely, "last reply ")
                assert off_s(last_reply) <= NEAR_S, (at_s, facts.likely)
                assert last_reply <= facts.began.at, (at_s, facts.likely, facts.began_text)
                assert off_s(facts.began.at) <= NEAR_S, facts.began_text
    assert stated >= 3
    assert "last reply" in facts.likely
    assert incident.closed_at is not None


@pytest.mark.parametrize(("tested", "begins_s", "ends_s"), [("", 0.0, 2.5), ("", -1.5, 3.5), ("→ in2p3", 0.3, 4.0)])
def test_an_outage_has_one_onset_also_where_its_first_packets_are_set_aside(tested, begins_s, ends_s, monkeypatch):
    """A throughput test in which it begins: the title, the evidence and all durations have the last reply, and no
    packet that it lost is in the baseline."""
    outage = SiteOutage(UP, lambda name, at: name.endswith(tested) and begins_s <= (at - DOWN).total_seconds() < ends_s)
    stated = 0

    for at_s, at in evaluate_at(outage.plant(310), (-20, 20, 30, 40, 50, 70, 100, 150, 180, 220, 260, 300)):
        monkeypatch.setattr("django.utils.timezone.now", lambda at=at: at)
        for incident in [queries.incident_with_paths(pk) for pk in Incident.objects.values_list("pk", flat=True)]:
            facts, title = evidence(incident, at), words.headline(incident)
            if facts.began is None or "dead" not in title:
                continue
            stated += 1
            told = clock_after(title, "dead,? (?:since|from) ")
            assert {clock_after(facts.began_text, ""), words.since(incident).replace(microsecond=0)} == {told}, title
            assert -NEAR_S <= (words.since(incident) - DOWN).total_seconds() <= 0.0, (at_s, incident.began_at)
            for path in facts.paths:
                for direction in (path.there, path.back):
                    assert direction.before.lost == 0, (at_s, direction)
                    assert direction.after.sent == direction.after.lost > 0, (at_s, direction)
                    assert direction.left_out is None
    assert stated >= 6
