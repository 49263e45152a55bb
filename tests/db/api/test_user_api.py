"""The users' API: the same figures as the pages, units, nulls, errors and its description."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from monitor.alerts.models import Incident, IncidentPath
from monitor.archive.diagnosis.pending import diagnose_awaited
from tests.db.merging import merge_hours
from tests.db.mesh_of_three import batch, delivered
from tests.db.pages_mesh import HOUR, MINUTE, NOW, burst, hour, throughput
from tests.deliveries import store
from tests.diagnosis.reading import read
from tests.facts import lacks

RUNS = Path(__file__).parents[2] / "fixtures" / "iperf3" / "diagnosis"

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]


@pytest.fixture
def ask(client):
    def get(address, status=200, **query):
        answer = client.get(f"/api/v1/{address}", query, headers={"host": "localhost"})
        assert answer.status_code == status, answer.content
        return answer.json()

    return get


def test_sites_have_coordinates_in_degrees(ask, paths):
    [_, slac, _] = ask("sites")

    assert (slac["name"], slac["latitude_deg"], slac["longitude_deg"], slac["has_agent"]) == (
        "slac",
        37.42,
        -122.20,
        True,
    )


def test_paths_name_both_ends_in_two_queries(ask, paths, django_assert_num_queries):
    with django_assert_num_queries(2):
        listed = ask("paths")

    assert len(listed) == 6
    [path] = [row for row in listed if row["id"] == paths["slac", "cern"].pk]
    assert path["source"] == {"site": "slac", "name": "slac", "address": "192.0.2.2"}
    assert (path["family"], path["retired_at"]) == (4, None)


def test_the_grid_has_a_ratio_a_bound_and_nulls(ask, paths):
    hour(paths["slac", "cern"], sent=1000, received=979, rtt_ms=150.0)
    hour(paths["cern", "slac"], sent=1000, received=1000, rtt_ms=150.0)

    grid = ask("grid", period="hour")

    cells = {(cell["source"], cell["destination"]): cell for cell in grid["cells"]}
    lossy, clean, empty = cells["slac", "cern"], cells["cern", "slac"], cells["slac", "uct"]
    assert (lossy["state"], lossy["loss_ratio"], lossy["loss_bound_ratio"]) == ("value", 0.021, None)
    assert (clean["state"], clean["loss_ratio"], clean["loss_bound_ratio"]) == ("none_lost", 0.0, 0.003)
    assert (lossy["value"], clean["value"]) == (0.021, 0.0)
    assert [cell["loss_evidence"] for cell in (lossy, clean, empty)] == [
        "21 of 1,000 lost",
        "0 of 1,000, so below 0.3% (95%)",
        None,
    ]
    assert (empty["state"], empty["loss_ratio"], empty["value"], empty["sent"]) == ("no_data", None, None, None)
    assert (grid["packet_bytes"], grid["since"], grid["until"]) == (100, "2026-11-21T11:30:00Z", "2026-11-21T12:30:00Z")


def test_the_grid_conforms_to_its_description(ask, paths):
    described = ask("openapi.json")["components"]["schemas"]

    grid = ask("grid")

    assert grid.keys() == described["GridOut"]["properties"].keys()
    assert grid["cells"][0].keys() == described["CellOut"]["properties"].keys()


def test_the_grid_of_throughput_counts_failures_separately(ask, paths):
    throughput(paths["slac", "cern"], HOUR, 94e6)
    throughput(paths["slac", "cern"], HOUR + MINUTE, None)
    throughput(paths["slac", "cern"], HOUR + 2 * MINUTE, 3e6, test="on-demand")

    grid = ask("grid", metric="throughput_median_bps")

    [cell] = [cell for cell in grid["cells"] if cell["path_id"] == paths["slac", "cern"].pk]
    assert grid["packet_bytes"] is None
    assert cell["value"] == 94e6
    assert (cell["tests"], cell["tests_measured"], cell["not_measured"], cell["outcome"]) == (2, 1, 1, "busy")
    assert cell["tests_on_demand"] == 1


def test_a_series_omits_gaps_and_has_its_interval(ask, paths):
    path = paths["slac", "cern"]
    for minute in (0, 1, 20):
        burst(path, HOUR + minute * MINUTE, 10.0, 12.0, None)

    series = ask(f"paths/{path.pk}/series", since=HOUR.isoformat(), until=NOW.isoformat())

    assert (series["step_s"], series["packet_bytes"]) == (60, 100)
    assert [point["at"] for point in series["points"]] == [
        "2026-11-21T12:00:00Z",
        "2026-11-21T12:01:00Z",
        "2026-11-21T12:20:00Z",
    ]
    assert (series["points"][0]["sent"], series["points"][0]["received"]) == (3, 2)
    assert series["points"][0]["rtt_median_ms"] == 11.0


def test_a_series_has_packets_under_load_separately(ask, paths):
    path = paths["slac", "cern"]
    burst(path, HOUR, 10.0, 12.0, loaded_rtts_ms=[80.0, None, 90.0])
    burst(path, HOUR + MINUTE, 100.0, 110.0, loaded_rtts_ms=[], during_test=True)
    burst(path, HOUR + 2 * MINUTE, 900.0, during_test=True)

    series = ask(f"paths/{path.pk}/series", since=HOUR.isoformat(), until=NOW.isoformat())

    loaded = series["under_load"]
    assert [(point["at"], point["sent"]) for point in series["points"]] == [("2026-11-21T12:00:00Z", 2)]
    assert (loaded["sent"], loaded["received"], loaded["rtt_median_ms"]) == (5, 4, 95.0)
    assert [(point["sent"], point["rtt_median_ms"]) for point in series["under_load_points"]] == [(3, 85.0), (2, 105.0)]


def test_a_series_without_packets_under_load_says_so(ask, paths):
    burst(paths["slac", "cern"], HOUR, 10.0)

    series = ask(f"paths/{paths['slac', 'cern'].pk}/series", since=HOUR.isoformat(), until=NOW.isoformat())

    assert (series["under_load"], series["under_load_points"]) == (None, [])


def test_a_total_loss_in_a_series_has_no_rtt(ask, paths):
    path = paths["slac", "cern"]
    burst(path, HOUR, None, None)

    [point] = ask(f"paths/{path.pk}/series")["points"]

    assert (point["sent"], point["received"], point["rtt_median_ms"], point["estimate_bps"]) == (2, 0, None, None)


def test_a_failed_throughput_test_has_no_rate(ask, paths):
    path = paths["slac", "cern"]
    throughput(path, HOUR, None, outcome="tool_failure", detail="connection refused")

    [test] = ask(f"paths/{path.pk}/throughput")

    assert (test["outcome"], test["throughput_bps"], test["detail"]) == ("tool_failure", None, "connection refused")


def test_incidents_are_the_open_ones_unless_all_are_requested(ask, paths):
    path = paths["slac", "cern"]
    for cause, closed_at in (("open", None), ("closed", NOW)):
        incident = Incident.objects.create(
            rule="loss", cause=cause, opened_at=HOUR, closed_at=closed_at, summary="Loss 4%"
        )
        IncidentPath.objects.create(
            incident=incident,
            path=path,
            added_at=HOUR,
            rule="loss",
            sentence="loss 4%",
            since=HOUR,
            figures={},
            is_over=closed_at is not None,
        )

    [still] = ask("incidents")
    everything = ask("incidents", state="all")

    assert (still["cause"], still["closed_at"], still["path_ids"]) == ("open", None, [path.pk])
    assert {row["cause"] for row in everything} == {"open", "closed"}


def test_a_throughput_test_has_its_intervals_and_diagnosis(ask, paths):
    path = paths["slac", "cern"]
    run = msgspec.structs.replace(read(RUNS / "queue.json"), started_at=HOUR)
    store(path.source.site_id, batch(delivered(path, run)), NOW)
    diagnose_awaited(NOW)

    [listed] = ask(f"paths/{path.pk}/throughput")
    whole = ask(f"paths/{path.pk}/throughput/2026-11-21T12:00:00Z")

    assert listed["verdict"] == whole["verdict"] == "bottleneck queue"
    assert whole["transfer"]["sent"]["cwnd_bytes"] == list(run.transfer.sent.cwnd_bytes)
    assert sum(recovery["resent_segments"] for recovery in whole["findings"]["recoveries"]) == run.retransmits
    assert whole["throughput_bps"] == listed["throughput_bps"] != whole["average_bps"] == run.throughput_bps
    unknown = ask(f"paths/{path.pk}/throughput/2026-11-21T12:00:01Z", status=404)["detail"]
    assert lacks(unknown, "no throughput test", f" path {path.pk} ", "2026-11-21T12:00:01+00:00") == []


@pytest.mark.parametrize("kind", ["series", "throughput", "capacity"])
def test_an_unknown_path_is_not_found(ask, paths, kind):
    assert "there is no path 999999" in ask(f"paths/999999/{kind}", 404)["detail"]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"since": "2026-11-21T12:00:00Z", "until": "2026-11-21T11:00:00Z"}, "must be before"),
        ({"since": "1990-01-01T00:00:00Z"}, "days apart"),
        ({"since": "2026-11-21T12:00:00"}, "timezone"),
        ({"since": "yesterday"}, "datetime"),
        ({"until": "0001-01-01T00:00:00Z"}, "years 1970 to 2199"),
        ({"since": "0001-01-01T00:00:00+14:00"}, "years 1970 to 2199"),
        ({"size": 77}, "no packets of that size"),
        ({"size": -1}, "greater than or equal"),
    ],
)
def test_an_invalid_query_is_answered_with_422(ask, paths, query, message):
    path = paths["slac", "cern"]
    hour(path, sent=10, received=10, rtt_ms=1.0)

    assert message in str(ask(f"paths/{path.pk}/series", 422, **query)["detail"])


@pytest.mark.parametrize("query", [{"metric": "jitter"}, {"period": "fortnight"}, {"group": "nobody"}, {"size": "x"}])
def test_an_invalid_grid_is_answered_with_422(ask, paths, query):
    assert ask("grid", 422, **query)["detail"]


def test_times_with_another_offset_are_accepted(ask, paths):
    path = paths["slac", "cern"]
    burst(path, HOUR, 10.0)

    series = ask(f"paths/{path.pk}/series", since="2026-11-21T13:00:00+01:00", until="2026-11-21T13:30:00+01:00")

    assert datetime.fromisoformat(series["since"]) == datetime(2026, 11, 21, 12, tzinfo=UTC)
    assert len(series["points"]) == 1


def test_a_year_is_returned_in_days(ask, paths):
    path = paths["slac", "cern"]
    hour(path, sent=600, received=600, rtt_ms=10.0, hour=HOUR - timedelta(days=200))
    merge_hours(NOW)

    series = ask(f"paths/{path.pk}/series", since=(NOW - timedelta(days=365)).isoformat())

    assert (series["step_s"], len(series["points"])) == (86_400, 1)


def test_the_openapi_schema_lists_every_address(ask, client):
    described = ask("openapi.json")

    assert set(described["paths"]) == {
        "/api/v1/sites",
        "/api/v1/state",
        "/api/v1/paths",
        "/api/v1/freshness",
        "/api/v1/grid",
        "/api/v1/worst",
        "/api/v1/table",
        "/api/v1/centre",
        "/api/v1/completeness",
        "/api/v1/refused",
        "/api/v1/paths/{path_id}/series",
        "/api/v1/paths/{path_id}/directions",
        "/api/v1/paths/{path_id}/stamp",
        "/api/v1/paths/{path_id}/throughput",
        "/api/v1/paths/{path_id}/throughput/{at}",
        "/api/v1/paths/{path_id}/throughput/{at}/captures",
        "/api/v1/paths/{path_id}/throughput/{at}/captures/{role}",
        "/api/v1/paths/{path_id}/capacity",
        "/api/v1/paths/{path_id}/changes",
        "/api/v1/paths/{path_id}/congestion",
        "/api/v1/paths/{path_id}/ledger",
        "/api/v1/paths/{path_id}/links",
        "/api/v1/paths/{path_id}/estimate",
        "/api/v1/paths/{path_id}/spread",
        "/api/v1/paths/{path_id}/disk-to-disk",
        "/api/v1/paths/{path_id}/policer",
        "/api/v1/paths/{path_id}/idle-restart",
        "/api/v1/paths/{path_id}/request-response",
        "/api/v1/paths/{path_id}/routes",
        "/api/v1/paths/{path_id}/routes.csv",
        "/api/v1/paths/{path_id}/traces",
        "/api/v1/paths/{path_id}/traces.csv",
        "/api/v1/paths/{path_id}/traces/{at}",
        "/api/v1/paths/{path_id}/on-demand-traces",
        "/api/v1/paths/{path_id}/annotations",
        "/api/v1/annotations",
        "/api/v1/annotations/{annotation_id}",
        "/api/v1/route-changes",
        "/api/v1/route-changes.csv",
        "/api/v1/hop-names",
        "/api/v1/route-diff",
        "/api/v1/paths-through",
        "/api/v1/paths-through.csv",
        "/api/v1/records",
        "/api/v1/paths/{path_id}/best-settings",
        "/api/v1/sweeps",
        "/api/v1/sweeps/{sweep_id}",
        "/api/v1/aggregates",
        "/api/v1/aggregates.csv",
        "/api/v1/aggregates/{aggregate_id}",
        "/api/v1/paths/{path_id}/on-demand",
        "/api/v1/on-demand/{slot_id}",
        "/api/v1/paths/{path_id}/on-demand-pings",
        "/api/v1/on-demand-pings/{request_id}",
        "/api/v1/on-demand-aggregates",
        "/api/v1/on-demand-aggregates/{slot_id}",
        "/api/v1/incidents",
        "/api/v1/incidents/{incident_id}",
        "/api/v1/incidents/{incident_id}/acknowledgement",
        "/api/v1/incidents/{incident_id}/comments",
        "/api/v1/deeds",
        "/api/v1/silences",
        "/api/v1/silences/{quiet_id}",
        "/api/v1/maintenance",
        "/api/v1/maintenance/{quiet_id}",
    }
    assert client.get("/api/v1/docs", headers={"host": "localhost"}).status_code == 404
