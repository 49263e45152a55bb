"""Outages and steps that follow each other within minutes: each has an incident of its own, with its own paths."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from monitor.alerts.evaluate import evaluate
from monitor.alerts.evidence import gather, words
from monitor.alerts.evidence.evidence import evidence
from monitor.alerts.evidence.stated import Fault
from monitor.alerts.incidents import queries
from monitor.alerts.models import Incident
from monitor.archive.models import Burst
from monitor.mesh.models import MeasurementPeriod, Test
from tests.db.alert_rows import make_mesh
from tests.facts import lacks

pytestmark = pytest.mark.django_db
ONSET = datetime(2026, 11, 21, 15, 6, 6, tzinfo=UTC)
SITES = ("cern", "desy", "ornl", "slac")
EVERY_S = 10
HISTORY = timedelta(minutes=15)
DELIVERED = timedelta(seconds=13)
"""After the begin of a burst: ten packets a second apart, and their timeout."""
ROUND_TRIP = timedelta(seconds=0.1)


@dataclass(frozen=True)
class Planted:
    """Of packets between two sites for `lasts_s` from `at_s` on."""

    hits: Callable[[str, str], bool]
    at_s: float
    lasts_s: float = 1e9
    lost_ratio: float = 0.0
    delay_ms: float = 0.0


def site(name: str) -> Callable[[str, str], bool]:
    return lambda a, b: name in (a, b)


def between(x: str, y: str) -> Callable[[str, str], bool]:
    return lambda a, b: {a, b} == {x, y}


def plant(faults, until_s, seed=0):
    random = np.random.default_rng(seed)
    paths = make_mesh(SITES, ONSET - timedelta(days=2), loss={}, unreachable={}, rtt={})
    Test.objects.update(every_s=EVERY_S, parameters={"count": 10, "packet_bytes": [100], "spacing_s": 1.0})
    MeasurementPeriod.objects.update(every_s=EVERY_S, packet_bytes=[100])
    rows = []
    for name, path in paths.items():
        ends = name.split(" → ")
        first_s = -HISTORY.total_seconds() + float(random.uniform(0, EVERY_S))
        for at_s in np.arange(first_s, until_s, EVERY_S).tolist():
            sent_s = at_s + np.arange(10)
            rtts = 20.0 + random.exponential(0.3, 10)
            lost = random.random(10) < 1e-4
            for fault in faults:
                if fault.hits(*ends):
                    active = (sent_s >= fault.at_s) & (sent_s < fault.at_s + fault.lasts_s)
                    rtts += fault.delay_ms * active
                    lost |= active & (random.random(10) < fault.lost_ratio)
            values = [None if gone else round(rtt, 3) for gone, rtt in zip(lost.tolist(), rtts.tolist(), strict=True)]
            received = int((~lost).sum())
            rows.append(
                Burst(
                    path_id=path.pk, packet_bytes=100, measured_at=ONSET + timedelta(seconds=at_s), outcome="measured",
                    sent=10, received=received, duplicates=0, reordered=0, during_test=False,
                    ttl=54 if received else None, rtts_ms=values,
                )
            )  # fmt: skip
    return paths, sorted(rows, key=lambda row: row.measured_at)


def names_of(path_ids, paths):
    return {name for name, path in paths.items() if path.pk in path_ids}


def run(rows, until_s):
    """Evaluate with the bursts that have arrived by then, every 20 s where an outage is detected and once a minute
    else; the lasting incidents at each time, by cause."""
    number, seen = 0, []
    for at_s in sorted({*range(0, until_s, 60), *range(40, 80, 20), *range(340, 400, 20), until_s - 1}):
        now = ONSET + timedelta(seconds=at_s)
        arrived = [row for row in rows[number:] if row.measured_at < now - DELIVERED]
        number += len(arrived)
        Burst.objects.bulk_create(arrived)
        evaluate(now)
        gather.gather_due(now)
        lasting = {incident.cause: incident for incident in queries.lasting_incidents()}
        if lasting:
            seen.append((at_s, now, lasting))
    return seen


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
        assert facts.ended_at - ROUND_TRIP <= ended <= facts.answered_by

    silent = [
        (at_s - second_at, words.brief(lasting["slac"], now), words.symptom(lasting["slac"]))
        for at_s, now, lasting in seen
        if "slac" in lasting and words.is_unanswered(lasting["slac"])
    ]

    assert silent
    for lasted_s, brief, symptom in silent:
        said_s = int(re.search(r"no reply for (\d+) s", brief)[1])
        assert lasted_s - 1 <= said_s <= lasted_s + 2
        last_reply = datetime.fromisoformat(f"{symptom.removeprefix('no reply since ')[:19]}+00:00")
        assert (last_reply - ONSET).total_seconds() == pytest.approx(second_at, abs=2)


def ids():
    return Incident.objects.filter(merged_into=None).order_by("pk").values_list("pk", flat=True)
