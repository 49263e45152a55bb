"""Shared links: a visitor without a login sees the page of the link, the data of its charts, and nothing else."""

import html
import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.utils import timezone

from monitor.accounts.models import ReadLimit, SharedLink
from monitor.accounts.shared_links import DATA_OF_PAGE
from monitor.alerts.models import AuditRecord
from monitor.mesh.models import Group as MeshGroup
from monitor.mesh.models import Site
from monitor.web.request import grid_choices
from tests.db.accounts.test_read_limits import body, pages
from tests.db.incident_rows import person
from tests.db.pages_mesh import make_mesh

pytestmark = pytest.mark.django_db
VISITOR = {"REMOTE_ADDR": "192.0.2.7", "HTTP_HOST": "localhost", "wsgi.url_scheme": "https"}


@pytest.fixture
def paths(settings):
    settings.ALLOWED_HOSTS = ["*"]
    settings.PUBLIC_READ = settings.LOCAL_READ = False
    return make_mesh(now=timezone.now())


@pytest.fixture
def operator(client):
    client.force_login(person("ann", "operator"))
    return client


def share(operator, address, days=7):
    page = operator.post("/share/", {"address": address, "days": days}, **VISITOR)
    return page.content.decode().partition('value="https://localhost')[2].partition('"')[0]


def open_in_a_browser(link):
    visitor = Client()
    return visitor, visitor.get(link, **VISITOR)


def test_a_link_opens_its_page_and_the_data_of_its_charts_only(operator, paths):
    shown, other = paths["cern", "slac"].pk, paths["cern", "uct"].pk
    visitor, answer = open_in_a_browser(share(operator, f"/paths/{shown}/?period=week"))

    assert (answer.status_code, answer.headers["Location"]) == (302, f"/paths/{shown}/?period=week")
    page = visitor.get(answer.headers["Location"], **VISITOR)
    assert page.status_code == 200
    assert "Shared by ann until" in page.content.decode()
    assert visitor.get(f"/paths/{shown}/charts.json?period=week", **VISITOR).status_code == 200
    for address in (f"/paths/{shown}/", f"/paths/{other}/?period=week", f"/paths/{other}/charts.json", "/", "/share/"):
        assert visitor.get(address, **VISITOR).status_code == 302, address
    assert visitor.get("/api/v1/sites", **VISITOR).status_code == 401


def test_a_link_opens_no_other_address_of_the_centre(operator, paths):
    visitor, _ = open_in_a_browser(share(operator, "/sites/cern/"))

    opened = {
        address
        for address in pages([paths["cern", "slac"]], ["cern", "slac"])
        if visitor.get(address, **VISITOR).status_code == 200
    }

    public = {"/health", "/metrics", "/api/v1/openapi.json"}
    assert opened - public == {"/sites/cern/"}


DATA_ADDRESSES = {
    "grid-changes": ("/grid/changes", "/", "since=1-1"),
    "grid-cell": ("/grid/cell", "/", "source=cern&destination=slac"),
    "path-charts": ("/paths/{path}/charts.json", "/paths/{path}/", ""),
}
"""Each with the page that it belongs to, and what a request for it adds to the query of the page."""


def test_each_data_address_of_a_shared_page_has_its_case():
    assert {name for data in DATA_OF_PAGE.values() for name in data} == set(DATA_ADDRESSES)


@pytest.mark.parametrize("name", DATA_ADDRESSES)
def test_data_is_read_by_the_query_of_the_link_alone(operator, paths, name):
    MeshGroup.objects.create(name="hep", shape="mesh").sites.set(Site.objects.filter(name__in=["cern", "slac"]))
    data, page, added = (text.format(path=paths["cern", "slac"].pk) for text in DATA_ADDRESSES[name])
    own, other = ("group=hep", "group=all") if page == "/" else ("period=week", "period=day")
    visitor, _ = open_in_a_browser(share(operator, f"{page}?{own}"))

    def is_opened(query):
        return visitor.get(f"{data}?{query}", **VISITOR).status_code == 200

    assert is_opened(f"{own}&{added}".strip("&"))
    for query in (
        added,
        f"{other}&{added}",
        f"{own}&{other}&{added}",
        f"{own}&metric=rtt&{added}",
        f"{own}&{own}&{added}",
    ):
        assert not is_opened(query), query


@pytest.mark.parametrize("query", ["group=hep", "from=cern&to=slac&group=all"])
def test_a_link_to_a_part_of_the_grid_opens_no_cell_outside(operator, paths, query, monkeypatch):
    monkeypatch.setattr(grid_choices, "_sites_between", lambda names: tuple(ids_of(name) for name in names))
    MeshGroup.objects.create(name="hep", shape="mesh").sites.set(Site.objects.filter(name__in=["cern", "slac"]))
    visitor, _ = open_in_a_browser(share(operator, f"/?{query}"))

    def status(source, destination):
        return visitor.get(f"/grid/cell?{query}&source={source}&destination={destination}", **VISITOR).status_code

    assert (status("cern", "slac"), status("cern", "uct"), status("uct", "slac")) == (200, 404, 404)


def ids_of(name):
    return list(Site.objects.filter(name=name).values_list("pk", flat=True))


