"""On-demand pings from the request to the replies: API, the agents' plan and reports, rate limits, retention."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from monitor.accounts import rate_limits
from monitor.accounts.models import issue_user_token
from monitor.agents.models import issue_token
from monitor.alerts.models import AuditRecord
from monitor.archive.models import Burst, DirtyHour
from monitor.archive.upkeep import records
from monitor.mesh.apply import apply
from monitor.mesh.models import Path, PingRequest, PingRun, Site, Slot
from monitor.mesh.schedule.requests import reverse_of
from probes.contract import Deadline, Outcome
from probes.site.wire import ABILITIES_HEADER, ON_DEMAND_PINGS, ON_DEMAND_TRACES, OnDemandPingReport, Plan
from probes.trace.spec import Hop, TraceRun
from tests.db.logins import logged_in
from tests.db.mesh.test_slots import document
from tests.db.mesh_of_three import batch
from tests.db.trace_rows import delivered
from tests.deliveries import store
from tests.facts import lacks

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)
ABLE = {ABILITIES_HEADER: f"{ON_DEMAND_PINGS}, {ON_DEMAND_TRACES}"}


@pytest.fixture
def path():
    apply(document(2), NOW)
    return Path.objects.in_use().get(source__name="s1", destination__name="s2")


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """Django's clock, set by the test."""
    times = [NOW]
    monkeypatch.setattr(timezone, "now", lambda: times[-1])
    return times


@pytest.fixture(autouse=True)
def without_rate_limit(monkeypatch):
    waits = {}
    monkeypatch.setattr(rate_limits, "wait_s", lambda key, rate, client=None: waits.get(key.partition(":")[0], 0.0))
    return waits


def agent_of(name):
    token = issue_token(Site.objects.get(name=name).pk, NOW)
    return Client(headers={"Authorization": f"Bearer {token}"})


def fetch(agent, headers=ABLE):
    answer = agent.get("/api/agent/plan", headers=headers)
    assert answer.status_code == 200
    return msgspec.json.decode(answer.content, type=Plan)


def report(agent, run_id, *rtts_ms, **fields):
    body = msgspec.json.encode(OnDemandPingReport(run_id=run_id, started_at=NOW, rtts_ms=rtts_ms, **fields))
    return agent.post("/api/agent/on-demand-pings", body, content_type="application/json")


def ask(client, path):
    return client.post(f"/api/v1/paths/{path.pk}/on-demand-pings", {}, content_type="application/json")


def state(client, request_id):
    return client.get(f"/api/v1/on-demand-pings/{request_id}").json()


def test_both_agents_get_them_and_their_replies_are_read(path):
    operator = logged_in("operator")

    response = ask(operator, path)

    assert response.status_code == 201, response.content
    asked = response.json()
    assert [(run["source"], run["destination"], run["state"]) for run in asked["runs"]] == [
        ("s1", "s2", "waiting"),
        ("s2", "s1", "waiting"),
    ]
    first, second = agent_of("s1"), agent_of("s2")
    (ping,) = fetch(first).pings_to_send
    assert (ping.path_id, ping.address, ping.source, ping.count, ping.spacing_s) == (
        path.pk, "192.0.2.2", "192.0.2.1", 20, 0.2,
    )  # fmt: skip
    assert [back.path_id for back in fetch(second).pings_to_send] == [reverse_of(path).pk]
    assert report(first, ping.run_id, 12.5, None, None, awaited=(2,)).status_code == 200

    there, back = state(operator, asked["id"])["runs"]
    assert (there["state"], back["state"]) == ("running", "fetched")
    assert (there["sent"], there["received"], there["lost"]) == (3, 1, 1)

    assert report(first, ping.run_id, 12.5, None, 14.5, 13.0, outcome=Outcome.MEASURED).status_code == 200
    there = state(operator, asked["id"])["runs"][0]
    assert (there["state"], there["outcome"], there["lost"]) == ("ended", "measured", 1)
    assert (there["rtt_min_ms"], there["rtt_median_ms"], there["rtt_max_ms"]) == (12.5, 13.0, 14.5)
    assert fetch(first).pings_to_send == ()
    assert report(first, ping.run_id, 1.0).status_code == 410, "it is over"


