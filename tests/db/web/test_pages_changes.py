"""Changes of a path's plan and route: marked in its charts, listed in words, the same in its files and the API."""

from __future__ import annotations

import csv
import json
import re
from datetime import timedelta
from html import unescape

import pytest

from monitor.alerts.models import Incident, IncidentPath
from monitor.archive.queries.ttl_changes import LEAST_BURSTS, TtlChange, ttl_changes
from monitor.mesh.models import Measurement, MeasurementPeriod
from monitor.mesh.queries import PlanChange, TestSchedule, plan_changes
from monitor.overview.changes import changes_of, plan_words, route_words
from tests.db.pages_mesh import HOUR, MINUTE, NOW, burst, chart_spec
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]
DAY = timedelta(days=1)


@pytest.fixture
def path(paths):
    return paths["slac", "cern"]


@pytest.fixture
def get(client):
    def fetch(address):
        answer = client.get(address, headers={"host": "localhost"})
        assert answer.status_code == 200, answer.content
        return unescape(answer.content.decode())

    return fetch


def ran(path, test, since, until, every_s=60, sizes=(100, 1000)):
    """Store a planned period of a path's test."""
    return MeasurementPeriod.objects.create(
        measurement=Measurement.objects.get(path=path, test__name=test),
        every_s=every_s,
        packet_bytes=list(sizes),
        started_at=since,
        ended_at=until,
    )


def answered(path, ttls, **fields):
    """A burst per minute from `HOUR` on, whose replies had these TTLs."""
    for minute, ttl in enumerate(ttls):
        burst(path, HOUR + minute * MINUTE, 10.0, ttl=ttl, **fields)


def chart(html, name, rows):
    datasets = chart_spec(html, name)["datasets"]
    return [(row["t"] / 1000 - HOUR.timestamp(), row["label"]) for row in datasets[rows]]


def test_a_test_begins_changes_and_ends(path, paths):
    ran(path, "pinger", HOUR, HOUR + MINUTE)
    ran(path, "pinger", HOUR + MINUTE, HOUR + 2 * MINUTE, every_s=30, sizes=(100,))
    ran(paths["cern", "slac"], "pinger", HOUR, None)

    schedule_changes = plan_changes(path.pk, HOUR, NOW)

    first, second = TestSchedule(60, (100, 1000)), TestSchedule(30, (100,))
    assert schedule_changes == [
        PlanChange(HOUR, "pinger", None, first),
        PlanChange(HOUR + MINUTE, "pinger", first, second),
        PlanChange(HOUR + 2 * MINUTE, "pinger", second, None),
    ]
    assert plan_changes(path.pk, HOUR + MINUTE, HOUR + 2 * MINUTE) == [schedule_changes[1]]


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        (None, TestSchedule(60, (100, 1000)), "pinger begins: every 60 s, 100 and 1000 bytes"),
        (TestSchedule(3600, ()), None, "pinger ends"),
        (
            TestSchedule(60, (100,)),
            TestSchedule(1800, (100,)),
            "pinger: every 30 min, 100 bytes, was every 60 s, 100 bytes",
        ),
        (
            TestSchedule(60, (100,)),
            TestSchedule(60, (100,), "even"),
            "pinger: every 60 s, 100 bytes, even spacing, was every 60 s, 100 bytes",
        ),
    ],
)
def test_a_change_of_plan_has_a_sentence(before, after, sentence):
    assert plan_words(PlanChange(HOUR, "pinger", before, after)) == sentence


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        # A reply sent with 64 that arrives with 52 passed 12 routers.
        (52, 50, "route back changed, 12 to 14 hops: the TTL of replies went from 52 to 50"),
        (115, 118, "route back changed, 13 to 10 hops: the TTL of replies went from 115 to 118"),
        (52, 243, "route changed, or another system answers: the TTL of replies went from 52 to 243"),
        (255, 254, "route back changed, 0 to 1 hops: the TTL of replies went from 255 to 254"),
    ],
)
def test_a_change_of_route_has_a_sentence_with_its_evidence(before, after, sentence):
    assert route_words(before, after) == sentence


def test_a_route_changed_when_another_ttl_persists(path):
    answered(path, [52, 52, 52, 50, 50, 50, 50])

    assert ttl_changes(path.pk, 100, HOUR, NOW) == [TtlChange(HOUR + 3 * MINUTE, 52, 50)]


