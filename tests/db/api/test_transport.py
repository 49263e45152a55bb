"""The centre refuses plain HTTP from other machines but accepts it on loopback; and the security headers."""

import pytest
from django.db import OperationalError

from tests.facts import lacks

pytestmark = pytest.mark.django_db
NAME = "soundings.example.org"
OVER_A_NETWORK = {
    "another machine": {"REMOTE_ADDR": "192.0.2.7"},
    "a proxy without TLS": {"REMOTE_ADDR": "127.0.0.1", "HTTP_X_FORWARDED_FOR": "192.0.2.7"},
    "a proxy without TLS on a Unix socket": {"REMOTE_ADDR": "", "HTTP_X_FORWARDED_PROTO": "http"},
}


@pytest.fixture(autouse=True)
def as_in_production(settings):
    settings.ALLOWED_HOSTS = [NAME, "127.0.0.1"]
    settings.ALLOW_PLAIN_HTTP = False
    settings.PUBLIC_READ = True


@pytest.mark.parametrize("where", OVER_A_NETWORK.values(), ids=OVER_A_NETWORK.keys())
def test_plain_http_is_refused_and_pages_redirect_to_https(client, where):
    page = client.get("/paths/1/?period=week", HTTP_HOST=NAME, **where)
    login = client.post("/login/", {"username": "a", "password": "b"}, HTTP_HOST=NAME, **where)
    api = client.get("/api/v1/sites", HTTP_HOST=NAME, **where)
    agent = client.get("/api/agent/plan", HTTP_HOST=NAME, HTTP_AUTHORIZATION="Bearer secret", **where)

    assert (page.status_code, page["Location"]) == (301, f"https://{NAME}/paths/1/?period=week")
    assert [answer.status_code for answer in (login, api, agent)] == [403] * 3
    assert lacks(agent.json()["error"], "HTTP is refused", "use https://", "token", "replace") == []


def test_plain_http_is_accepted_if_configured(client, settings):
    settings.ALLOW_PLAIN_HTTP = True

    assert client.get("/api/v1/sites", HTTP_HOST=NAME, REMOTE_ADDR="192.0.2.7").status_code == 200


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", ""])
def test_loopback_and_unix_sockets_need_no_tls(client, address):
    assert client.get("/api/v1/sites", HTTP_HOST=NAME, REMOTE_ADDR=address).status_code == 200


SECURE = {"REMOTE_ADDR": "192.0.2.7", "HTTP_HOST": NAME, "wsgi.url_scheme": "https"}


@pytest.mark.parametrize("address", ["/login/", "/api/v1/sites", "/api/agent/plan", "/nowhere"])
def test_every_answer_has_the_headers(client, settings, address):
    settings.SECURE_HSTS_SECONDS = 31_536_000

    headers = client.get(address, **SECURE).headers

    assert headers["Strict-Transport-Security"] == "max-age=31536000; includeSubDomains; preload"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "same-origin"
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert "camera=()" in headers["Permissions-Policy"]
    assert "default-src 'none'" in headers["Content-Security-Policy"]


def test_cookies_are_secure_and_same_site(client):
    cookie = client.get("/login/", **SECURE).cookies["csrftoken"]

    assert (cookie["secure"], cookie["httponly"], cookie["samesite"]) == (True, True, "Lax")


@pytest.mark.parametrize(
    ("address", "words"), [("/nowhere", "No page at this address."), ("/paths/7/", "There is no path 7")]
)
def test_an_error_page_has_a_fix_and_the_usual_style(client, address, words):
    answer = client.get(address, **SECURE)

    assert answer.status_code == 404
    assert words in answer.content.decode()
    assert "web/style." in answer.content.decode()


def test_an_internal_error_shows_no_details(client, monkeypatch):
    def fail(*_):
        raise RuntimeError("password=hunter2")

    monkeypatch.setattr("monitor.accounts.access.action_of", fail)
    client.raise_request_exception = False

    page = client.get("/", **SECURE)
    program = client.get("/api/v1/sites", **SECURE)

    assert (page.status_code, program.status_code) == (500, 500)
    assert "log of the web server" in page.content.decode()
    assert program.json()["detail"].startswith("Internal error")
    assert "hunter2" not in page.content.decode() + program.content.decode()


def test_without_a_database_clients_are_told_to_retry(client, monkeypatch):
    def fail(*_):
        raise OperationalError("password authentication failed for user soundings")

    monkeypatch.setattr("monitor.accounts.access.action_of", fail)
    client.raise_request_exception = False

    page, program = client.get("/", **SECURE), client.get("/api/v1/sites", **SECURE)

    assert [(response.status_code, response["Retry-After"]) for response in (page, program)] == [(503, "5")] * 2
    assert "The database cannot be reached" in page.content.decode()
    assert "password" not in page.content.decode() + program.content.decode()


def test_an_unknown_host_is_told_which_setting_allows_it(client):
    answer = client.get("/", HTTP_HOST="evil.example", REMOTE_ADDR="127.0.0.1")

    assert answer.status_code == 400
    assert "SOUNDINGS_ALLOWED_HOSTS" in answer.content.decode()


def test_a_form_without_its_csrf_token_is_told_to_reload(client):
    client.handler.enforce_csrf_checks = True

    answer = client.post("/login/", {"username": "a", "password": "b"}, HTTP_REFERER=f"https://{NAME}/", **SECURE)

    assert answer.status_code == 403
    assert "Reload the page" in answer.content.decode()


def test_an_untrusted_proxy_gets_an_error_and_no_redirect_loop(client, settings):
    settings.TRUSTED_PROXIES = []
    where = {"REMOTE_ADDR": "127.0.0.1", "HTTP_X_FORWARDED_FOR": "192.0.2.7", "HTTP_X_FORWARDED_PROTO": "https"}

    page, agent = client.get("/", HTTP_HOST=NAME, **where), client.get("/api/agent/plan", HTTP_HOST=NAME, **where)

    assert (page.status_code, agent.status_code) == (403, 403)
    assert "SOUNDINGS_TRUSTED_PROXIES" in page.content.decode()
    assert "SOUNDINGS_TRUSTED_PROXIES" in agent.json()["error"]
