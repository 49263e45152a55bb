"""Capacity results from the mesh to the users' API: planned, stored exactly once, refused with a reason, queried."""

from datetime import UTC, datetime, timedelta
from pathlib import Path as FilePath

import msgspec
import pytest
from msgspec.structs import replace

from monitor.archive.models import CapacityResult, RefusedResult
from monitor.archive.queries.kind_series import kind_series
from monitor.archive.queries.paths import newest_measurement_at
from monitor.mesh.apply import apply
from monitor.mesh.document.reader import read
from monitor.mesh.kinds.capacity import CapacityEntry
from monitor.mesh.models import Path, Site, Slot
from monitor.mesh.plan import plan_for
from monitor.mesh.schedule import slots
from probes.capacity.spec import CapacityRun, CapacitySpec, CapacityTarget, CapacityTask, CapacityVerdict
from probes.contract import Outcome
from probes.site.wire import Batch, Delivered, Plan
from tests.db.mesh_of_three import HOUR, NOW, batch, burst, make_mesh, throughput
from tests.deliveries import store

pytestmark = [pytest.mark.django_db, pytest.mark.timescale]

EXAMPLE = read(FilePath(__file__).parent.parent.parent.parent / "mesh.example.toml")
MINUTE = timedelta(minutes=1)


@pytest.fixture
def mesh():
    return make_mesh()


def run(capacity_bps=50e6, *, at=HOUR, **fields):
    values = {
        "target": "cern",
        "address": "192.0.2.2",
        "family": 4,
        "started_at": at,
        "outcome": Outcome.MEASURED,
        "verdict": CapacityVerdict.MEASURED,
        "capacity_bps": capacity_bps,
        "capacity_low_bps": 48e6,
        "capacity_high_bps": 52e6,
        "packet_bytes": 1472,
        "sent": 184,
        "received": 183,
        "method": "pairs and trains",
    }
    return CapacityRun(**{**values, **fields})


def cannot_tell(**fields):
    nothing = {"capacity_bps": None, "capacity_low_bps": None, "capacity_high_bps": None, "method": None}
    return run(**{**nothing, "verdict": CapacityVerdict.RATE_LIMITED, "detail": "ICMP is rate-limited", **fields})


def not_measured(**fields):
    nothing = {"verdict": None, "address": None, "packet_bytes": None, "sent": 0, "received": 0}
    return cannot_tell(**{**nothing, "outcome": Outcome.NO_ROUTE, "detail": "network is unreachable", **fields})


def delivered(path, result, sequence=1, **fields):
    return Delivered(**{"sequence": sequence, "path_id": path.pk, "test": "narrowest", "result": result, **fields})


def test_a_site_gets_its_paths_of_a_capacity_test():
    groups = (replace(EXAMPLE.groups[0], tests=("pinger", "narrowest")), *EXAMPLE.groups[1:])
    apply(replace(EXAMPLE, tests=(*EXAMPLE.tests, CapacityEntry("narrowest")), groups=groups), NOW)

    plan = plan_for(Site.objects.get(name="cern"), NOW)

    def target(destination, address):
        path = Path.objects.get(source__name="cern", destination__name=destination)
        return CapacityTarget(path_id=path.pk, spec=CapacitySpec(address=address, family=4, source="198.51.100.10"))

    targets = sorted(
        (target("slac", "192.0.2.10"), target("niit", "pinger.example.org")), key=lambda target: target.path_id
    )
    assert plan.capacity == (CapacityTask(test="narrowest", every_s=3600, targets=tuple(targets)),)
    assert len(plan.ping) == 1
    assert plan_for(Site.objects.get(name="niit"), NOW).capacity == ()
    assert msgspec.json.decode(msgspec.json.encode(plan), type=Plan) == plan
    slots.plan_slots(NOW)
    assert not Slot.objects.filter(measurement__test__kind="capacity").exists()


