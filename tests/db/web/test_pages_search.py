"""The search: each kind of hit, an exact hit at once, suggestions, access, and its cost."""

from datetime import UTC, datetime

import pytest
from django.contrib.auth.models import User

from monitor.mesh.models import Host, Path, Site
from tests.db.incident_rows import lossy, watched

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 22, 22, 30, tzinfo=UTC)


@pytest.fixture(autouse=True)
def open_to_all(settings, tmp_path):
    settings.PUBLIC_READ = True
    settings.REPORT_DIR = tmp_path


@pytest.fixture
def paths():
    return watched()


def hits(client, text):
    """(kind, label, address) of each suggestion."""
    answer = client.get("/search/suggestions/", {"q": text})
    assert answer.status_code == 200
    return [(hit["kind"], hit["label"], hit["address"]) for hit in answer.json()["hits"]]


def target(client, text):
    """Address that the results page redirects to, None if it shows results."""
    return client.get("/search/", {"q": text}).headers.get("Location")


def path_address(path):
    return f"/paths/{path.pk}/"


@pytest.mark.parametrize("text", ["slac", "SLAC", "  slac "])
def test_a_site_is_hit_and_opens_at_once(client, paths, text):
    assert hits(client, text)[0] == ("Site", "slac", "/sites/slac/")
    assert target(client, text) == "/sites/slac/"


def test_part_of_a_name_lists_all_that_begin_with_it_first(client, paths):
    assert [label for kind, label, _ in hits(client, "c") if kind == "Site"] == ["cern", "slac"]
    assert target(client, "c") is None


@pytest.mark.parametrize(
    "text", ["slac cern", "slac → cern", "slac->cern", "slac > cern", "slac to cern", "slac, cern"]
)
def test_two_sites_are_a_path_in_the_direction_typed(client, paths, text):
    assert [hit for hit in hits(client, text) if hit[0] == "Path"] == [
        ("Path", "slac → cern", path_address(paths["slac → cern"])),
        ("Path", "cern → slac", path_address(paths["cern → slac"])),
    ]
    assert target(client, text) == path_address(paths["slac → cern"])


def test_a_path_can_be_named_by_parts_and_by_addresses(client, paths):
    source, destination = paths["slac → cern"].source, paths["slac → cern"].destination

    assert hits(client, "sla cer")[0][2] == path_address(paths["slac → cern"])
    assert target(client, "sla cer") is None, "parts are not exact"
    assert target(client, f"{source.address} {destination.address}") == path_address(paths["slac → cern"])


def test_an_address_leads_to_its_site(client, paths):
    Host.objects.filter(name="cern").update(address="2001:db8::1")

    assert target(client, "2001:db8::1") == "/sites/cern/"
    assert target(client, "2001:0db8:0:0::0001") == "/sites/cern/"
    assert hits(client, "192.0.2.1")[0][0] == "Host"


def test_a_retired_path_is_no_hit(client, paths):
    Path.objects.update(retired_at=NOW)

    assert [hit for hit in hits(client, "slac cern") if hit[0] == "Path"] == []


@pytest.mark.parametrize("form", ["#{}", "{}", "incident {}"])
def test_an_incident_is_hit_by_its_number(client, paths, form):
    incident = lossy(paths["slac → cern"], NOW)

    assert target(client, form.format(incident.pk)) == f"/incidents/{incident.pk}/"


@pytest.mark.parametrize("text", ["slac", "loss", "cern loss"])
def test_an_incident_is_hit_by_site_and_cause(client, paths, text):
    incident = lossy(paths["slac → cern"], NOW)

    assert ("Incident", f"Incident {incident.pk}", f"/incidents/{incident.pk}/") in hits(client, text)
    assert "Incident" not in [kind for kind, _, _ in hits(client, "fnal")]


def test_reports_and_pages_are_hit(client, paths, tmp_path):
    (tmp_path / "2026-W47.html").write_text("a report")

    assert target(client, "2026-w47") == "/reports/2026-W47"
    assert ("Report", "2026-W47", "/reports/2026-W47") in hits(client, "W47")
    assert target(client, "completeness") == "/completeness/"


def test_results_are_listed_without_a_script(client, paths):
    page = client.get("/search/", {"q": "c"}).content.decode()

    assert '<a href="/sites/cern/">cern</a>' in page
    assert "<h2" in page
    assert 'name="q" value="c"' in page
    assert client.get("/search/", {"q": "slac", "all": "1"}).status_code == 200


@pytest.mark.parametrize(
    "text", ["", " ", "nothing of that name", "%", "_", "→", "a → b → c", "'\";--", "#999999999", "🦆" * 300]
)
def test_any_text_is_answered(client, paths, text):
    answer = client.get("/search/", {"q": text})

    assert answer.status_code in (200, 302)
    assert client.get("/search/suggestions/", {"q": text}).status_code == 200
    assert target(client, "%") is None


def test_a_text_is_shown_as_text(client, paths):
    page = client.get("/search/", {"q": "<script>alert(1)</script>"}).content.decode()

    assert "<script>alert" not in page


def test_the_search_needs_a_login_where_pages_do(client, settings, paths):
    settings.PUBLIC_READ = settings.LOCAL_READ = False
    without_role = User.objects.create_user("guest", password="of soundings")

    for address in ("/search/?q=slac", "/search/suggestions/?q=slac"):
        assert client.get(address).headers["Location"].startswith("/login/")
    client.force_login(without_role)
    assert client.get("/search/suggestions/?q=slac").status_code == 403


def test_the_number_of_queries_does_not_grow(client, django_assert_max_num_queries, paths):
    sites = Site.objects.bulk_create(
        Site(
            name=f"site-{number:03}",
            title=f"Site {number}",
            latitude_deg=0,
            longitude_deg=0,
            country="CH",
            has_agent=True,
        )
        for number in range(60)
    )
    hosts = Host.objects.bulk_create(
        Host(site=site, name=site.name, address=f"198.51.100.{place}", family=4) for place, site in enumerate(sites)
    )
    Path.objects.bulk_create(Path(source=hosts[0], destination=host, family=4) for host in hosts[1:])

    for text in ("site", "site-000", "site-000 site-0", "1"):
        with django_assert_max_num_queries(12):
            assert hits(client, text)
    assert hits(client, "site-000 site-0")[0][1] == "site-000 → site-001"
