"""The results of each kind in the API and as CSV: names, order and types of their fields, to the byte."""

import json
from pathlib import Path

import pytest

from tests.db.any_batch import capacity, disk_to_disk, idle_restart, policer, request_response
from tests.db.mesh_of_three import HOUR, NOW, batch, delivered, make_mesh
from tests.deliveries import store

pytestmark = pytest.mark.django_db
FIXTURE = Path(__file__).parents[2] / "fixtures" / "api" / "results_of_kinds.json"
EXPECTED = json.loads(FIXTURE.read_text())
RESULTS = {
    "capacity": capacity(HOUR),
    "disk-to-disk": disk_to_disk(HOUR),
    "idle-restart": idle_restart(HOUR),
    "policer": policer(HOUR),
    "request-response": request_response(HOUR),
}
BETWEEN = {"since": HOUR.isoformat(), "until": NOW.isoformat()}


@pytest.fixture
def ask(client, settings):
    settings.LOCAL_READ = settings.ALLOW_PLAIN_HTTP = True

    def get(address, **query):
        answer = client.get(address, query, headers={"host": "localhost"})
        assert answer.status_code == 200, answer.content
        return answer.content.decode()

    return get


@pytest.fixture
def path_id():
    mesh = make_mesh()
    results = [delivered(mesh.slac_anl, result, number) for number, result in enumerate(RESULTS.values(), 1)]
    store(mesh.slac.pk, batch(*results), NOW)
    return mesh.slac_anl.pk


@pytest.mark.parametrize("kind", RESULTS)
def test_a_result_has_its_fields_in_their_order(kind, path_id, ask):
    assert ask(f"/api/v1/paths/{path_id}/{kind}", **BETWEEN) == EXPECTED[kind]["answer"]


@pytest.mark.parametrize("kind", RESULTS)
def test_the_description_of_a_result_stays(kind, ask):
    described = json.loads(ask("/api/v1/openapi.json"))
    operation = described["paths"][f"/api/v1/paths/{{path_id}}/{kind}"]
    items = operation["get"]["responses"]["200"]["content"]["application/json"]["schema"]["items"]
    schema = described["components"]["schemas"][items["$ref"].rpartition("/")[2]]

    assert json.dumps(operation) == EXPECTED[kind]["operation"]
    assert json.dumps(schema) == EXPECTED[kind]["schema"]


def test_a_csv_has_the_fields_in_their_order(path_id, ask):
    csv = ask(f"/paths/{path_id}/request-response.csv", **BETWEEN)

    assert csv == EXPECTED["request-response"]["csv"]
