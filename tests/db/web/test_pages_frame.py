"""The frame around every page: navigation, login, theme and the settings page."""

import re

import pytest
from django.contrib.auth.models import Group, User

from monitor.accounts.models import UserPreferences

pytestmark = pytest.mark.django_db
DAILY = ["Grid", "Incidents", "Sites", "Throughput", "Map", "Reports"]


@pytest.fixture(autouse=True)
def open_to_all(settings):
    settings.PUBLIC_READ = True


@pytest.fixture
def reader():
    user = User.objects.create_user("reader", password="of soundings")
    user.groups.add(Group.objects.get(name="viewer"))
    return user


def text(answer):
    return answer.content.decode()


def links(html):
    """(label, aria-current) of each link of the navigation, in order."""
    nav = html.split('<nav class="pages"')[1].split("</nav>")[0]
    return re.findall(r'<a href="[^"]*"(?: aria-current="(\w+)")?>([^<]+)</a>', nav)


def test_six_pages_are_in_sight_and_all_others_under_more(client):
    html = text(client.get("/"))

    labels = [label for _, label in links(html)]
    daily = html.split('<nav class="pages"')[1].split("<details")[0]
    assert labels[:6] == DAILY
    assert [label for _, label in links(f'<nav class="pages"{daily}</nav>')] == DAILY
    assert {"Table", "Compare", "Sweeps", "Records", "Calculator", "Maintenance", "Completeness"} <= set(labels[6:])


def test_every_link_of_the_navigation_opens(client):
    """Activity needs a login also where reading is open to all, and has no link for others."""
    addresses = re.findall(r'href="([^"]+)"', text(client.get("/")).split('<nav class="pages"')[1].split("</nav>")[0])

    assert {address: client.get(address).status_code for address in addresses} == dict.fromkeys(addresses, 200)


@pytest.mark.parametrize(
    ("address", "label", "mark"),
    [("/incidents/", "Incidents", "page"), ("/table/", "Table", "page"), ("/reports/", "Reports", "page")],
)
def test_the_current_page_is_marked(client, address, label, mark):
    assert [entry for entry in links(text(client.get(address))) if entry[0]] == [(mark, label)]


def test_more_names_the_current_page_when_it_is_in_it(client):
    assert 'More<span class="here">: Table</span>' in text(client.get("/table/"))
    assert "<summary>More</summary>" in text(client.get("/"))


def test_who_is_not_logged_in_gets_a_link_that_returns(client, reader):
    html = text(client.get("/table/?period=week"))
    address = re.search(r'<a class="account" href="([^"]+)">Log in</a>', html)[1]

    answer = client.post(address, {"username": "reader", "password": "of soundings", "next": "/table/?period=week"})

    assert address == "/login/?next=%2Ftable%2F%3Fperiod%3Dweek"
    assert answer.headers["Location"] == "/table/?period=week"
    assert "Log out reader" in text(client.get("/table/"))
    assert "Log in</a>" not in text(client.get("/table/"))


def test_the_login_page_has_no_link_to_itself(client):
    assert "Log in</a>" not in text(client.get("/login/"))


def test_the_theme_of_an_account_follows_it(client, reader, django_user_model):
    client.force_login(reader)
    client.post("/settings/", {"theme": "dark", "time_zone": "Europe/Zurich"})
    elsewhere = type(client)()
    elsewhere.force_login(reader)

    html = text(elsewhere.get("/"))

    assert UserPreferences.objects.get().theme == "dark"
    assert '<html lang="en-GB" data-theme="dark"' in html
    assert re.search(r'dark[.\w]*\.css" media="screen">', html)
    assert '<meta name="color-scheme" content="dark">' in html


def test_the_theme_of_who_is_not_logged_in_is_the_browsers(client):
    client.post("/settings/", {"theme": "light", "time_zone": "UTC"})

    html, other = text(client.get("/")), text(type(client)().get("/"))

    assert 'data-theme="light"' in html
    assert "dark" not in html.split("</head>")[0]
    assert 'data-theme="system"' in other
    assert 'media="screen and (prefers-color-scheme: dark)"' in other
    assert not UserPreferences.objects.exists()


def test_pages_of_errors_have_the_browsers_theme(client):
    client.post("/settings/", {"theme": "dark", "time_zone": "UTC"})

    answer = client.get("/no-such-page/")

    assert answer.status_code == 404
    assert 'data-theme="dark"' in text(answer)


def test_an_invalid_setting_is_refused_and_an_old_one_ignored(client):
    answer = client.post("/settings/", {"theme": "dark", "time_zone": "Mars/Olympus_Mons"})
    client.cookies["soundings_theme"] = "pink"
    client.cookies["soundings_zone"] = "../../etc/passwd"

    html = text(client.get("/"))

    assert answer.status_code == 422
    assert 'data-theme="system" data-zone="UTC"' in html


def test_settings_need_a_login_where_reading_does(client, settings, reader):
    settings.LOCAL_READ = settings.PUBLIC_READ = False

    answer = client.post("/settings/", {"theme": "dark", "time_zone": "UTC"})
    client.force_login(reader)

    assert answer.headers["Location"] == "/login/?next=%2Fsettings%2F"
    assert client.post("/settings/", {"theme": "dark", "time_zone": "UTC"}).headers["Location"] == "/settings/?saved=1"


def test_all_reports_are_listed(client, settings, tmp_path):
    settings.REPORT_DIR = tmp_path
    assert "No report yet" in text(client.get("/reports/"))
    for name in ("2026-W46.html", "2026-W47.html", "2026-W47.pdf"):
        (tmp_path / name).write_text("a report")

    html = text(client.get("/reports/"))

    assert re.findall(r'<th scope="row"><a href="([^"]+)">', html) == ["/reports/2026-W47", "/reports/2026-W46"]
    assert "2026-11-16 to 2026-11-22" in html
    assert re.findall(r'"(/reports/[^"]+\.pdf)"', html) == ["/reports/2026-W47.pdf"]
