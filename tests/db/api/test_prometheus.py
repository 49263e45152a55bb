"""The centre's Prometheus metrics: figures compared with counts by hand, permissions, and cost.

The text is parsed by prometheus_client's own parser. A served centre with two processes is in
tests/e2e/test_prometheus.
"""

from __future__ import annotations

import subprocess
import time
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import Group, User
from django.db import OperationalError
from django.test import Client
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

import probes
from monitor import redis_client
from monitor.accounts.models import issue_user_token
from monitor.agents import health
from monitor.alerts.models import Incident
from monitor.api.prometheus import views
from monitor.archive.ingest.store_batch import receive
from monitor.archive.models import BurstHour, RequestResponseResult
from monitor.archive.rollup import recompute
from monitor.archive.upkeep import samples
from monitor.mesh import models
from monitor.present.conditions import Condition
from monitor.stack import broker
from probes.contract import Outcome
from probes.site.health import Dropped, Health, KernelClock
from probes.site.wire import Delivered
from tests.db.aggregate_rows import aggregate_run
from tests.db.mesh_of_three import HOUR, NOW, batch, burst, delivered, make_mesh
from tests.db.trace_rows import trace
from tests.db.track_rows import store_track
from tests.deliveries import arrival_of
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.timescale]
ELSEWHERE = {"REMOTE_ADDR": "192.0.2.7", "wsgi.url_scheme": "https"}

