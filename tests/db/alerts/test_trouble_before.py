"""An incident tells of its own trouble, not of one before it that had ended."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from monitor.alerts.evidence.titles import title_of
from monitor.alerts.incidents import lasting_state, queries
from monitor.alerts.incidents.own_present import load_present, over_since, own_present
from monitor.alerts.models import Incident
from monitor.analysis.segments.stretches import CLEAN, DEAD
from monitor.present.conditions import Condition
from monitor.present.models import copy_of
from monitor.present.track import Signal, Track
from monitor.web.pages.status.load import load_status
from tests.db.alert_rows import make_mesh
from tests.db.track_rows import segment, store_track

pytestmark = pytest.mark.django_db
FOUND = datetime(2026, 11, 21, 15, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def path():
    return make_mesh(["cern", "slac"], FOUND - timedelta(days=1), loss={"above_ratio": 0.01})["cern → slac"]


def found(path, since):
    incident = Incident.objects.create(
        cause=str(path), rule="loss", opened_at=FOUND, is_pending=False, severity="warning", summary="", shares=[]
    )
    figures = {"sent": 40, "lost": 3, "threshold_ratio": 0.01}
    incident.paths.create(path=path, rule="loss", sentence="", since=since, added_at=FOUND, figures=figures)
    return incident


def outage(path, condition, *further):
    """An outage of a minute a quarter of an hour before the finding, and what followed it."""
    begun_s = (FOUND - 15 * MINUTE).timestamp()
    clean = segment(CLEAN, begun_s + 60.0, 600)
    store_track(
        path, condition, segment(CLEAN, begun_s - 600.0, 600), segment(DEAD, begun_s, 60, 60), clean, *further,
        newest_s=FOUND.timestamp(),
    )  # fmt: skip


def told(incident):
    own = own_present(incident, load_present([incident]))
    return title_of(incident, own, FOUND), over_since(own)


def test_a_finding_of_a_clean_path_is_not_over_since_the_outage_before(path):
    outage(path, Condition.NORMAL)
    title, over = told(found(path, FOUND - MINUTE))

    assert "7.5%" in title
    assert "answers again" not in title
    assert over is None


def test_a_finding_of_the_outage_is_over_since_its_end(path):
    outage(path, Condition.NORMAL)
    title, over = told(found(path, FOUND - 15 * MINUTE))

    assert title == "cern → slac answers again since 14:46:00 UTC; dead from 14:45:00 UTC"
    assert over == FOUND - 14 * MINUTE


def test_the_status_page_says_no_reply_of_none_that_replies(path):
    outage(path, Condition.BAD, segment(1, FOUND.timestamp() - 60.0, 100, 20))
    incident = found(path, FOUND - 16 * MINUTE)
    incident.paths.update(rule="unreachable", figures={"unanswered_until": FOUND.timestamp()})
    (public,) = load_status(FOUND).open

    assert public.symptom == "packet loss"


@pytest.mark.parametrize(("states", "has_relapsed"), [((0,), False), ((1, 0), False), ((1, 0, 1), True)])
def test_a_finding_has_relapsed_once_it_is_bad_again(path, states, has_relapsed):
    """Not while its path is clean, as after a gap, in which the track began anew."""
    incident, begun_s = found(path, FOUND - MINUTE), FOUND.timestamp() + 10.0
    segments = tuple(segment(state, begun_s + 60.0 * number, 100, 20 * state) for number, state in enumerate(states))
    condition = Condition.BAD if states[-1] else Condition.NORMAL
    incident.paths.update(level=copy_of(Track(path.pk, Signal.LOSS, "", 0, condition, begun_s + 300.0, segments)))
    state = lasting_state.of_incident(queries.incident_with_paths(incident.pk), FOUND + 10 * MINUTE)

    assert bool(state.relapsed) is has_relapsed
