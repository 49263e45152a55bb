"""On-demand traces from the occasion to the plan of both agents, and what agents of earlier versions get."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from django.test import Client
from django.utils import timezone

from monitor.accounts import rate_limits
from monitor.agents.models import issue_token
from monitor.alerts.detect.rules.finding import RuleFinding
from monitor.alerts.incidents.lifecycle import add_findings, close
from monitor.alerts.models import Incident
from monitor.archive.upkeep import records
from monitor.mesh.apply import apply
from monitor.mesh.document.entries import BetweenGroup
from monitor.mesh.kinds.throughput import ThroughputEntry
from monitor.mesh.kinds.trace import TraceEntry
from monitor.mesh.models import Path, Site, TraceRequest
from probes.contract import Deadline
from probes.site.wire import ABILITIES_HEADER, ON_DEMAND_PINGS, ON_DEMAND_TRACES, Plan
from probes.trace.spec import TraceReason
from tests.db.logins import logged_in
from tests.db.mesh.test_slots import document
from tests.db.mesh_of_three import batch
from tests.db.trace_rows import delivered, trace
from tests.deliveries import store

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)
ABLE = {ABILITIES_HEADER: f"{ON_DEMAND_PINGS}, {ON_DEMAND_TRACES}"}


@pytest.fixture
def path():
    apply(document(3, TraceEntry("routes", attempts=2), ThroughputEntry("tcp", every_s=3600)), NOW)
    return path_between("s1", "s2")


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """Django's clock, set by the test."""
    times = [NOW]
    monkeypatch.setattr(timezone, "now", lambda: times[-1])
    monkeypatch.setattr(rate_limits, "wait_s", lambda key, rate, client=None: 0.0)
    return times


def path_between(source, destination):
    return Path.objects.in_use().get(source__name=source, destination__name=destination)


def plan_of(name, headers=ABLE):
    token = issue_token(Site.objects.get(name=name).pk, NOW)
    answer = Client(headers={"Authorization": f"Bearer {token}"}).get("/api/agent/plan", headers=headers)
    return answer.content


def traces_of(name):
    plan = msgspec.json.decode(plan_of(name), type=Plan)
    return [(trace.spec.targets[0].path_id, trace.reason) for trace in plan.traces_to_run]


def ask(client, path):
    return client.post(f"/api/v1/paths/{path.pk}/on-demand-traces", {}, content_type="application/json")


def finding(path, rule="loss"):
    return RuleFinding(path_id=path.pk, path=str(path), rule=rule, severity="warning", sentence="bad", since=NOW)


def test_a_request_reaches_the_agents_of_both_ends(path, clock):
    answer = ask(logged_in("operator"), path)

    back = path_between("s2", "s1")
    assert answer.status_code == 201, answer.content
    assert {request["path_id"] for request in answer.json()} == {path.pk, back.pk}
    assert (traces_of("s1"), traces_of("s2"), traces_of("s3")) == (
        [(path.pk, TraceReason.ON_DEMAND)], [(back.pk, TraceReason.ON_DEMAND)], []
    )  # fmt: skip
    (trace,) = msgspec.json.decode(plan_of("s1"), type=Plan).traces_to_run
    assert (trace.spec.attempts, trace.spec.targets[0].address) == (2, "192.0.2.2")
    assert not TraceRequest.objects.filter(fetched_at=None).exists()

    clock.append(NOW + 61 * SECOND)
    assert traces_of("s1") == []


def test_a_path_is_traced_on_demand_once_a_minute(path, clock):
    client = logged_in("operator")
    ask(client, path)

    second = ask(client, path)
    assert (second.status_code, second.headers["Retry-After"]) == (429, "60")

    clock.append(NOW + 61 * SECOND)
    assert ask(client, path).status_code == 201


def test_an_agent_of_an_earlier_version_gets_its_plan_as_before(path):
    before = plan_of("s1", {ABILITIES_HEADER: ON_DEMAND_PINGS})
    ask(logged_in("operator"), path)

    assert plan_of("s1", {ABILITIES_HEADER: ON_DEMAND_PINGS}) == plan_of("s1", {}) == before
    assert b"on_demand_traces" in plan_of("s1")


def test_an_incident_traces_its_paths_when_it_begins_and_ends(path, clock):
    add_findings("s2 inbound", [finding(path)], NOW)
    assert traces_of("s1") == [(path.pk, TraceReason.INCIDENT_OPENED)]
    assert traces_of("s2") == [(path_between("s2", "s1").pk, TraceReason.INCIDENT_OPENED)]

    later = NOW + 600 * SECOND
    clock.append(later)
    incident = Incident.objects.get()
    Incident.objects.update(is_pending=False)
    assert close(incident.pk, [(path.pk, "loss")], "over", later)
    assert traces_of("s1") == [(path.pk, TraceReason.INCIDENT_CLOSED)]


def test_an_incident_traces_no_path_without_a_scheduled_trace():
    apply(document(2), NOW)
    add_findings("s2 inbound", [finding(path_between("s1", "s2"))], NOW)

    assert not TraceRequest.objects.exists()


def deliver(path, reason, *, at=NOW, number=1, **fields):
    run = trace("ABC", at=at, reason=reason)
    store(path.source.site_id, batch(delivered(path, run, number, **fields), number=number), NOW)


@pytest.mark.parametrize("reason", [TraceReason.SENTINEL, TraceReason.TTL_CHANGED, TraceReason.RTT_STEP])
def test_a_change_seen_by_an_agent_is_traced_from_the_other_end(path, reason):
    deliver(path, reason)

    back = path_between("s2", "s1")
    assert (traces_of("s1"), traces_of("s2"), traces_of("s3")) == ([], [(back.pk, reason)], [])


@pytest.mark.parametrize(
    ("reason", "fields"),
    [
        (TraceReason.SCHEDULED, {}),
        (TraceReason.THROUGHPUT_TEST, {}),  # both ends trace by themselves
        (TraceReason.SENTINEL, {"test": "on-demand"}),  # the answer to such a request
        (TraceReason.SENTINEL, {"at": NOW - 150 * SECOND}),  # delivered too late to be of use
    ],
)
def test_other_traces_ask_for_none_from_the_other_end(path, reason, fields):
    deliver(path, reason, **fields)

    assert not TraceRequest.objects.exists()


def test_a_repeated_delivery_asks_the_other_end_once(path):
    deliver(path, TraceReason.SENTINEL)
    TraceRequest.objects.all().delete()
    deliver(path, TraceReason.SENTINEL, number=2)

    assert not TraceRequest.objects.exists()


def test_a_path_without_traces_back_is_traced_one_way(path):
    entries = document(3, TraceEntry("routes", attempts=2))
    one_way = BetweenGroup(name="all", sources=("s1",), destinations=("s2",), tests=("routes",))
    apply(msgspec.structs.replace(entries, groups=(one_way,)), NOW)
    deliver(path_between("s1", "s2"), TraceReason.SENTINEL)

    assert not TraceRequest.objects.exists()


def test_old_requests_are_deleted(path, settings):
    settings.RETENTION_DAYS = settings.RETENTION_DAYS | {"traces": 1}
    ask(logged_in("operator"), path)

    records.delete_old(NOW + timedelta(days=3), Deadline(60))

    assert not TraceRequest.objects.exists()
