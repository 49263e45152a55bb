"""Pages in a chosen time zone: times, forms that take times, charts; and downloads, which stay in UTC."""

import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import Group, User
from django.utils import timezone

from monitor.alerts.models import QuietPeriod
from tests.db.incident_rows import lossy, watched
from tests.db.pages_mesh import burst, chart_spec

pytestmark = pytest.mark.django_db
ZONE = "Europe/Zurich"
WINTER = datetime(2026, 11, 22, 22, 30, tzinfo=UTC)


@pytest.fixture(autouse=True)
def open_to_all(settings):
    settings.PUBLIC_READ = True


@pytest.fixture
def paths():
    return watched()


@pytest.fixture
def operator(client):
    user = User.objects.create_user("ann", password="of soundings")
    user.groups.add(Group.objects.get(name="operator"))
    client.force_login(user)
    return user


@pytest.fixture
def zurich(client):
    client.post("/settings/", {"theme": "system", "time_zone": ZONE})


def text(answer):
    return answer.content.decode()


def test_an_incident_is_shown_in_the_chosen_zone(client, zurich, paths):
    incident = lossy(paths["slac → cern"], WINTER)

    page = text(client.get(f"/incidents/{incident.pk}/"))

    title = re.search(r"<title>(.*?)</title>", page, re.DOTALL)[1]
    assert re.search(r" since 23:(19|20):\d\d CET", title), "its onset"
    outside_of_the_ticket = re.sub(r"<pre.*?</pre>|<title>.*?</title>|<script.*?</script>", "", page, flags=re.DOTALL)
    assert "23:30 CET" in outside_of_the_ticket
    assert re.findall(r"\d\d:\d\d(?::\d\d)? UTC", outside_of_the_ticket) == []
    assert re.search(r'data-zone="Europe/Zurich"', page)
    assert "22:20" in re.search(r"<pre.*?</pre>", page, re.DOTALL)[0], "a ticket is for others: UTC"


def test_the_zone_is_not_that_of_the_next_reader(client, zurich, paths):
    client.get("/incidents/")

    assert timezone.get_current_timezone_name() == "UTC"
    assert 'data-zone="UTC"' in text(type(client)().get("/incidents/"))


def test_the_api_and_downloads_stay_in_utc(client, zurich, paths):
    path = paths["slac → cern"]
    lossy(path, WINTER)
    between = "since=2026-11-22T22:00&until=2026-11-22T23:00"

    api = client.get("/api/v1/incidents").json()
    csv = text(client.get(f"/paths/{path.pk}/bursts.csv?{between}"))

    assert [incident["opened_at"] for incident in api] == ["2026-11-22T22:30:00Z"]
    assert "2026-11-22T22:29" in csv
    assert "2026-11-22T23" not in csv


def maintenance(client, **fields):
    posted = {"scope": "mesh", "zone": ZONE, "reason": "router", **fields}
    return client.post("/maintenance/", posted)


def test_a_maintenance_is_read_in_the_zone_of_its_form(client, operator, zurich):
    page = text(client.get("/maintenance/"))
    maintenance(client, starts_at="2027-01-10T02:00", ends_at="2027-07-10T04:00")

    planned = QuietPeriod.objects.get()
    assert 'name="zone" value="Europe/Zurich"' in page
    assert "from (Europe/Zurich)" in page
    assert (planned.starts_at, planned.ends_at) == (
        datetime(2027, 1, 10, 1, 0, tzinfo=UTC),
        datetime(2027, 7, 10, 2, 0, tzinfo=UTC),
    )
    assert "2027-01-10 02:00 CET" in text(client.get("/maintenance/"))


def test_a_form_without_a_zone_is_in_utc(client, operator, zurich):
    maintenance(client, zone="", starts_at="2027-01-10T02:00", ends_at="2027-01-10T04:00")

    assert QuietPeriod.objects.get().starts_at == datetime(2027, 1, 10, 2, 0, tzinfo=UTC)


def test_a_zone_that_does_not_exist_is_refused(client, operator):
    answer = maintenance(client, zone="Mars/Olympus", starts_at="2027-01-10T02:00", ends_at="2027-01-10T04:00")

    assert answer.status_code == 422
    assert not QuietPeriod.objects.exists()