def test_a_plan_with_capacity_tests_takes_three_queries(django_assert_num_queries):
    groups = (replace(EXAMPLE.groups[0], tests=("pinger", "narrowest")), *EXAMPLE.groups[1:])
    apply(replace(EXAMPLE, tests=(*EXAMPLE.tests, CapacityEntry("narrowest")), groups=groups), NOW)
    site = Site.objects.get(name="cern")

    with django_assert_num_queries(3):
        plan_for(site, NOW)


def test_a_result_is_stored_as_measured(mesh):
    receipt = store(mesh.slac.pk, batch(delivered(mesh.slac_cern, run(), during_test=True)), NOW)

    row = CapacityResult.objects.get()
    assert (receipt.accepted, receipt.refused) == (1, ())
    assert (row.path_id, row.measured_at, row.test) == (mesh.slac_cern.pk, HOUR, "narrowest")
    assert (row.outcome, row.verdict, row.method) == ("measured", "measured", "pairs and trains")
    assert (row.capacity_bps, row.capacity_low_bps, row.capacity_high_bps) == (50e6, 48e6, 52e6)
    assert (row.packet_bytes, row.sent, row.received) == (1472, 184, 183)
    assert (row.address, row.detail, row.during_test) == ("192.0.2.2", None, True)


def test_undetermined_and_failed_measurements_have_no_capacity(mesh):
    results = (delivered(mesh.slac_cern, cannot_tell(), 1), delivered(mesh.slac_anl, not_measured(), 2))

    store(mesh.slac.pk, batch(*results), NOW)

    unknown, failed = CapacityResult.objects.order_by("path_id")
    assert (unknown.outcome, unknown.verdict, unknown.capacity_bps) == ("measured", "rate_limited", None)
    assert (failed.outcome, failed.verdict, failed.capacity_bps, failed.sent) == ("no_route", None, None, 0)
    assert failed.address is None


def test_a_lower_bound_alone_is_stored(mesh):
    bound = cannot_tell(verdict=CapacityVerdict.OWN_LIMIT, capacity_low_bps=1.4e9)

    store(mesh.slac.pk, batch(delivered(mesh.slac_cern, bound)), NOW)

    row = CapacityResult.objects.get()
    assert (row.capacity_bps, row.capacity_low_bps, row.capacity_high_bps) == (None, 1.4e9, None)


def test_a_repeated_batch_is_stored_once_with_the_same_receipt(mesh):
    again = batch(
        delivered(mesh.slac_cern, run(), 1),
        delivered(mesh.slac_cern, burst(1.0), 2, test="pinger"),
        delivered(mesh.slac_cern, throughput(1e8), 3, test="tcp"),
        delivered(mesh.cern_slac, run(), 4),
    )
    over_the_wire = msgspec.json.decode(msgspec.json.encode(again), type=Batch)

    first = store(mesh.slac.pk, over_the_wire, NOW)
    second = store(mesh.slac.pk, over_the_wire, NOW + timedelta(hours=3))

    assert over_the_wire == again
    assert second == first
    assert (first.accepted, [refusal.sequence for refusal in first.refused]) == (3, [4])
    assert CapacityResult.objects.count() == RefusedResult.objects.count() == 1


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (run(verdict=None), "measured, but with verdict None"),
        (not_measured(verdict=CapacityVerdict.LOSSY), "no_route, but with verdict lossy"),
        (run(capacity_bps=None), "verdict measured, but with capacity_bps None"),
        (cannot_tell(capacity_bps=1e6), "verdict rate_limited, but with capacity_bps 1000000.0"),
        (run(capacity_bps=-1.0), "Expected `float` > 0.0 - at `$.result.capacity_bps`"),
        (run(capacity_bps=0.0), "Expected `float` > 0.0 - at `$.result.capacity_bps`"),
        (run(capacity_low_bps=float("nan")), "Expected `float` > 0.0 - at `$.result.capacity_low_bps`"),
        (run(capacity_high_bps=1e300), "Expected `float` <= 1e+18 - at `$.result.capacity_high_bps`"),
        (run(packet_bytes=70_000), "Expected `int` <= 65527 - at `$.result.packet_bytes`"),
        (run(sent=10, received=11), "received 11 is more than sent 10 - at `$.result`"),
        (run(sent=2**15, received=1), "Expected `int` <= 32767 - at `$.result.sent`"),
        (run(family=6), "IPv6 was measured, path {path} is IPv4"),
        (run(at=NOW + timedelta(hours=1)), "is in the future"),
        (run(address="cern"), "address 'cern' is not an IP address"),
    ],
)
def test_an_impossible_result_is_refused_with_its_reason(mesh, result, reason):
    receipt = store(mesh.slac.pk, batch(delivered(mesh.slac_cern, result)), NOW)

    assert receipt.accepted == 0
    assert reason.format(path=mesh.slac_cern.pk) in receipt.refused[0].reason
    assert not CapacityResult.objects.exists()


