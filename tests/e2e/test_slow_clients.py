"""Many slow connections of a client to the real web server: agents and browsers are served meanwhile, and slow
connections end."""

import contextlib
import http.client
import socket
import threading
import time

import msgspec
import pytest
from django.conf import settings
from django.contrib.auth.models import Group
from django.test import Client

from monitor.agents.models import issue_token
from monitor.archive.models import Burst
from monitor.stack import web_worker
from tests.db.mesh_of_three import NOW, make_mesh
from tests.e2e.centre import web_server
from tests.e2e.stack import wait_for
from tests.e2e.test_hostile import a_batch, answer_of, ask, begin, deliver

pytestmark = pytest.mark.django_db(transaction=True)
SERVED_WITHIN_S = 8.0
assert SERVED_WITHIN_S < web_worker.HEADERS_S < web_worker.BODY_S


@pytest.fixture
def mesh():
    return make_mesh()


@pytest.fixture(scope="module")
def port(tmp_path_factory, django_db_setup):
    """As deployed, but without Redis, without which no rate is limited."""
    variables = {"SOUNDINGS_REDIS_URL": "redis://127.0.0.1:1/0", "SOUNDINGS_SECRET_KEY": settings.SECRET_KEY}
    with web_server(tmp_path_factory.mktemp("centre"), **variables) as port:
        yield port


def slow_headers(port):
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
    return connection


def silence(port):
    return socket.create_connection(("127.0.0.1", port), timeout=60)


def slow_next_request(port):
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    connection.sendall(b"GET /login/ HTTP/1.1\r\nHost: localhost\r\n\r\nGET / HTTP/1.1\r\nX-")
    return connection


def slow_form(port):
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    connection.sendall(
        b"POST /login/ HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
        b"Content-Length: 1000\r\n\r\nusername="
    )
    return connection


def slow_batch(port):
    return begin(port, "guessed", length=100_000)


def slow_large_form(port):
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    connection.sendall(
        b"POST /login/ HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
        b"Content-Length: 30000000\r\n\r\nusername="
    )
    return connection


def slow_chunks(port):
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    connection.sendall(
        b"POST /login/ HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n1\r\nu\r\n"
    )
    return connection


def slow_large_batch(port):
    return begin(port, "guessed", length=20_000_000)


def slow_large_file(port):
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    connection.sendall(
        b"POST /captures/ HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=x\r\n"
        b"Content-Length: 8000000\r\n\r\n--x\r\n"
    )
    return connection


def slow_expectation(port):
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    connection.sendall(
        b"POST /login/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n\r\n"
    )
    return connection


def slow_close(port):
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    return connection


KINDS = [slow_headers, silence, slow_next_request, slow_form, slow_batch, slow_large_form, slow_chunks]
LARGE_KINDS = [slow_large_form, slow_chunks, slow_large_batch, slow_large_file, slow_expectation, slow_close]


@contextlib.contextmanager
def dripping(connections):
    """A byte of each every half second, without end."""
    stop = threading.Event()

    def drip():
        while not stop.wait(0.5):
            for connection in connections:
                with contextlib.suppress(OSError):
                    connection.sendall(b"1")

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        for connection in connections:
            connection.close()


def is_closed(connection):
    """Closed by the other end without an answer."""
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_agents_are_served_while_a_client_is_slow(port, mesh, kind):
    own = issue_token(mesh.slac.pk, NOW)
    slow = [kind(port) for _ in range(80)]
    with dripping(slow if kind is not silence else []):
        for number in range(1, 6):
            begun = time.monotonic()
            assert deliver(port, own, a_batch(mesh.slac_cern, number, number))[0] == 200
            assert ask(port, path="/api/agent/enrol")[0] == 200
            assert time.monotonic() - begun < SERVED_WITHIN_S

    assert Burst.objects.count() == 5


