"""Statements on an outage of 22 s, in which a single cycle of the lab lost all of its packets."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta

import numpy as np
import pytest

from monitor.agents.models import AgentHealth
from monitor.alerts.evaluate import evaluate
from monitor.alerts.evidence import gather
from monitor.alerts.evidence.evidence import evidence
from monitor.alerts.evidence.stated import Fault
from monitor.alerts.evidence.words import headline
from monitor.alerts.incidents import queries
from monitor.alerts.incidents.own_track import peak_of
from monitor.alerts.models import Incident
from monitor.archive.models import Burst
from monitor.mesh.models import MeasurementPeriod, Site, Test
from monitor.web.pages.status.load import load_status
from monitor.web.templatetags.figures import incident_so_far
from tests.db.alert_rows import make_mesh
from tests.db.copied_rows import copy_rows

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_worker")]
DOWN = datetime(2026, 11, 26, 9, 10, 37, tzinfo=UTC)
UP = DOWN + timedelta(seconds=22)
DELIVERED = timedelta(seconds=12.5)


def plant(seed=5, own_test_s=(0.0, 0.0)):
    """The bursts with the time at which each arrives: of two sizes in turns, a packet every 0.5 s. Those that paths of
    nersc send in `own_test_s`, seconds after the outage began, are set aside."""
    random = np.random.default_rng(seed)
    rules = {"loss": {"above_ratio": 0.01, "window_s": 120}, "unreachable": {}}
    paths = make_mesh(("nersc", "in2p3", "ornl"), DOWN - timedelta(hours=2), **rules)
    parameters = {"count": 10, "packet_bytes": [100, 1000], "spacing_s": 0.5, "pattern": "even"}
    Test.objects.update(every_s=10, parameters=parameters)
    MeasurementPeriod.objects.update(every_s=10, packet_bytes=[100, 1000])
    rows = []
    for name, path in paths.items():
        for cycle in range(100):
            begin = DOWN - timedelta(seconds=805) + cycle * timedelta(seconds=10)
            due_s = (np.arange(20) + random.random() + random.random(20) / 3.0) * 0.5
            for number, size in enumerate((100, 1000)):
                sent_at = [begin + timedelta(seconds=at_s) for at_s in due_s[number::2].tolist()]
                rtts = [None if "ornl" not in name and DOWN <= at < UP else 150.0 for at in sent_at]
                tested = [timedelta(seconds=s) + DOWN for s in own_test_s] if "nersc" in name else [DOWN, DOWN]
                is_loaded = [tested[0] <= at < tested[1] for at in sent_at]
                loaded, kept = (
                    [rtt for rtt, of in zip(rtts, is_loaded, strict=True) if of is way] for way in (True, False)
                )
                counted = kept or loaded
                received = sum(rtt is not None for rtt in counted)
                burst = Burst(
                    path_id=path.pk, packet_bytes=size, measured_at=sent_at[0], outcome="measured", sent=len(counted),
                    received=received, duplicates=0, reordered=0, during_test=not kept, ttl=54 if received else None,
                    rtts_ms=counted, loaded_rtts_ms=loaded if kept and loaded else None,
                )  # fmt: skip
                rows.append((begin + DELIVERED + timedelta(seconds=4 * number), burst))
    return sorted(rows, key=lambda row: row[0])


def is_near(text, before, truth):
    clock = re.search(rf"{before}(?:\d{{4}}-\d\d-\d\d )?(\d\d:\d\d:\d\d)", text)
    assert clock, (before, text)
    at = datetime.combine(DOWN.date(), time.fromisoformat(clock[1]), UTC)
    return abs((at - truth).total_seconds()) <= 1.5


def test_an_outage_shorter_than_two_whole_cycles_is_one(monkeypatch):
    rows, number, stated, shown, causes = plant(), 0, 0, [], []
    for seconds in (-20, 20, 30, 37, 47, 57, 67, 87, 107, 127, 160):
        now = DOWN + timedelta(seconds=seconds)
        arrived = [burst for arrives_at, burst in rows[number:] if arrives_at < now]
        number += len(arrived)
        copy_rows(arrived)
        for site in Site.objects.all():
            reported = {"accepted_at": now, "agent_version": "1", "queued": 0, "dropped": 0}
            AgentHealth.objects.update_or_create(site=site, defaults=reported)
        evaluate(now)
        monkeypatch.setattr("django.utils.timezone.now", lambda now=now: now)
        gather.gather_due(now)
        for incident in [queries.incident_with_paths(pk) for pk in Incident.objects.values_list("pk", flat=True)]:
            title, facts = headline(incident), evidence(incident, now)
            if incident.closed_at is None and seconds >= 47:
                stated += 1
                assert is_near(title, "answers again since ", UP), title
                assert is_near(title, "dead from ", DOWN), title
            if facts.gathered_at is not None and seconds >= 47:
                causes.append(facts.cause.fault)
                assert is_near(facts.cause.sentence, "last reply ", DOWN), facts.cause
            status = load_status(now + timedelta(seconds=3))
            shown += [public.symptom for public in (*status.open, *status.past)]
    assert stated >= 2
    assert len(causes) >= 2
    assert set(causes) == {Fault.INTERRUPTED}
    assert set(shown) == {"no reply"}

    rows_of = list(incident.paths.all())
    assert {peak_of(row) for row in rows_of} == {1.0}


@pytest.mark.parametrize(("seed", "own_test_s"), [(5, (13.0, 18.0)), (6, (9.0, 14.0)), (7, (18.0, 23.0))])
def test_an_outage_has_one_end_on_all_places(seed, own_test_s):
    """Whichever packets an own test sets aside: the title's, that of the cause, the table's, and that of the end."""
    rows, number, ends = plant(seed, own_test_s), 0, 0
    for seconds in (20, 37, 47, 57, 77, 107, 137, 167):
        now = DOWN + timedelta(seconds=seconds)
        arrived = [burst for arrives_at, burst in rows[number:] if arrives_at < now]
        number += len(arrived)
        copy_rows(arrived)
        evaluate(now)
        gather.gather_due(now)
        for incident in [queries.incident_with_paths(pk) for pk in Incident.objects.values_list("pk", flat=True)]:
            facts = evidence(incident, now)
            if incident.closed_at is None and "answers again" in headline(incident):
                assert "ongoing" not in incident_so_far(incident, now), headline(incident)
            if "answered again by" not in facts.likely or seconds < 57:
                continue
            ends += 1
            before = " to" if incident.closed_at else "answers again since"
            clock = re.search(rf"{before} (?:\d{{4}}-\d\d-\d\d )?(\d\d:\d\d:\d\d)", headline(incident))
            assert clock is not None, headline(incident)
            to = datetime.combine(DOWN.date(), time.fromisoformat(clock[1]), UTC)
            assert UP - timedelta(seconds=1) <= to <= UP + timedelta(seconds=1.5), headline(incident)
            assert f"answered again by {to:%Y-%m-%d %H:%M:%S}" in facts.likely
            tables = [side.after.until for path in facts.paths for side in (path.there, path.back)]
            assert {at.replace(microsecond=0) for at in tables} == {to}, (to, tables)
    assert ends >= 2


@pytest.mark.parametrize("seed", [1, 2])
def test_no_packet_of_the_outage_is_in_the_baseline(seed):
    """The rest of the cycle in which it began is lost in bursts that began before the first lost packet of another."""
    copy_rows(burst for arrives_at, burst in plant(seed) if arrives_at < DOWN + timedelta(seconds=57))
    for seconds in (37, 57):
        evaluate(DOWN + timedelta(seconds=seconds))
    (incident,) = queries.lasting_incidents()

    facts = gather.store_facts(incident, DOWN + timedelta(seconds=57))

    before = [direction.before for path in facts.paths for direction in (path.there, path.back)]
    assert [(figures.lost, figures.sent > 1000) for figures in before] == [(0, True)] * 2
