"""Requests of strangers, broken agents and thieves to the real web server: each is refused cheaply, with a status and a
reason, and others are served meanwhile."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import socket
import subprocess
import threading
import time
from datetime import timedelta

import msgspec
import pytest
import zstandard
from django.core.management import call_command
from django.utils import timezone

from monitor.agents.models import issue_token
from monitor.archive.models import Burst, RefusedResult
from monitor.stack import broker
from tests.db.mesh_of_three import NOW, batch, burst, delivered, make_mesh
from tests.e2e.centre import largest_bytes, web_server
from tests.e2e.stack import wait_for

pytestmark = pytest.mark.django_db(transaction=True)
LIMIT_BYTES = 32 * 2**20
IMPATIENT = ("--worker-class", "tests.e2e.impatient.Worker", "--workers", "1")


@pytest.fixture
def mesh():
    return make_mesh()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("centre")


@pytest.fixture(scope="module")
def redis_url(folder):
    path = folder / "redis.sock"
    process = subprocess.Popen(broker.command(path), stdout=subprocess.DEVNULL)
    wait_for(lambda: broker.answers(path), 30, "Redis answers")
    yield f"redis+socket://{path}"
    process.terminate()
    process.wait(timeout=10)


@pytest.fixture(scope="module")
def port(folder, redis_url, django_db_setup):
    with web_server(folder, *IMPATIENT, SOUNDINGS_REDIS_URL=redis_url, SOUNDINGS_TRUSTED_PROXIES="127.0.0.1") as port:
        yield port


@pytest.fixture
def token(mesh):
    return issue_token(mesh.slac.pk, NOW)


def ask(port, method="GET", path="/api/agent/plan", body=None, token=None, **headers):
    """Status, headers and the error in the JSON answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    if token is not None:
        sent["Authorization"] = f"Bearer {token}"
    try:
        connection.request(method, path, body, sent)
        answer = connection.getresponse()
        content = answer.read()
        return answer.status, answer.headers, json.loads(content) if content else {}
    finally:
        connection.close()


def deliver(port, token, body, content_type="application/msgpack", **headers):
    return ask(port, "POST", "/api/agent/results", body, token, Content_Type=content_type, **headers)


def a_batch(path, number=1, sequence=1, **fields):
    at = timezone.now() - timedelta(minutes=1)
    return msgspec.msgpack.encode(batch(delivered(path, burst(1.5, None, at=at, **fields), sequence), number=number))


