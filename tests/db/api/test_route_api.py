"""Routes, traces, changes and differences in the users' API and as CSV."""

import csv
import json
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.utils import timezone

from monitor.mesh.models import Mesh
from probes.contract import Outcome
from probes.trace.flow_effect import effect_of
from probes.trace.spec import Hop
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


@pytest.fixture
def download(client):
    def get(resource, **query):
        answer = client.get(f"/api/v1/{resource}.csv", query, headers={"host": "localhost"})
        assert (answer.status_code, answer["Content-Type"]) == (200, "text/csv; charset=utf-8"), answer.content
        return list(csv.DictReader(answer.content.decode().splitlines()))

    return get


@pytest.fixture
def tables(tmp_path):
    """AS 64496 has 8.8.8.0/24, AS 64497 the next; 195.66.224.0/21 is the LAN of an exchange; B is in an own network."""
    asn, ixp = tmp_path / "asn.csv", tmp_path / "ixp.json"
    asn.write_text("8.8.8.0,8.8.8.255,64496,=First\n8.8.9.0,8.8.9.255,64497,Second\n")
    member = {"ixlan_id": 1, "name": "LINX LON1", "asn": 64497, "ipaddr4": "195.66.224.10"}
    ixp.write_text(json.dumps([member, {"ixlan_id": 1, "prefix": "195.66.224.0/21"}]))
    for name, file in (("asn", asn), ("ixp", ixp)):
        call_command("routes", name, "load", str(file), stdout=StringIO())
    networks = {f"{address('B')}/32": {"name": "campus", "asn": 64500}}
    Mesh.objects.create(name="Mesh", applied_at=NOW, networks=networks)


def test_a_trace_has_whether_its_flows_differ(mesh, ask):
    effect = effect_of([[12.1] * 5, [19.8] * 5] * 4)
    run = trace("AC*D", at=HOUR + 20 * MINUTE, flow_effect=effect)
    store(mesh.slac.pk, batch(delivered(mesh.slac_cern, run), number=3), NOW)

    first, last = (
        ask(f"paths/{mesh.slac_cern.pk}/traces", since=str(HOUR), until=str(NOW))[place] for place in (0, -1)
    )

    assert first["flow_effect"] is None
    stated = last["flow_effect"]
    assert (stated["verdict"], stated["flows"], stated["rtt_low_ms"]) == ("differ", 8, 12.1)
    assert (stated["rtt_statistic"], stated["loss_statistic"]) == (pytest.approx(29.27, abs=0.01), 0.0)
    assert "flows differ" in stated["text"]


def store_hops(mesh, minute, *addresses):
    hops = tuple(Hop(ttl=ttl, address=hop, rtts_ms=(1.0 * ttl,)) for ttl, hop in enumerate(addresses, 1))
    run = trace(at=HOUR + minute * MINUTE, hops=hops, flow=1)
    store(mesh.slac.pk, batch(delivered(mesh.slac_cern, run, minute), number=minute), NOW)


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
    refused = ask(f"paths/{mesh.slac_cern.pk}/traces/2026-03-14T12:05:00Z", 404)["detail"]
    assert "no trace of path" in refused
    assert "microsecond" in refused
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


def test_hops_are_named_by_the_loaded_tables(mesh, tables, ask):
    store_hops(mesh, 20, "8.8.8.8", "195.66.224.9", address("D"))
    nothing = dict.fromkeys(("asn", "as_name", "country", "ixp", "network", "host_name", "special"))

    answer = ask(f"paths/{mesh.slac_cern.pk}/routes")

    assert answer["names"]["8.8.8.8"] == {**nothing, "asn": 64496, "as_name": "=First"}
    assert answer["names"]["195.66.224.9"] == {**nothing, "ixp": "LINX LON1"}
    assert (answer["names"][address("B")]["asn"], answer["names"][address("B")]["network"]) == (64500, "campus")
    assert [(table["name"], table["ipv4_ranges"]) for table in answer["tables"]] == [("asn", 2), ("ixp", 3)]
    assert all(table["dated_at"] for table in answer["tables"])
    (hop, *_) = ask(f"paths/{mesh.slac_cern.pk}/traces/2026-03-14T12:20:00Z")[0]["hops"]
    assert hop["name"] == answer["names"]["8.8.8.8"]
    assert ask("hop-names", address=["8.8.8.8", "1.1.1.1"]) == {
        "names": {"8.8.8.8": answer["names"]["8.8.8.8"], "1.1.1.1": nothing},
        "tables": answer["tables"],
    }
    assert ask("hop-names", 422, address=["8.8.8.8", "router"])


