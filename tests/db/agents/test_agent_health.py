"""The agents' health from their deliveries: the newest of each site, and periods with a wrong clock."""

from datetime import timedelta
from itertools import pairwise

import msgspec
import pytest
from django.db import connection
from django.utils import timezone

from monitor.agents.health import AgentReport, ClockWasOff, Iperf3OfSites, agent_reports, clock_off_periods, record
from monitor.agents.models import AgentHealth, issue_token
from monitor.archive.models import Burst, ReceivedBatch
from probes.site.health import ClockOff, Health, InterfaceDrops, KernelClock
from tests.db.mesh_of_three import HOUR, NOW, batch, burst, delivered, make_mesh
from tests.deliveries import arrival_of

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)
HEALTH = Health(
    clock_offset_s=0.003,
    clock_uncertainty_s=0.001,
    kernel_clock=KernelClock(
        state="ok", is_synchronised=True, offset_s=1e-6, frequency_ppm=-3.5, max_error_s=0.002, estimated_error_s=1e-5
    ),
    load_1min=0.25,
    cpus=4,
    stamp="kernel",
    lost_ticks=2,
    drops=(InterfaceDrops(interface="eth0", received=5, sent=0),),
)


@pytest.fixture
def mesh():
    return make_mesh()


def deliver(site, health, now=NOW, **fields):
    record(site.pk, arrival_of(batch(health=health, **fields)), now)


def deliver_off(site, since, until, offset_s=-3.0):
    deliver(site, Health(clock_off=ClockOff(since=since, until=until, offset_s=offset_s)))


def test_the_newest_health_of_each_site_has_its_age(mesh):
    deliver(mesh.slac, Health(lost_ticks=1), now=NOW - MINUTE)
    deliver(mesh.slac, HEALTH, queued=7, dropped=2)
    deliver(mesh.cern, None, agent_version="0.0.9")

    assert agent_reports(NOW + MINUTE) == [
        AgentReport(mesh.cern.pk, "cern", NOW, MINUTE, "0.0.9", 0, 0, None),
        AgentReport(mesh.slac.pk, "slac", NOW, MINUTE, "0.1.0", 7, 2, HEALTH),
    ]


def test_the_iperf3_version_of_each_site_is_that_of_its_agent(mesh):
    deliver(mesh.slac, Health(iperf3="3.12"))
    deliver(mesh.cern, HEALTH)
    deliver(mesh.slac_anl.destination.site, None)
    assert Iperf3OfSites() == {mesh.slac.pk: "3.12"}

    AgentHealth.objects.filter(site=mesh.cern).update(health={"cpus": 4})
    deliver(mesh.slac, Health(iperf3="3.22"), now=NOW + MINUTE)

    assert Iperf3OfSites() == {mesh.slac.pk: "3.22"}, "cern's agent is older than the field"


def test_a_late_delivery_does_not_replace_a_newer_health(mesh):
    deliver(mesh.slac, HEALTH)

    deliver(mesh.slac, Health(), now=NOW - MINUTE)

    assert [report.health for report in agent_reports(NOW)] == [HEALTH]


@pytest.mark.parametrize(
    ("offset_s", "uncertainty_s", "is_off"),
    [(None, None, False), (0.9, 0.0, False), (1.2, 0.1, True), (-1.2, 0.1, True), (1.2, 0.5, False)],
)
def test_a_clock_is_off_only_if_surely_over_a_second(mesh, offset_s, uncertainty_s, is_off):
    deliver(mesh.slac, Health(clock_offset_s=offset_s, clock_uncertainty_s=uncertainty_s))

    assert [report.clock_is_off for report in agent_reports(NOW)] == [is_off]


