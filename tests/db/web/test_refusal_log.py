"""Refused requests in the log: a line each without a traceback, and few lines of a kind."""

import io
import logging

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import Group, User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.utils.module_loading import import_string

from monitor.web import refusal_log

pytestmark = pytest.mark.django_db
MULTIPART, FORM = "multipart/form-data", "application/x-www-form-urlencoded"
BAD_PART = b"--x\r\nContent-Transfer-Encoding: base64\r\nContent-Disposition: form-data; name=a\r\n\r\n!\r\n--x--"
LONG_PART = b"--x\r\nContent-Disposition: form-data; name=a\r\nX: " + b"y" * 70_000
COOKIES = "sessionid=../../x; messages=x; soundings_device=y"


@pytest.fixture
def lines():
    """Returns the lines that a handler as configured has written since the last call."""
    written, root = io.StringIO(), logging.getLogger()
    handler = logging.StreamHandler(written)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    for name in django_settings.LOGGING["handlers"]["stderr"]["filters"]:
        handler.addFilter(import_string(django_settings.LOGGING["filters"][name]["()"])())
    root.addHandler(handler)

    def since_last():
        said = [line for line in written.getvalue().splitlines() if "Redis is unavailable" not in line]
        written.seek(0)
        written.truncate()
        return said

    yield since_last
    root.removeHandler(handler)


@pytest.fixture
def stranger(settings):
    settings.ALLOWED_HOSTS = ["localhost"]
    return Client(HTTP_HOST="localhost", enforce_csrf_checks=True, raise_request_exception=False)


REFUSED = {
    "foreign host": lambda client: client.get("/", HTTP_HOST="foreign.example"),
    "invalid host": lambda client: client.get("/", HTTP_HOST="a b\x1b[2J/"),
    "foreign host of the API": lambda client: client.get("/api/v1/sites", HTTP_HOST="foreign.example"),
    "too many fields": lambda client: client.post("/login/", {f"a{number}": "" for number in range(2000)}),
    "too many files": lambda client: client.post(
        "/login/", {f"a{number}": SimpleUploadedFile("a", b"") for number in range(200)}
    ),
    "too large": lambda client: client.post("/login/", {"a": "a" * 200_000}),
    "no boundary": lambda client: client.post("/login/", b"x", content_type=MULTIPART),
    "a bad boundary": lambda client: client.post("/login/", b"x", content_type=f"{MULTIPART}; boundary=\xe9"),
    "a bad part": lambda client: client.post("/login/", BAD_PART, content_type=f"{MULTIPART}; boundary=x"),
    "a long part": lambda client: client.post("/login/", LONG_PART, content_type=f"{MULTIPART}; boundary=x"),
    "no token of the form": lambda client: client.post("/login/", {"username": "a"}),
    "a wrong token of the form": lambda client: client.post(
        "/login/", {"csrfmiddlewaretoken": "x" * 64}, HTTP_COOKIE=f"csrftoken={'a' * 32}"
    ),
    "a NUL": lambda client: client.get("/?a=%00"),
    "another charset": lambda client: client.post("/login/", b"a=1", content_type=f"{FORM}; charset=utf-7"),
    "an unknown charset": lambda client: client.generic("POST", "/login/", b"a=\xff", f"{FORM}; charset=none"),
    "a bad session": lambda client: client.get("/sites/", HTTP_COOKIE=COOKIES),
    "nowhere": lambda client: client.get("/nowhere%0d%0aX: y"),
    "another method": lambda client: client.put("/sites/"),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_a_refused_request_writes_a_line_at_most(stranger, lines, kind):
    status = REFUSED[kind](stranger).status_code

    written = lines()
    assert status < 500
    assert len(written) <= 1, written
    assert "\x1b" not in "".join(written)


def test_a_missing_permission_writes_a_line(stranger, lines):
    user = User.objects.create_user("viv")
    user.groups.add(Group.objects.get(name="viewer"))
    stranger.force_login(user)
    assert stranger.get("/share/").status_code == 403

    assert len(lines()) == 1


def test_lines_of_a_kind_are_limited_and_counted(stranger, lines, monkeypatch):
    for _ in range(200):
        stranger.get("/", HTTP_HOST="foreign.example")
    assert refusal_log.MOST_AT_ONCE <= len(lines()) < refusal_log.MOST_AT_ONCE + 5

    monkeypatch.setattr(refusal_log, "ONE_IN_S", 1e-9)  # less than any request takes
    stranger.get("/", HTTP_HOST="foreign.example")

    (line,) = lines()
    assert "foreign.example" in line
    assert "more of this kind not logged" in line


def test_a_failure_of_the_centre_keeps_its_traceback(stranger, lines, monkeypatch):
    def fail(*_):
        raise ZeroDivisionError

    monkeypatch.setattr("django.contrib.sessions.middleware.SessionMiddleware.process_request", fail)
    for _ in range(refusal_log.MOST_AT_ONCE + 1):
        assert stranger.get("/").status_code == 500

    assert lines().count("ZeroDivisionError") == refusal_log.MOST_AT_ONCE + 1
