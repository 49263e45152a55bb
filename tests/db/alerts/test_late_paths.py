"""A site's outage while some of its paths have no newer data. Packets from before the outage do not count against it,
and whoever was notified of a pair of sites is told at once that it is one site."""

from __future__ import annotations

import pytest

from monitor.alerts.evidence import words
from monitor.alerts.models import Incident, Notification
from monitor.alerts.notify import incident_text
from tests.db import planted_faults
from tests.db.copied_rows import copy_rows
from tests.db.planted_faults import Planted, at, look_at, plant, site
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_worker")]
RULES = {"loss": {"above_ratio": 0.01, "window_s": 600}}
FIRST = ("cern → ornl", "desy → ornl", "ornl → nersc", "ornl → slac")


@pytest.fixture(autouse=True)
def five_sites(monkeypatch):
    monkeypatch.setattr(planted_faults, "SITES", ("cern", "desy", "nersc", "ornl", "slac"))


def late_paths(paths, first):
    return {path.pk for name, path in paths.items() if "ornl" in name.split(" → ") and name not in first}


def test_packets_from_before_an_outage_are_no_evidence_against_its_site():
    """Of eight paths of ornl four show the outage; the newest bursts of the others are from half a minute before it."""
    paths, rows = plant([Planted(site("ornl"), 0.0, lost_ratio=1.0)], 100, **RULES)
    late = late_paths(paths, FIRST)
    delivered = [row for row in rows if row.path_id not in late or row.measured_at <= at(-30)]

    causes = [set(lasting) for _, _, lasting in look_at(delivered, range(30, 100, 10))]

    assert causes[-1] == {"ornl"}, causes
    (incident,) = Incident.objects.all()
    assert lacks(incident.summary, "ornl", "4 of 8 paths") == []


def test_paths_that_answer_all_the_while_still_speak_against_the_site():
    """The same four paths are cut, the others of ornl are not."""
    hits = {tuple(name.split(" → ")) for name in FIRST}
    _, rows = plant([Planted(lambda a, b: (a, b) in hits, 0.0, lost_ratio=1.0)], 100, **RULES)

    causes = [set(lasting) for _, _, lasting in look_at(rows, range(30, 100, 10))]

    assert causes[-1]
    assert not any("ornl" in of for of in causes), causes


def test_an_update_is_sent_once_where_an_incident_of_a_pair_becomes_one_of_a_site(settings):
    """One path shows the outage first; the bursts of the others arrive together 90 s after its begin. After its end and
    a while it comes again."""
    settings.NOTIFY_URLS = ["ops=webhook+http://127.0.0.1:9/hook"]
    outages = [Planted(site("ornl"), 0.0, 150.0, lost_ratio=1.0), Planted(site("ornl"), 300.0, 100.0, lost_ratio=1.0)]
    paths, rows = plant(outages, 900, **RULES)
    late = late_paths(paths, ("cern → ornl",))
    is_held = {row: row.path_id in late and at(-20) < row.measured_at < at(80) for row in rows}
    held = [row for row in rows if is_held[row]]
    told = []

    for at_s, _, lasting in look_at([row for row in rows if not is_held[row]], range(30, 900, 10)):
        if at_s == 90:
            copy_rows(held)
        Notification.objects.update(state="sent", attempts=1)
        changes = list(Notification.objects.order_by("pk").values_list("change", "symptom", "reopening"))
        for incident in lasting.values():
            told.append((at_s, incident.cause, changes, words.headline(incident)))

    opened = next(number for number, (_, _, changes, _) in enumerate(told) if changes)
    assert told[opened][1] == "cern ↔ ornl"
    wider = next(number for number, (_, cause, _, _) in enumerate(told) if cause == "ornl")
    at_s, _, changes, title = told[wider]
    assert (at_s, changes) == (100, [("opened", "", 0), ("worsened", "", 0)])
    assert lacks(title, "ornl: 8 of 8 paths dead since 15:06:") == []
    changes = list(Notification.objects.order_by("pk").values_list("change", "symptom", "reopening"))
    assert changes.count(("worsened", "", 0)) == 1
    assert {change for change, *_ in changes} <= {"opened", "worsened", "closed", "reopened"}
    incident = Incident.objects.order_by("pk").first()
    assert incident_text.subject(incident, "worsened").startswith("WORSE")