def test_adjacent_stretches_with_a_wrong_clock_are_one_period(mesh):
    deliver_off(mesh.slac, HOUR, HOUR + MINUTE, -3.0)
    deliver_off(mesh.slac, HOUR + 2 * MINUTE, HOUR + 4 * MINUTE, -3.5)
    deliver_off(mesh.slac, HOUR + 30 * MINUTE, HOUR + 31 * MINUTE, 2.0)
    deliver_off(mesh.cern, HOUR + MINUTE, HOUR + MINUTE, 9.0)

    assert clock_off_periods(HOUR, HOUR + timedelta(hours=1)) == [
        ClockWasOff(mesh.slac.pk, HOUR, HOUR + 4 * MINUTE, -3.5),
        ClockWasOff(mesh.cern.pk, HOUR + MINUTE, HOUR + MINUTE, 9.0),
        ClockWasOff(mesh.slac.pk, HOUR + 30 * MINUTE, HOUR + 31 * MINUTE, 2.0),
    ]


@pytest.mark.parametrize("at_once", [False, True])
def test_steps_of_a_clock_are_periods_with_their_own_offsets(mesh, at_once):
    steps_s = (3600.0, -3600.0, 86_400.0, -86_400.0, 3.0, 5.0)
    starts = [HOUR + 2.5 * place * MINUTE for place in range(len(steps_s))]
    periods = [
        ClockOff(since=since, until=since + MINUTE, offset_s=offset_s)
        for since, offset_s in zip(starts, steps_s, strict=True)
    ]

    for _ in range(2):
        for health in [periods] if at_once else [[period] for period in periods]:
            deliver(mesh.slac, Health(clock_off=health[-1], clock_offs=tuple(health)))

    assert clock_off_periods(HOUR, HOUR + timedelta(hours=1)) == [
        ClockWasOff(mesh.slac.pk, period.since, period.until, period.offset_s) for period in periods
    ]


def test_a_stretch_that_is_delivered_twice_changes_nothing(mesh):
    for _ in range(3):
        deliver_off(mesh.slac, HOUR, HOUR + MINUTE)

    assert clock_off_periods(HOUR, NOW) == [ClockWasOff(mesh.slac.pk, HOUR, HOUR + MINUTE, -3.0)]


def test_periods_are_selected_by_time_and_site(mesh):
    deliver_off(mesh.slac, HOUR, HOUR + MINUTE)

    assert clock_off_periods(HOUR + MINUTE, NOW, site_ids=[mesh.slac.pk])
    assert not clock_off_periods(HOUR + MINUTE, NOW, site_ids=[mesh.cern.pk])
    assert not clock_off_periods(HOUR + 2 * MINUTE, NOW)
    assert not clock_off_periods(HOUR - MINUTE, HOUR)


def test_a_period_that_ends_before_it_begins_is_ignored(mesh):
    deliver_off(mesh.slac, HOUR + MINUTE, HOUR)

    assert clock_off_periods(HOUR - MINUTE, NOW) == []
    assert AgentHealth.objects.exists()


# --- over HTTP


@pytest.fixture
def post(client, mesh):
    client.defaults["HTTP_AUTHORIZATION"] = f"Bearer {issue_token(mesh.slac.pk, NOW)}"

    def post(body, content_type="application/json"):
        return client.post("/api/agent/results", data=body, content_type=content_type)

    return post


def a_batch(mesh, **fields):
    at = timezone.now() - MINUTE
    return batch(delivered(mesh.slac_cern, burst(1.5, at=at), 7, clock_off_s=-3.0), **fields)


@pytest.mark.parametrize(
    ("encode", "content_type"),
    [(msgspec.json.encode, "application/json"), (msgspec.msgpack.encode, "application/msgpack")],
)
def test_health_and_flags_of_a_delivery_are_stored(mesh, post, encode, content_type):
    since = timezone.now() - MINUTE
    off = ClockOff(since=since, until=since, offset_s=-3.0)
    health = msgspec.structs.replace(HEALTH, clock_off=off)

    response = post(encode(a_batch(mesh, health=health)), content_type)

    assert response.status_code == 200
    assert Burst.objects.count() == 1
    (report,) = agent_reports(timezone.now())
    assert report.health == health
    assert timedelta(0) <= report.accepted_ago < MINUTE
    assert clock_off_periods(since, since + MINUTE) == [ClockWasOff(mesh.slac.pk, since, since, -3.0)]


