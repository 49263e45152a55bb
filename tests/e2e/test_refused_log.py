"""The log of the real web server while strangers send requests that are refused: a line each, and few of a kind."""

import socket

import pytest

from monitor.web import refusal_log
from tests.e2e.centre import web_server
from tests.e2e.stack import wait_for
from tests.e2e.test_hostile import answer_of

pytestmark = pytest.mark.django_db(transaction=True)
FORM = b"Content-Type: application/x-www-form-urlencoded\r\n"
PARTS = b"Content-Type: multipart/form-data; boundary=x\r\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("centre")


@pytest.fixture(scope="module")
def port(folder, django_db_setup):
    with web_server(folder, "--workers", "1", SOUNDINGS_REDIS_URL="redis://127.0.0.1:1/0") as port:
        yield port


def posted(headers, body, length=None):
    framing = b"Content-Length: %d\r\n" % (len(body) if length is None else length)
    return b"POST /login/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + headers + framing + b"\r\n" + body


REFUSED = {
    "foreign host": b"GET / HTTP/1.1\r\nHost: foreign.example\r\nConnection: close\r\n\r\n",
    "odd host": b"GET / HTTP/1.1\r\nHost: a\x1b[2J'%s\r\nConnection: close\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\x03\x03\r\n\r\n",
    "too large": posted(FORM, b"", 20_000_000),
    "too many parameters": b"GET /login/?%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" % (b"&a" * 1500),
    "too many fields": posted(FORM, b"&".join(b"a%d=" % number for number in range(2000))),
    "no boundary": posted(b"Content-Type: multipart/form-data\r\n", b"x"),
    "malformed parts": posted(PARTS, b"--x\r\nContent-Transfer-Encoding: base64\r\n\r\n!\r\n--x--"),
    "no token of the form": posted(FORM, b"username=a"),
    "a NUL": b"GET /?a=%00 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    "nowhere": b"GET /nowhere%0aX HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    "unknown token": b"GET /api/agent/plan HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\n"
    b"Connection: close\r\n\r\n",
}  # fmt: skip


def send(port, request, is_ended=False):
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(request)
        if is_ended:
            connection.shutdown(socket.SHUT_WR)
        return answer_of(connection)


def lines(folder):
    written = (folder / "web.log").read_text(errors="replace").splitlines()
    return [line for line in written if "Redis is unavailable" not in line and "[INFO]" not in line]


@pytest.mark.parametrize("kind", REFUSED)
def test_a_refused_request_is_one_line_of_the_log(folder, port, kind):
    before = len(lines(folder))

    answer = send(port, REFUSED[kind])

    assert answer == "" or answer.split(" ")[1][0] == "4", answer
    wait_for(lambda: len(lines(folder)) > before, 10, "the line is written")
    (line,) = lines(folder)[before:]
    assert "\x1b" not in line


@pytest.mark.parametrize("headers", [FORM, PARTS])
def test_a_truncated_form_is_no_failure(folder, port, headers):
    before = len(lines(folder))

    answer = send(port, posted(headers, b"--x\r\nContent-Dis", 1000), is_ended=True)

    assert answer.split(" ")[1][0] == "4", answer
    wait_for(lambda: len(lines(folder)) > before, 10, "the line is written")
    assert len(lines(folder)) == before + 1


def test_a_line_has_the_reason_of_the_refusal(folder, port):
    send(port, REFUSED["foreign host"].replace(b"foreign", b"other"))

    wait_for(lambda: "other.example" in lines(folder)[-1], 10, "the line is written")
    assert '"GET / HTTP/1.1" 400' in lines(folder)[-1]


@pytest.mark.parametrize("kind", ["foreign host", "two hosts", "nowhere"])
def test_a_flood_of_refused_requests_leaves_the_log_short(folder, port, kind):
    before = len(lines(folder))

    for _ in range(200):
        send(port, REFUSED[kind])

    assert len(lines(folder)) - before <= refusal_log.MOST_AT_ONCE + 10