@pytest.mark.parametrize("kind", LARGE_KINDS, ids=lambda kind: kind.__name__)
def test_a_large_delivery_does_not_wait_for_slow_strangers(port, mesh, kind):
    own = issue_token(mesh.slac.pk, NOW)
    body = msgspec.json.encode(msgspec.msgpack.decode(a_batch(mesh.slac_cern))).ljust(3_600_000)
    with dripping([kind(port) for _ in range(16)]):
        begun = time.monotonic()
        assert deliver(port, own, body, "application/json")[0] == 200
        assert time.monotonic() - begun < SERVED_WITHIN_S

    assert Burst.objects.count() == 1


REFUSED_HEADS = [
    ("/login/", "Content-Length: 100001", "413", "text/html"),
    ("/login/", "Content-Length: 9999999999999999999999", "413", "text/html"),
    ("/share/", "Content-Length: 20000000", "413", "text/html"),
    ("/nowhere", "Content-Length: 20000000", "413", "text/html"),
    ("/api/v1/annotations", "Content-Length: 20000000", "413", "application/json"),
    ("/api/agent/enrol", "Content-Length: 20000000", "413", "application/json"),
    ("/login/", "Content-Length: 20000000\r\nExpect: 100-continue", "413", "text/html"),
    ("/login/", "Transfer-Encoding: chunked", "411", "text/html"),
    ("/api/agent/results", "Content-Length: 20000000", "401", "application/json"),
    ("/captures/", "Content-Length: 8000000", "403", "text/html"),
]


@pytest.mark.parametrize(("path", "framing", "status", "content_type"), REFUSED_HEADS)
def test_a_large_body_is_refused_at_its_headers(port, path, framing, status, content_type):
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{framing}\r\n\r\n".encode())
        begun = time.monotonic()
        answer = answer_of(connection)

    assert time.monotonic() - begun < SERVED_WITHIN_S
    assert answer.split(" ")[1] == status
    assert f"Content-Type: {content_type}" in answer
    assert "Connection: close" in answer


def test_a_refused_form_that_is_sent_anyway_gets_its_answer(port):
    """A reset for the data that is not read would destroy the answer."""
    status, _, answer = ask(port, "POST", "/api/v1/annotations", b"x" * 20_000_000)

    assert (status, "100 kB" in answer["detail"]) == (413, True)


def test_a_file_of_an_operator_is_still_taken(port, django_user_model):
    user = django_user_model.objects.create_user("ann", password="x")
    user.groups.add(Group.objects.get(name="operator"))
    browser, key = Client(), "a" * 32
    browser.force_login(user)
    cookies = f"sessionid={browser.cookies['sessionid'].value}; csrftoken={key}"
    body = (
        f'--x\r\nContent-Disposition: form-data; name="csrfmiddlewaretoken"\r\n\r\n{key}\r\n'
        '--x\r\nContent-Disposition: form-data; name="file"; filename="a.pcap"\r\n\r\n'
    ).encode() + b"a" * 3_000_000 + b"\r\n--x--\r\n"  # fmt: skip

    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    headers = {"Host": "localhost", "Cookie": cookies, "Content-Type": "multipart/form-data; boundary=x"}
    connection.request("POST", "/captures/", body, headers)
    answer = connection.getresponse()

    assert (answer.status, b"a.pcap: not a pcap" in answer.read()) == (422, True)
    connection.close()


