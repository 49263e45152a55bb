"""Frequent requests of agents without the middleware of pages: the same answers, and no fewer refusals."""

import gzip
from io import BytesIO

import msgspec
import psycopg
import pytest
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from monitor.agents.models import AgentHealth, issue_token
from monitor.archive.models import AgentAccount, Burst, ReceivedBatch
from monitor.web.request import agent_requests
from probes.site.health import Health
from probes.site.wire import ABILITIES_HEADER, PLAN_HEADER, Account, Receipt
from tests.db.mesh_of_three import NOW, batch, burst, delivered, make_mesh

pytestmark = pytest.mark.django_db
PLAN, RESULTS = "/api/agent/plan", "/api/agent/results"


@pytest.fixture
def mesh():
    return make_mesh()


@pytest.fixture
def token(mesh):
    return issue_token(mesh.slac.pk, NOW)


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = int(status.split()[0]), dict(headers), body


@pytest.fixture
def ask(token):
    """The answer to an agent's request, None where it goes Django's whole way."""

    def ask(method, path, body=b"", *, address="127.0.0.1", **headers):
        environ = {
            "REQUEST_METHOD": method,
            "PATH_INFO": path,
            "SERVER_NAME": "localhost",
            "SERVER_PORT": "80",
            "REMOTE_ADDR": address,
            "wsgi.url_scheme": "http",
            "wsgi.input": BytesIO(body),
            "CONTENT_LENGTH": str(len(body)),
            "CONTENT_TYPE": "application/json",
            "HTTP_AUTHORIZATION": f"Bearer {token}",
            "HTTP_" + ABILITIES_HEADER.upper().replace("-", "_"): "on-demand-pings, on-demand-traces",
            **headers,
        }
        begun = []
        content = agent_requests.answer(environ, lambda *given: begun.append(given))
        return None if content is None else Answer(*begun[0], b"".join(content))

    return ask


def test_a_plan_is_sent_packed_and_then_not_again(ask):
    first = ask("GET", PLAN, HTTP_ACCEPT_ENCODING="gzip")
    again = ask("GET", PLAN, HTTP_IF_NONE_MATCH=first.headers["ETag"])

    assert first.status == 200
    content = gzip.decompress(first.body) if "Content-Encoding" in first.headers else first.body
    assert msgspec.json.decode(content)["site"] == "slac"
    assert (again.status, again.body) == (304, b"")
    assert "no-store" in again.headers["Cache-Control"]
    assert {"Soundings-Protocols", "Soundings-Received-At", "Soundings-Sent-At"} <= again.headers.keys()


def test_the_answer_to_a_delivery_has_the_version_of_the_plan(ask, mesh):
    unknown = ask("POST", RESULTS, msgspec.json.encode(batch()))
    etag = ask("GET", PLAN).headers["ETag"]
    told = ask("POST", RESULTS, msgspec.json.encode(batch(number=2)))

    assert PLAN_HEADER not in unknown.headers
    assert f'"{told.headers[PLAN_HEADER]}"' == etag


def test_a_batch_is_stored(ask, mesh):
    result = delivered(mesh.slac_cern, burst(1.5, at=timezone.now()))

    answer = ask("POST", RESULTS, msgspec.json.encode(batch(result)))

    assert msgspec.json.decode(answer.body, type=Receipt).accepted == 1
    assert Burst.objects.count() == 1


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", PLAN), ("GET", RESULTS), ("GET", "/api/agent/enrol"), ("GET", "/"), ("GET", PLAN + "/")],
)
def test_any_other_request_goes_the_whole_way(ask, method, path):
    assert ask(method, path) is None


def test_a_token_is_not_taken_in_the_clear(ask, settings):
    settings.ALLOW_PLAIN_HTTP = False

    assert ask("GET", PLAN).status == 200, "loopback"
    assert ask("GET", PLAN, address="192.0.2.7").status == 403


def test_a_revoked_token_is_refused_at_once(ask):
    etag = ask("GET", PLAN).headers["ETag"]
    call_command("site", "revoke", "slac", verbosity=0)

    assert ask("GET", PLAN, HTTP_IF_NONE_MATCH=etag).status == 401
    assert ask("POST", RESULTS, msgspec.json.encode(batch())).status == 401


def test_a_defect_is_answered_500(ask, monkeypatch, caplog):
    def fail(*_):
        raise RuntimeError("a defect")

    monkeypatch.setattr("monitor.agents.health.receive", fail)

    assert ask("POST", RESULTS, msgspec.json.encode(batch())).status == 500
    assert "a defect" in caplog.text


@pytest.mark.django_db(transaction=True)
def test_a_connection_lost_meanwhile_is_made_again(ask):
    etag = ask("GET", PLAN).headers["ETag"]
    pid = connection.connection.info.backend_pid
    parameters = {name: value for name, value in connection.get_connection_params().items() if isinstance(value, str)}
    with psycopg.connect(**parameters, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])

    assert ask("GET", PLAN, HTTP_IF_NONE_MATCH=etag).status == 304


@pytest.mark.django_db(transaction=True)
def test_an_empty_delivery_is_recorded_once_with_its_account(ask, mesh, django_assert_num_queries):
    until = timezone.now()
    body = msgspec.json.encode(batch(account=Account(until=until), queued=3, health=Health(cpus=4)))

    with django_assert_num_queries(2):  # token, batch with account and health
        first = ask("POST", RESULTS, body)
    second = ask("POST", RESULTS, body)

    assert first.body == second.body
    assert msgspec.json.decode(first.body, type=Receipt) == Receipt(number=1, accepted=0)
    received = ReceivedBatch.objects.get()
    assert (received.site_id, received.number, received.accepted, received.queued) == (mesh.slac.pk, 1, 0, 3)
    assert AgentAccount.objects.get().until == until
    assert AgentHealth.objects.get().health["cpus"] == 4


def test_only_a_delivery_with_results_waits_for_the_disk(ask, mesh):
    def synchronous_commit():
        with connection.cursor() as cursor:
            cursor.execute("SHOW synchronous_commit")
            return cursor.fetchone()[0]

    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL synchronous_commit = on")
    result = delivered(mesh.slac_cern, burst(1.5, at=timezone.now()))

    ask("POST", RESULTS, msgspec.json.encode(batch(result)))
    assert synchronous_commit() == "on"
    ask("POST", RESULTS, msgspec.json.encode(batch(number=2)))
    assert synchronous_commit() == "off"


def test_a_connection_test_is_not_recorded(ask):
    assert ask("POST", RESULTS, msgspec.json.encode(batch(number=0))).status == 200

    assert not ReceivedBatch.objects.exists()
