"""The other paths of a dead site are those outside its incident; those with too few packets are not called normal."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from monitor.alerts import evaluate as evaluation
from monitor.alerts.detect import causes
from monitor.alerts.detect.shares import Share
from monitor.alerts.incidents import queries
from monitor.mesh.models import Path
from monitor.present import read
from monitor.present.track import Condition
from tests.db.site_outage_rows import DOWN, SiteOutage, evaluate_at

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_worker")]

OF_SITE = ["no other path from in2p3", "no other path to in2p3", "all other paths normal (12 paths)"]
ANSWERING = "in2p3 → cern", "cern → in2p3", "ornl → in2p3"


class Outage(SiteOutage):
    """Of in2p3, except for these paths from so many seconds after its begin on."""

    answering = ()
    from_s = 0.0

    def is_lost(self, name, size, at):
        return at >= DOWN and not (name in self.answering and at >= DOWN + timedelta(seconds=self.from_s))


def plant(until_s, answering=(), from_s=0.0):
    outage = type("OfTest", (Outage,), {"answering": answering, "from_s": from_s})
    return outage(DOWN + timedelta(hours=1), lambda name, at: False).plant(until_s)


def texts(incident):
    return [Share(**share).text for share in incident.shares]


def incidents_of_site(rows, looks_s):
    for at_s, _ in evaluate_at(rows, looks_s):
        yield from ((at_s, of) for of in queries.lasting_incidents() if of.cause == "in2p3")


def test_a_site_that_is_dead_has_no_other_path():
    told = [incident for _, incident in incidents_of_site(plant(100), range(20, 100, 10))]

    assert told
    assert [texts(incident) for incident in told] == [OF_SITE] * len(told)


def test_two_groups_of_one_cause_count_all_their_paths(monkeypatch):
    """Paths whose losses have different times are grouped apart, and may have one cause."""
    find = causes.find_causes

    def in_halves(*args):
        for group in find(*args):
            half = len(group.findings) // 2
            for findings in (group.findings[:half], group.findings[half:]):
                if findings:
                    yield replace(group, findings=findings)

    monkeypatch.setattr(evaluation.causes, "find_causes", lambda *args: list(in_halves(*args)))

    _, incident = next(iter(incidents_of_site(plant(60), range(20, 60, 10))))

    assert len(set(incident.path_ids)) == 8
    assert texts(incident) == OF_SITE


def test_paths_that_have_left_the_incident_are_not_other_paths():
    *_, (_, incident) = incidents_of_site(plant(400, ANSWERING[:2], 60.0), range(20, 400, 20))

    back = {str(row.path) for row in incident.paths.all() if row.is_over}
    back -= {str(row.path) for row in incident.paths.all() if not row.is_over}
    assert back == set(ANSWERING[:2])
    assert texts(incident) == OF_SITE


def test_paths_with_too_few_packets_are_not_called_normal():
    """Three paths of the site answer, since a minute and a half after a gap: 180 packets each, of 300."""
    rows = plant(100, ANSWERING)
    few = {path.pk for path in Path.objects.with_hosts() if str(path) in ANSWERING}
    begin = DOWN - timedelta(seconds=60)
    rows = [(at, burst) for at, burst in rows if burst.path_id not in few or burst.measured_at >= begin]

    told = list(incidents_of_site(rows, range(20, 50, 10)))

    assert told
    assert {path.condition for path in read.load(few).values()} == {Condition.AWAITED}
    for _, incident in told:
        assert texts(incident)[:2] == [
            "other paths from in2p3: not clear yet for 1 of 1 path",
            "other paths to in2p3: not clear yet for 2 of 2 paths",
        ]