@pytest.mark.parametrize("query", ["?group=hep", "?group=hep&metric=rtt", ""])
def test_the_scripts_of_a_shared_page_find_their_data(operator, paths, query):
    """By the addresses that are in the page."""
    MeshGroup.objects.create(name="hep", shape="mesh").sites.set(Site.objects.all())
    for page, added in (("/", "&since=1-1"), (f"/paths/{paths['cern', 'slac'].pk}/", "")):
        visitor, answer = open_in_a_browser(share(operator, page + ("" if page != "/" else query)))
        html_text = visitor.get(answer.headers["Location"], **VISITOR).content.decode()
        data = [html.unescape(text) for text in re.findall(r'data-(?:changes|charts-from)="([^"]+)"', html_text)]
        assert data
        assert [visitor.get(address + added, **VISITOR).status_code for address in data] == [200] * len(data)
        for address in re.findall(r'data-live-from="([^"]+)"', html_text):
            assert visitor.get(page + html.unescape(address), **VISITOR).status_code == 200


def test_no_other_address_opens_by_the_query_of_a_link(operator, paths):
    visitor, _ = open_in_a_browser(share(operator, "/?group=all"))

    opened = {
        address
        for address in pages([paths["cern", "slac"]], ["cern", "slac"])
        for added in ("", "&since=1-1", "&source=cern&destination=slac")
        if visitor.get(f"{address}?group=all{added}", **VISITOR).status_code == 200
    }

    public = {"/health", "/metrics", "/api/v1/openapi.json"}
    assert opened - public == {"/", "/grid/changes", "/grid/cell"}


def test_nothing_is_changed_through_a_link(operator, paths):
    address = f"/paths/{paths['cern', 'slac'].pk}/"
    visitor, _ = open_in_a_browser(share(operator, address))

    assert visitor.post(address, **VISITOR).status_code == 302
    assert visitor.post(f"{address}test/", **VISITOR).status_code == 302
    assert visitor.post("/share/", {"address": "/", "days": 7}, **VISITOR).status_code == 302
    assert SharedLink.objects.count() == 1


def test_a_shared_page_is_kept_from_search_engines_and_caches(operator, paths):
    visitor, answer = open_in_a_browser(share(operator, "/sites/"))
    page = visitor.get("/sites/", **VISITOR)

    for response in (answer, page):
        assert response.headers["X-Robots-Tag"] == "noindex, nofollow"
        assert response.headers["Referrer-Policy"] == "no-referrer"
        assert "no-store" in response.headers["Cache-Control"]
    assert '<meta name="robots" content="noindex, nofollow">' in page.content.decode()


@pytest.mark.parametrize("ending", ["expired", "revoked", "owner has no role", "owner is gone"])
def test_an_ended_link_opens_nothing(operator, paths, ending):
    link = share(operator, "/sites/")
    visitor, _ = open_in_a_browser(link)
    assert visitor.get("/sites/", **VISITOR).status_code == 200

    if ending == "expired":
        SharedLink.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    elif ending == "revoked":
        operator.post(f"/share/{SharedLink.objects.get().pk}/revoke/", **VISITOR)
    elif ending == "owner has no role":
        User.objects.get().groups.set([Group.objects.get(name="viewer")])
    else:
        User.objects.get().delete()

    assert visitor.get("/sites/", **VISITOR).status_code == 302
    assert Client().get(link, **VISITOR).status_code == 404


def test_links_last_a_week_by_default_and_are_listed_and_audited(operator, paths):
    form = operator.get("/share/?address=/sites/", **VISITOR).content.decode()
    token = share(operator, "/sites/").split("/")[2]
    link = SharedLink.objects.get()
    page = operator.get("/share/", **VISITOR).content.decode()
    operator.post(f"/share/{link.pk}/revoke/", **VISITOR)

    assert 'value="7"' in form
    assert link.expires_at - link.created_at == timedelta(days=7)
    assert token not in (link.digest, page)
    assert '<a href="/sites/">/sites/</a>' in page
    made, revoked = AuditRecord.objects.order_by("pk")
    assert (made.who, made.what.split(" until ")[0]) == ("ann", "shared /sites/")
    assert revoked.what == "revoked the link to /sites/"


@pytest.mark.parametrize("address", ["/audit/", "/nowhere/", "https://example.net/", "/captures/", "/api/v1/sites"])
def test_other_addresses_are_not_shared(operator, paths, address):
    assert share(operator, address) == ""
    assert not SharedLink.objects.exists()


def test_a_viewer_shares_nothing(client, paths):
    client.force_login(person("viv", "viewer"))

    assert client.post("/share/", {"address": "/", "days": 7}, **VISITOR).status_code == 403
    assert "/share/?address" not in client.get("/sites/", **VISITOR).content.decode()


def test_a_visitor_reads_with_the_limits_of_the_owner(operator, paths):
    limit = ReadLimit.objects.create(user=User.objects.get())
    limit.sites.set(Site.objects.filter(name__in=["cern", "slac"]))
    visitor, _ = open_in_a_browser(share(operator, "/sites/"))

    text = body(visitor.get("/sites/", **VISITOR))

    assert "slac" in text
    assert "uct" not in text
