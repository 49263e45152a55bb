"""On-demand throughput tests through the API and on the path's page: permissions, and the state shown until the
result."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from django.utils import timezone

from monitor.mesh.apply import apply
from monitor.mesh.kinds.throughput import ThroughputEntry
from monitor.mesh.models import Mesh, Slot
from monitor.mesh.plan import plan_for
from monitor.mesh.schedule.on_demand import find_path
from probes.contract import Outcome
from probes.transfers.spec import ThroughputRun
from tests.db.logins import logged_in
from tests.db.mesh.test_slots import document
from tests.db.mesh_of_three import batch, delivered
from tests.deliveries import store
from tests.facts import lacks

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@pytest.fixture
def path():
    apply(document(2, ThroughputEntry("tcp", every_s=3600)), NOW)
    return find_path("s1", "s2")


@pytest.fixture
def clock(monkeypatch):
    """Django's clock, set by the test."""
    times = [NOW]
    monkeypatch.setattr(timezone, "now", lambda: times[-1])
    return times


@pytest.fixture(autouse=True)
def noon(clock):
    return clock


def post(client, path, **settings):
    return client.post(f"/api/v1/paths/{path.pk}/on-demand", settings, content_type="application/json")


def report(slot, run):
    path = slot.measurement.path
    store(path.source.site.pk, batch(delivered(path, run, 1, slot_id=slot.pk, test="on-demand")), slot.ends_at)


def run(slot, **fields):
    values = {"target": "s2", "address": "192.0.2.2", "family": 4, "started_at": slot.starts_at, "duration_s": 10.0}
    return ThroughputRun(**{**values, "outcome": Outcome.MEASURED, "throughput_bps": 9e6, **fields})


def test_an_operator_requests_a_test_by_api_and_gets_its_state(path, clock):
    operator = logged_in("operator")

    response = post(operator, path, streams=4, window_bytes=65536, duration_s=10)

    assert response.status_code == 201, response.content
    requested = response.json()
    slot = Slot.objects.get(pk=requested["id"])
    assert (requested["state"], requested["asked_by"], requested["starts_at"]) == (
        "planned",
        "operator",
        "2026-11-21T12:00:15Z",
    )
    assert requested["settings"] == {"duration_s": 10, "omit_s": 0, "streams": 4, "port": 5201, "window_bytes": 65536}
    address = f"/api/v1/on-demand/{slot.pk}"
    clock.append(slot.starts_at)
    assert operator.get(address).json()["state"] == "running"
    report(slot, run(slot))
    ended = operator.get(address).json()
    assert (ended["state"], ended["outcome"], ended["throughput_bps"]) == ("ended", "measured", 9e6)
    in_full = operator.get(f"/api/v1/paths/{path.pk}/throughput/{ended['measured_at']}")
    assert (in_full.status_code, in_full.json()["test"]) == (200, "on-demand")


def test_a_test_may_capture_packets_at_both_ends(path, clock):
    """By API and form alike; both agents get it with their slots."""
    operator = logged_in("operator")

    requested = post(operator, path, capture_packets=5000).json()
    refused = post(operator, path, capture_packets=5000, protocol="udp", rate_bps=10**6)
    form = operator.post(f"/paths/{path.pk}/run/", {"duration_s": 5, "streams": 1, "protocol": "tcp", "capture": "on"})

    assert requested["settings"]["capture_packets"] == 5000
    assert refused.status_code == 422
    assert "capture_packets" in refused.json()["detail"]
    assert form.status_code == 302
    for host in (path.source, path.destination):
        specs = [slot.spec for slot in plan_for(host.site, clock[-1]).throughput if slot.test == "on-demand"]
        assert [spec.capture_packets for spec in specs] == [5000, 20_000]


def test_viewers_see_it_without_the_name_and_may_not_request(path):
    slot_id = post(logged_in("operator"), path).json()["id"]
    viewer = logged_in("viewer")

    assert post(viewer, path).status_code == 403
    assert post(Client(), path).status_code == 401
    body = viewer.get(f"/api/v1/on-demand/{slot_id}").json()
    assert (body["state"], body["asked_by"]) == ("planned", None)


def test_a_browser_must_send_its_csrf_token(path):
    careful = logged_in("operator", enforce_csrf_checks=True)

    assert post(careful, path).status_code == 403
    assert careful.post(f"/paths/{path.pk}/run/", {"duration_s": 5, "streams": 1}).status_code == 403
    assert not Slot.objects.exclude(request=None).exists()


