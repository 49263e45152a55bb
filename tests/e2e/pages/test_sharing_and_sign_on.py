"""In a browser: single sign-on at a provider over HTTP, the logout there too, and a page shared with a visitor."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from monitor.accounts import oidc_settings
from tests.db.pages_mesh import hour, make_mesh
from tests.e2e.pages.screens import SCREENS, logged_in, open_page, shot
from tests.e2e.visits import DRAWN, too_wide
from tests.oidc_provider import CLIENT_ID, CLIENT_SECRET, serving

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def closed(served, settings):
    """The pages need a login, also here."""
    settings.LOCAL_READ = False
    return served


@pytest.fixture
def provider(closed, settings, monkeypatch):
    with serving() as provider:
        values = {"ISSUER": provider.issuer, "CLIENT_ID": CLIENT_ID, "CLIENT_SECRET": CLIENT_SECRET}
        for name, value in {**values, "ROLES": "noc=operator", "LABEL": "Log in with Example Lab"}.items():
            monkeypatch.setenv(f"SOUNDINGS_OIDC_{name}", value)
        settings.OIDC = oidc_settings.read()
        directives = settings.CONTENT_SECURITY_POLICY["DIRECTIVES"]
        settings.CONTENT_SECURITY_POLICY = {
            "DIRECTIVES": {**directives, "form-action": [*directives["form-action"], settings.OIDC.origin]}
        }
        provider.users = {"ada": {"groups": ["noc"]}, "eve": {"groups": ["others"]}}
        yield provider


@pytest.mark.parametrize("screen", SCREENS)
def test_a_browser_logs_in_and_out_at_the_provider(browser, closed, provider, screen):
    page = open_page(browser, f"{closed}/sites/", screen)
    shot(page, f"login-{screen}")
    assert not too_wide(page)
    page.get_by_role("link", name="Log in with Example Lab").click()
    page.get_by_label("User").fill("ada")
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{closed}/sites/")

    page.get_by_role("button", name="Log out ada").click()
    page.wait_for_url(lambda url: urlsplit(url).path == "/login/")

    assert provider.ended[-1]["id_token_hint"][0].count(".") == 2
    page.goto(f"{closed}/sites/")
    assert parse_qs(urlsplit(page.url).query)["next"] == ["/sites/"]
    assert page.said == []


def test_a_browser_with_a_wrong_group_is_told_so(browser, closed, provider):
    page = open_page(browser, f"{closed}/login/")
    page.get_by_role("link", name="Log in with Example Lab").click()
    page.get_by_label("User").fill("eve")
    page.get_by_role("button", name="Sign in").click()

    assert "None of your groups" in page.get_by_role("alert").inner_text()
    shot(page, "login-refused")
    assert not User.objects.exists()


@pytest.mark.parametrize("screen", SCREENS)
def test_a_visitor_sees_the_shared_page_with_its_charts(browser, closed, screen):
    now = timezone.now()
    path = make_mesh(now=now)["cern", "slac"]
    hour(path, 600, 590, 20.0, hour=now.replace(minute=0, second=0, microsecond=0))
    owner = logged_in(browser, closed, f"/paths/{path.pk}/?period=week", screen)
    owner.get_by_role("link", name="Share", exact=True).click()
    shot(owner, f"share-{screen}")
    owner.get_by_role("button", name="Make a link").click()
    link = owner.get_by_label("The link").input_value()
    shot(owner, f"share-made-{screen}")
    assert not too_wide(owner)

    visitor = open_page(browser, "about:blank", screen)
    answers = []
    visitor.on("response", lambda response: answers.append((urlsplit(response.url).path, response.status)))
    visitor.goto(link)

    visitor.get_by_text(f"Shared by les-{screen} until").wait_for()
    visitor.wait_for_function(DRAWN)
    shot(visitor, f"shared-{screen}")
    assert urlsplit(visitor.url).path == f"/paths/{path.pk}/"
    assert (f"/paths/{path.pk}/charts.json", 200) in answers
    assert {status for _, status in answers} <= {200, 302}
    assert visitor.get_by_role("navigation", name="Pages").count() == 0
    assert visitor.locator(".top").get_by_role("link", name="Log in").count() == 0
    assert visitor.get_by_text("could not be drawn").count() == 0
    assert visitor.said == []