def kept_alive(port, token):
    """A connection over which a request with this token was answered."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    connection.sendall(
        f"GET /api/agent/plan HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
    )
    assert read_answer(connection).startswith("HTTP/1.1 200 ")
    return connection


def test_250_agents_of_an_address_come_back_at_once(port, mesh):
    own = issue_token(mesh.slac.pk, NOW)
    agents = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(250)]
    for agent in agents:
        agent.sendall(
            f"GET /api/agent/plan HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {own}\r\n"
            "Connection: close\r\n\r\n".encode()
        )

    assert {answer_of(agent).split(" ")[1] for agent in agents} == {"200"}
    for agent in agents:
        agent.close()


def test_a_valid_token_ends_the_count_by_address(tmp_path, mesh):
    unreachable = "redis://127.0.0.1:1/0"
    own, other = issue_token(mesh.slac.pk, NOW), issue_token(mesh.cern.pk, NOW)
    with (
        web_server(tmp_path, "--workers", "1", "--keep-alive", "60", SOUNDINGS_REDIS_URL=unreachable) as port,
        contextlib.ExitStack() as open_connections,
    ):

        def opened(connection):
            return open_connections.enter_context(connection)

        of_token = [opened(kept_alive(port, own)) for _ in range(web_worker.CONNECTIONS_PER_TOKEN)]
        slow = [opened(slow_headers(port)) for _ in range(web_worker.CONNECTIONS_PER_ADDRESS + 20)]
        opened(kept_alive(port, other))
        wait_for(lambda: sum(map(is_closed, slow)) >= 20, SERVED_WITHIN_S, "strangers above the limit are closed")
        assert not any(map(is_closed, of_token))

        opened(kept_alive(port, own))
        wait_for(lambda: is_closed(of_token[0]), SERVED_WITHIN_S, "the oldest connection of the token is closed")
        assert not any(map(is_closed, of_token[1:]))


def test_an_address_keeps_a_limited_number_of_connections(port, mesh):
    """The connection that has waited longest is closed for a new connection, so that active clients are served."""
    own = issue_token(mesh.slac.pk, NOW)
    bound = web_worker.CONNECTIONS_PER_ADDRESS * 2  # of both processes
    slow = [slow_headers(port) for _ in range(bound + 60)]
    try:
        assert deliver(port, own, a_batch(mesh.slac_cern))[0] == 200
        wait_for(lambda: sum(map(is_closed, slow)) >= 60, SERVED_WITHIN_S, "those above the bound are closed")
        assert deliver(port, own, a_batch(mesh.slac_cern, number=2, sequence=2))[0] == 200
    finally:
        for connection in slow:
            connection.close()


def test_consecutive_requests_on_a_connection_are_all_answered(port):
    request = b"GET /api/agent/enrol HTTP/1.1\r\nHost: localhost\r\n%s\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        # The second in two parts, the first of them with the first request; the third when the second is answered.
        connection.sendall(request % b"" + (request % b"")[:30])
        first = read_answer(connection)
        connection.sendall((request % b"")[30:])
        second = read_answer(connection)
        connection.sendall(b"\r\n" + request % b"Connection: close\r\n")
        third = answer_of(connection)

    assert [answer.split("\r\n")[0] for answer in (first, second, third)] == ["HTTP/1.1 200 OK"] * 3


def read_answer(connection):
    """Everything received until a body of JSON ends."""
    received = b""
    while not received.endswith(b"}"):
        received += connection.recv(65536)
    return received.decode()


def test_a_body_that_expects_100_continue_gets_it(port, mesh):
    own, body = issue_token(mesh.slac.pk, NOW), a_batch(mesh.slac_cern)
    head = (
        f"POST /api/agent/results HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {own}\r\nConnection: close\r\n"
        f"Content-Type: application/msgpack\r\nContent-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(head.encode())
        asked_for = connection.recv(100)
        connection.sendall(body)
        answer = answer_of(connection)

    assert asked_for.startswith(b"HTTP/1.1 100 ")
    assert answer.startswith("HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "request_",
    [
        b"GET / HTTP/1.1\nHost: localhost\n\n",
        b"GET / HTTP/1.1\r\nHost: localhost\nX: y\r\n\r\n",
        b"POST /login/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcd",
        b"POST /login/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /login/ HTTP/1.1\r\nHost: localhost\r\nContent-Length : 4\r\n\r\nabcd",
        b"POST /login/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: +4\r\n\r\nabcd",
        b"POST /login/ HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked, identity\r\n\r\n0\r\n\r\n",
        b"POST /login/ HTTP/1.1\r\nHost: localhost\r\nX: y\r\n Content-Length: 4\r\n\r\nabcd",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
    ],
)
def test_an_ambiguous_request_is_refused(port, request_):
    """Otherwise a request that a proxy parses differently would smuggle in the next request."""
    smuggled = b"GET /api/agent/enrol HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(request_ + smuggled)
        answer = answer_of(connection)

    assert answer.split(" ")[1] in ("400", "501"), answer
    assert answer.count("HTTP/1.1 ") == 1, "the following request is not answered"
