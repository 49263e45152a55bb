"""Aggregate tests on demand through the API and on the page: permissions, limits, the state until the result."""

from datetime import UTC, datetime, timedelta
from html import unescape

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from monitor.accounts import rate_limits
from monitor.accounts.models import ReadLimit
from monitor.alerts.models import AuditRecord
from monitor.archive.aggregates.settle import settle
from monitor.mesh.models import Mesh, Site, Slot
from tests.db.archive.test_aggregates import deliver, plan_mesh, result
from tests.db.logins import logged_in
from tests.db.web.test_pages_aggregates import words
from tests.facts import lacks

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 3, 14, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
ADDRESS = "/api/v1/on-demand-aggregates"
INTO_D = {"shape": "many-to-one", "senders": ["a", "b"], "receivers": ["d"]}
FORM = {**INTO_D, "duration_s": "10", "streams": "1", "protocol": "tcp"}


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """Django's clock, set by the test, in a mesh with the aggregate test `in`."""
    times = [NOW]
    monkeypatch.setattr(timezone, "now", lambda: times[-1])
    plan_mesh()
    Slot.objects.all().delete()
    return times


@pytest.fixture(autouse=True)
def waits(monkeypatch):
    """Seconds to wait of each sort of request."""
    waits = {}
    monkeypatch.setattr(rate_limits, "wait_s", lambda key, rate, client=None: waits.get(key.partition(":")[0], 0.0))
    return waits


def post(client, **body):
    return client.post(ADDRESS, body or INTO_D, content_type="application/json")


def page(client):
    answer = client.get("/aggregates/")
    assert answer.status_code == 200
    return answer.content.decode()


def requested_slots():
    return list(Slot.objects.exclude(request=None).order_by("pk"))


def test_an_operator_requests_a_test_by_api_and_gets_its_result(clock):
    operator = logged_in("operator")

    answer = post(operator, **INTO_D, duration_s=7, streams=2)

    assert answer.status_code == 201, answer.content
    requested = answer.json()
    address = f"{ADDRESS}/{requested['id']}"
    assert (requested["state"], requested["asked_by"], requested["starts_at"]) == (
        "planned", "operator", "2026-03-14T12:00:30Z",
    )  # fmt: skip
    settings = {"duration_s": 7, "omit_s": 0, "streams": 2, "port": 5201, **INTO_D}
    assert (requested["settings"], requested["result"]) == (settings, None)
    slots = requested_slots()
    clock.append(slots[0].starts_at)
    assert operator.get(address).json()["state"] == "running"
    clock.append(slots[0].ends_at)
    assert operator.get(address).json()["state"] == "awaited"
    for slot, rate_bps in zip(slots, (12e6, 9e6), strict=True):
        deliver(slot, result(slot, rate_bps))
    settle(clock[-1] + SECOND)

    ended = operator.get(address).json()
    assert (ended["state"], ended["result"]["state"], ended["result"]["id"]) == ("ended", "complete", requested["id"])
    assert ended["result"]["sum_bps"] == pytest.approx(21e6, rel=1e-3)
    assert [member["outcome"] for member in ended["members"]] == ["measured", "measured"]
    assert operator.get(f"/api/v1/aggregates/{requested['id']}").json() == ended["result"]


def test_a_test_of_mesh_toml_is_named(clock):
    operator = logged_in("operator")

    assert post(operator, test="in").json()["settings"]["senders"] == ["a", "b", "c"]
    refused = post(operator, test="out")
    assert refused.status_code == 422
    assert lacks(refused.json()["detail"], '"out"', "it has in") == []


def test_viewers_see_it_without_the_name_and_may_not_request(clock):
    slot_id = post(logged_in("operator")).json()["id"]
    viewer = logged_in("viewer")

    assert [post(viewer).status_code, post(Client()).status_code] == [403, 401]
    assert viewer.post("/aggregates/run/", FORM).status_code == 403
    assert viewer.delete(f"{ADDRESS}/{slot_id}").status_code == 403
    body = viewer.get(f"{ADDRESS}/{slot_id}").json()
    assert (body["state"], body["asked_by"]) == ("planned", None)
    assert len(requested_slots()) == 2
    assert AuditRecord.objects.filter(what__contains="aggregate").count() == 1


def test_a_browser_must_send_its_csrf_token(clock):
    careful = logged_in("operator", enforce_csrf_checks=True)

    assert [post(careful).status_code, careful.post("/aggregates/run/", FORM).status_code] == [403, 403]
    assert requested_slots() == []


