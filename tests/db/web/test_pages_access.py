"""Read access: this machine without a login, everybody else with a login; and the headers of every answer."""

import gzip
import subprocess

import pytest
from django.contrib.auth.models import Group, User

from monitor.web.charts import bundle

pytestmark = pytest.mark.django_db
LOCAL = {"REMOTE_ADDR": "127.0.0.1", "HTTP_HOST": "localhost:8000"}


@pytest.fixture(autouse=True)
def served_everywhere(settings):
    settings.ALLOWED_HOSTS = ["*"]


@pytest.fixture
def reader():
    user = User.objects.create_user("reader", password="of soundings")
    user.groups.add(Group.objects.get(name="viewer"))
    return user


@pytest.mark.parametrize(
    "request_",
    [
        LOCAL,
        {"REMOTE_ADDR": "127.8.9.1", "HTTP_HOST": "127.0.0.1:8000"},
        {"REMOTE_ADDR": "::1", "HTTP_HOST": "[::1]:8000"},
        {"REMOTE_ADDR": "::ffff:127.0.0.1", "HTTP_HOST": "soundings.localhost"},
    ],
)
def test_this_machine_reads_without_a_login(client, request_):
    assert client.get("/", **request_).status_code == 200
    assert client.get("/api/v1/sites", **request_).status_code == 200


FROM_ELSEWHERE = {
    "another machine": {"REMOTE_ADDR": "192.0.2.7", "HTTP_HOST": "localhost"},
    "another name for this machine": {"REMOTE_ADDR": "127.0.0.1", "HTTP_HOST": "soundings.example.org"},
    "a name that begins like it": {"REMOTE_ADDR": "127.0.0.1", "HTTP_HOST": "localhost.example.org"},
    "a proxy that says for whom": {**LOCAL, "HTTP_X_FORWARDED_FOR": "192.0.2.7"},
    "a proxy that says the name": {**LOCAL, "HTTP_X_FORWARDED_HOST": "soundings.example.org"},
    "a proxy by the standard": {**LOCAL, "HTTP_FORWARDED": "for=192.0.2.7"},
    "a proxy with the old header": {**LOCAL, "HTTP_X_REAL_IP": "192.0.2.7"},
    "a proxy that says its own name": {**LOCAL, "HTTP_VIA": "1.1 proxy"},
    "a Unix socket": {"REMOTE_ADDR": "", "HTTP_HOST": "localhost"},
}


@pytest.mark.parametrize("request_", FROM_ELSEWHERE.values(), ids=FROM_ELSEWHERE.keys())
def test_everybody_else_is_redirected_to_the_login(client, request_):
    page = client.get("/paths/1/?period=week", **request_)
    api = client.get("/api/v1/sites", **request_)

    assert (page.status_code, page.headers["Location"]) == (302, "/login/?next=%2Fpaths%2F1%2F%3Fperiod%3Dweek")
    assert api.status_code == 401
    assert "log in first" in api.json()["detail"]


def test_after_the_login_the_pages_open(client, reader):
    elsewhere = FROM_ELSEWHERE["another machine"]

    form = client.get("/login/?next=/", **elsewhere)
    answer = client.post("/login/", {"username": "reader", "password": "of soundings", "next": "/"}, **elsewhere)

    assert form.status_code == 200
    assert (answer.status_code, answer.headers["Location"]) == (302, "/")
    assert "Log out reader" in client.get("/", **elsewhere).content.decode()


def test_a_wrong_password_is_refused(client, reader):
    elsewhere = FROM_ELSEWHERE["another machine"]

    answer = client.post("/login/", {"username": "reader", "password": "wrong"}, **elsewhere)

    assert "Wrong user name or password" in answer.content.decode()
    assert client.get("/", **elsewhere).status_code == 302


@pytest.mark.parametrize(
    "elsewhere",
    [
        "https://example.org/", "//example.org/", "///example.org", "/\\example.org", "\\\\example.org",
        "https:example.org",
        "javascript:alert(1)", "\thttps://example.org", "https://localhost:8000@example.org/",
        "http:///example.org",
    ],
)  # fmt: skip
def test_the_login_redirects_to_no_other_site(client, reader, elsewhere):
    answer = client.post("/login/", {"username": "reader", "password": "of soundings", "next": elsewhere}, **LOCAL)

    assert answer.headers["Location"] == "/"


def test_public_reading_opens_pages_and_no_writing_address(client, settings):
    settings.PUBLIC_READ = True
    elsewhere = FROM_ELSEWHERE["another machine"]

    assert client.get("/", **elsewhere).status_code == 200
    assert client.get("/api/v1/sites", **elsewhere).status_code == 200
    assert client.post("/api/v1/sites", **elsewhere).status_code == 401


def test_without_local_read_this_machine_needs_a_login(client, settings):
    settings.LOCAL_READ = False

    assert client.get("/", **LOCAL).status_code == 302
    assert client.get("/api/v1/sites", **LOCAL).status_code == 401


def test_agents_need_no_login(client):
    answer = client.get("/api/agent/plan", **FROM_ELSEWHERE["another machine"])

    assert answer.status_code != 302
    assert "log in first" not in answer.content.decode()


@pytest.mark.parametrize("address", ["/", "/login/", "/api/v1/sites", "/nowhere"])
def test_the_policy_forbids_inline_and_foreign_scripts(client, address):
    policy = client.get(address, **LOCAL).headers["Content-Security-Policy"]

    directives = dict(part.split(" ", 1) for part in policy.split("; "))
    assert directives["script-src"] == "'self'"
    assert directives["default-src"] == "'none'"
    assert "unsafe" not in policy


def test_the_chart_bundle_is_cached_forever_and_built_once(client, settings, tmp_path, monkeypatch):
    settings.DATA_DIR = tmp_path
    builds = []
    run = subprocess.run

    def count(*args, **kwargs):
        builds.append(args)
        return run(*args, **kwargs)

    monkeypatch.setattr(subprocess, "run", count)
    address = f"/charts/vega-{bundle.bundle_version()}.js"

    first, second = client.get(address, **LOCAL), client.get(address, **LOCAL)

    script = gzip.decompress(first.content)
    assert b"window.vega=" in script
    assert b"vega-lite" not in script
    assert b"https://cdn" not in script
    assert "immutable" in first.headers["Cache-Control"]
    assert second.content == first.content
    assert len(builds) == 1
    assert client.get("/charts/vega-0.js", **LOCAL).status_code == 404


def test_a_stored_report_is_served_without_scripts(client, settings, tmp_path):
    settings.REPORT_DIR = tmp_path
    (tmp_path / "2026-W47.html").write_text("<!doctype html><title>Week 47</title>")
    (tmp_path / "secret.html").write_text("not a report")

    answer = client.get("/reports/2026-W47", **LOCAL)

    assert (answer.status_code, answer.content) == (200, b"<!doctype html><title>Week 47</title>")
    assert "sandbox" in answer.headers["Content-Security-Policy"]
    assert "script-src" not in answer.headers["Content-Security-Policy"]
    assert '<a href="/reports/2026-W47">' in client.get("/", **LOCAL).content.decode()
    for name in ("secret", "..%2F2026-W47", "2026-W48"):
        assert client.get(f"/reports/{name}", **LOCAL).status_code == 404
