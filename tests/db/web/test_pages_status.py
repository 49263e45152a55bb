"""The status page: uptime by planted incidents and measurements; nothing private is shown."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html import unescape

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import URLPattern, get_resolver
from django.utils import timezone

from monitor.alerts.detect.rules.finding import RuleFinding
from monitor.alerts.evaluate import evaluate
from monitor.alerts.incidents import actions, lifecycle
from monitor.alerts.models import HistoryEvent, Incident, IncidentPath, IncidentTurn
from monitor.archive.models import Burst
from monitor.archive.queries.operation.uptime import UptimeStep, incident_shares, measured_shares
from monitor.archive.upkeep import freshness
from monitor.archive.upkeep.freshness import RecurringWork
from monitor.mesh.models import Group, Host, Measurement, MeasurementPeriod, Site
from monitor.web.pages.status import view
from monitor.web.pages.status.bars import BarState, UptimeBar, describe, draw
from monitor.web.pages.status.load import load_status
from tests.db.alert_rows import make_bursts
from tests.db.incident_rows import HOUR, MINUTE, NOW, lossy, person, watched
from tests.db.merging import merge_hours
from tests.db.pages_mesh import hour
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]
ELSEWHERE = {"REMOTE_ADDR": "192.0.2.7", "HTTP_HOST": "localhost"}
MIDNIGHT = datetime(2026, 11, 21, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def fresh_page(settings):
    settings.ALLOWED_HOSTS = ["*"]
    view.forget()
    yield
    view.forget()


@pytest.fixture
def paths():
    return watched()


@pytest.fixture
def public(settings):
    settings.PUBLIC_STATUS = True


@pytest.fixture
def page(public):
    def get():
        view.forget()
        answer = Client().get("/status/", **ELSEWHERE)
        assert answer.status_code == 200, answer.content
        return unescape(answer.content.decode())

    return get


def incident(path, began_at, ended_at, cause="slac ↔ cern", **fields):
    row = Incident.objects.create(
        rule="loss", cause=cause, summary="s", opened_at=began_at, began_at=began_at, closed_at=ended_at, **fields
    )
    add(row, path)
    return row


def add(row, path, added_at=None, since=None):
    IncidentPath.objects.create(
        incident=row, path=path, rule="loss", sentence="loss", since=since or added_at or row.opened_at, figures={},
        added_at=added_at or row.opened_at, is_over=row.closed_at is not None,
    )  # fmt: skip


def shares(step=UptimeStep.DAY, since=MIDNIGHT - 2 * DAY, until=MIDNIGHT + DAY, over_at=None):
    names, rows = dict(Site.objects.values_list("id", "name")), incident_shares(step, since, until, NOW, over_at or {})
    return {(names[row.site_id], row.at): (row.incident_s, row.paths) for row in rows}


def test_an_incident_of_loss_and_delay_has_both_symptoms(page, paths):
    row = incident(paths["slac → cern"], NOW - HOUR, None)
    IncidentPath.objects.create(
        incident=row, path=paths["cern → slac"], rule="rtt", sentence="RTT", since=NOW, added_at=NOW, figures={}
    )

    assert "packet loss and longer RTT" in page()


def test_the_page_says_to_the_second_when_it_was_made(page):
    html = page()

    assert f'as of <time datetime="{NOW.isoformat()}">{NOW:%Y-%m-%d %H:%M:%S} UTC</time>' in html
    assert "0 s ago" not in html


def test_seconds_with_incidents_are_split_by_site_and_day(paths):
    incident(paths["slac → cern"], MIDNIGHT - HOUR, MIDNIGHT + 2 * HOUR)

    # Both ends of a path have it, and each of three sites has four paths.
    assert shares() == {
        (site, at): (seconds, 4)
        for site in ("slac", "cern")
        for at, seconds in ((MIDNIGHT - DAY, 3600.0), (MIDNIGHT, 7200.0))
    }
    by_hour = shares(UptimeStep.HOUR, MIDNIGHT, MIDNIGHT + DAY)
    assert by_hour["slac", MIDNIGHT + HOUR] == (3600.0, 4)
    assert len(by_hour) == 4


def test_overlapping_incidents_of_a_path_count_once(paths):
    incident(paths["slac → cern"], MIDNIGHT, MIDNIGHT + 2 * HOUR)
    incident(paths["slac → cern"], MIDNIGHT + HOUR, MIDNIGHT + 3 * HOUR, cause="slac")
    incident(paths["cern → slac"], MIDNIGHT + HOUR, MIDNIGHT + 2 * HOUR, cause="cern")

    assert shares()["slac", MIDNIGHT] == (4 * 3600.0, 4)


def test_the_time_before_a_reopening_does_not_count(paths):
    row = incident(paths["slac → cern"], MIDNIGHT, MIDNIGHT + 5 * HOUR, reopenings=1)
    for at, turn in ((1, HistoryEvent.RESOLVED), (4, HistoryEvent.REOPENED), (5, HistoryEvent.RESOLVED)):
        IncidentTurn.objects.create(incident=row, at=MIDNIGHT + at * HOUR, turn=turn)

    assert shares()["slac", MIDNIGHT] == (2 * 3600.0, 4)


def test_a_short_outage_counts_for_its_own_time(paths):
    """It lasted 22 s, was detected 17 s after its end, and one path joined later still."""
    began_at, ended_at = MIDNIGHT, MIDNIGHT + timedelta(seconds=22)
    row = incident(paths["slac → cern"], began_at, began_at + 2 * MINUTE)
    Incident.objects.update(opened_at=ended_at + timedelta(seconds=17), ended_at=ended_at)
    IncidentPath.objects.update(added_at=ended_at + timedelta(seconds=17), since=began_at)
    add(row, paths["cern → slac"], ended_at + timedelta(seconds=30), since=began_at)

    assert shares()["slac", MIDNIGHT] == (2 * 22.0, 4)


def test_a_reopened_incident_counts_from_each_onset_to_its_last_bad_burst(paths):
    """Bad for 3 minutes, again after 4 for 5, and again after 2 for 1: detected 2 minutes late, over 2 minutes late."""
    path = paths["slac → cern"]
    row = incident(path, MIDNIGHT, None)
    for began, ended in ((0, 3), (7, 12), (14, 15)):
        began_at, ended_at = (MIDNIGHT + minutes * MINUTE for minutes in (began, ended))
        if began:
            again = RuleFinding("loss", path.pk, str(path), "loss", began_at - MINUTE, {})
            lifecycle.add_findings(row.cause, [again], began_at + 2 * MINUTE)
        Incident.objects.update(began_at=began_at)
        assert lifecycle.close(row.pk, [(path.pk, "loss")], "over", ended_at + 2 * MINUTE, ended_at=ended_at)

    assert shares()["slac", MIDNIGHT] == (9 * 60.0, 4)


def test_a_path_that_ended_before_its_incident_counts_to_its_own_end(paths):
    row = incident(paths["slac → cern"], MIDNIGHT, MIDNIGHT + HOUR)
    add(row, paths["cern → slac"])
    IncidentPath.objects.filter(path=paths["cern → slac"]).update(ended_at=MIDNIGHT + 10 * MINUTE)

    assert shares()["slac", MIDNIGHT] == (3600.0 + 600.0, 4)


def test_an_open_incident_counts_until_now_and_pending_never(paths):
    incident(paths["slac → cern"], NOW - HOUR, None)
    row = incident(paths["fnal → cern"], NOW - HOUR, None, cause="fnal ↔ cern", is_pending=True)
    assert shares()["slac", MIDNIGHT] == (3600.0, 4)
    assert ("fnal", MIDNIGHT) not in shares()

    Incident.objects.filter(pk=row.pk).update(is_pending=False)
    add(row, paths["fnal → slac"], NOW - 30 * MINUTE)
    assert shares()["fnal", MIDNIGHT] == (5400.0, 4)


def test_an_open_incident_that_is_over_counts_to_its_end(paths):
    row = incident(paths["slac → cern"], NOW - HOUR, None)
    incident(paths["fnal → cern"], NOW - HOUR, None, cause="fnal ↔ cern")

    counted = shares(over_at={row.pk: NOW - 20 * MINUTE})

    assert (counted["slac", MIDNIGHT], counted["fnal", MIDNIGHT]) == ((2400.0, 4), (3600.0, 4))


def test_a_path_that_joins_later_counts_from_its_own_begin(paths):
    # Loss of four paths from the onset on; two were detected with it, the others join four and forty minutes later.
    began_at, ended_at = MIDNIGHT, MIDNIGHT + HOUR
    row = incident(paths["slac → cern"], began_at, ended_at)
    add(row, paths["cern → slac"])
    add(row, paths["slac → fnal"], began_at + 4 * MINUTE, since=began_at - 10 * MINUTE)
    add(row, paths["fnal → slac"], began_at + 40 * MINUTE, since=began_at + 30 * MINUTE)

    assert shares()["slac", MIDNIGHT] == (3 * 3600.0 + 1800.0, 4)


def test_the_time_before_a_mesh_was_measured_is_no_uptime(page, paths):
    for started in (Measurement, MeasurementPeriod):
        started.objects.update(started_at=NOW - 15 * MINUTE)
    for path in paths.values():
        make_bursts(path, [0] * 10, NOW - 10 * MINUTE)
    incident(paths["slac → cern"], NOW - 5 * MINUTE, None)

    html = page()

    # 5 of 15 minutes of one of four paths.
    assert lacks(re.search(r"<h3>slac.*?</p>", html, re.DOTALL)[0], "91.66%", "since 2026-11-21") == []
    [told, *_] = re.findall(r'aria-label="slac, last 90 days: ([^"]*)"', html)
    assert told == "2026-11-21 so far: incident, 8.3% of path time"


def test_a_site_in_its_first_hour_has_a_bar_by_its_current_data(page, paths):
    for started in (Measurement, MeasurementPeriod):
        started.objects.update(started_at=NOW - 15 * MINUTE)
    for name, path in paths.items():
        if name.startswith("slac"):
            make_bursts(path, [0] * 10, NOW - 10 * MINUTE)
    for start in ("cern → slac", "fnal → slac"):
        make_bursts(paths[start], [0] * 10, NOW - 10 * MINUTE)
    html = page()
    labels = dict(re.findall(r'aria-label="(\w+), last 90 days: ([^"]*)"', html))

    # cern and fnal have data on one of two paths.
    assert "<b>100%</b>" in re.search(r"<h3>slac.*?</p>", html, re.DOTALL)[0]
    assert labels["slac"] == "no incident"
    assert "50% of data received" in labels["cern"]
    assert re.search(r'class="bars-hours"><svg[^>]*aria-label="slac, today by hour: no incident"', html)


def test_a_site_waiting_for_first_results_is_not_up(page, paths):
    Measurement.objects.update(started_at=NOW - MINUTE)
    MeasurementPeriod.objects.update(started_at=NOW - MINUTE)

    html = page()

    assert re.findall(r"<b>(–|[\d.]+%)</b>", html) == ["–"] * 3


def test_bars_have_the_share_of_path_time_and_of_data(page, paths):
    for path in paths.values():
        for number in range(12):
            if not (str(path).startswith("slac") and number >= 6):
                hour(path, 600, 600, 20.0, bursts=60, hour=MIDNIGHT + number * HOUR)
                hour(path, 600, 600, 20.0, bursts=60, hour=MIDNIGHT + number * HOUR, packet_bytes=1000)
    merge_hours(NOW)
    incident(paths["cern → fnal"], MIDNIGHT + HOUR, MIDNIGHT + 2 * HOUR)
    measured = {row.site_id: row for row in measured_shares(UptimeStep.DAY, MIDNIGHT, MIDNIGHT + DAY, NOW)}
    slac = Site.objects.get(name="slac")

    html = page()

    # 12 whole hours of two sizes to two sites, each minute.
    assert measured[slac.pk].planned == 12 * 60 * 2 * 2
    assert measured[slac.pk].measured == measured[slac.pk].planned / 2
    labels = dict(re.findall(r'aria-label="(\w+), (?:last 90 days|today by hour): ([^"]*)"', html))
    assert "03:00" not in labels["cern"]
    # One of four paths for an hour.
    assert lacks(labels["fnal"], "01:00 UTC", "25% of path time") == []
    assert lacks(labels["slac"], "11:00 UTC: no data") == []
    # A quarter of an hour of 12.5 hours: earlier days were not measured.
    assert "98.00%" in re.search(r"<h3>fnal.*?</p>", html, re.DOTALL)[0]
    assert "▲" not in html


def test_incidents_are_told_by_sites_and_symptom_alone(page, paths):
    Host.objects.filter(name="slac").update(name="border-router-7")
    open_now = lossy(paths["slac → cern"])
    Incident.objects.filter(pk=open_now.pk).update(
        cause="host border-router-7", acknowledged_by="ann", summary="192.0.2.1"
    )
    past = incident(
        paths["fnal → cern"], NOW - 3 * DAY, NOW - 3 * DAY + HOUR, cause="uplink fnal/geant", closing="ask bob"
    )
    incident(paths["fnal → cern"], NOW - 20 * DAY, NOW - 20 * DAY + HOUR, cause="old one")
    actions.maintain(
        actions.QuietScope(group=Group.objects.get()), NOW + HOUR, NOW + 2 * HOUR, "call carl at the noc", "dora", NOW
    )

    html = page()
    text = " ".join(re.sub(r"<[^>]*>", " ", html).split())

    assert lacks(text, "1 open incident: 1 of 6 paths", "cern ↔ slac: packet loss since") == []
    assert lacks(text, "Maintenance", "cern, slac", "2026-11-21 13:30 UTC") == []
    assert (
        lacks(text, "last 14 days", "cern ↔ fnal: packet loss", "2026-11-18 12:30 to 13:30 UTC", "lasted 60 min") == []
    )
    assert text.count("packet loss") == 2
    secrets = ["border-router-7", "geant", "192.0.2.", "ann", "bob", "carl", "dora", "noc", f"/incidents/{past.pk}"]
    assert [secret for secret in secrets if re.search(rf"\b{re.escape(secret)}\b", html)] == []


def test_an_incident_has_the_direction_of_its_title(page, paths):
    row = incident(paths["slac → cern"], NOW - HOUR, None, toward="slac → cern")
    add(row, paths["cern → slac"])

    assert "slac → cern: packet loss" in page()


def test_an_incident_that_the_reverse_path_shows_has_the_losing_direction(page, paths):
    incident(paths["slac → cern"], NOW - HOUR, None, toward="cern → slac", toward_by="STAMP")

    assert "cern → slac: packet loss" in page()


def test_a_direction_that_is_no_pair_of_sites_is_not_public(page, paths):
    incident(paths["slac → cern"], NOW - HOUR, None, toward="border-router-7 → cern")

    html = page()
    assert "cern ↔ slac: packet loss" in html
    assert "border-router-7" not in html


def test_a_common_site_names_an_incident_of_many_paths(page, paths):
    row = incident(paths["slac → cern"], NOW - HOUR, None)
    add(row, paths["fnal → cern"])

    assert "cern (2 paths): packet loss" in page()


def test_a_centre_that_does_not_evaluate_is_not_well(page, paths):
    freshness.note(RecurringWork.EVALUATION, NOW - 10 * MINUTE)

    html = page()

    assert lacks(html, "State unknown", "2026-11-21 12:20 UTC") == []
    assert "normal" not in re.search(r"<title>(.*?)</title>", html)[1]


def test_a_new_centre_has_a_true_status(page):
    assert "Nothing is measured yet" in page()


def test_status_needs_a_login_unless_public(client, paths, settings):
    assert client.get("/status/", **ELSEWHERE).headers["Location"] == "/login/?next=%2Fstatus%2F"

    client.force_login(person("vi", "viewer"))
    answer = client.get("/status/", **ELSEWHERE)
    assert answer.status_code == 200
    assert answer.headers["Cache-Control"] == "private, max-age=2"
    assert "vi" not in re.findall(r"\w+", answer.content.decode())


def test_a_public_status_is_the_same_for_all_and_cacheable(public, paths):
    anonymous, reader = Client(), Client()
    reader.force_login(person("vi", "viewer"))

    first = anonymous.get("/status/", **ELSEWHERE)
    second = reader.get("/status/", **ELSEWHERE)

    assert first.headers["Cache-Control"] == "public, max-age=2"
    assert "Cookie" not in first.headers.get("Vary", "") + second.headers.get("Vary", "")
    assert not first.cookies
    assert first.content == second.content


def test_a_kept_status_costs_no_query(public, paths, django_assert_num_queries):
    first = Client().get("/status/", **ELSEWHERE).content

    with django_assert_num_queries(0):
        assert Client().get("/status/", **ELSEWHERE).content == first


def test_it_has_the_state_of_the_other_pages(client, public, paths, monkeypatch):
    for path in paths.values():
        make_bursts(path, [0] * 130, NOW - 130 * MINUTE)
    evaluate(NOW)
    before = client.get("/status/", **ELSEWHERE).content.decode()
    incident(paths["slac → cern"], NOW, None)
    at = NOW + timedelta(seconds=3)
    monkeypatch.setattr(timezone, "now", lambda: at)

    html = client.get("/status/", **ELSEWHERE).content.decode()

    assert "All 6 paths are normal" in before
    assert "No path has a problem now." in client.get("/", HTTP_HOST="localhost").content.decode()
    assert lacks(html, "1 open incident: no path has a problem now.", f'as of <time datetime="{at.isoformat()}') == []


def test_the_bar_of_the_running_hour_is_of_its_time_so_far(page, paths):
    incident(paths["slac → cern"], NOW - 10 * MINUTE, NOW - 4 * MINUTE)

    labels = dict(re.findall(r'aria-label="(\w+), today by hour: ([^"]*)"', page()))

    # 6 of 30 minutes of one of four paths.
    assert labels["slac"].startswith("12:00 UTC so far: incident, 5% of path time")
    assert "so far" not in labels["fnal"]


def test_a_public_status_opens_no_other_address(public, paths):
    Incident.objects.create(rule="loss", cause="c", opened_at=NOW, summary="s")
    addresses = [
        "/",
        "/?wall=1",
        "/map/",
        "/incidents/",
        "/incidents/1/",
        "/sites/",
        "/sites/slac/",
        "/paths/1/",
        "/table/",
    ]
    for pattern in get_resolver("monitor.web.urls").url_patterns:
        assert isinstance(pattern, URLPattern)
        if pattern.name not in ("status", "login", "grid") and "<" not in str(pattern.pattern):
            addresses.append(f"/{pattern.pattern}")

    opened = [address for address in addresses if Client().get(address, **ELSEWHERE).status_code == 200]

    assert opened == []
    for address in ("/api/v1/sites", "/api/v1/state", "/api/v1/incidents", "/metrics"):
        assert Client().get(address, **ELSEWHERE).status_code == 401, address
    assert Client().post("/status/", **ELSEWHERE).status_code in (302, 403, 405)


def test_its_queries_do_not_grow_with_paths_and_incidents(paths, django_assert_num_queries):
    incident(paths["slac → cern"], NOW - HOUR, None)
    with CaptureQueriesContext(
        connection,
    ) as few:
        load_status(NOW)
    for number, path in enumerate(paths.values()):
        incident(path, NOW - (number + 2) * HOUR, NOW - (number + 1) * HOUR, cause=f"c{number}")

    with django_assert_num_queries(len(few)):
        load_status(NOW)


def bar(incident_ratio, measured_ratio):
    return UptimeBar(MIDNIGHT, "2026-11-21", incident_ratio, measured_ratio)


@pytest.mark.parametrize(
    ("incident_ratio", "measured_ratio", "state"),
    [
        (0.0, 1.0, BarState.NORMAL),
        (0.0, 0.91, BarState.NORMAL),
        (0.0, 0.89, BarState.PARTIAL),
        (0.0, 0.49, BarState.NO_DATA),
        (0.0, None, BarState.UNPLANNED),
        (0.001, 1.0, BarState.MINOR),
        (0.5, 1.0, BarState.MAJOR),
        (0.5, 0.0, BarState.MAJOR),
        (0.1, 0.0, BarState.NO_DATA),
        (0.1, None, BarState.MINOR),
    ],
)
def test_a_bar_has_the_state_of_its_shares(incident_ratio, measured_ratio, state):
    assert bar(incident_ratio, measured_ratio).state is state


def test_states_of_bars_differ_in_height():
    heights = [state.height for state in BarState]

    assert len(set(heights)) == len(heights)


def test_bars_are_told_in_a_sentence():
    drawn = draw([bar(0.0, 1.0), bar(0.6, 1.0)], "<slac>", 90)

    assert lacks(drawn.sentence, "<slac>", "2026-11-21", "major incident", "60% of path time") == []
    assert "<slac>" not in drawn.svg
    assert "no incident" in describe([bar(0.0, 1.0)], "slac")
    assert "not measured yet" in describe([bar(0.0, None)], "slac")
    assert "and 2 more" in describe([bar(0.1, 1.0)] * 12, "slac")


def test_an_incident_that_waits_to_close_is_called_over(page, paths, monkeypatch):
    # Half of the packets are lost for ten minutes, none in the three minutes since, which do not suffice to close it.
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)
    for path in paths.values():
        make_bursts(path, [0] * 137, NOW - 150 * MINUTE)
    Burst.objects.filter(path_id=paths["slac → cern"].pk).delete()
    make_bursts(paths["slac → cern"], [0] * 137 + [5] * 10, NOW - 150 * MINUTE)
    evaluate(NOW - 3 * MINUTE)
    during = load_status(NOW - 3 * MINUTE)
    make_bursts(paths["slac → cern"], [0] * 3, NOW - 3 * MINUTE)
    evaluate(NOW)
    after = load_status(NOW)

    assert lacks(during.state, "1 open incident: 1 of 6 paths has a problem.") == []
    assert lacks(after.state, "1 open incident, over: no path has a problem now.", "1 over, waiting to close") == []
    assert {during.open[0].symptom, after.open[0].symptom} == {"packet loss"}
    assert (during.open[0].over_since, after.open[0].over_since) == (None, NOW - 3 * MINUTE)
    assert "over since" in page()


def test_the_time_of_an_open_incident_is_not_rounded_up(page, paths):
    incident(paths["slac → cern"], NOW - timedelta(minutes=4, seconds=40), None)

    assert "for 4 min" in page()
