"""A site's token is held by a single agent at a time: a second agent is refused, told how to proceed, and shown."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import msgspec
import pytest
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from monitor.agents.holders import Binding, require_holder, second_agents
from monitor.agents.models import AgentToken, issue_token
from monitor.agents.request_bodies import RequestRefused
from monitor.archive.models import Burst, ReceivedBatch
from probes.site.wire import IDENTITY_HEADER
from tests.db.mesh_of_three import NOW, batch, burst, delivered, make_mesh
from tests.facts import lacks

pytestmark = pytest.mark.django_db
PLAN, RESULTS = "/api/agent/plan", "/api/agent/results"
ONE, OTHER = "00000000000000aa", "00000000000000bb"


@pytest.fixture
def mesh():
    return make_mesh()


@pytest.fixture
def token(mesh):
    return issue_token(mesh.slac.pk, NOW)


@pytest.fixture
def ask(client, token):
    """The centre's answer to an agent with the token and this identity."""

    def ask(identity, with_token=None):
        headers = {"Authorization": f"Bearer {with_token or token}"}
        if identity is not None:
            headers[IDENTITY_HEADER] = identity
        return client.get(PLAN, headers=headers, REMOTE_ADDR="192.0.2.77")

    return ask


def test_the_first_instance_holds_the_token_others_are_refused(ask, mesh):
    assert ask(f"{ONE}.5").status_code == 200

    refused = ask(f"{OTHER}.9")

    assert refused.status_code == 409
    facts = ("another agent", "slac", "since 20", "stop one", "`manage.py site rotate slac`")
    assert lacks(refused.json()["error"], *facts) == []
    assert ask(f"{ONE}.5").status_code == 200
    (second,) = second_agents(timezone.now()).values()
    assert (second.site_id, second.address) == (mesh.slac.pk, "192.0.2.77")


def test_a_restart_is_accepted_and_an_earlier_start_is_a_copy(ask):
    assert [ask(f"{ONE}.{start}").status_code for start in (5, 5, 8, 8)] == [200] * 4

    refused = ask(f"{ONE}.5")

    assert refused.status_code == 409
    assert lacks(refused.json()["error"], "copy", "data folder", "started later", "slac") == []


def test_no_result_of_a_second_agents_batch_is_stored(ask, client, mesh, token):
    ask(f"{ONE}.5")
    body = msgspec.json.encode(batch(delivered(mesh.slac_cern, burst(1.0, at=timezone.now() - timedelta(minutes=1)))))
    headers = {"Authorization": f"Bearer {token}"}

    answers = [
        client.post(RESULTS, body, content_type="application/json", headers={**headers, IDENTITY_HEADER: who})
        for who in (f"{OTHER}.6", f"{ONE}.5", f"{ONE}.5")
    ]

    assert [answer.status_code for answer in answers] == [409, 200, 200]
    assert (Burst.objects.count(), ReceivedBatch.objects.count()) == (1, 1)


def test_an_agent_without_identity_is_accepted_until_another_has(ask):
    assert ask(None).status_code == 200
    ask(f"{ONE}.5")

    assert ask(None).status_code == 409


@pytest.mark.parametrize(
    "identity", ["", "x", f"{ONE}", f"{ONE}.-1", f"{ONE}.1.2", f"{ONE}.{'9' * 19}", f"{'a' * 99}.1"]
)
def test_an_invalid_identity_is_refused_and_holds_nothing(ask, identity):
    assert ask(identity).status_code == 400
    assert AgentToken.objects.get().instance is None


def test_with_a_new_token_the_second_agent_takes_over(ask, mesh):
    ask(f"{ONE}.5")
    ask(f"{OTHER}.6")

    call_command("site", "revoke", "slac", verbosity=0)
    fresh = issue_token(mesh.slac.pk, NOW)

    assert ask(f"{OTHER}.6", fresh).status_code == 200
    assert ask(f"{ONE}.5").status_code == 401
    assert second_agents(timezone.now()) == {}


def test_a_stopped_second_agent_is_shown_for_minutes_only(ask):
    ask(f"{ONE}.5")
    ask(f"{OTHER}.6")

    assert second_agents(timezone.now() + timedelta(minutes=4))
    assert second_agents(timezone.now() + timedelta(minutes=6)) == {}


def test_a_known_holder_costs_no_query(ask, django_assert_num_queries):
    ask(None)
    with django_assert_num_queries(0):
        require_holder(Binding(1, ONE, 5), f"{ONE}.5", "", timezone.now())


@pytest.mark.django_db(transaction=True)
def test_of_concurrent_agents_only_the_first_holds_the_token(mesh, token):
    together = threading.Barrier(8)

    def claim(number):
        token = AgentToken.objects.get()
        together.wait(30)
        try:
            require_holder(token, f"{number:016x}.1", "", timezone.now())
        except RequestRefused:
            return 0
        finally:
            connection.close()
        return 1

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(claim, range(8))) == 1
