"""Outdated work (evaluation, summaries, deliveries), and that pages, API and metrics report it."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.utils.html import strip_tags

from monitor.agents.models import AgentHealth
from monitor.archive.models import DirtyHour
from monitor.archive.upkeep import freshness
from monitor.archive.upkeep.freshness import Freshness, RecurringWork
from tests.db.pages_mesh import NOW, hour

LOCAL = {"Host": "localhost"}
MINUTE = timedelta(minutes=1)

pytestmark = [pytest.mark.django_db, pytest.mark.timescale]


def works(late_works):
    return [late_work.work for late_work in late_works]


class TestDecision:
    def of(self, **times):
        nothing = dict.fromkeys(Freshness.__dataclass_fields__)
        return Freshness(**nothing | {"least_every_s": 60} | times)

    @pytest.mark.parametrize(
        ("field", "work", "limit"),
        [
            ("evaluated_at", RecurringWork.EVALUATION, 2 * MINUTE),
            ("notified_at", RecurringWork.NOTIFICATION, 5 * MINUTE),
            ("summaries_wait_since", RecurringWork.SUMMARIES, 10 * MINUTE),
            ("delivered_at", RecurringWork.DELIVERY, 5 * MINUTE),
        ],
    )
    def test_overdue_work_is_reported_with_its_last_time(self, field, work, limit):
        at = datetime(2026, 11, 21, 11, 0, tzinfo=UTC)
        work_state = self.of(**{field: at})

        assert work_state.stale_at(at + limit) == ()
        [stale] = work_state.stale_at(at + limit + timedelta(seconds=1))
        assert (stale.work, stale.since) == (work, at)
        assert "2026-11-21 11:00 UTC" in stale.sentence

    def test_without_a_mesh_nothing_is_overdue(self):
        assert self.of(least_every_s=None).stale_at(NOW) == ()

    def test_work_that_was_never_done_counts_from_the_mesh(self):
        work_state = self.of(mesh_applied_at=NOW)

        assert work_state.stale_at(NOW + 2 * MINUTE) == ()
        assert works(work_state.stale_at(NOW + 6 * MINUTE)) == [RecurringWork.EVALUATION, RecurringWork.NOTIFICATION]

    def test_deliveries_may_be_as_far_apart_as_tests(self):
        work_state = self.of(delivered_at=NOW, least_every_s=3600)

        assert work_state.stale_at(NOW + 119 * MINUTE) == ()
        assert works(work_state.stale_at(NOW + 121 * MINUTE)) == [RecurringWork.DELIVERY]

    def test_without_measurements_no_delivery_is_due(self):
        assert self.of(delivered_at=NOW, least_every_s=None).stale_at(NOW + 999 * MINUTE) == ()


class TestMarks:
    def test_an_earlier_mark_never_replaces_a_later_mark(self):
        freshness.note(RecurringWork.EVALUATION, NOW)
        freshness.note(RecurringWork.EVALUATION, NOW - MINUTE)

        assert freshness.load().evaluated_at == NOW

    def test_all_marks_are_read_with_a_single_statement(self, paths, django_assert_num_queries):
        path = paths["cern", "slac"]
        freshness.note(RecurringWork.NOTIFICATION, NOW - MINUTE)
        DirtyHour.objects.create(path_id=path.pk, hour=NOW, marked_at=NOW - 3 * MINUTE)
        for name, minutes in (("cern", 4), ("slac", 2)):
            site = paths[name, "uct"].source.site
            AgentHealth.objects.create(
                site=site, accepted_at=NOW - minutes * MINUTE, agent_version="1", queued=0, dropped=0
            )

        with django_assert_num_queries(1):
            state = freshness.load()

        assert state == Freshness(NOW, None, NOW - MINUTE, NOW - 3 * MINUTE, NOW - 2 * MINUTE, 60)


@pytest.fixture
def evaluated_long_ago(at_noon, paths):
    hour(paths["cern", "slac"], 600, 600, 20.0)
    freshness.note(RecurringWork.EVALUATION, NOW - timedelta(hours=2))
    freshness.note(RecurringWork.NOTIFICATION, NOW)
    return paths


@pytest.fixture
def evaluated_now(at_noon, paths):
    hour(paths["cern", "slac"], 600, 600, 20.0)
    for work in (RecurringWork.EVALUATION, RecurringWork.NOTIFICATION):
        freshness.note(work, NOW)
    return paths


def pages(paths):
    path = paths["cern", "slac"]
    return [
        "/", "/map/", "/incidents/", "/table/", "/compare/", "/sites/", "/sites/cern/", f"/paths/{path.pk}/",
        "/throughput/", "/maintenance/", "/completeness/", "/calculator/", "/sweeps/", "/records/",
    ]  # fmt: skip


def text(client, address):
    answer = client.get(address, headers=LOCAL)
    assert answer.status_code == 200, address
    return " ".join(strip_tags(answer.content.decode()).split())


def test_every_page_says_that_incidents_are_not_current(client, evaluated_long_ago):
    for address in pages(evaluated_long_ago):
        page_text = text(client, address)
        assert re.search(r"not current[^.]* not been evaluated [^.]*2026-11-21 10:30 UTC", page_text), address


def test_no_page_has_the_warning_while_work_is_current(client, evaluated_now):
    for address in pages(evaluated_now):
        assert "not current" not in text(client, address), address


OF_SUMMARIES = ["/?period=hour", "/?period=day", "/map/?period=day", "/?wall=1&period=week", "/sites/cern/", "week"]
OF_BURSTS = ["/", "/map/", "/?wall=1", "day"]
"""Of a path, by its period."""


@pytest.mark.parametrize("address", OF_SUMMARIES + OF_BURSTS)
@pytest.mark.parametrize("waits", [timedelta(seconds=59), 4 * MINUTE])
def test_figures_of_summaries_that_lag_say_as_of_when(client, evaluated_now, address, waits):
    """Less than the ten minutes after which every page warns."""
    path = evaluated_now["cern", "slac"]
    DirtyHour.objects.create(path_id=path.pk, hour=NOW.replace(minute=0), marked_at=NOW - waits)

    page = address if address.startswith("/") else f"/paths/{path.pk}/?period={address}"

    is_told = "as of 2026-11-21 12:26 UTC" in text(client, page)
    assert is_told == (address in OF_SUMMARIES and waits > MINUTE)


@pytest.mark.parametrize("address", ["/", "/incidents/", "/sites/cern/"])
def test_no_open_incidents_is_dated_by_the_last_evaluation(client, evaluated_long_ago, address):
    page_text = text(client, address)

    assert "No open incidents at 2026-11-21 10:30" in page_text
    assert not re.search("no open incidents(?! at)", page_text, re.IGNORECASE)


@pytest.mark.parametrize("address", ["/incidents/", "/sites/cern/"])
def test_no_open_incidents_is_undated_while_current(client, evaluated_now, address):
    page_text = text(client, address)

    assert re.search("no open incidents(?! at)", page_text, re.IGNORECASE)


def test_the_api_lists_overdue_work(client, evaluated_long_ago):
    body = client.get("/api/v1/freshness", headers=LOCAL).json()

    assert body["evaluated_at"] == "2026-11-21T10:30:00Z"
    assert [work["work"] for work in body["stale"]] == ["evaluation"]
    assert body["stale"][0]["since"] == "2026-11-21T10:30:00Z"


ANSWERS_OF_SUMMARIES = [
    "grid", "grid?period=week", "worst", "table?tick=hour", "table?tick=day", "table?tick=month&metric=mos",
    "completeness", "paths/ID/series?since=2026-11-19", "paths/ID/directions?since=2026-11-19",
    "paths/ID/congestion", "paths/ID/estimate",
]  # fmt: skip
ANSWERS_OF_RESULTS = [
    "grid?period=now", "paths/ID/series", "paths/ID/directions", "paths/ID/throughput", "paths/ID/stamp", "state",
    "centre",
]  # fmt: skip


DOWNLOADS_OF_SUMMARIES = ["/table.tsv", "/paths/ID/series.csv?period=week", "/paths/ID/directions.csv?period=week"]
DOWNLOADS_OF_RESULTS = ["/paths/ID/series.csv?period=day", "/paths/ID/bursts.csv?period=day"]
FROM_SUMMARIES = [*[f"/api/v1/{address}" for address in ANSWERS_OF_SUMMARIES], *DOWNLOADS_OF_SUMMARIES]
FROM_RESULTS = [*[f"/api/v1/{address}" for address in ANSWERS_OF_RESULTS], *DOWNLOADS_OF_RESULTS]


@pytest.mark.parametrize("address", FROM_SUMMARIES + FROM_RESULTS)
@pytest.mark.parametrize("waits", [timedelta(seconds=59), 4 * MINUTE])
def test_answers_of_summaries_that_lag_say_as_of_when(client, evaluated_now, address, waits):
    path = evaluated_now["cern", "slac"]
    DirtyHour.objects.create(path_id=path.pk, hour=NOW.replace(minute=0), marked_at=NOW - waits)

    page = address.replace("/ID/", f"/{path.pk}/").replace("2026-11-19", "2026-11-19T00:00:00Z")
    answer = client.get(page, headers=LOCAL)

    assert answer.status_code == 200, answer.content
    is_told = address in FROM_SUMMARIES and waits > MINUTE
    assert answer.headers.get("X-Summaries-As-Of") == ("2026-11-21T12:26:00Z" if is_told else None)


def test_the_description_has_the_header_of_each_answer_of_summaries(client):
    described = client.get("/api/v1/openapi.json", headers=LOCAL).json()["paths"]

    dated = {
        address.removeprefix("/api/v1/").replace("{path_id}", "ID")
        for address, methods in described.items()
        if "X-Summaries-As-Of" in methods.get("get", {}).get("responses", {}).get("200", {}).get("headers", {})
    }
    assert dated == {address.partition("?")[0] for address in ANSWERS_OF_SUMMARIES}


def test_the_list_of_incidents_has_its_evaluation_time(client, evaluated_long_ago):
    answer = client.get("/api/v1/incidents", headers=LOCAL)

    assert answer.json() == []
    assert answer.headers["X-Evaluated-At"] == "2026-11-21T10:30:00Z"


def test_the_metrics_have_the_time_of_the_evaluation(client, evaluated_long_ago):
    metric_lines = client.get("/metrics", headers=LOCAL).content.decode().splitlines()

    [evaluated] = [line for line in metric_lines if line.startswith("soundings_evaluation_timestamp_seconds ")]
    assert float(evaluated.split()[1]) == (NOW - timedelta(hours=2)).timestamp()
    assert 'soundings_stale{work="evaluation"} 1.0' in metric_lines
    assert 'soundings_stale{work="delivery"} 0.0' in metric_lines