def test_hops_have_addresses_without_any_table(mesh, ask):
    answer = ask(f"paths/{mesh.slac_cern.pk}/routes")

    assert answer["tables"] == []
    assert answer["names"][address("A")]["special"]
    assert answer["names"][address("A")]["asn"] is None
    assert ask("paths-through", asn=64496) == []


def test_two_routes_are_compared_in_blocks_of_as(mesh, tables, ask):
    store_hops(mesh, 20, address("A"), "8.8.8.1", "8.8.8.2", address("D"))
    store_hops(mesh, 25, address("A"), "8.8.9.1", address("D"))
    *_, change = ask("route-changes", path_id=mesh.slac_cern.pk)

    answer = ask("route-diff", before=change["before_id"], after=change["after_id"])

    (block,) = [block for block in answer["as_blocks"] if block["kind"] != "unchanged"]
    assert (block["kind"], block["before"], block["after"]) == ("replaced", [64496], [64497])
    assert (block["before_ttls"], block["after_ttls"]) == ([2, 3], [2, 2])
    assert answer["names"]["8.8.9.1"]["as_name"] == "Second"


def test_paths_through_an_as_are_listed(mesh, tables, ask, download):
    store_hops(mesh, 20, address("A"), "8.8.8.1", "8.8.8.2", address("D"))

    (through,) = ask("paths-through", asn=64496)
    (own,) = ask("paths-through", asn=64500)

    assert (through["path_id"], through["ttl"], through["address"]) == (mesh.slac_cern.pk, 2, "8.8.8.1")
    assert (own["path_id"], own["ttl"], own["until"]) == (mesh.slac_cern.pk, 2, "2026-03-14T12:10:00Z")
    assert ask("paths-through", asn=64497) == []
    assert ask("paths-through", asn=64500, since="2026-03-14T12:11:00Z") == []
    assert ask("paths-through", 422)
    assert ask("paths-through", 422, asn=64496, address="8.8.8.1")
    (row,) = download("paths-through", asn=64496)
    assert (row["ttl"], row["address"], row["until"]) == ("2", "8.8.8.1", "")


def test_the_api_has_routes_and_changes_as_csv(mesh, tables, download):
    first, second, reverse = download(f"paths/{mesh.slac_cern.pk}/routes")
    (change,) = download("route-changes")

    assert first["hops"] == ";".join([address("A"), address("B"), "", address("D")])
    assert (first["asns"], first["until"], second["asns"]) == (";64500;;", "2026-03-14T12:10:00Z", ";;;")
    assert reverse["path_id"] == str(mesh.cern_slac.pk)
    assert (change["at"], change["before_asns"], change["after_asns"]) == ("2026-03-14T12:10:00Z", ";64500;;", ";;;")


def test_the_api_has_a_row_for_each_hop_of_a_trace(mesh, tables, download):
    store_hops(mesh, 20, "8.8.8.8", address("D"))
    failed = trace(at=HOUR + 25 * MINUTE, outcome=Outcome.DNS_FAILURE, reached=False, address=None, detail="no name")
    store(mesh.slac.pk, batch(delivered(mesh.slac_cern, failed, 30), number=30), NOW)

    rows = download(f"paths/{mesh.slac_cern.pk}/traces")

    assert [row["ttl"] for row in rows] == [*"1234", *"1234", *"12", ""]
    assert (rows[1]["address"], rows[1]["asn"], rows[1]["network"]) == (address("B"), "64500", "campus")
    assert (rows[1]["rtts_ms"], rows[1]["sent"], rows[1]["received"]) == ("2.0;;2.5", "3", "2")
    assert (rows[8]["asn"], rows[8]["as_name"], rows[8]["reached"]) == ("64496", "'=First", "true")
    assert (rows[10]["outcome"], rows[10]["address"]) == ("DNS failure", "")


def test_routes_are_downloaded_as_csv(mesh, client):
    answer = client.get(f"/paths/{mesh.slac_cern.pk}/routes.csv?period=day", headers={"host": "localhost"})

    names, first, _ = answer.content.decode().splitlines()
    assert dict(zip(names.split(","), first.split(","), strict=True))["hops"] == ";".join(
        [address("A"), address("B"), "", address("D")]
    )