def begin(port, token, length=1000, sent=b"x" * 10):
    """A connection over which a body has begun to arrive."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=30)
    head = (
        f"POST /api/agent/results HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/msgpack\r\nContent-Length: {length}\r\n\r\n"
    )
    connection.sendall(head.encode() + sent)
    return connection


def answer_of(connection):
    """Everything received until the other end closes."""
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts).decode()


# --- authentication


def test_bad_tokens_are_refused_before_the_body_is_read(port, mesh, token):
    call_command("site", "revoke", "slac", verbosity=0)

    for bad in (token, "guessed"):
        with begin(port, bad, length=LIMIT_BYTES) as connection:  # all except 10 bytes of it are never sent
            head, _, body = answer_of(connection).partition("\r\n\r\n")
        assert head.startswith("HTTP/1.1 401 ")
        assert "unknown or revoked" in json.loads(body)["error"]


def test_another_sites_token_stores_nothing_for_this_site(port, mesh):
    thief = issue_token(mesh.cern.pk, NOW)

    status, _, receipt = deliver(port, thief, a_batch(mesh.slac_cern))

    assert (status, receipt["accepted"]) == (200, 0)
    assert receipt["refused"][0]["reason"].startswith("path")
    assert not Burst.objects.exists()
    assert RefusedResult.objects.get().site_id == mesh.cern.pk


def test_a_replayed_batch_gets_its_receipt_and_is_stored_once(port, mesh, token):
    body = a_batch(mesh.slac_cern)

    answers = [deliver(port, token, body)[::2] for _ in range(3)]

    assert answers == [(200, {"number": 1, "accepted": 1, "refused": []})] * 3
    assert Burst.objects.count() == 1


def test_a_replayed_batch_with_other_results_changes_nothing(port, mesh, token):
    deliver(port, token, a_batch(mesh.slac_cern))
    before = list(Burst.objects.values())

    deliver(port, token, a_batch(mesh.slac_cern, ttl=99))

    assert [row for row in Burst.objects.values() if row in before] == before


def test_a_corrupted_compressed_body_is_refused(port, mesh, token):
    body = bytearray(gzip.compress(a_batch(mesh.slac_cern)))
    body[len(body) // 2] ^= 0xFF

    status, _, answer = deliver(port, token, bytes(body), Content_Encoding="gzip")

    assert status == 400
    assert answer["error"]
    assert not Burst.objects.exists()


# --- invalid bodies


def nested(depth, opening=b"[", closing=b"]"):
    return opening * depth + closing * depth


@pytest.mark.parametrize(
    ("body", "headers", "status", "word"),
    [
        (nested(100_000), {"content_type": "application/json"}, 400, "not a batch"),
        (b'{"spool":' + nested(200_000) + b"}", {"content_type": "application/json"}, 400, "not a batch"),
        (b"\x91" * 1_000_000 + b"\x90", {}, 400, "not a batch"),
        (b"\x81\xa5spool" * 100_000 + b"\x90", {}, 400, "not a batch"),
        (b"{}", {"content_type": "text/plain"}, 415, "send application/json or application/msgpack"),
        (b"{}", {"content_type": "multipart/form-data; boundary=x"}, 415, "send application/json"),
        (b"{}", {"content_type": "application/json", "Content_Encoding": "br"}, 415, "send gzip, zstd or none"),
        (b"{}", {"content_type": "application/json", "Content_Encoding": "gzip, gzip"}, 415, "send gzip"),
        (b"\xdd\xff\xff\xff\xff", {}, 400, "not a batch"),
    ],
    ids=["deep list", "deep field", "deep msgpack", "deep maps", "text", "form", "brotli", "twice", "endless msgpack"],
)
def test_an_invalid_batch_is_refused_with_the_valid_form(port, token, body, headers, status, word):
    answered, _, answer = deliver(port, token, body, **headers)

    assert (answered, word in answer["error"]) == (status, True), answer
    assert ask(port, token=token)[0] == 200, "the server still answers"


def test_compression_bombs_are_not_unpacked(port, token):
    """256 MiB of zeros; the server's memory stays far below that."""
    before = largest_bytes(port)
    zeros = bytes(2**28)
    gzipped = gzip.compress(zeros, 9)
    zstd = zstandard.compress(zeros, 1)
    unsized = zstandard.ZstdCompressor(level=1, write_content_size=False).compress(zeros)

    for body, encoding in ((gzipped, "gzip"), (zstd, "zstd"), (unsized, "zstd")):
        status, _, answer = deliver(port, token, body, Content_Encoding=encoding)
        assert status == 413
        assert "when decompressed; send smaller batches" in answer["error"]
    assert largest_bytes(port) - before < 4 * LIMIT_BYTES


def test_an_oversized_body_is_refused_by_its_length_alone(port, token):
    with begin(port, token, length=LIMIT_BYTES + 1) as connection:
        answer = answer_of(connection)

    assert answer.startswith("HTTP/1.1 413 ")
    assert f"{LIMIT_BYTES + 1} bytes are more than {LIMIT_BYTES}" in answer


def test_a_body_without_its_length_is_refused(port, token):
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(
            b"POST /api/agent/results HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Authorization: Bearer " + token.encode() + b"\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
            b"2\r\n{}\r\n0\r\n\r\n"
        )
        answer = answer_of(connection)

    assert answer.startswith("HTTP/1.1 411 ")
    assert "send the Content-Length" in answer


@pytest.mark.parametrize(("method", "path"), [("PUT", "/api/agent/results"), ("DELETE", "/api/agent/plan")])
def test_other_methods_are_refused_with_the_allowed_method(port, token, method, path):
    status, headers, answer = ask(port, method, path, token=token)

    assert status == 405
    assert headers["Allow"] in answer["error"]


def test_an_unknown_address_is_reported_in_json(port):
    status, headers, answer = ask(port, path="/api/agent/nowhere")

    assert (status, headers["Content-Type"]) == (404, "application/json")
    assert answer["detail"]