def test_impossible_and_frequent_requests_are_refused(clock, waits):
    operator = logged_in("operator")

    assert post(operator, **INTO_D, wibble=1).status_code == 422
    assert post(operator, **INTO_D, duration_s=301).status_code == 422
    assert post(operator, **{**INTO_D, "senders": ["a"]}).status_code == 422
    assert operator.get(f"{ADDRESS}/1").status_code == 404
    waits["on-demand-aggregates"] = 41.5
    too_often = post(operator)
    assert (too_often.status_code, too_often["Retry-After"]) == (429, "42")
    assert operator.post("/aggregates/run/", FORM).status_code == 429
    waits.clear()
    Mesh.objects.update(budgets={"host": {"max_minutes_per_day": 0.1}})
    over = post(operator)
    assert (over.status_code, over.json()["detail"].partition(":")[0]) == (409, "budget.host.max_minutes_per_day")
    assert requested_slots() == []


def test_it_can_be_cancelled_until_an_agent_has_it(clock):
    operator = logged_in("operator")
    first = post(operator, **INTO_D, duration_s=100).json()["id"]
    second = post(operator).json()["id"]

    assert operator.delete(f"{ADDRESS}/{first}").status_code == 409
    assert f'action="/aggregates/{second}/cancel/"' in page(operator)
    assert f'action="/aggregates/{first}/cancel/"' not in page(operator)
    assert operator.post(f"/aggregates/{second}/cancel/").status_code == 302
    assert operator.get(f"{ADDRESS}/{second}").status_code == 404
    assert operator.post(f"/aggregates/{first}/cancel/").status_code == 409
    assert len(requested_slots()) == 2


def test_the_page_shows_the_state_until_the_result(clock):
    operator = logged_in("operator")
    assert 'name="test" value="in"' in page(operator)

    answer = operator.post("/aggregates/run/", {"test": "in"})

    assert (answer.status_code, answer["Location"]) == (302, "/aggregates/#test-now")
    shown = page(operator)
    assert lacks(words(shown), "a, b, c → d", "begins in 30 s") == []
    assert 'data-live-every-s="5"' in shown
    slots = requested_slots()
    clock.append(slots[0].starts_at + SECOND)
    assert "a, b, c → d, running" in words(page(operator))
    clock.append(slots[0].ends_at)
    assert "done, 0 of 3 members reported" in words(page(operator))
    for slot in slots:
        deliver(slot, result(slot, 9e6))
    settle(clock[-1] + SECOND)
    shown = page(operator)
    assert lacks(words(shown), "a, b, c → d, ended", "27 Mbit/s") == []
    assert 'data-live-every-s="30"' in shown
    assert f'href="/aggregates/{slots[0].pk}/"' in shown
    clock.append(clock[-1] + timedelta(hours=2))
    assert "On demand, in the last hour" not in page(operator)


def test_the_form_takes_other_hosts(clock):
    operator = logged_in("operator")

    assert operator.post("/aggregates/run/", {**FORM, "receivers": ["c", "d"]}).status_code == 422
    assert operator.post("/aggregates/run/", {**FORM, "duration_s": "x"}).status_code == 422
    assert operator.post("/aggregates/run/", {**FORM, "shape": "one-to-many", "senders": ["a"],
                                              "receivers": ["b", "c"]}).status_code == 302  # fmt: skip
    assert [str(slot.measurement.path) for slot in requested_slots()] == ["a → b", "a → c"]


def test_readers_without_the_permission_are_told_who_may_test(settings):
    settings.LOCAL_READ = True
    viewer, anonymous = page(logged_in("viewer")), Client(HTTP_HOST="localhost").get("/aggregates/").content.decode()

    assert "Operators can run an aggregate test" in viewer
    assert lacks(unescape(anonymous), "/login/?next=%2Faggregates%2F", "as operator to run an aggregate test") == []
    assert 'action="/aggregates/run/"' not in viewer + anonymous


@pytest.mark.django_db(transaction=True)
def test_readers_of_some_sites_see_only_tests_of_these(clock):
    slot_id = post(logged_in("operator")).json()["id"]
    viewer = logged_in("viewer")
    limit = ReadLimit.objects.create(user=User.objects.get(username="viewer"))
    limit.sites.set(Site.objects.filter(name__in=["a", "d"]))

    assert viewer.get(f"{ADDRESS}/{slot_id}").status_code == 404
    assert "a, b → d" not in words(page(viewer))
    limit.sites.add(Site.objects.get(name="b"))
    assert viewer.get(f"{ADDRESS}/{slot_id}").status_code == 200