def test_they_touch_no_measurement_summary_or_schedule(path):
    agent = agent_of("s1")
    before = fetch(agent)
    asked = ask(logged_in("operator"), path).json()
    (ping,) = fetch(agent).pings_to_send

    report(agent, ping.run_id, None, None, outcome=Outcome.MEASURED)

    assert not Burst.objects.exists()
    assert not DirtyHour.objects.exists()
    assert fetch(agent) == before, "and the plan is what it was"
    assert asked["id"] == PingRequest.objects.get().pk


def test_an_agent_that_does_not_know_them_is_not_asked(path):
    operator = logged_in("operator")
    old = agent_of("s1")
    before = fetch(old, headers={})
    asked = ask(operator, path).json()

    assert fetch(old, headers={}) == before

    there, back = state(operator, asked["id"])["runs"]
    assert (there["state"], there["outcome"]) == ("ended", "not_taken_up")
    assert lacks(there["detail"], "too old", "upgrade") == []
    assert back["state"] == "waiting"


@pytest.mark.parametrize(
    ("fetches", "reports", "after_s", "outcome"),
    [
        (False, False, 29, None),
        (False, False, 31, "not_taken_up"),
        (True, False, 39, None),
        (True, False, 41, "not_taken_up"),
        (True, True, 79, None),
        (True, True, 81, "not_reported"),
    ],
)
def test_a_silent_agent_ends_them_at_its_deadline(path, clock, fetches, reports, after_s, outcome):
    operator, agent = logged_in("operator"), agent_of("s1")
    asked = ask(operator, path).json()
    if fetches:
        (ping,) = fetch(agent).pings_to_send
        if reports:
            report(agent, ping.run_id, 1.0)

    clock.append(NOW + after_s * SECOND)

    assert state(operator, asked["id"])["runs"][0]["outcome"] == outcome
    assert fetch(agent).pings_to_send == () or after_s == 29


def test_a_path_is_pinged_once_at_a_time_from_either_end(path, clock):
    operator = logged_in("operator")
    assert ask(operator, path).status_code == 201

    assert ask(operator, path).status_code == 409
    assert ask(operator, reverse_of(path)).status_code == 409

    clock.append(NOW + 31 * SECOND)
    assert ask(operator, reverse_of(path)).status_code == 201
    assert PingRun.objects.filter(outcome="not_taken_up").count() == 2


def test_a_user_cannot_flood_by_clicking(path, without_rate_limit):
    operator = logged_in("operator")
    without_rate_limit["on-demand-pings"] = 7.2

    refused = ask(operator, path)

    assert (refused.status_code, refused["Retry-After"]) == (429, "8")
    assert not PingRequest.objects.exists()


def test_only_operators_ask_and_the_audit_names_them(path):
    viewer, operator = logged_in("viewer"), logged_in("operator")

    assert ask(viewer, path).status_code == 403
    assert ask(Client(), path).status_code == 401
    careful = Client(enforce_csrf_checks=True)
    careful.force_login(User.objects.get(username="operator"))
    assert ask(careful, path).status_code == 403
    assert not PingRequest.objects.exists()
    asked = ask(operator, path).json()
    assert (asked["asked_by"], state(viewer, asked["id"])["asked_by"]) == ("operator", None)
    for may_operate, shown in ((False, None), (True, "operator")):
        token = issue_user_token(User.objects.get(username="operator").pk, "script", NOW, may_operate=may_operate)
        of_program = Client(headers={"Authorization": f"Bearer {token}"})
        assert state(of_program, asked["id"])["asked_by"] == shown
    record = AuditRecord.objects.get()
    assert record.who == "operator"
    assert lacks(record.what, "s1 → s2", "on demand") == []


def test_what_cannot_be_pinged_is_refused_with_its_reason(path):
    operator = logged_in("operator")
    assert operator.post("/api/v1/paths/999999/on-demand-pings").status_code == 404
    assert operator.get("/api/v1/on-demand-pings/1").status_code == 404
    Path.objects.filter(pk=path.pk).update(retired_at=NOW)

    refused = ask(operator, path)

    assert refused.status_code == 422
    assert lacks(refused.json()["detail"], "retired") == []


