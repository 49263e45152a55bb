"""Request-response runs from the mesh to the page and the users' API: planned, stored once, refused with a reason."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path as FilePath

import msgspec
import pytest
from msgspec.structs import replace

from monitor.archive.models import RefusedResult, RequestResponseResult
from monitor.archive.queries.kind_series import kind_series
from monitor.archive.queries.throughput.request_response import response_intervals
from monitor.mesh.apply import apply
from monitor.mesh.document.reader import MeshError, read
from monitor.mesh.kinds.request_response import RequestResponseEntry
from monitor.mesh.models import Path, Site
from monitor.mesh.plan import plan_for
from monitor.web.charts.marks import TimeAxis
from monitor.web.pages.path.other_tests.responses import load_responses
from probes.contract import Outcome
from probes.request_response.spec import RequestResponseRun
from probes.site.wire import Delivered, Plan
from tests.db.mesh_of_three import HOUR, NOW, batch, make_mesh
from tests.deliveries import store

pytestmark = [pytest.mark.django_db, pytest.mark.timescale]

EXAMPLE = read(FilePath(__file__).parent.parent.parent.parent / "mesh.example.toml")
MINUTE = timedelta(minutes=1)


@pytest.fixture
def mesh():
    return make_mesh()


def run(*latencies_ms: float, at=HOUR, **fields: object) -> RequestResponseRun:
    values: dict[str, object] = {
        "target": "cern",
        "address": "192.0.2.2",
        "family": 4,
        "started_at": at,
        "outcome": Outcome.MEASURED,
        "request_bytes": 100,
        "response_bytes": 65_536,
        "latencies_ms": latencies_ms,
        "connect_ms": 10.0,
        "setup_ms": 20.0,
        "first_ms": 31.0,
        "after_idle_ms": 29.0,
        "retransmits": 0,
        "far_retransmits": 2,
    }
    return RequestResponseRun(**{**values, **fields})  # type: ignore[arg-type]


def not_measured(**fields: object) -> RequestResponseRun:
    none = dict.fromkeys(("address", "connect_ms", "setup_ms", "first_ms", "after_idle_ms"))
    return run(**{**none, "outcome": Outcome.REFUSED, "detail": "port 4821 is closed", **fields})


def delivered(path: Path, result: RequestResponseRun, sequence: int = 1, **fields: object) -> Delivered:
    values = {"sequence": sequence, "path_id": path.pk, "test": "blocks", "result": result}
    return Delivered(**{**values, **fields})  # type: ignore[arg-type]


def with_blocks(**fields: object):
    test = RequestResponseEntry(name="blocks", **fields)  # type: ignore[arg-type]
    groups = (replace(EXAMPLE.groups[0], tests=(*EXAMPLE.groups[0].tests, "blocks")), *EXAMPLE.groups[1:])
    return replace(EXAMPLE, tests=(*EXAMPLE.tests, test), groups=groups)


def test_both_ends_of_a_path_get_the_same_key_and_port():
    apply(with_blocks(response_bytes=4096, port=4900), NOW)
    plans = {site.name: plan_for(site, NOW) for site in Site.objects.filter(has_agent=True)}

    for name, plan in plans.items():
        [task] = plan.request_response
        assert (task.spec.response_bytes, task.spec.port, plan.server.port) == (4096, 4900, 4900)
        for target in task.spec.targets:
            path = Path.objects.select_related("destination__site").get(pk=target.path_id)
            far = plans.get(path.destination.site.name)
            if far is not None:
                assert target.key in {peer.key for peer in far.server.peers}
        assert len({peer.key for peer in plan.server.peers}) == len(plan.server.peers), name
        assert msgspec.json.decode(msgspec.json.encode(plan), type=Plan) == plan


def test_a_mesh_without_such_tests_has_no_server(django_assert_num_queries):
    apply(EXAMPLE, NOW)
    site = Site.objects.filter(has_agent=True).first()
    plan_for(site, NOW)

    with django_assert_num_queries(3):
        assert plan_for(site, NOW).server is None


def test_a_run_that_would_need_a_slot_is_refused_in_mesh_toml(tmp_path):
    text = (FilePath(__file__).parents[3] / "mesh.example.toml").read_text()
    table = '[[test]]\nname = "blocks"\nkind = "request-response"\nresponse_bytes = 1048576\ncount = 100\n\n'
    file = tmp_path / "mesh.toml"
    file.write_text(text.replace("[[group]]", f"{table}[[group]]", 1))

    with pytest.raises(MeshError, match=r"would need a slot.*count = 13 or less"):
        read(file)


def test_a_run_is_stored_once_with_its_figures(mesh):
    results = (delivered(mesh.slac_cern, run(1.0, 2.0, 3.0, 4.0)), delivered(mesh.slac_anl, not_measured(), 2))
    store(mesh.slac.pk, batch(*results), NOW)
    store(mesh.slac.pk, batch(*results, number=2), NOW)

    [row] = RequestResponseResult.objects.filter(path_id=mesh.slac_cern.pk)
    assert (row.transactions, row.minimum_ms, row.median_ms, row.maximum_ms) == (4, 1.0, 2.5, 4.0)
    assert row.p95_ms == pytest.approx(3.85)
    assert row.transactions_per_s == pytest.approx(400)
    assert row.payload_bytes_per_s == pytest.approx(400 * 65_636)
    assert (row.first_ms, row.after_idle_ms, row.far_retransmits) == (31.0, 29.0, 2)
    [failed] = kind_series("request-response", mesh.slac_anl.pk, HOUR, NOW)
    assert (failed.outcome, failed.median_ms, failed.transactions) == ("refused", None, 0)


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (run(), "neither transactions nor errors"),
        (run(1.0, 0.0), "not above 0"),
        (run(1e6), "a time above"),
        (run(1.0, response_bytes=2_000_000), "a block above"),
        (run(1.0, outcome=Outcome.REFUSED), "but with latencies"),
        (run(1.0, address="cern"), "is not an IP address"),
    ],
)
def test_contradictions_are_refused(mesh, result, reason):
    store(mesh.slac.pk, batch(delivered(mesh.slac_cern, result)), NOW)

    assert not RequestResponseResult.objects.exists()
    assert reason in RefusedResult.objects.get().reason


def test_intervals_leave_out_runs_during_throughput_tests(mesh):
    runs = [
        delivered(mesh.slac_cern, run(10.0, 20.0, at=HOUR), 1),
        delivered(mesh.slac_cern, run(30.0, 40.0, at=HOUR + MINUTE), 2),
        delivered(mesh.slac_cern, run(900.0, at=HOUR + 2 * MINUTE), 3, during_test=True),
        delivered(mesh.slac_cern, not_measured(at=HOUR + 3 * MINUTE), 4),
    ]
    store(mesh.slac.pk, batch(*runs), NOW)
    whole = response_intervals(mesh.slac_cern.pk, HOUR, HOUR + timedelta(days=1))

    assert sum(interval.runs for interval in whole) == 2
    assert sum(interval.failed for interval in whole) == 1
    assert max(interval.maximum_ms for interval in whole if interval.maximum_ms is not None) == 40.0


def test_page_csv_and_api_show_the_run(mesh, client):
    store(mesh.slac.pk, batch(delivered(mesh.slac_cern, run(10.0, 20.0, 30.0, at=HOUR))), NOW)
    host = {"host": "localhost"}
    since, until = (HOUR - MINUTE).isoformat(), (HOUR + MINUTE).isoformat()
    path_id = mesh.slac_cern.pk

    [answered] = client.get(
        f"/api/v1/paths/{path_id}/request-response", {"since": since, "until": until}, headers=host
    ).json()
    assert (answered["median_ms"], answered["transactions"], answered["response_bytes"]) == (20.0, 3, 65_536)
    csv = client.get(f"/paths/{path_id}/request-response.csv", {"since": since, "until": until}, headers=host)
    page = client.get(f"/paths/{path_id}/", {"since": since, "until": until}, headers=host).content.decode()
    assert csv.content.decode().splitlines()[0].startswith("at,test,outcome,request_bytes")
    assert "65,536 bytes answered in 20" in page
    assert "as of <time" in page
    assert "response-latency-spec" in page


def test_the_chart_begins_with_runs_before_the_first_pings(mesh):
    """Its axis cuts off times: earlier runs would stand at its edge, at the time of the first pings."""
    runs = [delivered(mesh.slac_cern, run(10.0, at=HOUR + number * MINUTE), number) for number in (1, 20)]
    store(mesh.slac.pk, batch(*runs), NOW)

    view = load_responses(mesh.slac_cern.pk, HOUR, NOW, TimeAxis(HOUR + 20 * MINUTE, NOW))

    begins = {parameter["name"]: parameter["value"] for parameter in view.latency["params"]}["since"]
    assert begins <= min(row["t"] for row in view.latency["datasets"]["runs"])
    assert view.rate["datasets"]["runs"] == view.latency["datasets"]["runs"]