def test_a_time_that_clocks_skip_is_refused(client, operator, zurich):
    answer = maintenance(client, starts_at="2027-03-28T02:30", ends_at="2027-03-28T05:00")

    assert answer.status_code == 422
    assert "2027-03-28 02:30 does not exist in Europe/Zurich" in text(answer)
    assert not QuietPeriod.objects.exists()


def test_an_hour_that_happens_twice_is_covered_whole(client, operator, zurich):
    maintenance(client, starts_at="2027-10-31T02:30", ends_at="2027-10-31T02:30")

    planned = QuietPeriod.objects.get()
    assert (planned.starts_at, planned.ends_at) == (
        datetime(2027, 10, 31, 0, 30, tzinfo=UTC),
        datetime(2027, 10, 31, 1, 30, tzinfo=UTC),
    )


@pytest.mark.parametrize("starts_at", ["2027-10-31T00:30", "2027-10-31T01:30", "2027-03-28T00:59", "2027-07-01T12:00"])
def test_a_form_saved_unchanged_changes_nothing(client, operator, zurich, starts_at):
    begins = datetime.fromisoformat(starts_at).replace(tzinfo=UTC)
    maintenance(client, zone="UTC", starts_at=starts_at, ends_at=f"{begins + timedelta(hours=3):%Y-%m-%dT%H:%M}")
    planned = QuietPeriod.objects.get()

    form = text(client.get(f"/maintenance/{planned.pk}/"))
    fields = dict(re.findall(r'<input[^>]* name="(\w+)"[^>]* value="([^"]*)"', form))
    answer = client.post(f"/maintenance/{planned.pk}/", {**fields, "scope": "mesh", "reason": "router", "every_s": ""})

    assert fields["zone"] == ZONE
    assert answer.status_code == 302, text(answer)
    assert (QuietPeriod.objects.get().starts_at, QuietPeriod.objects.get().ends_at) == (
        planned.starts_at,
        planned.ends_at,
    )


def test_a_period_is_shown_and_read_in_the_chosen_zone(client, zurich, paths):
    address = f"/paths/{paths['slac → cern'].pk}/"

    page = text(client.get(f"{address}?since=2026-07-01T22:30&until=2026-07-01T23:30"))
    fields = dict(re.findall(r'name="(since|until|zone)" value="([^"]+)"', page))
    again = text(client.get(address, fields))

    assert fields == {"since": "2026-07-02T00:30", "until": "2026-07-02T01:30", "zone": ZONE}
    assert "2026-07-02 00:30 to 01:30 CEST" in page
    assert dict(re.findall(r'name="(since|until|zone)" value="([^"]+)"', again)) == fields


def test_an_address_without_a_zone_means_the_same_to_all(client, zurich, paths):
    query = "?since=2026-07-01T22:30&until=2026-07-01T23:30"
    address = f"/paths/{paths['slac → cern'].pk}/{query}"

    assert "2026-07-02 00:30 to 01:30 CEST" in text(client.get(address))
    assert "2026-07-01 22:30 to 23:30 UTC" in text(type(client)().get(address))
    assert client.get(f"{address}&zone=nowhere").status_code == 404


def test_charts_are_drawn_in_the_chosen_zone(client, zurich, paths):
    path = paths["slac → cern"]
    burst(path, WINTER)
    address = f"/paths/{path.pk}/?since=2026-11-22T22:00&until=2026-11-22T23:00"

    chosen = chart_spec(text(client.get(address)), "rtt", client)
    in_utc = chart_spec(text(type(client)().get(address)), "rtt")
    starts = [
        {parameter["name"]: parameter["value"] for parameter in spec["params"]}["since"] for spec in (chosen, in_utc)
    ]

    # The axis begins with the path's first data.
    assert starts == [starts[1] + 3_600_000, WINTER.timestamp() * 1000]
    assert chosen["usermeta"]["offset_ms"] == 3_600_000
    assert "(CET)" in json.dumps(chosen)
    assert "(UTC)" not in json.dumps(chosen)
    assert "(UTC)" in json.dumps(in_utc)