def test_the_end_without_an_agent_only_answers(path):
    Site.objects.filter(name="s2").update(has_agent=False)
    operator = logged_in("operator")

    asked = ask(operator, path).json()

    assert [run["source"] for run in asked["runs"]] == ["s1"]
    refused = ask(operator, reverse_of(path))
    assert (refused.status_code, lacks(refused.json()["detail"], "s2 has no agent")) == (422, [])


def test_a_report_of_another_site_or_shape_is_refused(path):
    ask(logged_in("operator"), path)
    first, second = agent_of("s1"), agent_of("s2")
    (ping,) = fetch(first).pings_to_send

    assert report(second, ping.run_id, 1.0).status_code == 410
    assert report(first, ping.run_id, 1.0, awaited=(0,)).status_code == 400
    assert report(first, ping.run_id, 1.0, awaited=(1,)).status_code == 400
    assert report(first, ping.run_id, *[1.0] * 101).status_code == 400
    assert report(first, ping.run_id, -1.0).status_code == 400
    assert report(first, 2**63 - 1).status_code == 410
    assert report(Client(), ping.run_id).status_code == 401
    assert first.post("/api/agent/on-demand-pings", b"[", content_type="application/json").status_code == 400
    assert PingRun.objects.filter(started_at=None).count() == 2


def test_they_are_deleted_after_a_week(path):
    operator = logged_in("operator")
    ask(operator, path)
    PingRun.objects.update(ended_at=NOW, outcome="measured")

    records.delete_old(NOW + timedelta(days=7), Deadline(60))
    assert PingRun.objects.count() == 2
    records.delete_old(NOW + timedelta(days=9), Deadline(60))

    assert (PingRun.objects.count(), PingRequest.objects.count()) == (0, 0)


def progress(client, path):
    answer = client.get(f"/paths/{path.pk}/test.json")
    assert (answer.status_code, "no-store" in answer["Cache-Control"]) == (200, True)
    return answer.json()


def test_the_page_shows_the_replies_of_both_directions(path, clock):
    operator, first, second = logged_in("operator"), agent_of("s1"), agent_of("s2")

    answer = operator.post(f"/paths/{path.pk}/test/")

    assert (answer.status_code, answer["Location"]) == (302, f"/paths/{path.pk}/#test-now")
    assert lacks(progress(operator, path)["html"], "Waiting for the agent of s1", "every 10 s", "agent of s2") == []
    (there,), (back,) = fetch(first).pings_to_send, fetch(second).pings_to_send
    report(first, there.run_id, 12.0, None, None, 16.0, awaited=(2,))
    report(second, back.run_id, detail="networks.forbidden: 192.0.2.1", outcome=Outcome.NOT_PERMITTED)
    shown = progress(operator, path)
    assert shown["is_running"] is True
    wanted = ("4 of 20 sent, 1 lost", "minimum 12.00 ms", "median 14.00 ms", "networks.forbidden: 192.0.2.1")
    assert lacks(shown["html"], *wanted) == []
    counts = {kind: shown["html"].count(f'<g class="{kind}">') for kind in ("reply", "lost", "awaited", "unsent")}
    assert counts == {"reply": 2, "lost": 1, "awaited": 1, "unsent": 16 + 20}
    running = shown["announcement"]
    report(first, there.run_id, 12.0, None, None, 16.0, 13.0, awaited=(2,))
    assert progress(operator, path)["announcement"] == running, "read out once, not with each reply"

    report(first, there.run_id, *[12.0] * 19, None, outcome=Outcome.MEASURED)

    shown = progress(operator, path)
    assert shown["is_running"] is False
    assert lacks(shown["announcement"], "s1 → s2: 20 of 20 sent, 1 lost (5%)", "s2 → s1: not permitted") == []
    text = operator.get(f"/paths/{path.pk}/").content.decode()
    assert lacks(text, "20 of 20 sent, 1 lost (5%)", "networks.forbidden: 192.0.2.1") == [], "without scripts too"
    assert lacks(logged_in("viewer").get(f"/paths/{reverse_of(path).pk}/").content.decode(), "1 lost (5%)") == []
    clock.append(NOW + timedelta(hours=2))
    assert "Pings at" not in progress(operator, path)["html"]


