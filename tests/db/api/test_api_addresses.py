"""Every address listed by the API can be requested: ids, and the times that identify throughput tests."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import Group as Role
from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from monitor.accounts.models import issue_user_token
from monitor.alerts.incidents import actions
from monitor.alerts.models import Incident
from monitor.archive import throughput_sweeps
from monitor.archive.ingest.traces import store_traces
from monitor.archive.models import SweepCell
from monitor.mesh.models import Path, Slot
from monitor.mesh.schedule.on_demand import Settings, ask
from tests.db.aggregate_rows import aggregate_run
from tests.db.pages_mesh import MINUTE, NOW, hour, throughput
from tests.db.trace_rows import delivered, trace

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]

ODD = timedelta(microseconds=123_457)
"""Agents report the start of a test to the microsecond."""
OBJECTS = {
    "id": {"/sweeps": "/sweeps/{}", "/incidents": "/incidents/{}", "/silences": "/silences/{}"}
    | {"/maintenance": "/maintenance/{}", "/paths": "/paths/{}/throughput", "/aggregates": "/aggregates/{}"},
    "path_id": "/paths/{}/series",
    "slot_id": "/on-demand/{}",
    "incident_id": "/incidents/{}",
}


@pytest.fixture
def ask_api(client):
    """GET as an operator, who may read everything."""
    user = User.objects.create_user("robot")
    user.groups.add(Role.objects.get(name="operator"))
    bearer = f"Bearer {issue_user_token(user.pk, 'everything', NOW, may_operate=True)}"

    def get(address, **query):
        answer = client.get(f"/api/v1{address}", query, headers={"host": "localhost", "authorization": bearer})
        is_csv = answer["Content-Type"].startswith("text/csv")
        return answer.status_code, answer.content.decode() if is_csv else answer.json()

    return get


@pytest.fixture
def planted(paths):
    """An object for every address: tests that began between two milliseconds, a sweep, an incident, quiet times."""
    path = paths["slac", "cern"]
    for measured in paths.values():
        hour(measured, sent=600, received=590, rtt_ms=150.0)
    throughput(path, NOW - 20 * MINUTE + ODD, 94e6)
    grid = [Settings(duration_s=2, streams=4)]
    sweep_id = throughput_sweeps.create(path, grid, name="slac to cern", by="ann", now=NOW)
    slot = ask(path, grid[0], by="ann", now=timezone.now())
    throughput(path, slot.starts_at + ODD, 90e6, slot_id=slot.pk, test="on-demand")
    Slot.objects.filter(pk=slot.pk).update(outcome="measured")
    SweepCell.objects.filter(sweep=sweep_id).update(slot_id=slot.pk)
    run = trace("AB", at=NOW - 40 * MINUTE + ODD)
    with transaction.atomic():
        store_traces([delivered(path, run)], NOW)
    aggregate_run([path, paths["cern", "slac"]], NOW - 30 * MINUTE)
    incident = Incident.objects.create(rule="loss", cause="slac → cern", opened_at=NOW, summary="loss")
    actions.comment(incident.pk, "looking", "ann", NOW)
    scope = actions.find_scope(path.pk, None, None)
    actions.silence(scope, NOW + 60 * MINUTE, "works", "ann", NOW)
    actions.maintain(scope, NOW + MINUTE, NOW + 60 * MINUTE, "works", "ann", NOW)


def listed(address, answer, path_id=None):
    """The addresses in an answer, of itself and of all its objects."""
    if isinstance(answer, list):
        for item in answer:
            yield from listed(address, item, path_id)
    elif isinstance(answer, dict):
        path_id = answer.get("path_id", path_id)
        for name, value in answer.items():
            pattern = OBJECTS.get(name)
            pattern = pattern.get(address) if isinstance(pattern, dict) else pattern
            if pattern is not None and value is not None:
                yield pattern.format(value)
            if name == "measured_at" and value is not None:
                yield f"/paths/{path_id}/throughput/{value}"
            yield from listed(address, value, path_id)
        if address.endswith("/traces") and "hops" in answer:
            yield f"{address}/{answer['at']}"
        if "throughput_bps" in answer and "at" in answer:
            yield f"/paths/{path_id or address.split('/')[2]}/throughput/{answer['at']}"


def test_every_address_listed_by_the_api_exists(ask_api, planted):
    _, described = ask_api("/openapi.json")
    required = {
        address.removeprefix("/api/v1"): [
            given["name"] for given in methods["get"].get("parameters", ()) if given["required"]
        ]
        for address, methods in described["paths"].items()
        if "get" in methods
    }
    gets = [address for address, names in required.items() if not names]
    gets += [
        address.format(path_id=path_id)
        for address, names in required.items()
        for path_id in Path.objects.values_list("pk", flat=True)
        if names == ["path_id"]
    ]
    # These need either an address or an AS; the schema requires neither.
    through = {"/paths-through", "/paths-through.csv"}
    waiting, visited = [address for address in gets if address not in through], {}
    waiting += [f"{address}?{given}" for address in through for given in ("address=192.0.2.2", "asn=64496")]

    while waiting:
        address = waiting.pop()
        if address in visited:
            continue
        visited[address], answer = ask_api(address)
        waiting += listed(address, answer)

    assert {address: status for address, status in visited.items() if status != 200} == {}
    tests = [address for address in visited if "/throughput/" in address]
    traces = [address for address in visited if "/traces/" in address]
    assert (len(tests), len(traces)) == (2, 1)
    assert all(f"{ODD.microseconds}Z" in address for address in [*tests, *traces])
    for kind in ("/sweeps/", "/incidents/", "/silences/", "/maintenance/", "/on-demand/", "/aggregates/"):
        assert any(address.startswith(kind) for address in visited), kind
