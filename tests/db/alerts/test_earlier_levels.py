"""The levels of findings of a database from before tracks become tracks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from importlib import import_module

import pytest
from django.db import connection

from monitor.alerts.incidents.own_track import normal_since, own_track, peak_of
from monitor.alerts.models import Incident
from tests.db.alert_rows import make_mesh

pytestmark = pytest.mark.django_db
FOUND = datetime(2026, 11, 21, 15, 0, tzinfo=UTC)
DELAY = {"figure": "median", "before_ms": 20.0, "after_ms": 80.0}


def moment(seconds):
    return (FOUND + timedelta(seconds=seconds)).isoformat()


@pytest.mark.parametrize(
    ("rule", "figures", "level", "peak", "now", "over_s"),
    [
        ("loss", {}, {"unit": "loss_ratio", "now": 0.05, "peak": 0.2, "newest_at": moment(60)}, 0.2, 0.2, None),
        ("loss", {}, {"unit": "loss_ratio", "now": 0.0, "peak": 0.2, "over_since": moment(90)}, 0.2, 0.0, 90),
        ("rtt", DELAY, {"unit": "ms", "now": 21.0, "peak": 81.5, "over_since": moment(70)}, 81.5, 21.0, 70),
        ("rtt", DELAY, {"unit": "ms", "now": None, "peak": 81.5}, 81.5, 81.5, None),
        ("throughput", {}, {"unit": "bps", "now": 9e8, "peak": 3e6, "over_since": moment(50)}, 3e6, 9e8, 50),
    ],
)  # fmt: skip
def test_an_earlier_level_is_a_track(rule, figures, level, peak, now, over_s):
    row = stored(rule, figures, level)
    track = own_track(row)

    assert peak_of(row) == pytest.approx(peak)
    assert track.level == pytest.approx(now)
    assert normal_since(row) == (None if over_s is None else FOUND + timedelta(seconds=over_s))


@pytest.mark.parametrize("first_reply", [None, moment(40)])
def test_an_earlier_outage_is_one_of_the_track(first_reply):
    level = {"unit": "loss_ratio", "now": 1.0, "peak": 1.0, "last_reply": moment(-20), "first_reply": first_reply}
    track = own_track(stored("unreachable", {"unanswered_until": 1.0}, level))

    last, first = track.outage
    assert last.at_s == FOUND.timestamp() - 20.0
    assert track.is_dead is (first_reply is None)
    assert first_reply is None or first.at_s == FOUND.timestamp() + 40.0


def stored(rule, figures, level):
    path = make_mesh(["cern", "slac"], FOUND - timedelta(days=1))["cern → slac"]
    incident = Incident.objects.create(
        cause=str(path), rule=rule, opened_at=FOUND, is_pending=False, severity="warning", summary="", shares=[]
    )
    row = incident.paths.create(
        path=path, rule=rule, sentence="", since=FOUND, added_at=FOUND, figures=figures, level=level
    )
    with connection.cursor() as cursor:
        cursor.execute(import_module("monitor.alerts.migrations.0017_finding_track").TO_TRACKS)
    row.refresh_from_db()
    return row
