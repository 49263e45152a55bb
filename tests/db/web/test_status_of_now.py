"""Open incidents on the status page: without newer data it says so, and an outage is not called packet loss."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from django.utils.html import strip_tags

from monitor.alerts.evidence.evidence import evidence
from monitor.alerts.evidence.ticket import ticket_text
from monitor.archive.upkeep import freshness
from monitor.overview.mesh_state import load_mesh_state
from monitor.web.pages.status import view
from monitor.web.pages.status.load import load_status
from tests.db.planted_faults import Planted, at, between, look_at, plant
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_worker")]

RULES = {"loss": {"above_ratio": 0.01, "window_s": 120}, "unreachable": {}, "rtt": {}}
PAIR = {"desy", "ornl"}
OUTAGE_S = 150.0


def results(fault, until_s):
    """The bursts, those of the pair until `until_s` only."""
    paths, rows = plant([fault], 400, 3, **RULES)
    pair = {path.pk for name, path in paths.items() if set(name.split(" → ")) == PAIR}
    kept = [row for row in rows if row.path_id not in pair or row.measured_at < at(until_s)]
    return pair, kept


def open_incidents(now, monkeypatch, settings):
    """The open incidents of the page, as text."""
    settings.ALLOWED_HOSTS = ["*"]
    settings.PUBLIC_STATUS = True
    view.forget()
    monkeypatch.setattr("django.utils.timezone.now", lambda: now)
    html = Client().get("/status/", HTTP_HOST="localhost").content.decode()
    view.forget()
    section = re.search(r'<section id="open".*?</section>', html, re.DOTALL)[0]
    return " ".join(strip_tags(section).split())


def test_an_incident_without_newer_data_does_not_go_on(monkeypatch, settings):
    """An RTT that is longer; the newest results are 80 s old."""
    pair, rows = results(Planted(between(*PAIR), 0.0, delay_ms=60.0), 220)
    titles = {}
    for at_s, _, lasting in look_at(rows, (170, 190, 210, 300)):
        (incident,) = lasting.values()
        titles[at_s] = incident.title
    assert lacks(open_incidents(at(300), monkeypatch, settings), "desy ↔ ornl: longer RTT") == []

    newest = max(row.measured_at for row in rows if row.path_id in pair)
    assert "as of" not in titles[210]
    assert lacks(titles[300], "desy ↔ ornl", "80", f"as of {newest:%H:%M:%S} UTC") == []


def test_an_outage_that_is_over_goes_on_nowhere(monkeypatch, settings):
    """150 s without replies: from the first replies on, all words are of the past, and the uptime counts no more."""
    _, rows = plant([Planted(between(*PAIR), 0.0, OUTAGE_S, lost_ratio=1.0)], 400, 3, **RULES)
    waiting, closed = 0, 0

    for at_s, now, lasting in look_at(rows, (60, 80, 100, 140, 160, *range(163, 190, 3), 220, 250, 280, 320)):
        said, state = open_incidents(now, monkeypatch, settings), load_mesh_state(freshness.load(), now)
        incidents = list(lasting.values())
        if incidents and incidents[0].over_since is not None:
            (incident,) = incidents
            waiting += 1
            assert lacks(incident.title, "answers again since 15:08:3", "dead from 15:06:0") == [], incident.title
            assert (state.tally.with_problems, state.tally.over) == (0, 2), state.sentence
            assert lacks(said, "no reply", "over since", "waiting to close") == [], (at_s, said)
            assert " for " not in said, (at_s, said)
            assert "Next step" not in ticket_text(incident, evidence(incident, now)), at_s
        elif at_s < OUTAGE_S or incidents:
            continue
        else:
            closed += 1
        assert down_s(now) == pytest.approx(OUTAGE_S, abs=3.0), (at_s, state)
    assert min(waiting, closed) > 0, (waiting, closed)


def test_a_path_that_flaps_has_no_reply_at_times(monkeypatch, settings):
    outages = [Planted(between(*PAIR), 40.0 * turn, 20.0, lost_ratio=1.0) for turn in range(6)]
    _, rows = plant(outages, 300, 3, **RULES)
    said = {at_s: open_incidents(now, monkeypatch, settings) for at_s, now, _ in look_at(rows, range(60, 260, 10))}

    assert lacks(said[250], "desy ↔ ornl: no reply at times since") == []


def test_a_loss_that_is_over_is_not_of_now(monkeypatch, settings):
    _, rows = plant([Planted(between(*PAIR), 0.0, 150.0, lost_ratio=0.3)], 400, 3, **RULES)
    seen = 0

    for at_s, now, lasting in look_at(rows, (60, 80, 100, 150, 170, 180, 190, 200, 210)):
        (incident,) = lasting.values()
        if incident.over_since is None:
            assert at_s <= 200
            continue
        seen += 1
        assert lacks(incident.title, "no more loss since 15:08:", "from 15:06:") == [], (at_s, incident.title)
        said = open_incidents(now, monkeypatch, settings)
        assert lacks(said, "packet loss", "over since", "waiting to close") == [], (at_s, said)
        assert " for " not in said
    assert seen


def down_s(now):
    """The time without replies of a path of the pair, by the uptime of one of its sites, which has six paths."""
    (site,) = [site for site in load_status(now).sites if site.name == "desy"]
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    return (1.0 - site.uptime_ratio) * (now - midnight).total_seconds() * 3.0