def test_an_impossible_request_is_refused_with_its_reason(path):
    operator = logged_in("operator")

    assert operator.post("/api/v1/paths/999999/on-demand", {}, content_type="application/json").status_code == 404
    assert post(operator, path, streams=0).status_code == 422
    assert post(operator, path, wibble=1).status_code == 422
    udp = post(operator, path, protocol="udp")
    assert udp.status_code == 422
    assert lacks(udp.json()["detail"], "UDP", "rate_bps") == []
    assert operator.get("/api/v1/on-demand/1").status_code == 404
    assert operator.get(f"/api/v1/on-demand/{2**63}").status_code in (404, 422)
    Mesh.objects.update(budgets={"path": {"max_minutes_per_day": 0.1}})
    over = post(operator, path, duration_s=10)
    assert over.status_code == 409
    rule, _, spent = over.json()["detail"].partition(": ")
    assert rule == "budget.path.max_minutes_per_day"
    assert spent.startswith("10 s ")
    assert lacks(spent, " 0.0 minutes", "s1 → s2", "2026-11-21", " 0.1 minutes allowed") == []


def test_it_can_be_cancelled_until_an_agent_has_it(path):
    operator = logged_in("operator")
    first = post(operator, path, duration_s=100).json()["id"]
    second = post(operator, path).json()["id"]

    assert operator.delete(f"/api/v1/on-demand/{first}").status_code == 409
    assert operator.delete(f"/api/v1/on-demand/{second}").status_code == 204
    assert operator.get(f"/api/v1/on-demand/{second}").status_code == 404


def page(client, path):
    answer = client.get(f"/paths/{path.pk}/")
    assert answer.status_code == 200
    return answer.content.decode()


def test_the_page_has_the_form_for_operators_only(path):
    assert 'name="throughput"' in page(logged_in("operator"), path)
    assert 'action="/paths/' not in page(logged_in("viewer"), path)


def test_readers_without_the_permission_are_told_who_may_test(path, settings):
    settings.LOCAL_READ = True
    viewer, anonymous = page(logged_in("viewer"), path), page(Client(HTTP_HOST="localhost"), path)

    assert "Operators can test this path" in viewer
    assert f'<a href="/login/?next=%2Fpaths%2F{path.pk}%2F">Log in</a> as operator to test this path' in anonymous
    assert "Operators can test this path" not in page(logged_in("operator"), path)


def state(text):
    """The test's state on the page, without markup, and whether the page follows it."""
    part = re.search(r'id="run-now-state">(.*?)</div>', text, re.S)
    return " ".join(re.sub(r"<[^>]+>", "", part[1] if part else "").split()), "data-running" in text


def test_the_page_shows_the_state_until_the_result(path, clock):
    operator = logged_in("operator")

    response = operator.post(f"/paths/{path.pk}/run/", {"duration_s": "10", "streams": "1", "protocol": "tcp"})

    assert (response.status_code, response["Location"]) == (302, f"/paths/{path.pk}/#test-now")
    slot = Slot.objects.exclude(request=None).get()
    state_text, is_followed = state(page(operator, path))
    assert (
        lacks(state_text, f"test {slot.pk} begins", "12:00:15 UTC", "waiting for its slot, in 15 s"),
        is_followed,
    ) == ([], True)
    clock.append(slot.starts_at + timedelta(seconds=1))
    assert lacks(state(page(operator, path))[0], f"test {slot.pk} is running: 1 of 10 s", "ends") == []
    clock.append(slot.ends_at)
    state_text, is_followed = state(page(operator, path))
    assert (lacks(state_text, f"test {slot.pk} is done", "pending"), is_followed) == ([], True)
    report(slot, run(slot))
    state_text, is_followed = state(page(operator, path))
    assert (lacks(state_text, f"test {slot.pk} measured 9 Mbit/s", "details"), is_followed) == ([], False)
    assert f"?test={slot.starts_at:%Y-%m-%dT%H:%M:%S}" in page(operator, path)
    clock.append(slot.ends_at + timedelta(hours=2))
    assert state(page(operator, path)) == ("", False)


def test_the_page_shows_the_rule_that_forbade_it(path, clock):
    operator = logged_in("operator")
    operator.post(f"/paths/{path.pk}/run/", {"duration_s": "10", "streams": "1", "protocol": "tcp"})
    slot = Slot.objects.exclude(request=None).get()
    clock.append(slot.ends_at)
    rule = "throughput.max_duration_s: 10 s wanted, 5 s allowed"

    report(slot, run(slot, outcome=Outcome.NOT_PERMITTED, throughput_bps=None, duration_s=None, detail=rule))

    state_text, is_followed = state(page(operator, path))
    assert (lacks(state_text, f"test {slot.pk}", "not permitted", rule), is_followed) == ([], False)


@pytest.mark.parametrize(
    ("fields", "status", "facts"),
    [
        ({"duration_s": "x", "streams": "1", "protocol": "tcp"}, 422, ["duration (s): ", "whole number"]),
        ({"duration_s": "0", "streams": "1", "protocol": "tcp"}, 422, ["duration_s must", "integer from 1 to 3600"]),
        ({"duration_s": "3600", "streams": "1", "protocol": "tcp"}, 302, []),
    ],
)
def test_an_invalid_form_is_refused_with_the_reason(path, fields, status, facts):
    answer = logged_in("operator").post(f"/paths/{path.pk}/run/", fields)

    assert answer.status_code == status
    assert lacks(answer.content.decode().lower(), *facts) == []