@pytest.mark.parametrize(
    "ttls",
    [
        [52] * 5 + [50] * (LEAST_BURSTS - 1) + [52] * 5,
        [52, 50] * 6,
        [52] * 4 + [None] * 4 + [52] * 4,
        [],
    ],
    ids=["few", "in turn", "unanswered", "none"],
)
def test_a_ttl_that_does_not_persist_is_no_change(path, ttls):
    answered(path, ttls)

    assert ttl_changes(path.pk, 100, HOUR, NOW) == []


def test_sizes_with_different_routes_are_kept_separate(path):
    answered(path, [52] * 5)
    answered(path, [50] * 5, packet_bytes=1000)

    assert ttl_changes(path.pk, 100, HOUR, NOW) == ttl_changes(path.pk, 1000, HOUR, NOW) == []


def test_raw_bursts_of_more_than_a_day_are_not_read(path):
    with pytest.raises(ValueError, match="more than a day"):
        ttl_changes(path.pk, 100, NOW - 2 * DAY, NOW)


def test_changes_are_marked_in_every_chart_and_listed(get, path):
    answered(path, [52] * 3 + [50] * 3)
    ran(path, "pinger", HOUR + MINUTE, None)
    ran(path, "tcp", HOUR + MINUTE, None, every_s=3600, sizes=())

    html = get(f"/paths/{path.pk}/?period=hour")

    pinger, tcp = TestSchedule(60, (100, 1000)), TestSchedule(3600, ())
    begun = [PlanChange(HOUR + MINUTE, "pinger", None, pinger), PlanChange(HOUR + MINUTE, "tcp", None, tcp)]
    plan = "; ".join(plan_words(change) for change in begun)
    route = route_words(52, 50)
    for name in ("rtt", "throughput"):
        assert chart(html, name, "plan-change") == [(60.0, plan)]
        assert chart(html, name, "route-change") == [(180.0, route)]
    words = re.sub(r"<[^>]+>", "", re.search(r'<ul class="changes">(.*?)</ul>', html, re.DOTALL)[1])
    assert words.split("◆")[1].split("⇄") == [f" 2026-11-21 12:01 UTC: {plan}", f" 2026-11-21 12:03 UTC: {route}"]


def test_without_changes_the_page_says_so(get, path):
    html = get(f"/paths/{path.pk}/?period=hour")

    sentence = re.search(r"No [^.<]*change[^.<]*", html)[0]
    assert lacks(sentence, "schedule", "route", "last hour") == []


def test_files_and_api_have_the_marked_changes(get, path):
    answered(path, [52] * 3 + [50] * 3)
    ran(path, "pinger", HOUR, None)

    rows = list(csv.DictReader(get(f"/paths/{path.pk}/changes.csv?period=hour").splitlines()))
    api_rows = json.loads(get(f"/api/v1/paths/{path.pk}/changes?since=2026-11-21T11:30:00Z&until=2026-11-21T12:30:00Z"))

    assert rows == api_rows
    assert [(row["at"], row["kind"]) for row in rows] == [
        ("2026-11-21T12:00:00Z", "plan"),
        ("2026-11-21T12:03:00Z", "route"),
    ]


def risen(path, ttl_before, ttl_after, since=HOUR):
    incident = Incident.objects.create(
        rule="rtt", cause="x", opened_at=since + 5 * MINUTE, closed_at=NOW, summary="RTT rose"
    )
    for rule in ("rtt", "rtt_min"):
        IncidentPath.objects.create(
            incident=incident,
            path=path,
            added_at=NOW,
            rule=rule,
            sentence="RTT rose",
            since=since,
            figures={"ttl_before": ttl_before, "ttl_after": ttl_after},
            is_over=True,
        )


def test_a_change_of_a_merged_incident_is_listed_once(path):
    for _ in ("the part", "the whole"):
        risen(path, 52, 50)

    assert [change.at for change in changes_of(path.pk, 100, NOW - 2 * DAY, NOW, Incident.objects.all())] == [HOUR]


def test_beyond_a_day_routes_come_from_incidents(get, path, paths):
    risen(path, 52, 50)
    risen(path, 50, 50, HOUR + MINUTE)
    risen(path, None, 50, HOUR + 2 * MINUTE)
    risen(paths["cern", "slac"], 60, 50)

    html = get(f"/paths/{path.pk}/?period=week")

    assert chart(html, "rtt", "route-change") == [(0.0, route_words(52, 50))]
    assert lacks(html, "more than a day", "only from incidents") == []
