"""Route changes in Grafana: traces through the archive, read by the role that Grafana has."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection

from dashboards.reader import ROLE, grant
from tests.db.grafana import of_dashboard, run
from tests.db.mesh_of_three import HOUR, NOW, MeshOfThree, batch, make_mesh
from tests.db.trace_rows import delivered, trace
from tests.deliveries import store

pytestmark = [pytest.mark.django_db]
MINUTE = timedelta(minutes=1)


@pytest.fixture
def mesh() -> MeshOfThree:
    """Forward, another router at the second hop and a hop more from minute 20 on; silence at minute 10 and after the
    change. In reverse, another first router at minute 30."""
    mesh = make_mesh()
    forward = [
        trace(hops, at=HOUR + 10 * number * MINUTE) for number, hops in enumerate(("ABD", "A*D", "AC*D", "**ED"))
    ]
    reverse = [trace(hops, at=HOUR + at * MINUTE) for at, hops in ((0, "DA"), (30, "FA"))]
    for site, path, runs in ((mesh.slac, mesh.slac_cern, forward), (mesh.cern, mesh.cern_slac, reverse)):
        store(site.pk, batch(*(delivered(path, run, number) for number, run in enumerate(runs, 1))), NOW)
    with connection.cursor() as cursor:
        grant(cursor, "of the test")
    return mesh


def read(text: str) -> list[tuple[object, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL ROLE {ROLE}")
        cursor.execute(text)
        rows: list[tuple[object, ...]] = cursor.fetchall()
        cursor.execute("RESET ROLE")
        return rows


@pytest.mark.parametrize("dashboard", ["paths", "throughput"])
def test_route_changes_of_both_directions_are_annotated(dashboard: str, mesh: MeshOfThree) -> None:
    chosen = {"path": str(mesh.slac_cern.pk), "packet_bytes": "100"}

    rows = run(of_dashboard(dashboard)["@Route changes"], chosen, HOUR, HOUR + timedelta(hours=1))

    assert [(row["time"], row["tags"]) for row in rows] == [
        (HOUR + 20 * MINUTE, "route"),
        (HOUR + 30 * MINUTE, "route"),
    ]
    assert [row["text"].split(" from ") for row in rows] == [
        ["Route changed", "hop 2 on: 3 → 4 hops"],
        ["Reverse route changed", "hop 1 on: 2 hops"],
    ]


def test_the_views_of_routes_have_periods_and_outcomes(mesh: MeshOfThree) -> None:
    periods = read(
        "SELECT route, hops, since, until FROM reporting.route_period"
        f" WHERE path_id = {mesh.slac_cern.pk} ORDER BY since"
    )
    outcomes = read("SELECT outcome, reason, hops, count(*) FROM reporting.trace GROUP BY 1, 2, 3 ORDER BY 3")

    assert periods == [(1, 3, HOUR, HOUR + 20 * MINUTE), (2, 4, HOUR + 20 * MINUTE, None)]
    assert outcomes == [
        ("measured", "scheduled", 2, 2), ("measured", "scheduled", 3, 2), ("measured", "scheduled", 4, 2)
    ]  # fmt: skip


def test_the_views_of_routes_show_no_address(mesh: MeshOfThree) -> None:
    for view in ("trace", "route_period", "route_change"):
        (text,) = read(f"SELECT string_agg({view}::text, ' ') FROM reporting.{view}")[0]
        assert "198.51.100" not in str(text)
