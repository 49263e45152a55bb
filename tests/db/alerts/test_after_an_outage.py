"""Statements during and after an outage of a site, as the lab has it: eight of twenty paths, even cycles of two sizes,
a throughput test when it begins, and a packet lost by chance after it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta

import pytest

from monitor.alerts.evidence import gather, words
from monitor.alerts.evidence.evidence import Evidence, evidence
from monitor.alerts.evidence.stated import Fault
from monitor.alerts.evidence.ticket import ticket_text
from monitor.alerts.incidents import queries
from monitor.alerts.models import Incident
from monitor.archive.upkeep import freshness
from monitor.overview.mesh_state import MeshState, load_mesh_state
from monitor.present import read
from monitor.present.conditions import Condition
from monitor.present.read import PresentPath
from monitor.web.pages.status.load import StatusView, load_status
from tests.db.finding_levels import level_of
from tests.db.site_outage_rows import DELIVERED, DOWN, SiteOutage, evaluate_at
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_worker")]
UP = datetime(2026, 11, 26, 5, 37, 45, tzinfo=UTC)
TEST = DOWN - timedelta(seconds=4), DOWN + timedelta(seconds=6)
STRAY = UP + timedelta(seconds=38)
LOOKS_S = (40, 70, 130, 155, 165, 175, 205, 235)
"""Evaluations after which all statements are read, after the outage began."""


@dataclass(frozen=True)
class Look:
    """Everything that is stated at a moment."""

    at: datetime
    state: MeshState
    status: StatusView
    present: dict[int, PresentPath]
    incident: Incident
    evidence: Evidence

    @property
    def since_up_s(self) -> float:
        return (self.at - UP).total_seconds()


@pytest.fixture
def looks(monkeypatch):
    """The statements at each of LOOKS_S and after the end of the incident, with an evaluation every 10 to 30 s."""
    outage, seen = SiteOutage(UP, lambda name, at: TEST[0] <= at < TEST[1], STRAY), []
    times_s = (-20, 20, 30, *LOOKS_S, 255, 265, 275, 285, 310)
    for at_s, at in evaluate_at(outage.plant(320), times_s):
        if at_s in (*LOOKS_S, 310):
            monkeypatch.setattr("django.utils.timezone.now", lambda at=at: at)
            seen.append(look(at))
    return seen


def look(at):
    (incident,) = [queries.incident_with_paths(pk) for pk in Incident.objects.values_list("pk", flat=True)]
    present = read.load(set(incident.path_ids))
    return Look(at, load_mesh_state(freshness.load(), at), load_status(at), present, incident, evidence(incident, at))


def stated_second(text, before):
    """The time of the day after these words."""
    clock = re.search(rf"{before}(?:\d{{4}}-\d\d-\d\d )?(\d\d:\d\d:\d\d)", text)[1]
    return datetime.combine(DOWN.date(), time.fromisoformat(clock), UTC)


def is_near(at, truth):
    return truth - timedelta(seconds=1.5) <= at <= truth + timedelta(seconds=1.5)


def test_an_outage_of_a_site_stays_one_after_its_end(looks):
    assert_present(looks)
    assert_cause(looks)
    assert_end_is_kept(*looks[-2:])


def assert_present(looks):
    during = [of for of in looks if of.at < UP]
    back = [of for of in looks if of.at >= UP + DELIVERED and of.incident.closed_at is None]
    closed = looks[-1]
    assert len(during) >= 3
    assert len(back) >= 4
    assert closed.incident.closed_at is not None

    for of in during:
        assert {path.condition for path in of.present.values()} == {Condition.DEAD}, of.at
        assert lacks(of.incident.title, "in2p3: 8 of 8 paths dead since ") == []
        assert is_near(stated_second(of.incident.title, "dead since "), DOWN)
        assert of.state.tally.with_problems + of.state.tally.checked == len(of.present) == 8
    for of in back:
        assert {path.condition for path in of.present.values()} == {Condition.NORMAL}, of.at
        assert is_near(of.incident.over_since, UP)
        assert {level_of(row).over_since is None for row in of.incident.paths.all()} == {False}
        assert is_near(stated_second(of.incident.title, "answers again since "), UP), of.incident.title
        assert is_near(stated_second(of.incident.title, "dead from "), DOWN), of.incident.title
        assert of.incident.title in of.state.title
        assert (of.state.tally.with_problems, of.state.tally.over, of.state.tally.normal) == (0, 8, 12)
        assert [public.over_since for public in of.status.open] == [of.incident.over_since]
        if of.at < STRAY + DELIVERED:
            assert {level_of(row).now for row in of.incident.paths.all()} == {0.0}

    began = stated_second(during[-1].incident.title, "dead since ")  # one onset, wherever it is stated
    assert f" {began:%H:%M:%S} to 05:37:45 UTC" in closed.incident.title, closed.incident.title
    assert closed.state.tally.normal == closed.state.tally.paths == 20
    assert closed.incident.title in closed.state.sentence
    assert (closed.status.open, len(closed.status.past)) == ((), 1)


def assert_cause(looks):
    known = [of for of in looks if of.evidence.gathered_at is not None]
    assert {of.evidence.cause.fault for of in known} == {Fault.INTERRUPTED}
    for of in known:
        likely = of.evidence.likely
        assert is_near(stated_second(likely, "last reply "), DOWN), likely
        assert "100% loss of pings from both ends" in likely
        for path in of.evidence.paths:
            assert path.there.after.loss_ratio > 0.9, (of.at, path.name, path.there.after)
        if of.since_up_s > DELIVERED.total_seconds() + 12:
            assert is_near(stated_second(likely, "answered again by "), UP), (of.at, likely)

    closed = looks[-1]
    assert is_near(closed.incident.ended_at, UP)
    assert words.lasted_s(closed.incident, closed.at) == pytest.approx((UP - DOWN).total_seconds(), abs=3)
    assert "lasted 2 min" in ticket_text(closed.incident, closed.evidence)


def assert_end_is_kept(before, closed):
    """Also where evidence is gathered from an incident that was loaded before an evaluation resolved it."""
    assert before.incident.closed_at is None

    gather.store_facts(before.incident, closed.at)

    assert Incident.objects.get().ended_at == closed.incident.ended_at