@pytest.mark.parametrize(
    "health",
    [
        7,
        {"load_1min": "much"},
        {"clock_off": {"since": "2026-03-14T12:00:00", "until": "2026-03-14T12:00:00", "offset_s": 3.0}},
        {"drops": [{"interface": "x" * 65, "received": 1, "sent": 1}]},
        {"drops": [{"interface": "eth0", "received": 1, "sent": 1}] * 17},
        {"clock_offset_s": float("nan")},
        {"clock_offset_s": float("inf")},
    ],
    ids=str,
)
def test_an_invalid_health_does_not_affect_the_delivery(mesh, post, health):
    body = msgspec.to_builtins(a_batch(mesh)) | {"health": health}

    response = post(msgspec.msgpack.encode(body), "application/msgpack")

    assert response.status_code == 200
    assert Burst.objects.count() == 1
    assert [report.health for report in agent_reports(timezone.now())] == [None]


def test_characters_that_the_database_cannot_store_are_replaced(mesh, post):
    health = Health(drops=(InterfaceDrops(interface="e\0th0", received=1, sent=0),))

    assert post(msgspec.json.encode(a_batch(mesh, health=health))).status_code == 200

    assert agent_reports(timezone.now())[0].health.drops[0].interface == "e\ufffdth0"


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_delivery_is_stored_without_a_health_that_fails(mesh, post, is_empty):
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE agent_health ADD CHECK ((health ->> 'cpus')::integer < 1000)")
    health = Health(cpus=1000)
    delivery = batch(health=health) if is_empty else a_batch(mesh, health=health)

    response = post(msgspec.json.encode(delivery))

    assert response.status_code == 200
    assert Burst.objects.count() == (0 if is_empty else 1)
    assert ReceivedBatch.objects.get().accepted == Burst.objects.count()
    assert [report.health for report in agent_reports(timezone.now())] == [None]


def test_a_batch_of_an_older_agent_is_stored_without_health(mesh, post):
    body = msgspec.to_builtins(a_batch(mesh))
    del body["health"], body["results"][0]["clock_off_s"]

    assert post(msgspec.json.encode(body)).status_code == 200

    assert [report.health for report in agent_reports(timezone.now())] == [None]


def test_a_refused_delivery_stores_nothing(mesh, post):
    assert post(b'{"health": {}}').status_code == 400

    assert agent_reports(timezone.now()) == []


# --- problems of an agent


def dropping(*counts):
    return Health(
        drops=tuple(InterfaceDrops(interface=f"eth{number}", received=drops, sent=0) for number, drops in counts)
    )


def test_nic_drops_since_a_moment_are_the_counters_increase(mesh):
    for minute, count in enumerate((1000, 1000, 1200, 50)):  # the machine restarted before the last sample
        deliver(mesh.slac, dropping((0, count)), now=NOW + minute * MINUTE)

    (report,) = agent_reports(NOW + 3 * MINUTE)

    assert report.interface_drops(NOW) == 200
    assert report.interface_drops(NOW + 2 * MINUTE) == 0
    assert report.troubles(NOW) == ("200 NIC drops",)


def test_counters_are_kept_for_an_hour_at_most_once_a_minute(mesh):
    for seconds in range(0, 2 * 3600, 30):
        deliver(mesh.slac, dropping((0, seconds)), now=NOW + timedelta(seconds=seconds))

    stored = AgentHealth.objects.get().drops_past

    assert len(stored) <= 62
    assert all(after[0] - before[0] >= 60 for before, after in pairwise(stored))


@pytest.mark.parametrize(
    ("health", "queued", "troubles"),
    [
        (HEALTH, 0, ()),
        (Health(load_1min=9.0, cpus=4), 0, ("load 9.0 on 4 CPUs (above 2 per CPU)",)),
        (Health(clock_offset_s=-3.0, clock_uncertainty_s=0.1), 0, ("clock offset -3.0 s",)),
        (None, 1000, ("backlog of 1,000 results",)),
        (Health(load_1min=9.0), 0, ()),
    ],
)
def test_the_problems_of_an_agent_are_listed_in_words(mesh, health, queued, troubles):
    deliver(mesh.slac, health, queued=queued)

    assert agent_reports(NOW)[0].troubles(NOW) == troubles
