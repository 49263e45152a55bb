"""Outages and steps that follow each other within minutes: each has an incident of its own, with its own paths."""

from __future__ import annotations

from datetime import timedelta

import pytest

from monitor.alerts.evidence import gather
from monitor.alerts.evidence.evidence import evidence
from monitor.alerts.evidence.stated import Fault
from monitor.alerts.incidents import gravest, queries
from monitor.alerts.models import Incident
from tests.db.planted_faults import ONSET, ROUND_TRIP, Planted, between, look_at, names_of, plant, site
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_worker")]


def run(rows, until_s):
    """Every 20 s where an outage is detected and once a minute else; the times with lasting incidents."""
    looks_s = sorted({*range(0, until_s, 60), *range(40, 80, 20), *range(340, 400, 20), until_s - 1})
    return [look for look in look_at(rows, looks_s) if look[2]]


@pytest.fixture
def sequence():
    """An outage of ornl, four minutes later one of slac, and during that a step between cern and desy, which stays."""
    first_s, second_at, second_s = 60, 300, 80
    faults = [
        Planted(site("ornl"), 0, first_s, lost_ratio=1.0),
        Planted(site("slac"), second_at, second_s, lost_ratio=1.0),
        Planted(between("cern", "desy"), second_at + 20, delay_ms=60.0),
    ]
    until_s = second_at + second_s + 131
    paths, rows = plant(faults, until_s)
    return paths, first_s, second_at, second_s, run(rows, until_s)


def test_outages_in_turn_and_a_step_are_stated_as_they_were(sequence):
    paths, first_s, second_at, second_s, seen = sequence
    planted = {
        "ornl": {name for name in paths if "ornl" in name},
        "slac": {name for name in paths if "slac" in name},
        "cern ↔ desy": {"cern → desy", "desy → cern"},
    }

    assert {cause for _, _, lasting in seen for cause in lasting} == planted.keys()
    last = {incident.cause: incident for incident in map(queries.incident_with_paths, ids())}
    assert {cause: names_of(incident.path_ids, paths) for cause, incident in last.items()} == planted
    assert last["slac"].summary.startswith("slac: ")
    for _, now, lasting in seen:
        for incident in lasting.values():
            assert not [row for row in incident.paths.all() if str(row.path) not in planted[incident.cause]], now
    gather.store_facts(last["cern ↔ desy"], seen[-1][1])
    assert evidence(last["cern ↔ desy"], seen[-1][1]).cause.fault is Fault.ROUTE

    for cause, at_s, lasts_s in (("ornl", 0, first_s), ("slac", second_at, second_s)):
        facts = gather.store_facts(last[cause], seen[-1][1])
        stated = evidence(last[cause], seen[-1][1])
        began, ended = ONSET + timedelta(seconds=at_s), ONSET + timedelta(seconds=at_s + lasts_s)
        assert stated.cause.fault is Fault.INTERRUPTED
        assert lacks(stated.likely, "Was interrupted", cause, "last reply", "answered again by") == []
        assert stated.began.earliest <= began <= stated.began.latest
        assert facts.ended_at == facts.answered_by
        assert ended - ROUND_TRIP <= facts.answered_by <= ended + timedelta(seconds=2)

    silent = [
        last_reply
        for _, _, lasting in seen
        if "slac" in lasting and (last_reply := gravest.unanswered_since(lasting["slac"])) is not None
    ]

    assert silent
    for last_reply in silent:
        assert (last_reply - ONSET).total_seconds() == pytest.approx(second_at, abs=2)


def ids():
    return Incident.objects.filter(merged_into=None).order_by("pk").values_list("pk", flat=True)
