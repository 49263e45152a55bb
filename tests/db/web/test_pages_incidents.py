"""The pages of incidents, maintenance and audit records: their content, and their buttons with permissions."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from html import unescape

import pytest
from django.utils import timezone

from monitor.alerts.evaluate import evaluate
from monitor.alerts.evidence import gather
from monitor.alerts.evidence.words import headline
from monitor.alerts.evidence.words import since as incident_since
from monitor.alerts.incidents import actions, lifecycle
from monitor.alerts.models import AuditRecord, Incident, QuietPeriod
from monitor.alerts.notify.incident_text import subject
from monitor.archive.models import Burst
from monitor.archive.upkeep import freshness
from monitor.archive.upkeep.freshness import RecurringWork
from monitor.mesh.models import Group, Mesh, Site
from monitor.web.pages.incidents.load import load_incident
from tests.db.alert_rows import make_bursts
from tests.db.incident_rows import HOUR, MINUTE, NOW, lossy, person, watched
from tests.db.pages_mesh import throughput
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]
LOCAL = {"host": "localhost"}
LIST_QUERIES = 13
"""The count, incidents, their paths, sites, groups, the mesh; freshness; five of its state, two of trends."""
INCIDENT_QUERIES = 13
"""The incident, paths, turns, notifications, audit records; evidence, the last hour; quiet times; and the series
and own tests of two directions; freshness."""
MAINTENANCE_QUERIES = 4


@pytest.fixture
def paths():
    return watched()


@pytest.fixture
def page(client):
    def get(address, status=200):
        answer = client.get(address, headers=LOCAL)
        assert answer.status_code == status, answer.content
        return unescape(answer.content.decode())

    return get


@pytest.fixture
def press(client):
    def post(address, status=302, **fields):
        answer = client.post(address, fields, headers=LOCAL)
        assert answer.status_code == status, answer.content
        return answer

    return post


@pytest.fixture
def operator(client):
    client.force_login(person("les", "operator"))


def text(html: str) -> str:
    return " ".join(re.sub(r"<[^ >][^>]*>", " ", html).split())


class TestTheList:
    def test_an_open_incident_has_its_cause_a_sign_and_words(self, page, paths):
        incident = lossy(paths["slac → cern"])

        html = page("/incidents/")

        row = re.search(rf'<li class="open [a-z]+" data-incident="{incident.pk}".*?</li>', html, re.DOTALL)[0]
        assert f'href="/incidents/{incident.pk}/">{incident.title}</a>' in row
        assert "▲" in row
        assert "began about 2026-11-21 12:20 UTC , ongoing for 10 min" in text(row)
        assert "1 unacknowledged" in text(html)

    def test_filters_are_in_the_address_and_combine(self, page, paths):
        past = lossy(paths["fnal → cern"], NOW - 30 * HOUR)
        lifecycle.close(past.pk, [(paths["fnal → cern"].pk, "loss")], "over", NOW - 29 * HOUR)
        lossy(paths["slac → cern"])

        resolved = page("/incidents/?state=resolved&site=cern")

        assert re.findall(r'data-incident="(\d+)"', resolved) == [str(past.pk)]
        assert 'href="?state=all&site=cern"' in resolved
        assert re.findall(r'data-incident="(\d+)"', page("/incidents/?state=resolved&last=day")) == []
        assert "all 2" in text(page("/incidents/"))

    def test_without_incidents_it_lists_the_enabled_rules(self, page, paths):
        freshness.note(RecurringWork.EVALUATION, timezone.now())

        page_text = text(page("/incidents/"))

        assert "No open incidents" in page_text
        # Only the loss rule is enabled in this mesh.
        assert lacks(page_text, "6 paths", "watched", ": loss.") == []

    def test_without_a_mesh_it_gives_instructions(self, page, db):
        assert "manage.py mesh apply mesh.toml" in page("/incidents/")

    @pytest.mark.parametrize(
        ("query", "facts"),
        [
            ("state=odd", ["choose", "open, unacknowledged"]),
            ("site=nowhere", ["no such site", "cern, fnal, slac"]),
            ("severity=odd", ["no such severity"]),
            ("path=9999", ["no such path"]),
            ("path=x", ["whole number"]),
            ("page=0", ["whole number"]),
        ],
    )
    def test_an_invalid_filter_is_named(self, page, paths, query, facts):
        assert lacks(page(f"/incidents/?{query}", status=404), query, *facts) == []

    def test_long_lists_are_paginated(self, page, paths):
        for number in range(30):
            at = NOW - number * HOUR
            Incident.objects.create(rule="loss", cause=f"c{number}", opened_at=at, closed_at=at, summary="s")

        first, second = page("/incidents/?state=all"), page("/incidents/?state=all&page=2")

        assert "1 to 25 of 30" in text(first)
        assert "26 to 30 of 30" in text(second)
        assert '?state=all&page=2" rel="next"' in first
        assert '?state=all&page=1" rel="prev"' in second

    def test_the_list_has_a_fixed_query_count(self, page, client, paths, django_assert_num_queries):
        lossy(paths["slac → cern"])
        with django_assert_num_queries(LIST_QUERIES):
            page("/incidents/")
        lossy(paths["fnal → cern"])
        with django_assert_num_queries(LIST_QUERIES):
            page("/incidents/")


@pytest.fixture
def fading_loss(paths, monkeypatch):
    """Loss from slac to cern, which pings show in both directions: 40% for ten minutes, then 20%; throughput tests
    decreased in a single direction."""
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)
    both = [paths["slac → cern"], paths["cern → slac"]]
    for path in both:
        make_bursts(path, [0] * 120, NOW - 140 * MINUTE)
        make_bursts(path, [4] * 10, NOW - 20 * MINUTE)
    for seconds in (10, 0):
        evaluate(NOW - 10 * MINUTE - timedelta(seconds=seconds))
    for path, rate_bps in zip(both, (4e5, 2.7e7), strict=True):
        make_bursts(path, [2] * 10, NOW - 10 * MINUTE)
        for hours in (3, 2, 1):
            throughput(path, NOW - hours * HOUR, 2.7e7)
        throughput(path, NOW - 5 * MINUTE, rate_bps)
    evaluate(NOW)
    gather.store_facts(Incident.objects.get(), NOW)
    evaluate(NOW)
    return Incident.objects.get()


class TestTitles:
    """An incident has the same title everywhere."""

    def test_it_has_the_current_loss_and_the_direction(self, page, fading_loss):
        title = re.search(r"<h1[^>]*>.*?</span>(.*?)</h1>", page(f"/incidents/{fading_loss.pk}/"), re.DOTALL)[1].strip()

        found = re.fullmatch(r"slac → cern loses (?:about )?(\d+)% since 12:(\d\d):\d\d UTC", title)
        # Of each path 40 of 100 packets, then 20 of 100.
        assert 20 <= int(found[1]) <= 40
        assert int(found[2]) in (9, 10)

    def test_lists_api_ticket_and_messages_have_the_pages_title(self, page, client, paths, fading_loss):
        title = headline(fading_loss)

        for address in ("/", "/incidents/", "/sites/cern/", f"/paths/{paths['slac → cern'].pk}/"):
            row = re.search(rf'<li[^>]*data-incident="{fading_loss.pk}".*?</li>', page(address), re.DOTALL)[0]
            assert title in text(row), address
            assert "cern → slac:" not in row, "the summary of the opening begins with the direction that is well"
        in_full = client.get(f"/api/v1/incidents/{fading_loss.pk}", headers=LOCAL).json()
        assert in_full["title"] == title
        assert client.get("/api/v1/incidents", headers=LOCAL).json()[0]["title"] == title
        assert in_full["ticket"].splitlines()[0] == title
        assert title in subject(fading_loss, "opened")

    def test_the_direction_that_loses_is_shown_first(self, page, fading_loss):
        heads = re.findall(r'<h2 id="d\d+-head">.*?</h2>', page(f"/incidents/{fading_loss.pk}/"), re.DOTALL)

        assert lacks(text(heads[0]), "slac → cern") == []
        assert lacks(text(heads[1]), "cern → slac", "reverse direction") == []

    def test_without_tests_it_names_the_pair(self, page, paths):
        incident = lossy(paths["slac → cern"])

        assert incident.title.startswith("cern ↔ slac loses about 20% since ")
        assert incident.title in page(f"/incidents/{incident.pk}/")


class TestIncidentPage:
    def test_charts_show_half_an_hour_before_a_short_incident(self, paths):
        incident = lossy(paths["slac → cern"])

        view = load_incident(incident.pk, None, NOW)

        rows = [row for side in view.directions for rows in side.rtt_chart["datasets"].values() for row in rows]
        began_ms = incident_since(incident).timestamp() * 1000
        assert min(row["t"] for row in rows if "t" in row) == pytest.approx(began_ms - 30 * 60_000, abs=60_000)

    def test_it_shows_both_directions_before_and_after(self, page, paths):
        incident = lossy(paths["slac → cern"])

        html = page(f"/incidents/{incident.pk}/")

        there, back = re.findall(r'<table class="plain before-after">.*?</table>', html, re.DOTALL)
        # 120 clean bursts of 10 before, then 10 bursts that lost 2 of 10 each, and no loss in the reverse direction.
        assert re.search(r"loss < 0\.\d+% \(0 of 1,\d\d\d\) 20% \(20 of 100\)", text(there))
        assert re.search(r"loss < 0\.\d+% \(0 of 1,\d\d\d\) < 3% \(0 of 100\)", text(back))
        assert html.count("data-chart=") == 1 + 4
        assert re.search(r'"incidents": \[\{"t": \d+', html), "the onset is marked in the charts"

    def test_each_band_of_the_rtt_chart_is_in_its_legend(self, page, paths):
        path, back = paths["slac → cern"], paths["cern → slac"]
        incident = lossy(path)
        Burst.objects.filter(path_id=path.pk, measured_at__gte=NOW - 3 * MINUTE).delete()
        make_bursts(path, [10] * 3, NOW - 3 * MINUTE)
        Burst.objects.filter(
            path_id=back.pk, measured_at__gte=NOW - 20 * MINUTE, measured_at__lt=NOW - HOUR / 6
        ).delete()

        html = page(f"/incidents/{incident.pk}/")

        bands = {
            key: set(re.findall(r'<span class="key ([a-z-]+)"></span>', keys)) - {"incident-span"}
            for key, keys in re.findall(r'<ul class="keys" id="d(\d+)-rtt-keys".*?>(.*?)</ul>', html)
        }
        assert bands == {str(path.pk): {"all-lost"}, str(back.pk): {"no-data"}}

    def test_a_minute_of_a_throughput_test_is_called_so_in_both_charts(self, page, paths):
        """One packet was left of it, and lost."""
        incident = lossy(paths["slac → cern"])
        path = paths["cern → slac"]
        of_test = Burst.objects.filter(path_id=path.pk, measured_at__gte=NOW - 5 * MINUTE).earliest("measured_at")
        Burst.objects.filter(pk=of_test.pk).update(sent=1, received=0, rtts_ms=[None], loaded_rtts_ms=[80.0, 81.0])

        html = page(f"/incidents/{incident.pk}/")

        for name in ("loss", "rtt"):
            pattern = rf'<script id="d{path.pk}-{name}" type="application/json">(.*?)</script>'
            datasets = json.loads(re.search(pattern, html)[1])["datasets"]
            assert len(datasets["own-test"]) == 1
            assert datasets.get("all-lost", []) == []
            assert not any(row.get("ratio") for row in datasets["steps"])

    def test_both_charts_have_the_same_steps(self, page, paths):
        incident = lossy(paths["slac → cern"])

        html = page(f"/incidents/{incident.pk}/")

        key = f"d{paths['slac → cern'].pk}"
        loss, rtt = (
            json.loads(re.search(rf'<script id="{key}-{name}" type="application/json">(.*?)</script>', html)[1])
            for name in ("loss", "rtt")
        )
        bars = [row for row in loss["datasets"]["steps"] if row["ratio"] is not None]
        # Each burst of ten minutes lost packets.
        assert [bar["t2"] - bar["t"] for bar in bars] == [60_000] * 10
        steps = {row["t"]: row["t2"] for row in rtt["datasets"]["steps"] if row["t2"] is not None}
        assert all(steps[bar["t"]] == bar["t2"] for bar in bars)

    def test_the_ticket_can_be_copied_without_inline_script(self, page, paths):
        incident = lossy(paths["slac → cern"])

        html = page(f"/incidents/{incident.pk}/")

        ticket = re.search(r'<pre id="ticket".*?</pre>', html, re.DOTALL)[0]
        assert "192.0.2.1" in ticket
        assert 'data-copy="ticket"' in html
        assert not re.search(r"<script(?![^>]*(src=|application/json))", html)
        assert not re.search(r'\son\w+="', html)

    def test_its_history_has_each_turn_and_each_correction(self, page, paths):
        incident = lossy(paths["slac → cern"])
        lifecycle.correct(incident.pk, "with results that came late it was less", NOW)
        lifecycle.close(incident.pk, [(paths["slac → cern"].pk, "loss")], "loss < 1%", NOW + HOUR)

        history = re.search(r'<ol id="history".*?</ol>', page(f"/incidents/{incident.pk}/"), re.DOTALL)[0]

        turns = re.findall(r"<b>(\w+)</b>", history)
        assert turns == ["detected", "opened", "corrected", "resolved"]
        assert "with results that came late it was less" in history

    def test_markup_in_a_comment_is_shown_as_text(self, client, press, operator, paths):
        incident = lossy(paths["slac → cern"])
        press(f"/incidents/{incident.pk}/comment/", text="<script>alert(1)</script>")

        html = client.get(f"/incidents/{incident.pk}/", headers=LOCAL).content.decode()

        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
        assert "<script>alert" not in html

    def test_an_unknown_incident_is_404(self, page, paths):
        assert "There is no incident 77" in page("/incidents/77/", status=404)

    def test_an_incident_has_a_fixed_query_count(self, page, client, paths, django_assert_num_queries):
        incident = lossy(paths["slac → cern"])

        with django_assert_num_queries(INCIDENT_QUERIES):
            page(f"/incidents/{incident.pk}/")


@pytest.mark.usefixtures("operator")
class TestButtons:
    def test_acknowledging_is_shown_and_can_be_undone(self, page, press, paths):
        incident = lossy(paths["slac → cern"])
        address = f"/incidents/{incident.pk}/"

        assert press(f"{address}acknowledge/")["Location"] == address
        assert "acknowledged by les at" in text(page(address))
        press(f"{address}unacknowledge/")

        assert ">Acknowledge</button>" in page(address)
        assert AuditRecord.objects.count() == 2

    def test_a_second_acknowledgement_names_the_first_person(self, client, press, paths):
        incident = lossy(paths["slac → cern"])
        actions.acknowledge(incident.pk, "warren", NOW)

        page_text = text(press(f"/incidents/{incident.pk}/acknowledge/", status=409).content.decode())

        assert lacks(page_text, "first", "Warren acknowledged", f"incident {incident.pk}", "12:30 UTC") == []

    def test_a_silence_of_an_incident_is_shown_on_its_page(self, page, press, paths):
        incident = lossy(paths["slac → cern"])
        fields = {"scope": f"path:{paths['slac → cern'].pk}", "length_s": 14400, "reason": "known", "key": "k"}

        for _ in range(2):
            press("/silences/", incident=incident.pk, **fields)

        assert QuietPeriod.objects.get().ends_at == NOW + 4 * HOUR
        html = page(f"/incidents/{incident.pk}/")
        banner = text(re.search(r'<span class="swatch maintenance">.*?</p>', html, re.DOTALL)[0])
        assert lacks(banner, "silence", "by les", "until 2026-11-21 16:30 UTC", "known", "Notifications", "muted") == []

    def test_maintenance_is_scheduled_changed_and_ended(self, page, press, paths):
        fields = {"scope": "group:coast", "every_s": "604800", "reason": "updates"}
        times = {"starts_at": "2026-11-23T02:00", "ends_at": "2026-11-23T04:00"}

        press("/maintenance/", **fields, **times)
        window = QuietPeriod.objects.get()
        assert "group coast" in text(page("/maintenance/"))
        form = page(f"/maintenance/{window.pk}/")
        assert 'value="2026-11-23T04:00"' in form
        press(f"/maintenance/{window.pk}/", **fields, **{**times, "ends_at": "2026-11-23T05:00"}, revision=0)
        window.refresh_from_db()
        assert (window.ends_at - window.starts_at, window.every_s, window.revision) == (3 * HOUR, 604_800, 1)
        late = press(f"/maintenance/{window.pk}/", status=409, **{**fields, "reason": "else"}, **times, revision=0)
        assert "changed or ended" in text(late.content.decode())
        press(f"/maintenance/{window.pk}/end/")

        html = page("/maintenance/")
        assert "No scheduled maintenance." in html
        assert ">Past</h2>" in html
        assert [action.split()[0] for action in AuditRecord.objects.order_by("pk").values_list("what", flat=True)] == [
            "made",
            "changed",
            "ended",
        ]

    @pytest.mark.parametrize(
        ("wrong", "facts"),
        [
            ({"ends_at": "2026-11-23T01:00"}, ["before it starts"]),
            ({"ends_at": "tomorrow"}, ["valid date/time"]),
            ({"scope": "site:nowhere"}, ["Select a valid choice"]),
            ({"starts_at": "1990-01-01T00:00", "ends_at": "2150-12-31T23:59"}, ["1990,", "more than 10 years"]),
            ({"ends_at": "2028-01-01T00:00"}, ["longer than 366 days"]),
            ({"every_s": "77"}, ["Select a valid choice"]),
            ({"every_s": "86400", "ends_at": "2026-11-24T03:00"}, ["longer than", "repeat interval of 24 h"]),
        ],
    )
    def test_an_invalid_window_is_explained_beside_the_form(self, press, paths, wrong, facts):
        fields = {"scope": "mesh", "starts_at": "2026-11-23T02:00", "ends_at": "2026-11-23T04:00", **wrong}

        answer = press("/maintenance/", status=422, **fields)

        assert lacks(unescape(answer.content.decode()), *facts) == []
        assert not QuietPeriod.objects.exists()

    def test_a_silence_of_an_unknown_site_is_explained(self, press, paths):
        answer = press("/silences/", status=422, scope="site:nowhere", length_s=3600)

        assert "Select a valid choice" in unescape(answer.content.decode())

    def test_the_audit_trail_lists_actions_with_links(self, page, press, paths):
        incident = lossy(paths["slac → cern"])
        press(f"/incidents/{incident.pk}/comment/", text="called the provider")

        html = page("/audit/")

        assert "called the provider" in html
        assert f'href="/incidents/{incident.pk}/">commented on incident {incident.pk}</a>' in html
        assert "No activity" in page("/audit/?who=warren")


def test_the_audit_trail_is_paginated(client, page, operator, paths):
    for number in range(30):
        AuditRecord.objects.create(at=NOW - number * MINUTE, who="les", what=f"did {number}")

    assert "did 24" in page("/audit/")
    assert "did 25" not in page("/audit/")
    assert "26 to 30" in text(page("/audit/?page=2"))


PAGES = ["/incidents/", "/incidents/{incident}/", "/maintenance/"]
FOR_OPERATORS = ["/audit/", "/maintenance/{maintenance}/"]
BUTTONS = {
    "/incidents/{incident}/acknowledge/": {},
    "/incidents/{incident}/unacknowledge/": {},
    "/incidents/{incident}/comment/": {"text": "hello"},
    "/silences/": {"scope": "mesh", "length_s": 3600},
    "/maintenance/": {"scope": "mesh", "starts_at": "2026-11-23T02:00", "ends_at": "2026-11-23T04:00"},
    "/maintenance/{maintenance}/end/": {},
}


@pytest.mark.parametrize(
    ("role", "trail", "buttons"),
    [(None, 302, 302), ("viewer", 403, 403), ("operator", 200, 302)],
)
def test_each_role_sees_and_does_only_the_permitted(client, paths, role, trail, buttons):
    """Anonymous here is a user of the machine itself, who may read; an action leads back to a page, an action that
    needs a login leads to the login."""
    maintenance = QuietPeriod.objects.create(
        kind="maintenance", starts_at=NOW + HOUR, ends_at=NOW + 2 * HOUR, made_by="ann", made_at=NOW
    )
    there = {"incident": lossy(paths["slac → cern"]).pk, "maintenance": maintenance.pk}
    if role is not None:
        client.force_login(person("somebody", role))
    may_operate = role == "operator"

    for address in PAGES:
        answer = client.get(address.format(**there), headers=LOCAL)
        assert answer.status_code == 200
        assert ('<form id="operate"' in answer.content.decode()) is (may_operate and address != "/incidents/")
    assert {client.get(address.format(**there), headers=LOCAL).status_code for address in FOR_OPERATORS} == {trail}
    done = [client.post(address.format(**there), fields, headers=LOCAL) for address, fields in BUTTONS.items()]

    assert {response.status_code for response in done} == {buttons}
    assert all(
        ("/login/" in response["Location"]) is (role is None) for response in done if response.status_code == 302
    )
    assert AuditRecord.objects.count() == (len(BUTTONS) if may_operate else 0)


def test_a_form_of_another_site_has_no_effect(client, paths, operator):
    incident = lossy(paths["slac → cern"])
    client.handler.enforce_csrf_checks = True

    assert client.post(f"/incidents/{incident.pk}/acknowledge/", headers=LOCAL).status_code == 403
    assert not AuditRecord.objects.exists()


def test_the_maintenance_page_has_a_fixed_query_count(page, paths, django_assert_num_queries):
    for name in ("slac", "cern"):
        site = actions.QuietScope(site=Site.objects.get(name=name))
        actions.silence(site, NOW + HOUR, "", "les", NOW)
    with django_assert_num_queries(MAINTENANCE_QUERIES):
        page("/maintenance/")


def test_the_grid_shows_maintenance_and_incidents_by_sign(page, paths):
    lossy(paths["slac → cern"])
    actions.maintain(
        actions.QuietScope(group=Group.objects.get()), NOW - HOUR, NOW + HOUR, "", "les", NOW, every=timedelta(days=1)
    )

    html = page("/")

    both = re.search(
        rf'<td class="([^"]*)"><a id="p{paths["slac → cern"].pk}"[^>]*aria-label="([^"]*)">(.*?)</a>', html
    )
    other = re.search(rf'<td class="([^"]*)"><a id="p{paths["slac → fnal"].pk}"[^>]*>(.*?)</a>', html)
    assert both[1].split()[1:] == ["incident", "maintenance"]
    assert both[2].count("incident open, in maintenance")
    assert both[3].index("▲") < both[3].index("⚒")
    assert "maintenance" not in other[1]
    assert "⚒" not in other[2]
    assert "in maintenance: alerts suppressed" in html, "the legend has the signs that are shown"


def test_an_empty_list_names_the_rules_that_are_on(page, paths):
    """Limits are on where mesh.toml sets their key, for the whole mesh or a part of it (docs/alert-rules.md)."""

    def rules():
        text = re.sub(r"\s+", " ", page("/incidents/"))
        return set(re.search(r"watched for: (.*?)\.<", text)[1].split(", "))

    Mesh.objects.update(alerts={})
    general = rules()
    Mesh.objects.update(alerts={"for": [{"path": ["cern", "slac"], "rtt_median": {"above_ms": 200.0}}]})
    with_limit = rules()
    Mesh.objects.update(alerts={"loss": {"enabled": False}})

    assert "loss" in general
    assert not {"rtt median", "rtt p95", "rtt minimum", "mos", "throughput limit"} & general
    assert with_limit - general == {"rtt median"}
    assert general - rules() == {"loss"}
