"""Open incidents on the status page: without newer data it says so, and an outage is not called packet loss."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils.html import strip_tags

from monitor.web.pages.status import view
from monitor.web.pages.status.load import load_status
from tests.db.incident_rows import NOW, lossy, watched
from tests.db.planted_faults import Planted, at, between, look_at, plant
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_worker")]

RULES = {"loss": {"above_ratio": 0.01, "window_s": 120}, "unreachable": {}, "rtt": {}}
PAIR = {"desy", "ornl"}
SECOND = timedelta(seconds=1)


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
    said = {now: open_incidents(now, monkeypatch, settings) for _, now, _ in look_at(rows, (170, 190, 210, 300))}

    newest = max(row.measured_at for row in rows if row.path_id in pair)
    assert lacks(said[at(210)], "desy ↔ ornl: longer RTT", "for 3 min") == []
    assert lacks(said[at(300)], "desy ↔ ornl: longer RTT", f"; no newer data since {newest:%Y-%m-%d %H:%M} UTC") == []
    assert " for " not in said[at(300)]
    assert [each.measured_until for each in load_status(at(300)).open] == [newest]


@pytest.mark.parametrize(("lost", "symptom"), [(20, "no reply"), (19, "packet loss")])
def test_an_outage_of_a_single_cycle_is_no_packet_loss(monkeypatch, settings, lost, symptom):
    """All packets of the newest burst are lost, and no newer results have arrived: too few for a proven outage."""
    incident = lossy(watched()["slac → cern"])
    newest = NOW - 70 * SECOND
    level = {"unit": "loss_ratio", "now": lost / 20, "peak": lost / 20, "sent": 20, "window_s": 60.0}
    incident.paths.update(level=level | {"newest_at": newest.isoformat(), "is_stale": True})

    said = open_incidents(NOW, monkeypatch, settings)

    assert lacks(said, f"cern ↔ slac: {symptom} since", "; no newer data since 2026-11-21 12:28 UTC") == []
    assert " for " not in said
