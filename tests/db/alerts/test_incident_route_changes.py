"""Incidents with a change of the route: with an effect, gone back since, or minutes before the trouble."""

from __future__ import annotations

from datetime import timedelta

import pytest

from monitor.alerts.detect.rules.finding import RuleFinding
from monitor.alerts.evidence import gather
from monitor.alerts.evidence.evidence import evidence
from monitor.alerts.evidence.stated import Fault
from monitor.alerts.evidence.ticket import ticket_text
from monitor.alerts.incidents import lifecycle, queries
from monitor.alerts.models import IncidentChange
from monitor.alerts.notify import incident_text
from monitor.archive.models import Burst
from tests.db.alerts.test_incident_routes import (
    BEGAN,
    CERN,
    COGENT,
    GEANT,
    MINUTE,
    NOW,
    as_names,
    opened,
    paths,
    plant_pings,
    plant_trace,
    rtt_finding,
)
from tests.db.copied_rows import copy_rows
from tests.facts import lacks

__all__ = ["as_names", "paths"]

pytestmark = pytest.mark.django_db
OLD_WAY = [GEANT + "1", GEANT + "2", CERN + "1", "192.0.2.2"]
NEW_WAY = [GEANT + "1", COGENT + "1", CERN + "1", "192.0.2.2"]
THIRD_WAY = [GEANT + "1", "8.4.0.1", CERN + "1", "192.0.2.2"]


def plant_route_change(there, back):
    """From BEGAN on over COGENT, 60 ms longer."""
    for path in (there, back):
        plant_pings(path, shift_ms=60.0)
    for minute in range(-300, -20, 10):
        plant_trace(there, NOW + minute * MINUTE, OLD_WAY)
    for minute in (-19, -10, -1):
        plant_trace(there, NOW + minute * MINUTE, NEW_WAY)


def test_a_route_change_with_a_step_is_the_cause(paths, as_names):
    there, back = paths["slac → cern"], paths["cern → slac"]
    plant_route_change(there, back)

    row = opened(rtt_finding(there), rtt_finding(back))

    gathered = evidence(row, NOW)
    route = gathered.routes[0]
    assert gathered.cause.fault is Fault.ROUTE
    assert lacks(gathered.likely, "the route changed at 09:45:00 UTC", "+60 ms", "now by AS 174") == []
    assert route.changed_at == BEGAN
    assert route.rtt_shift_ms == pytest.approx(60.0, abs=0.5)
    assert (route.before.hops[1].place, route.after.hops[1].place) == ("AS 20965 GEANT", "AS 174 COGENT")
    assert (
        lacks(ticket_text(row, gathered), "trace before, 2026-11-21 09:35:00", "trace after, 2026-11-21 09:46:00") == []
    )


def test_a_route_that_went_back_is_said_to_be_back(paths, as_names, client, settings):
    settings.LOCAL_READ = settings.ALLOW_PLAIN_HTTP = True
    there, back = paths["slac → cern"], paths["cern → slac"]
    plant_route_change(there, back)
    row = opened(rtt_finding(there), rtt_finding(back))
    back_at = NOW + timedelta(minutes=2, seconds=10)
    plant_trace(there, NOW + MINUTE, NEW_WAY)
    silent = [None if hop == GEANT + "1" else hop for hop in OLD_WAY]
    plant_trace(there, back_at, silent)

    later = NOW + 3 * MINUTE
    lifecycle.close(row.pk, [(there.pk, "rtt"), (back.pk, "rtt")], "RTT 20.2 ms again", later, ended_at=NOW)
    row = queries.incident_with_paths(row.pk)
    gathered = evidence(row, later)

    assert lacks(gathered.likely, "then by AS 174", "first seen back on the previous route at 10:07:10 UTC") == []
    route = gathered.routes[0]
    assert (route.back_at, route.changed_again_at, route.has_effect) == (back_at, None, True)
    assert route.after.hops[1].place == "AS 174 COGENT"
    closing = incident_text.body(row, IncidentChange.CLOSED, gathered)
    page = client.get(f"/incidents/{row.pk}/", headers={"host": "localhost"}).content.decode()
    for text in (closing, ticket_text(row, gathered), page):
        assert (
            lacks(text, "the route changed at 09:45:00 UTC", "first seen back on the previous route at 10:07:10 UTC")
            == []
        )
        assert "now by AS 174" not in text
    # The evidence gathered after the end has it as well, and stays so when the route changes once more, later.
    gather.store_facts(row, later)
    plant_trace(there, later + 60 * MINUTE, NEW_WAY)
    assert evidence(row, later + 120 * MINUTE).routes[0].back_at == back_at
    assert gather.stored_facts(row).routes[0].back_at == back_at


def test_a_route_that_changes_again_is_not_said_to_be_back(paths, as_names):
    there, back = paths["slac → cern"], paths["cern → slac"]
    plant_route_change(there, back)
    row = opened(rtt_finding(there), rtt_finding(back))
    for minute, hops in ((2, OLD_WAY), (4, THIRD_WAY)):
        plant_trace(there, NOW + minute * MINUTE, hops)

    third = evidence(row, NOW + 5 * MINUTE)
    plant_trace(there, NOW + 6 * MINUTE, NEW_WAY)
    new = evidence(row, NOW + 7 * MINUTE)

    assert (third.routes[0].back_at, third.routes[0].changed_again_at) == (None, NOW + 4 * MINUTE)
    assert lacks(third.likely, "then by AS 174", "changed again at 10:09:00 UTC") == []
    assert (new.routes[0].back_at, new.routes[0].changed_again_at) == (None, None)
    assert lacks(new.likely, "now by AS 174") == []


def test_loss_minutes_after_a_change_is_not_its_effect(paths):
    """Bursts every 10 s, all lost for the last 90 s; the route changed 170 s before that."""
    there = paths["slac → cern"]
    copy_rows(
        Burst(
            path_id=there.pk, packet_bytes=100, measured_at=NOW - timedelta(seconds=10 * number), outcome="measured",
            sent=10, received=0 if number < 9 else 10, duplicates=0, reordered=0, during_test=False,
            rtts_ms=[None if number < 9 else 20.0] * 10,
        )
        for number in range(1, 700)
    )  # fmt: skip
    for second, hops in ((-900, OLD_WAY), (-300, OLD_WAY), (-260, NEW_WAY), (-60, NEW_WAY[:2])):
        plant_trace(there, NOW + timedelta(seconds=second), hops)
    began = NOW - timedelta(seconds=90)
    lost = RuleFinding("loss", there.pk, str(there), "loss is high", began, {"sent": 600, "lost": 90})

    gathered = evidence(opened(lost), NOW)

    (route,) = gathered.routes
    assert (route.has_effect, route.is_certain) == (False, False)
    assert gathered.cause.fault is not Fault.ROUTE
    assert lacks(route.sentence, "the route changed", "no effect", "cannot tell") == []


def test_a_route_that_changed_in_between_is_not_unchanged(paths):
    there = paths["slac → cern"]
    plant_pings(there, shift_ms=60.0)
    for minute in range(-300, 0, 5):
        plant_trace(there, NOW + minute * MINUTE, NEW_WAY if minute == -10 else OLD_WAY)

    gathered = evidence(opened(rtt_finding(there)), NOW)

    assert [route.sentence for route in gathered.routes] == ["where: cannot tell"]