@pytest.mark.parametrize("name", ["SCRIPT_NAME", "PATH_INFO", "REMOTE_USER", "Script-Name"])
def test_no_header_changes_the_applications_address(port, token, name):
    """Not even from a trusted proxy, which passes on a client's headers."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(
            f"GET /login/ HTTP/1.1\r\nHost: localhost\r\n{name}: /evil\r\nConnection: close\r\n\r\n".encode()
        )
        answer = answer_of(connection)

    assert answer.startswith("HTTP/1.1 200 ")
    assert "evil" not in answer


# --- slow clients


def drip(connection, stop):
    """A byte every tenth of a second, without end."""
    while not stop.wait(0.1):
        try:
            connection.sendall(b"x")
        except OSError:
            return


def test_a_slow_body_gets_408_and_delays_nobody_else(port, mesh, token):
    other = issue_token(mesh.cern.pk, NOW)
    stop = threading.Event()
    with begin(port, token) as slow:
        dripping = threading.Thread(target=drip, args=(slow, stop))
        dripping.start()
        try:
            time.sleep(0.2)  # it is being read by now, or soon
            again = deliver(port, token, a_batch(mesh.slac_cern, number=7))
            others = deliver(port, other, a_batch(mesh.cern_slac))
            answer = answer_of(slow)
        finally:
            stop.set()
            dripping.join()

    assert (again[0], "slac is sending already" in again[2].get("error", "")) in ((503, True), (200, False))
    assert others[0] == 200
    assert answer.startswith("HTTP/1.1 408 ")
    assert "of 1000 bytes came in time; send it again, or less at once" in answer
    assert deliver(port, token, a_batch(mesh.slac_cern, number=8))[0] == 200, "the site may send again"


def test_a_truncated_body_is_not_taken_for_a_complete_body(port, mesh, token):
    body = a_batch(mesh.slac_cern)
    with begin(port, token, length=len(body) + 1, sent=body) as connection:
        connection.shutdown(socket.SHUT_WR)
        answer = answer_of(connection)

    assert answer.startswith("HTTP/1.1 408 ")
    assert not Burst.objects.exists()


def test_slow_headers_end_and_do_not_block_all_threads_for_long(port):
    """Twice as many slow connections as threads: the page is served as soon as they are closed."""
    stop = threading.Event()
    slow = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(8)]
    for connection in slow:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
    dripping = [threading.Thread(target=drip, args=(connection, stop)) for connection in slow]
    for thread in dripping:
        thread.start()
    try:
        assert ask(port, path="/api/agent/enrol")[0] == 200
        for connection in slow:
            with contextlib.suppress(ConnectionResetError):
                answer_of(connection)
    finally:
        stop.set()
        for thread in dripping:
            thread.join()
        for connection in slow:
            connection.close()


# --- rate limits


def test_a_token_over_its_rate_must_wait_and_others_need_not(port, mesh, token):
    answers = [ask(port, token=token) for _ in range(32)]

    assert [status for status, _, _ in answers] == [200] * 30 + [429] * 2
    assert 50 < int(answers[-1][1]["Retry-After"]) <= 100
    assert "slac asks too often" in answers[-1][2]["error"]
    assert ask(port, token=issue_token(mesh.cern.pk, NOW))[0] == 200


def test_without_redis_results_are_accepted_as_usual(tmp_path, mesh, token):
    no_redis = f"redis+socket://{tmp_path / 'gone.sock'}"
    with web_server(tmp_path, *IMPATIENT, SOUNDINGS_REDIS_URL=no_redis) as port:
        statuses = [deliver(port, token, a_batch(mesh.slac_cern, number, number))[0] for number in range(1, 41)]

    assert statuses == [200] * 40
    assert "no rate limits" in (tmp_path / "web.log").read_text()


def test_an_honest_agent_never_has_to_wait(tmp_path, mesh, token, redis_url):
    """With the deployed buckets, and batches of a single result, the worst case of an agent's spool."""
    with web_server(tmp_path, SOUNDINGS_REDIS_URL=redis_url) as port:
        statuses = {deliver(port, token, a_batch(mesh.slac_cern, number, number))[0] for number in range(1, 301)}

    assert statuses == {200}
