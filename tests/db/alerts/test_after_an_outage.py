"""Statements during and after an outage of a site, as the lab has it: eight of twenty paths, even cycles of two sizes,
a throughput test when it begins, and a packet lost by chance after it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta

import numpy as np
import pytest

from monitor.agents.models import AgentHealth
from monitor.alerts.evaluate import evaluate
from monitor.alerts.evidence import gather, words
from monitor.alerts.evidence.evidence import Evidence, evidence
from monitor.alerts.evidence.stated import Fault
from monitor.alerts.evidence.ticket import ticket_text
from monitor.alerts.incidents import queries
from monitor.alerts.models import Incident
from monitor.archive.models import Burst
from monitor.archive.queries.metrics import Metric
from monitor.archive.upkeep import freshness
from monitor.mesh.models import MeasurementPeriod, Site, Test
from monitor.overview.grid import GridPeriod, load_grid
from monitor.overview.mesh_state import load_mesh_state
from monitor.overview.path_figures import FigureState
from monitor.web.pages.grid.cells import sentence
from monitor.web.pages.status.load import StatusView, load_status
from tests.db.alert_rows import make_mesh
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_worker")]
DOWN = datetime(2026, 11, 26, 5, 35, 27, tzinfo=UTC)
UP = datetime(2026, 11, 26, 5, 37, 45, tzinfo=UTC)
TEST = DOWN - timedelta(seconds=4), DOWN + timedelta(seconds=6)
STRAY = UP + timedelta(seconds=38)
SITES = ("slac", "nersc", "ornl", "cern", "in2p3")
RTT_MS = {"slac": 175.0, "cern": 8.0, "ornl": 124.0, "nersc": 178.0}
"""To in2p3."""
CYCLE = timedelta(seconds=10)
DELIVERED = timedelta(seconds=12.5)
"""After the begin of a cycle: its packets, and their timeout."""
HISTORY_S = 1500
LOOKS_S = (40, 70, 130, 155, 165, 175, 205, 235)
"""Evaluations after which all statements are read, after the outage began."""


@dataclass(frozen=True)
class Look:
    """Everything that is stated at a moment."""

    at: datetime
    state: str
    status: StatusView
    cells: list[tuple[FigureState, str]]
    incident: Incident
    evidence: Evidence

    @property
    def since_up_s(self) -> float:
        return (self.at - UP).total_seconds()


def plant(until_s):
    """The bursts with the time at which each arrives."""
    random = np.random.default_rng(3)
    rules = {"loss": {"above_ratio": 0.01, "window_s": 120}, "unreachable": {}, "no_data": {}, "rtt": {}}
    paths = make_mesh(SITES, DOWN - timedelta(hours=2), **rules)
    parameters = {"count": 10, "packet_bytes": [100, 1000], "spacing_s": 0.5, "pattern": "even"}
    Test.objects.update(every_s=10, parameters=parameters)
    MeasurementPeriod.objects.update(every_s=10, packet_bytes=[100, 1000])
    rows = []
    for name, path in paths.items():
        ends = name.split(" → ")
        first = DOWN - timedelta(seconds=HISTORY_S + 5 - 0.2 * SITES.index(ends[0]))
        phase, is_planted = random.random(), "in2p3" in ends
        other = next((end for end in ends if end in RTT_MS), "")
        for cycle in range((HISTORY_S + until_s) // 10):
            begin = first + cycle * CYCLE
            due_s = (np.arange(20) + phase + random.random(20) / 3.0) * 0.5
            for number, size in enumerate((100, 1000)):
                sent_at = [begin + timedelta(seconds=at_s) for at_s in due_s[number::2].tolist()]
                rtts = [
                    None if is_planted and is_lost(name, size, at) else RTT_MS.get(other, 50.0) + random.exponential()
                    for at in sent_at
                ]
                burst = burst_of(path, size, sent_at, rtts, is_tested=is_planted)
                rows.append((begin + DELIVERED, burst))
    return sorted(rows, key=lambda row: row[0])


def is_lost(name, size, at):
    """Requests sent while in2p3 is down; and a single one on a path later."""
    is_stray = name == "in2p3 → slac" and size == 100 and STRAY <= at < STRAY + timedelta(seconds=0.9)
    return DOWN <= at < UP or is_stray


def burst_of(path, size, sent_at, rtts, *, is_tested):
    """Packets sent during the throughput test are apart, as agents tell them."""
    is_loaded = [is_tested and TEST[0] <= at < TEST[1] for at in sent_at]
    is_loaded = [False] * len(rtts) if all(is_loaded) else is_loaded
    own = [rtt for rtt, loaded in zip(rtts, is_loaded, strict=True) if not loaded]
    received = sum(rtt is not None for rtt in own)
    return Burst(
        path_id=path.pk, packet_bytes=size, measured_at=sent_at[0], outcome="measured", sent=len(own),
        received=received, duplicates=0, reordered=0, during_test=False, ttl=54 if received else None, rtts_ms=own,
        loaded_rtts_ms=[rtt for rtt, loaded in zip(rtts, is_loaded, strict=True) if loaded] or None,
    )  # fmt: skip


@pytest.fixture
def looks(monkeypatch):
    """The statements at each of LOOKS_S and after the end of the incident, with an evaluation every 10 to 30 s."""
    rows, number, seen = plant(320), 0, []
    for at_s in (-20, 20, 30, *LOOKS_S, 255, 265, 275, 285, 310):
        now = DOWN + timedelta(seconds=at_s)
        arrived = [burst for arrives_at, burst in rows[number:] if arrives_at < now]
        number += len(arrived)
        Burst.objects.bulk_create(arrived)
        for site in Site.objects.all():
            reported = {"accepted_at": now - timedelta(seconds=5), "agent_version": "1", "queued": 0, "dropped": 0}
            AgentHealth.objects.update_or_create(site=site, defaults=reported)
        evaluate(now)
        at = now + timedelta(seconds=3)
        gather.gather_due(at)
        if at_s in (*LOOKS_S, 310):
            monkeypatch.setattr("django.utils.timezone.now", lambda at=at: at)
            seen.append(look(at))
    return seen


def look(at):
    (incident,) = [queries.incident_with_paths(pk) for pk in Incident.objects.values_list("pk", flat=True)]
    grid = load_grid(Metric.LOSS, GridPeriod.NOW, at)
    cells = [(path.state, sentence(grid, path)) for path in grid.figures if "in2p3" in (path.source, path.destination)]
    state = load_mesh_state(freshness.load(), at).sentence
    return Look(at, state, load_status(at), cells, incident, evidence(incident, at))


def stated_second(text, before):
    """The time of the day after these words."""
    clock = re.search(rf"{before}(?:\d{{4}}-\d\d-\d\d )?(\d\d:\d\d:\d\d)", text)[1]
    return datetime.combine(DOWN.date(), time.fromisoformat(clock), UTC)


def is_near(at, truth):
    return truth - timedelta(seconds=1.5) <= at <= truth + timedelta(seconds=1.5)


def test_an_outage_of_a_site_stays_one_after_its_end(looks):
    assert_words(looks)
    assert_cause(looks)
    assert_end_is_kept(*looks[-2:])


def assert_words(looks):
    during = [of for of in looks if of.at < UP]
    back = [of for of in looks if of.at >= UP + DELIVERED and of.incident.closed_at is None]
    closed = looks[-1]
    assert len(during) >= 3
    assert len(back) >= 4
    assert closed.incident.closed_at is not None

    for of in during:
        assert {state for state, _ in of.cells} == {FigureState.TOTAL_LOSS}, of.at
        for _, text in of.cells:
            assert is_near(stated_second(text, "no reply since "), DOWN), (of.at, text)
        assert is_near(stated_second(of.incident.title, "no reply since "), DOWN)
    for of in back:
        title = of.incident.title
        assert is_near(stated_second(title, "no reply from "), DOWN), title
        assert is_near(stated_second(title, " to "), UP), title
        assert is_near(stated_second(of.state, "replies again since "), UP), of.state
        assert "since 05:37:42" not in f"{title}{of.state}{of.cells}"
        assert "peak" not in title
        assert [public.symptom for public in of.status.open] == ["unreachable"]
        if of.at < STRAY + DELIVERED:
            assert "no loss" in title, title
            assert "no loss" in of.state, of.state
            assert {state for state, _ in of.cells} == {FigureState.NONE_LOST}, of.cells
        lossy = [text for state, text in of.cells if state is not FigureState.NONE_LOST]
        assert all(text.startswith("in2p3 to slac: ") for text in lossy), lossy
        if of.since_up_s > 45:
            assert "8 of 20 paths are back to normal" in of.state, of.state

    assert closed.incident.title.startswith("no reply on in2p3, 8 paths, from 2026-11-26 05:35:27 to 05:37:45 UTC")
    assert lacks(closed.state, "All 20 paths are normal", "in2p3 no reply for 2 min") == []
    assert [public.symptom for public in closed.status.past] == ["unreachable"]


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