def test_the_series_of_a_path_has_every_outcome_in_order(mesh):
    results = (
        delivered(mesh.slac_cern, cannot_tell(at=HOUR + MINUTE), 1),
        delivered(mesh.slac_cern, run(at=HOUR), 2, during_test=True),
        delivered(mesh.slac_cern, not_measured(at=HOUR + 2 * MINUTE), 3),
        delivered(mesh.slac_anl, run(at=HOUR), 4),
        delivered(mesh.slac_cern, run(at=HOUR - MINUTE), 5),
    )
    store(mesh.slac.pk, batch(*results), NOW)

    points = kind_series("capacity", mesh.slac_cern.pk, HOUR, HOUR + 3 * MINUTE)

    assert [(point.at, point.outcome, point.verdict, point.capacity_bps) for point in points] == [
        (HOUR, "measured", "measured", 50e6),
        (HOUR + MINUTE, "measured", "rate_limited", None),
        (HOUR + 2 * MINUTE, "no_route", None, None),
    ]
    assert (points[0].test, points[0].during_test, points[0].method) == ("narrowest", True, "pairs and trains")
    assert points[1].detail == "ICMP is rate-limited"
    assert kind_series("capacity", mesh.slac_cern.pk, HOUR + 3 * MINUTE, NOW) == []


def test_the_series_is_a_single_statement(mesh, django_assert_num_queries):
    with django_assert_num_queries(1):
        kind_series("capacity", mesh.slac_cern.pk, HOUR, NOW)


def test_the_newest_result_may_be_a_capacity(mesh):
    store(mesh.slac.pk, batch(delivered(mesh.slac_cern, burst(1.0), 1, test="pinger")), NOW)
    store(mesh.slac.pk, batch(delivered(mesh.slac_cern, run(at=HOUR + MINUTE), 2), number=2), NOW)

    assert newest_measurement_at() == HOUR + MINUTE


def test_the_users_api_lists_them(mesh, client):
    store(mesh.slac.pk, batch(delivered(mesh.slac_cern, run()), delivered(mesh.slac_cern, cannot_tell(at=NOW), 2)), NOW)

    answer = client.get(
        f"/api/v1/paths/{mesh.slac_cern.pk}/capacity",
        {"since": HOUR.isoformat(), "until": datetime(2026, 3, 15, tzinfo=UTC).isoformat()},
        headers={"host": "localhost"},
    )

    assert answer.status_code == 200
    first, second = answer.json()
    assert first == {
        "at": "2026-03-14T12:00:00Z",
        "test": "narrowest",
        "outcome": "measured",
        "verdict": "measured",
        "capacity_bps": 50e6,
        "capacity_low_bps": 48e6,
        "capacity_high_bps": 52e6,
        "packet_bytes": 1472,
        "sent": 184,
        "received": 183,
        "method": "pairs and trains",
        "during_test": False,
        "detail": None,
    }
    assert (second["verdict"], second["capacity_bps"], second["detail"]) == (
        "rate_limited",
        None,
        "ICMP is rate-limited",
    )