def test_the_page_traces_both_directions_on_demand(path, clock):
    operator, first = logged_in("operator"), agent_of("s1")

    answer = operator.post(f"/paths/{path.pk}/trace/")

    assert (answer.status_code, answer["Location"]) == (302, f"/paths/{path.pk}/#test-now")
    shown = progress(operator, path)
    assert (shown["is_running"], lacks(shown["announcement"], "s1 → s2: waiting", "s2 → s1: waiting")) == (True, [])
    (there,) = fetch(first).traces_to_run
    clock.append(NOW + 20 * SECOND)
    late = lacks(progress(operator, path)["announcement"], "agent of s1 has the request", "agent of s2 is late")
    assert late == []
    hops = (Hop(ttl=1, address="198.51.100.1", rtts_ms=(1.0,)), Hop(ttl=2, address="192.0.2.2", rtts_ms=(2.0,)))
    run = TraceRun(
        target="s2", address="192.0.2.2", family=4, started_at=NOW + 15 * SECOND, outcome=Outcome.MEASURED,
        reason=there.reason, flow=1, reached=True, hops=hops,
    )  # fmt: skip
    store(path.source.site_id, batch(delivered(path, run, 1)), NOW + 20 * SECOND)
    clock.append(NOW + 90 * SECOND)
    shown = progress(operator, path)
    assert lacks(shown["announcement"], "s1 → s2: route 1, 2 hops.", "agent of s2 did not take it up") == []
    assert (shown["is_running"], "#tab-routes" in shown["html"]) == (False, True)
    assert logged_in("viewer").post(f"/paths/{path.pk}/trace/").status_code == 403
    assert operator.post(f"/paths/{path.pk}/trace/").status_code == 302
    assert operator.post(f"/paths/{path.pk}/trace/").status_code == 429, "traced just before"
    assert operator.post("/paths/999999/trace/").status_code == 404


def test_a_throughput_test_follows_the_pings_if_asked_for(path):
    operator = logged_in("operator")
    settings = {"throughput": "on", "duration_s": "10", "streams": "2", "protocol": "tcp"}

    assert operator.post(f"/paths/{path.pk}/test/", settings).status_code == 302

    slot = Slot.objects.exclude(request=None).get()
    assert (slot.starts_at, slot.parameters["streams"]) == (NOW + 20 * SECOND, 2)
    assert PingRun.objects.count() == 2
    assert lacks(progress(operator, path)["html"], "12:00:20 UTC", "waiting for its slot, in 20 s") == []


@pytest.mark.parametrize(
    ("fields", "status", "facts"),
    [
        ({"throughput": "on", "duration_s": "0", "streams": "1", "protocol": "tcp"}, 422, ["uration_s must"]),
        ({"throughput": "on", "duration_s": "x", "streams": "1", "protocol": "tcp"}, 422, ["whole number"]),
    ],
)
def test_a_refused_throughput_test_starts_nothing(path, fields, status, facts):
    answer = logged_in("operator").post(f"/paths/{path.pk}/test/", fields)

    assert (answer.status_code, lacks(answer.content.decode(), *facts)) == (status, [])
    assert (PingRun.objects.count(), Slot.objects.exclude(request=None).count()) == (0, 0)


def test_the_page_refuses_who_may_not_or_asks_twice(path, without_rate_limit):
    operator = logged_in("operator")
    assert logged_in("viewer").post(f"/paths/{path.pk}/test/").status_code == 403
    careful = Client(enforce_csrf_checks=True)
    careful.force_login(User.objects.get(username="operator"))
    assert careful.post(f"/paths/{path.pk}/test/").status_code == 403
    assert operator.post("/paths/999999/test/").status_code == 404
    assert operator.get("/paths/999999/test.json").status_code == 404
    assert not PingRequest.objects.exists()
    assert operator.post(f"/paths/{path.pk}/test/").status_code == 302

    assert operator.post(f"/paths/{path.pk}/test/").status_code == 409
    without_rate_limit["on-demand-pings"] = 3.0
    assert operator.post(f"/paths/{path.pk}/test/").status_code == 429
