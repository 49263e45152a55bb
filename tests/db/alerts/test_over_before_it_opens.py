"""A loss of 40 s is over before its incident opens: it is kept, and told in the past."""

from __future__ import annotations

import re
from datetime import datetime, time, timedelta

import numpy as np
import pytest

from monitor.alerts.evidence.evidence import evidence
from monitor.alerts.incidents import queries
from monitor.alerts.models import HistoryEvent, Incident, IncidentTurn, Notification
from monitor.alerts.notify import incident_text
from tests.db.site_outage_rows import DOWN, SiteOutage, evaluate_at
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_worker")]
PAIR = ("nersc → in2p3", "in2p3 → nersc")
LASTS_S, CYCLE_S = 40.0, 10.0


class PairLoss(SiteOutage):
    """A quarter of the packets between two sites is lost, for 40 s, and again from `stray_at` on."""

    random = np.random.default_rng(0)

    def is_lost(self, name, size, at):
        is_on = DOWN <= at < self.up or (self.stray_at is not None and at >= self.stray_at)
        return name in PAIR and is_on and self.random.random() < 0.25


def plant(seed, up, until_s, again_at=None):
    PairLoss.random = np.random.default_rng(seed)
    return PairLoss(up, lambda name, at: False, again_at).plant(until_s)


def seconds_of(clock):
    return (datetime.combine(DOWN.date(), time.fromisoformat(clock), DOWN.tzinfo) - DOWN).total_seconds()


def open_after_each(rows, times_s):
    """After each evaluation the open incidents, and the time of their messages."""
    for at_s, at in evaluate_at(rows, times_s):
        for incident in queries.open_incidents():
            yield at_s, at, incident


@pytest.mark.parametrize("seed", [1, 2])
def test_a_loss_that_is_over_is_told_in_the_past(seed, settings):
    settings.NOTIFY_URLS = ["ops=webhook+http://127.0.0.1:9/hook"]
    rows, over = plant(seed, DOWN + timedelta(seconds=LASTS_S), 300), {}

    for at_s, at, incident in open_after_each(rows, range(20, 310, 10)):
        over[at_s] = incident.over_since
        if incident.over_since is None:
            continue
        title, body = (
            incident_text.subject(incident, "opened"),
            incident_text.body(incident, "opened", evidence(incident, at)),
        )
        assert lacks(title, "OVER", "in2p3 ↔ nersc: no more loss since") == []
        assert not re.search(r"\bnow\b", title + body), title + body
        began = re.search(r"Began: \S+ (\S+) UTC \(95% CI (\S+)–(\S+);", body)
        at_s, earliest_s, latest_s = map(seconds_of, began.groups())
        assert abs(at_s) <= CYCLE_S, body
        assert earliest_s <= 0.0 <= latest_s + 1.0, body
        assert LASTS_S - 10.0 <= (incident.over_since - DOWN).total_seconds() <= LASTS_S + 15.0, body

    first_s = next(at_s for at_s, over_since in over.items() if over_since)
    assert first_s <= LASTS_S + 60.0
    assert all(over_since for at_s, over_since in over.items() if at_s >= first_s)
    assert Incident.objects.get().closed_at is not None
    assert [*Notification.objects.order_by("pk").values_list("change", flat=True)] == ["opened", "closed"]
    raised = IncidentTurn.objects.filter(turn=HistoryEvent.WORSENED)
    assert not raised.filter(at__gte=DOWN + timedelta(seconds=first_s)).exists()


def test_a_loss_that_goes_on_opens_as_before():
    opened = [
        (at_s, incident)
        for at_s, _, incident in open_after_each(plant(1, DOWN + timedelta(hours=1), 100), range(20, 100, 10))
    ]

    at_s, incident = opened[0]
    assert at_s <= 70
    assert incident.severity == "critical"
    assert (DOWN + timedelta(seconds=at_s) - incident.opened_at).total_seconds() <= 30


def test_a_loss_that_comes_again_is_critical_then():
    rows = plant(1, DOWN + timedelta(seconds=LASTS_S), 220, DOWN + timedelta(seconds=100))

    incidents = [incident for _, _, incident in open_after_each(rows, range(20, 220, 10))]

    assert len({incident.pk for incident in incidents}) == 1
    assert (incidents[-1].severity, incidents[-1].over_since) == ("critical", None)