# README of smokeping_prober, "Metrics", and its flag --buckets.
SMOKEPING_BUCKETS = [
    *("5e-05", "0.0001", "0.0002", "0.0004", "0.0008", "0.0016", "0.0032", "0.0064", "0.0128", "0.0256", "0.0512"),
    *("0.1024", "0.2048", "0.4096", "0.8192", "1.6384", "3.2768", "6.5536", "13.1072", "26.2144"),
]
SMOKEPING = {
    "smokeping_requests": "counter",
    "smokeping_response_duration_seconds": "histogram",
    "smokeping_response_ttl": "gauge",
    "smokeping_response_duplicates": "counter",
}
ROUND_TRIPS = (0.07, 0.4, 12.8, 12.9, 150.0, 150.5, 3000.0, None, None, 0.051)


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory):
    path = tmp_path_factory.mktemp("redis") / "redis.sock"
    process = subprocess.Popen(broker.command(path), stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 30
    while not broker.answers(path):
        assert time.monotonic() < deadline, "Redis does not start"
        time.sleep(0.05)
    yield f"redis+socket://{path}"
    process.terminate()
    process.wait(timeout=10)


@pytest.fixture
def redis(redis_url, settings):
    """An empty Redis of the centre."""
    settings.REDIS_URL = redis_url
    client = redis_client.connect(redis_url, 5.0)
    client.flushall()
    return client


@pytest.fixture
def half_past(monkeypatch):
    monkeypatch.setattr(timezone, "now", lambda: NOW)


@pytest.fixture
def mesh(redis, half_past):
    return make_mesh()


@pytest.fixture
def client():
    """A client on this machine."""
    return Client(HTTP_HOST="localhost")


@pytest.fixture
def scrape(client):
    def get(address="/metrics", status=200):
        answer = client.get(address)
        assert answer.status_code == status, answer.content
        return {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(answer.content.decode())
            for sample in family.samples
        }

    return get


def families(client, address):
    return {family.name: family for family in text_string_to_metric_families(client.get(address).content.decode())}


def deliver(mesh, *results, number=1, **fields):
    numbered = [delivered(mesh.slac_cern, result, sequence) for sequence, result in enumerate(results, number)]
    arrival = arrival_of(batch(*numbered, number=number, **fields))
    receipt = receive(mesh.slac.pk, arrival, NOW)
    health.record(mesh.slac.pk, arrival, NOW)
    return receipt


# --- the system


def test_a_new_centre_exports_only_available_metrics(mesh, scrape):
    scraped = scrape()

    assert scraped[("soundings_build_info", ("version", probes.__version__))] == 1
    assert scraped[("soundings_redis_up",)] == 1
    assert scraped[("soundings_queue_tasks", ("state", "waiting"))] == 0
    assert scraped[("soundings_summaries_waiting", ("tier", "hour"))] == 0
    names = {name for name, *_ in scraped}
    assert names.isdisjoint({"soundings_beat_tick_timestamp_seconds", "soundings_newest_result_timestamp_seconds"})


def test_deliveries_queue_and_samples_are_exported(mesh, redis, scrape):
    deliver(mesh, burst(1.0, at=HOUR + timedelta(minutes=1)), burst(2.0, at=HOUR + timedelta(minutes=2)))
    redis.rpush("alerts", "a task")
    redis.rpush("reports", "another")
    redis.hset("unacked", "tag", "a third")
    sample = samples.take(NOW)

    scraped = scrape()

    assert scraped[("soundings_results_delivered_total", ("site", "slac"))] == 2
    assert scraped[("soundings_newest_result_timestamp_seconds",)] == (HOUR + timedelta(minutes=2)).timestamp()
    assert scraped[("soundings_queue_tasks", ("state", "waiting"))] == 2
    assert scraped[("soundings_queue_tasks", ("state", "taken"))] == 1
    assert scraped[("soundings_beat_tick_timestamp_seconds",)] == NOW.timestamp()
    assert scraped[("soundings_database_bytes",)] == sample.database_bytes > 1_000_000
    assert scraped[("soundings_summaries_waiting", ("tier", "hour"))] == 1
    assert (sample.accepted, sample.refused, sample.queue_length, sample.hours_waiting) == (2, 0, 2, 1)


def test_a_sample_counts_each_delivery_once(mesh):
    deliver(mesh, burst(1.0, at=HOUR))
    first = samples.take(NOW)
    deliver(mesh, burst(1.0, at=HOUR + timedelta(minutes=1)), number=2)
    at = NOW + timedelta(minutes=1)

    second = samples.take(at)

    # Both arrived at NOW, by the clock of these tests: the first minute ends with it.
    assert (first.accepted, second.accepted) == (1, 0)
    assert (second.since, samples.newest()) == (NOW, second)


def test_route_changes_and_traces_are_counted_by_site(mesh, scrape):
    runs = [trace(hops, at=HOUR + timedelta(minutes=10 * number)) for number, hops in enumerate(("ABD", "ACD", "A*D"))]
    runs.append(trace(at=HOUR + timedelta(minutes=30), outcome=Outcome.DNS_FAILURE, reached=False, address=None))
    cycles = [
        Delivered(
            sequence=number,
            path_id=mesh.slac_cern.pk,
            test="routes",
            result=run,
            cycle=int(run.started_at.timestamp()) // 600,
            every_s=600,
        )
        for number, run in enumerate(runs, 2)
    ]
    models.Test.objects.create(name="routes", kind="trace", every_s=600)
    deliver(mesh, burst(1.0))
    receive(mesh.slac.pk, arrival_of(batch(*cycles, number=2)), NOW)
    recompute.roll_up(NOW)

    scraped = scrape()
    of_paths = {name: value for (name, *_), value in scrape("/metrics/paths").items()}

    assert scraped[("soundings_route_changes_total", ("site", "slac"))] == 1
    assert ("soundings_route_changes_total", ("site", "cern")) not in scraped
    assert scraped[("soundings_traces_total", ("outcome", "measured"), ("site", "slac"))] == 3
    assert scraped[("soundings_traces_total", ("outcome", "dns_failure"), ("site", "slac"))] == 1
    assert of_paths["soundings_path_route_hops"] == 3
    assert of_paths["soundings_path_route_changes_total"] == 1
    assert of_paths["soundings_path_traced_timestamp_seconds"] == (HOUR + timedelta(minutes=20)).timestamp()


def test_a_lag_is_relative_to_the_oldest_mark(mesh, scrape, monkeypatch):
    deliver(mesh, burst(1.0, at=HOUR))
    monkeypatch.setattr(timezone, "now", lambda: NOW + timedelta(minutes=3))

    assert scrape()[("soundings_summaries_lag_seconds", ("tier", "hour"))] == 180


def test_an_agents_metrics_are_those_of_its_newest_delivery(mesh, scrape):
    clock = KernelClock(
        state="ok", is_synchronised=False, offset_s=0, frequency_ppm=0, max_error_s=0, estimated_error_s=0
    )
    agent_health = Health(
        clock_offset_s=-0.25,
        clock_uncertainty_s=0.01,
        kernel_clock=clock,
        load_1min=0.5,
        lost_ticks=3,
        set_aside=2,
        dropped=(Dropped(kind="ping", reason="too_old", count=9),),
    )
    deliver(mesh, burst(1.0), queued=41, dropped=9, health=agent_health)

    scraped = scrape()

    of_slac = {name: value for (name, *labels), value in scraped.items() if labels == [("site", "slac")]}
    assert {name: value for name, value in of_slac.items() if name.startswith("soundings_agent")} == {
        "soundings_agent_accepted_timestamp_seconds": NOW.timestamp(),
        "soundings_agent_spool_results": 41,
        "soundings_agent_set_aside_results": 2,
        "soundings_agent_clock_offset_seconds": -0.25,
        "soundings_agent_clock_uncertainty_seconds": 0.01,
        "soundings_agent_clock_synchronised": 0,
        "soundings_agent_load1": 0.5,
        "soundings_agent_dropped_results_total": 9,
        "soundings_agent_lost_cycles_total": 3,
    }
    assert scraped[("soundings_agent_info", ("site", "slac"), ("version", "0.1.0"))] == 1


def test_open_incidents_are_counted_by_severity_and_rule(mesh, scrape):
    for number, (rule, closed_at, is_pending) in enumerate(
        [("loss", None, False), ("loss", None, False), ("rtt", NOW, False), ("no_data", None, True)]
    ):
        Incident.objects.create(
            rule=rule, cause=str(number), opened_at=HOUR, closed_at=closed_at, is_pending=is_pending, summary="x"
        )

    open_incidents = {key: value for key, value in scrape().items() if key[0] == "soundings_incidents_open"}

    assert open_incidents == {("soundings_incidents_open", ("rule", "loss"), ("severity", "warning")): 2}


def test_without_redis_the_other_metrics_are_exported(mesh, scrape, settings, tmp_path):
    settings.REDIS_URL = f"redis+socket://{tmp_path / 'nothing.sock'}"

    scraped = scrape()

    assert scraped[("soundings_redis_up",)] == 0
    assert not any(name == "soundings_queue_tasks" for name, *_ in scraped)
    assert ("soundings_summaries_waiting", ("tier", "hour")) in scraped
    assert samples.take(NOW).queue_length is None


# --- paths


@pytest.fixture
def measured(mesh):
    """Two bursts of slac to cern, 12 of 20 lost in the second; another to anl without replies."""
    results = [
        burst(*ROUND_TRIPS, at=HOUR + timedelta(minutes=1), duplicates=1),
        burst(150.0, None, None, at=HOUR + timedelta(minutes=2), ttl=56),
    ]
    deliver(mesh, *results)
    unanswered = delivered(mesh.slac_anl, burst(None, None, at=HOUR, ttl=None), 7)
    receive(mesh.slac.pk, arrival_of(batch(unanswered, number=7)), NOW)
    recompute.roll_up(NOW, 100)
    return mesh


def test_paths_have_names_types_and_labels_of_smokeping_prober(measured, client):
    metric_families = families(client, "/metrics/paths")

    assert {name: metric_families[name].type for name in SMOKEPING} == SMOKEPING
    for name in SMOKEPING:
        assert all({"ip", "host", "source", "tos"} <= sample.labels.keys() for sample in metric_families[name].samples)
    buckets = [
        sample.labels["le"]
        for sample in metric_families["smokeping_response_duration_seconds"].samples
        if "le" in sample.labels
    ]
    assert buckets[:21] == [*SMOKEPING_BUCKETS, "+Inf"]


def test_the_histogram_of_a_path_has_its_rtts(measured, client):
    metric_families = families(client, "/metrics/paths")
    labels = {
        "ip": "192.0.2.2",
        "host": "cern",
        "source": "slac",
        "tos": "0",
        "source_site": "slac",
        "destination_site": "cern",
        "path": str(measured.slac_cern.pk),
        "packet_bytes": "100",
    }
    came_back = [rtt_ms / 1000 for rtt_ms in (*ROUND_TRIPS, 150.0) if rtt_ms is not None]

    def of_path(family, suffix):
        return [
            sample
            for sample in metric_families[family].samples
            if sample.name == family + suffix and labels.items() <= sample.labels.items()
        ]

    [requests] = of_path("smokeping_requests", "_total")
    [duplicates] = of_path("smokeping_response_duplicates", "_total")
    [ttl] = of_path("smokeping_response_ttl", "")
    [count] = of_path("smokeping_response_duration_seconds", "_count")
    [total] = of_path("smokeping_response_duration_seconds", "_sum")
    [newest] = of_path("soundings_path_measured_timestamp_seconds", "")
    assert (requests.value, duplicates.value, ttl.value, count.value) == (13, 1, 56, len(came_back))
    assert total.value == pytest.approx(sum(came_back), rel=1e-6)
    assert newest.value == (HOUR + timedelta(minutes=2)).timestamp()
    for bucket in of_path("smokeping_response_duration_seconds", "_bucket"):
        # 0.4 ms and 12.8 ms lie on a bound, where a sketch may return a slightly larger value.
        bound = float(bucket.labels["le"])
        assert sum(rtt_s <= bound * 0.995 for rtt_s in came_back) <= bucket.value
        assert bucket.value <= sum(rtt_s <= bound * 1.005 for rtt_s in came_back)


def test_a_path_without_replies_has_requests_and_no_ttl(measured, scrape):
    of_anl = {key[0]: value for key, value in scrape("/metrics/paths").items() if ("host", "anl") in key}

    assert of_anl["smokeping_requests_total"] == 2
    assert of_anl["smokeping_response_duration_seconds_count"] == 0
    assert of_anl["smokeping_response_duration_seconds_sum"] == 0
    assert "smokeping_response_ttl" not in of_anl


def test_counters_restart_with_the_utc_day(measured, scrape, redis, monkeypatch):
    monkeypatch.setattr(timezone, "now", lambda: datetime(2026, 3, 15, 0, 1, tzinfo=UTC))

    assert scrape("/metrics/paths") == {}


def test_a_scrape_of_a_site_has_its_outgoing_paths(measured, scrape):
    assert {key[1:] for key in scrape("/metrics/paths?source=slac")} == {key[1:] for key in scrape("/metrics/paths")}
    assert scrape("/metrics/paths?source=cern") == {}


def test_too_many_paths_for_a_scrape_are_refused_with_a_fix(measured, client, monkeypatch):
    monkeypatch.setattr(views, "MOST_SERIES", 1)

    answer = client.get("/metrics/paths")

    assert answer.status_code == 422
    assert lacks(answer.content.decode(), "more than 1 paths", "?source=SITE", "docs/prometheus.md") == []


def test_the_newest_request_response_run_is_exported(mesh, scrape):
    for minute, median_ms, fields in ((1, 50.0, {}), (2, 25.0, {}), (3, 900.0, {"during_test": True})):
        RequestResponseResult.objects.create(
            path_id=mesh.slac_cern.pk, measured_at=HOUR + timedelta(minutes=minute), test="blocks", outcome="measured",
            request_bytes=100, response_bytes=65_536, latencies_ms=[], median_ms=median_ms, p95_ms=2 * median_ms,
            p99_ms=4 * median_ms, transactions_per_s=40.0, **{"during_test": False, **fields},
        )  # fmt: skip

    scraped = scrape("/metrics/paths")

    latencies = {
        dict(key[1:])["quantile"]: value for key, value in scraped.items() if key[0].endswith("_latency_seconds")
    }
    assert latencies == {"0.5": 0.025, "0.95": 0.05, "0.99": 0.1}
    assert [value for key, value in scraped.items() if key[0].endswith("transactions_per_second")] == [40.0]
    assert not any("request_response" in key[0] for key in scrape("/metrics/paths?source=cern"))


def test_the_newest_aggregate_test_is_exported(mesh, scrape):
    paths = [mesh.slac_cern, mesh.slac_anl]
    aggregate_run(paths, HOUR, fairness=0.5)
    newest = aggregate_run(paths, HOUR + timedelta(minutes=10))
    aggregate_run(paths, HOUR + timedelta(minutes=20), is_final=False)

    scraped = {key[0]: value for key, value in scrape().items() if "aggregate" in key[0]}

    assert scraped == {
        "soundings_aggregate_sum_bits_per_second": newest.sum_bps,
        "soundings_aggregate_fairness_ratio": newest.fairness,
        "soundings_aggregate_members": 2,
        "soundings_aggregate_members_measured": 2,
        "soundings_aggregate_started_timestamp_seconds": newest.starts_at.timestamp(),
    }


# --- cost


def test_the_number_of_queries_is_independent_of_the_paths(measured, scrape, django_assert_num_queries):
    store_track(measured.slac_cern, Condition.NORMAL)
    # a savepoint and its release, the time limit, paths, conditions (2), routes, directions, links (2) and
    # request-response runs
    with django_assert_num_queries(11):
        scrape("/metrics/paths")


def test_two_concurrent_scrapes_run_the_queries_once(measured, scrape, django_assert_num_queries):
    first = scrape(), scrape("/metrics/paths")
    BurstHour.objects.all().delete()

    with django_assert_num_queries(0):
        second = scrape(), scrape("/metrics/paths")

    assert second == first


def test_a_database_that_is_down_is_503(mesh, client, monkeypatch):
    def away(now, **_):
        raise OperationalError("the server closed the connection")

    monkeypatch.setattr(views, "path_counters", away)

    answer = client.get("/metrics/paths")

    assert (answer.status_code, answer["Retry-After"]) == (503, str(views.KEPT_S))


# --- permissions


@pytest.mark.parametrize("address", ["/metrics", "/metrics/paths"])
def test_it_needs_a_token_where_reading_is_not_open(mesh, client, settings, address):
    settings.LOCAL_READ = False
    user = User.objects.create_user("prometheus")
    user.groups.add(Group.objects.get(name="viewer"))
    token = issue_user_token(user.pk, "scrapes", NOW)

    refused = client.get(address, **ELSEWHERE)
    wrong = client.get(address, **ELSEWHERE, headers={"authorization": "Bearer nonsense"})
    read = client.get(address, **ELSEWHERE, headers={"authorization": f"Bearer {token}"})

    assert (refused.status_code, wrong.status_code, read.status_code) == (401, 401, 200)
    assert refused["WWW-Authenticate"] == 'Bearer realm="soundings"'
    assert read["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"


def test_it_is_open_where_reading_is_open(mesh, client, settings):
    settings.LOCAL_READ, settings.PUBLIC_READ = False, True

    assert client.get("/metrics", **ELSEWHERE).status_code == 200
