"""A centre reads the summaries of others over HTTP, from real servers, good and bad ones, and shows them on a page."""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager
from datetime import timedelta
from html import unescape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from monitor.accounts import read_limits
from monitor.accounts.models import UserToken, token_digest
from monitor.alerts.models import Incident, IncidentPath
from monitor.archive.upkeep import freshness
from monitor.archive.upkeep.freshness import RecurringWork
from monitor.centres import client as centre_client
from monitor.centres.client import NoAnswer, request_summary
from monitor.centres.collect import collect
from monitor.centres.configured import OtherCentre
from monitor.centres.models import CentreAnswer
from monitor.mesh.models import Site
from monitor.present.conditions import Condition
from monitor.present.models import PathTrack
from monitor.present.track import Signal
from tests.db.pages_mesh import burst, make_mesh
from tests.facts import lacks

ELSEWHERE = {"REMOTE_ADDR": "198.51.100.7"}
HERE = {"SERVER_NAME": "localhost"}
TOKEN = "a token that must not be shown"


@contextmanager
def serving(answer):
    """A server of another make, which calls `answer` with each request's handler; its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            answer(self)

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def sends(status, body=b"{}", **headers):
    def answer(handler):
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def drips(*, headers):
    """Never ends, a byte at a time, so that no read waits long: in the headers, or after them."""

    def answer(handler):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n" + (b"X-A: " if headers else b"\r\n"))
        try:
            while True:
                handler.wfile.write(b" ")
                time.sleep(0.05)
        except OSError:
            pass

    return answer


@pytest.fixture
def mesh():
    """Three sites; of 3,000 packets cern→slac lost 60, with an open incident, the other paths none."""
    now = timezone.now()
    since_s, newest = now.timestamp() - 540.0, now - timedelta(minutes=1)
    paths = make_mesh(now=now - timedelta(hours=3))
    for ends, path in paths.items():
        burst(path, newest, *[20.0] * 10)
        is_bad = ends == ("cern", "slac")
        PathTrack.objects.create(
            path=path, signal=Signal.LOSS, condition=Condition.BAD if is_bad else Condition.NORMAL, newest_at=newest,
            segments=[[int(is_bad), since_s, since_s, since_s, 3000, 60 * is_bad, 1.0]],
        )  # fmt: skip
    freshness.note(RecurringWork.EVALUATION, now)
    path = paths["cern", "slac"]
    began = now - timedelta(minutes=9)
    incident = Incident.objects.create(
        rule="loss",
        severity="critical",
        cause="link <b>7</b>",
        summary="loss",
        opened_at=began,
        began_at=began,
        title="link <b>7</b> loses 2%",
    )
    IncidentPath.objects.create(
        incident=incident, path=path, rule="loss", added_at=began, since=began, figures={"lost": 60, "sent": 3000}
    )
    return paths


def user_token(name="ada", role="viewer"):
    user = User.objects.create_user(name, password="long and winding")
    user.groups.add(Group.objects.get(name=role))
    token = f"token-of-{name}"
    UserToken.objects.create(user=user, name="test", digest=token_digest(token), created_at=timezone.now())
    return user, token


@pytest.mark.django_db(transaction=True)
def test_a_centre_is_read_over_http_with_a_token_of_its_user(mesh, live_server, settings, client):
    settings.LOCAL_READ = False
    _, token = user_token()
    other = OtherCentre("europe", live_server.url, token)
    settings.OTHER_CENTRES = (other,)

    [answer] = collect(settings.OTHER_CENTRES)
    settings.LOCAL_READ = True
    page = unescape(client.get("/centres/", **HERE).content.decode())

    assert answer.problem == ""
    [pair] = answer.summary["loss"]["pairs"]
    assert (pair["paths"], pair["bad"], pair["with_incident"]) == (6, 1, 1)
    assert (pair["worst_sent"], pair["worst_received"]) == (3000, 2940)
    assert answer.summary["state"]["open_incidents"] == [incident["id"] for incident in answer.summary["incidents"]]
    incident = Incident.objects.get().pk
    assert f'href="{live_server.url}/incidents/{incident}/"' in page
    assert f'href="{live_server.url}/paths/{mesh["cern", "slac"].pk}/?period=hour"' in page
    assert not lacks(page, "europe", "Three laboratories", "1 of 6", "cern → slac")
    assert token not in page
    assert "<b>7</b>" not in client.get("/centres/", **HERE).content.decode(), "texts of others are escaped"


@pytest.mark.django_db(transaction=True)
def test_a_centre_that_is_gone_is_shown_with_the_time_of_its_summary(mesh, live_server, settings, client):
    settings.OTHER_CENTRES = (OtherCentre("europe", live_server.url, ""),)
    collect(settings.OTHER_CENTRES)
    long_ago = timezone.now() - timedelta(minutes=30)
    row = CentreAnswer.objects.get()
    CentreAnswer.objects.update(answered_at=long_ago, url="http://127.0.0.1:9")
    settings.OTHER_CENTRES = (OtherCentre("europe", "http://127.0.0.1:9", ""),)

    collect(settings.OTHER_CENTRES)
    page = unescape(client.get("/centres/", **HERE).content.decode())
    of_europe = page[page.index(">europe<") :]

    kept = CentreAnswer.objects.get()
    assert kept.summary == row.summary, "what it said last is kept"
    assert "cannot be reached" in kept.problem
    assert not lacks(of_europe, "as of", f"{long_ago:%H:%M} UTC", "No answer", "cannot be reached", "At that time:")
    assert "mesh-state unknown" in of_europe


@pytest.mark.django_db
def test_who_sees_other_centres(mesh, settings, client):
    settings.OTHER_CENTRES = (OtherCentre("europe", "http://127.0.0.1:9", ""),)
    settings.LOCAL_READ, settings.PUBLIC_READ = False, True
    now = timezone.now()
    CentreAnswer.objects.create(name="europe", url="http://127.0.0.1:9", asked_at=now, problem="the link is cut")
    user, _ = user_token()

    visitor = client.get("/centres/", **ELSEWHERE).content.decode()
    client.force_login(user)
    reader = client.get("/centres/", **ELSEWHERE).content.decode()
    read_limits.store(read_limits.PlaceNames(sites=("cern", "uct")), user=user)
    limited = client.get("/centres/", **ELSEWHERE).content.decode()

    assert "the link is cut" in reader
    for page in (visitor, limited):
        assert "the link is cut" not in page
        assert ">europe<" not in page
        assert "1 other centre" in page
    assert "slac" not in limited


@pytest.mark.django_db
def test_the_page_counts_the_paths_of_this_centre_once(mesh, settings, client):
    settings.OTHER_CENTRES = (OtherCentre("europe", "http://127.0.0.1:9", ""),)

    with CaptureQueriesContext(connection) as captured:
        client.get("/centres/", **HERE)

    counted = [query["sql"] for query in captured if "GROUP BY" in query["sql"] and "path_track" in query["sql"]]
    assert sum("from_place" in sql for sql in counted) == len(counted) - 1 == 1


@pytest.mark.django_db
def test_without_other_centres_there_is_no_page(settings, client):
    assert client.get("/centres/", **HERE).status_code == 404
    assert "/centres/" not in client.get("/sites/", **HERE).content.decode()


@pytest.mark.django_db
def test_a_centre_that_is_no_longer_configured_is_forgotten(settings):
    now = timezone.now()
    CentreAnswer.objects.create(name="gone", url="https://gone.example", asked_at=now)

    collect(())

    assert not CentreAnswer.objects.exists()


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (sends(401), "the token is not accepted"),
        (sends(403), "the token is not accepted"),
        (sends(404), "its release is older"),
        (sends(302, Location="http://127.0.0.1:9/"), "redirects to another address"),
        (sends(500, b"<h1>broken\x1b[31m</h1>"), "answers 500"),
        (sends(200, b"<html>"), "does not answer as Soundings does"),
        (sends(200, b'{"mesh": "x"}'), "does not answer as Soundings does"),
        (sends(200, b"[" * 100_000), "does not answer as Soundings does"),
        (sends(200, b" " * 1_100_000), "more than 1,000,000 bytes"),
        (drips(headers=False), "no whole answer"),
        (drips(headers=True), "no whole answer"),
        (lambda handler: handler.wfile.write(b"hello\r\n"), "not answer as a web server does"),
    ],
)  # fmt: skip
def test_a_bad_answer_is_told_without_the_token(answer, says, monkeypatch):
    monkeypatch.setattr(centre_client, "ANSWER_S", 1.0)
    with serving(answer) as url, pytest.raises(NoAnswer) as raised:
        request_summary(OtherCentre("europe", url, TOKEN.replace(" ", "-")))

    assert says in str(raised.value)
    assert "\x1b" not in str(raised.value)
    assert TOKEN.replace(" ", "-") not in str(raised.value)


def test_the_token_goes_to_no_other_address(monkeypatch):
    seen = []

    def record(handler):
        seen.append(handler.headers["Authorization"])
        sends(200)(handler)

    with serving(record) as elsewhere, serving(sends(307, Location=elsewhere)) as url, pytest.raises(NoAnswer):
        request_summary(OtherCentre("europe", url, "secret"))

    assert seen == []


@pytest.mark.django_db(transaction=True)
def test_the_command_tells_what_each_centre_answers(mesh, live_server, settings, capsys):
    settings.OTHER_CENTRES = (
        OtherCentre("europe", live_server.url, ""),
        OtherCentre("gone", "http://127.0.0.1:9", "secret"),
    )

    with pytest.raises(CommandError, match="1 of 2 gave no summary: gone"):
        call_command("centres")

    printed = capsys.readouterr().out
    assert not lacks(printed, "europe: ", "1 of 6 paths", "gone: ", "cannot be reached")
    assert "secret" not in printed


@pytest.mark.django_db
def test_a_reader_with_limits_gets_a_summary_of_its_sites(mesh, client):
    user, token = user_token("lim")
    read_limits.store(read_limits.PlaceNames(sites=("slac", "uct")), user=user)

    answer = client.get("/api/v1/centre", headers={"Authorization": f"Bearer {token}"}, **ELSEWHERE).json()

    assert answer["sites"] == 2
    assert answer["incidents"] == []
    assert "cern" not in json.dumps(answer)
    assert Site.objects.count() == 3
