"""The versions of the agents' protocol that the centre supports, and its answer to others."""

import pytest
from django.utils import timezone

from monitor.agents import protocol
from monitor.agents.models import issue_token
from monitor.archive.models import Burst
from tests.db.any_batch import as_json, whole_batch
from tests.db.mesh_of_three import make_mesh
from tests.facts import lacks

PLAN, RESULTS, ENROL = "/api/agent/plan", "/api/agent/results", "/api/agent/enrol"


@pytest.fixture
def mesh(db):
    return make_mesh()


@pytest.fixture
def call(client, mesh):
    client.defaults |= {"HTTP_AUTHORIZATION": f"Bearer {issue_token(mesh.slac.pk, timezone.now())}"}

    def call(address, version=None):
        headers = {} if version is None else {"Soundings-Protocol": version}
        if address == RESULTS:
            return client.post(
                address, data=as_json(whole_batch(mesh)), content_type="application/json", headers=headers
            )
        return client.get(address, headers=headers)

    return call


@pytest.mark.parametrize("version", [None, "1", " 1 "])
@pytest.mark.parametrize("address", [PLAN, RESULTS, ENROL])
def test_version_1_is_served_with_and_without_the_header(call, address, version):
    answer = call(address, version)

    assert answer.status_code == 200
    assert answer["Soundings-Protocols"] == "lowest=1, highest=2, lowest-until=2028-12-31"


@pytest.mark.parametrize("address", [PLAN, RESULTS, ENROL])
def test_a_later_version_is_refused_and_asks_to_upgrade(call, address):
    answer = call(address, "99")

    assert answer.status_code == 426
    assert lacks(answer.json()["error"], "agent speaks protocol 99,", "the centre 1 to 2:", "upgrade the centre") == []
    assert answer["Soundings-Protocols"].startswith("lowest=1, highest=2")
    assert not Burst.objects.exists()


@pytest.mark.parametrize("version", [None, "1"])
def test_an_unsupported_version_is_refused_likewise(call, monkeypatch, version):
    monkeypatch.setattr(protocol, "LOWEST", 2)
    monkeypatch.setattr(protocol, "HIGHEST", 3)

    answer = call(RESULTS, version)

    assert answer.status_code == 426
    assert lacks(answer.json()["error"], "agent speaks protocol 1,", "the centre 2 to 3:", "upgrade the agent") == []


@pytest.mark.parametrize("version", ["", "one", "1.0", "-1", "9" * 5000, "\u0661".encode().decode("latin-1")])
def test_an_invalid_version_is_refused(call, version):
    assert call(PLAN, version).status_code == 400
