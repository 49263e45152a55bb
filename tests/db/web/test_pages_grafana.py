"""Links from our pages to Grafana: only where its address is configured, and to existing dashboards and variables."""

import json
from html import unescape
from urllib.parse import parse_qs, urlsplit

import pytest
from django.core.exceptions import ImproperlyConfigured

from dashboards.render import JSON_DIR
from monitor import environment
from tests.db.pages_mesh import hour

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]


@pytest.fixture
def links(client):
    def grafana_links(address):
        page = unescape(client.get(address, headers={"host": "localhost"}).content.decode())
        return [word.split('"')[0] for word in page.split('href="') if "/d/soundings-" in word.split('"')[0]]

    return grafana_links


def variables_of(uid):
    for file in JSON_DIR.glob("*.json"):
        dashboard = json.loads(file.read_text())
        if dashboard["uid"] == uid:
            return {f"var-{variable['name']}" for variable in dashboard["templating"]["list"]}
    raise AssertionError(f"there is no dashboard {uid}")


def test_without_an_address_there_is_no_link(paths, links):
    assert links("/sites/") == []
    assert links(f"/paths/{paths['slac', 'cern'].pk}/") == []


def test_a_path_links_to_its_dashboard_with_the_same_period(paths, links, settings):
    settings.GRAFANA_URL = "https://grafana.example.org/g"
    path = paths["slac", "cern"]
    hour(path, sent=10, received=10, rtt_ms=1.0)

    [link] = links(f"/paths/{path.pk}/?size=100&period=day")

    parts = urlsplit(link)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    assert link.startswith("https://grafana.example.org/g/d/soundings-path?")
    assert query.keys() - {"from", "to"} <= variables_of("soundings-path")
    assert (query["var-source"], query["var-destination"], query["var-family"]) == ("slac", "cern", "4")
    assert (query["var-path"], query["var-packet_bytes"]) == (str(path.pk), "100")
    assert int(query["to"]) - int(query["from"]) == 86_400_000


def test_each_site_links_to_its_dashboard(paths, links, settings):
    settings.GRAFANA_URL = "https://grafana.example.org"

    addresses = links("/sites/")

    assert sorted(addresses) == [
        f"https://grafana.example.org/d/soundings-site?var-site={name}" for name in ("cern", "slac", "uct")
    ]
    assert "var-site" in variables_of("soundings-site")


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("", None),
        ("https://grafana.example.org/g/", "https://grafana.example.org/g"),
        ("http://h:3000", "http://h:3000"),
    ],
)
def test_an_address_is_read_without_its_trailing_slash(address, expected, monkeypatch):
    monkeypatch.setenv("SOUNDINGS_GRAFANA_URL", address)

    assert environment.web_address("SOUNDINGS_GRAFANA_URL") == expected


@pytest.mark.parametrize(
    "address", ["grafana.example.org", "javascript:alert(1)", "ftp://h", "https://", "https://h/?x=1"]
)
def test_an_invalid_web_address_is_reported_with_the_form(address, monkeypatch):
    monkeypatch.setenv("SOUNDINGS_GRAFANA_URL", address)

    with pytest.raises(ImproperlyConfigured, match=r"SOUNDINGS_GRAFANA_URL=.*: write https://host"):
        environment.web_address("SOUNDINGS_GRAFANA_URL")
