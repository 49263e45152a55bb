"""Routes, traces, changes and differences in the users' API and as CSV."""

from datetime import timedelta

import pytest
from django.utils import timezone

from tests.db.mesh_of_three import HOUR, NOW, batch, make_mesh
from tests.db.trace_rows import FLOW, address, delivered, trace
from tests.deliveries import store

pytestmark = [pytest.mark.django_db]
MINUTE = timedelta(minutes=1)


@pytest.fixture
def mesh(monkeypatch):
    """A path over B, from minute 10 on over C; the reverse path over A."""
    monkeypatch.setattr(timezone, "now", lambda: NOW)
    mesh = make_mesh()
    runs = [trace(hops, at=HOUR + minute * MINUTE) for minute, hops in ((0, "AB*D"), (10, "AC*D"))]
    store(mesh.slac.pk, batch(*(delivered(mesh.slac_cern, run, place) for place, run in enumerate(runs, 1))), NOW)
    store(mesh.cern.pk, batch(delivered(mesh.cern_slac, trace("DA"))), NOW)
    return mesh


@pytest.fixture
def ask(client):
    def get(resource, status=200, **query):
        answer = client.get(f"/api/v1/{resource}", query, headers={"host": "localhost"})
        assert answer.status_code == status, answer.content
        return answer.json()

    return get


def test_the_routes_of_a_path_have_both_directions(mesh, ask):
    answer = ask(f"paths/{mesh.slac_cern.pk}/routes")

    first, second = answer["routes"]
    assert answer["reverse_path_id"] == mesh.cern_slac.pk
    assert first == {
        "path_id": mesh.slac_cern.pk,
        "protocol": "icmp",
        "flow": FLOW,
        "since": "2026-03-14T12:00:00Z",
        "last_at": "2026-03-14T12:00:00Z",
        "until": "2026-03-14T12:10:00Z",
        "route_id": first["route_id"],
        "number": 1,
        "hops": [address("A"), address("B"), None, address("D")],
        "reached": True,
    }
    assert (second["since"], second["until"], second["number"]) == ("2026-03-14T12:10:00Z", None, 2)
    assert [period["hops"] for period in answer["reverse_routes"]] == [[address("D"), address("A")]]


def test_a_trace_has_the_figures_of_its_hops(mesh, ask):
    first, second = ask(f"paths/{mesh.slac_cern.pk}/traces")
    (same,) = ask(f"paths/{mesh.slac_cern.pk}/traces/2026-03-14T12:10:00Z")

    assert same == second
    assert (first["at"], first["outcome"], first["reason"], first["test"]) == (
        "2026-03-14T12:00:00Z", "measured", "scheduled", "routes"
    )  # fmt: skip
    assert [hop["address"] for hop in first["hops"]] == [address("A"), address("B"), None, address("D")]
    assert first["hops"][1]["rtts_ms"] == [2.0, None, 2.5]
    assert "no trace of path" in ask(f"paths/{mesh.slac_cern.pk}/traces/2026-03-14T12:05:00Z", 404)["detail"]
    assert ask(f"paths/{mesh.slac_cern.pk}/traces", 422, since="2026-01-01T00:00:00Z")


def test_two_routes_are_compared_in_blocks(mesh, ask):
    (change,) = ask("route-changes", path_id=mesh.slac_cern.pk)
    answer = ask("route-diff", before=change["before_id"], after=change["after_id"])

    assert (change["last_before_at"], change["at"]) == ("2026-03-14T12:00:00Z", "2026-03-14T12:10:00Z")
    changed = [block for block in answer["blocks"] if block["kind"] != "unchanged"]
    assert [(block["kind"], block["before"], block["after"]) for block in changed] == [
        ("replaced", [address("B")], [address("C")])
    ]
    assert changed[0]["before_ttls"] == [2, 2]
    assert ask("route-diff", 404, before=change["before_id"], after=99_999)


def test_paths_through_a_router_are_listed(mesh, ask):
    through = ask("paths-through", address=address("A"))

    assert {(passage["path_id"], passage["ttl"]) for passage in through} == {
        (mesh.slac_cern.pk, 1), (mesh.cern_slac.pk, 2)
    }  # fmt: skip
    assert ask("paths-through", address=address("B"), since="2026-03-14T12:11:00Z") == []
    assert ask("paths-through", 422, address="router")


def test_routes_are_downloaded_as_csv(mesh, client):
    answer = client.get(f"/paths/{mesh.slac_cern.pk}/routes.csv?period=day", headers={"host": "localhost"})

    names, first, _ = answer.content.decode().splitlines()
    assert dict(zip(names.split(","), first.split(","), strict=True))["hops"] == ";".join(
        [address("A"), address("B"), "", address("D")]
    )
