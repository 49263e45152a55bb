"""Disk-to-disk measurements from the mesh to the path page and the API: planned, stored once with their limit."""

from datetime import timedelta
from pathlib import Path as FilePath

import msgspec
import pytest
from django.db import connection
from django.utils.html import escape
from msgspec.structs import replace

from dashboards.reader import ROLE, grant
from monitor.archive.models import DiskToDiskTest, RefusedResult, ThroughputTest
from monitor.archive.queries.kind_series import kind_series
from monitor.archive.queries.paths import newest_measurement_at
from monitor.archive.upkeep.retention import delete_old
from monitor.mesh.apply import apply
from monitor.mesh.document.reader import read
from monitor.mesh.kinds.disk_to_disk import DiskToDiskEntry
from monitor.mesh.models import Measurement, Site, Slot
from monitor.mesh.models import Test as MeshTest
from monitor.mesh.plan import plan_for
from monitor.mesh.schedule import slots
from probes.contract import Deadline, Outcome
from probes.disk_to_disk.spec import DiskToDiskRun
from probes.site.wire import Batch, Delivered, Plan
from tests.db.mesh_of_three import HOUR, NOW, batch, burst, make_mesh, throughput
from tests.deliveries import store
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.timescale]

EXAMPLE = read(FilePath(__file__).parent.parent.parent.parent / "mesh.example.toml")
MINUTE = timedelta(minutes=1)
FACTS = (
    "network: 80 Mbit/s", "disk to disk", " 94 Mbit/s", "memory to memory",
    "sender's disk", " 4 Gbit/s", "receiver's disk", " 1.2 Gbit/s",
)  # fmt: skip


@pytest.fixture
def mesh():
    return make_mesh()


def run(*, at=HOUR, **fields):
    values = {
        "target": "cern",
        "address": "192.0.2.2",
        "family": 4,
        "started_at": at,
        "outcome": Outcome.MEASURED,
        "streams": 4,
        "file_bytes": 100_000_000,
        "moved_bytes": 90_000_000,
        "carried_bytes": 190_000_000,
        "moving_s": 8.0,
        "syncing_s": 1.0,
        "disk_to_disk_bps": 80e6,
        "memory_to_memory_bps": 94e6,
        "read_bps": 4e9,
        "read_cached_ratio": 0.0,
        "write_bps": 1.2e9,
        "is_verified": True,
    }
    return DiskToDiskRun(**{**values, **fields})


def failed(**fields):
    names = ("file_bytes", "moved_bytes", "carried_bytes", "moving_s", "syncing_s", "disk_to_disk_bps")
    names += ("memory_to_memory_bps", "read_bps", "read_cached_ratio", "write_bps", "is_verified", "address")
    rule = "the receiver: disk.folder: this site names none, so that no file may be written"
    return run(**{**dict.fromkeys(names), "outcome": Outcome.NOT_PERMITTED, "detail": rule, **fields})


def delivered(path, result, sequence=1, **fields):
    return Delivered(**{"sequence": sequence, "path_id": path.pk, "test": "files", "result": result, **fields})


@pytest.fixture
def planned():
    """The example with disk-to-disk tests on the paths of its throughput tests, planned."""
    groups = tuple(
        replace(group, tests=(*group.tests, "files")) if "tcp" in group.tests else group for group in EXAMPLE.groups
    )
    document = replace(EXAMPLE, tests=(*EXAMPLE.tests, DiskToDiskEntry("files", every_s=3600)), groups=groups)
    apply(document, NOW)
    slots.plan_slots(NOW)


@pytest.mark.usefixtures("planned")
def test_both_ends_get_the_same_slot_and_key_with_their_roles():
    slot = Slot.objects.filter(measurement__test__name="files").order_by("starts_at").first()
    path = slot.measurement.path

    sends, receives = (
        next(planned_slot for planned_slot in plan_for(site, NOW).disk_to_disk if planned_slot.slot_id == slot.pk)
        for site in (path.source.site, path.destination.site)
    )

    assert (sends.role, receives.role) == ("client", "server")
    assert msgspec.structs.replace(receives, role="client") == sends
    assert (sends.spec.address, sends.spec.source) == (path.destination.address, path.source.address)
    assert (sends.spec.tool, sends.spec.file_bytes, sends.spec.streams) == ("fetch", 500_000_000, 4)
    slots_of_sender = plan_for(path.source.site, NOW).disk_to_disk
    assert len(sends.spec.one_time_key) == 64
    assert len({slot.spec.one_time_key for slot in slots_of_sender}) == len(slots_of_sender) > 1
    assert sends.ends_at - sends.starts_at == timedelta(seconds=65)


@pytest.mark.usefixtures("planned")
def test_no_host_has_two_slots_of_any_kind_at_a_time():
    """Brute force over all pairs of slots."""
    rows = list(Slot.objects.filter(outcome=None).select_related("measurement__test", "measurement__path"))
    kinds = {row.measurement.test.kind for row in rows}

    assert kinds == {"throughput", "disk-to-disk"}
    for number, result_row in enumerate(rows):
        for other in rows[number + 1 :]:
            ends = {result_row.measurement.path.source_id, result_row.measurement.path.destination_id}
            shared = ends & {other.measurement.path.source_id, other.measurement.path.destination_id}
            assert not shared or result_row.ends_at <= other.starts_at or other.ends_at <= result_row.starts_at


@pytest.mark.usefixtures("planned")
def test_an_older_agent_finds_no_slot_of_a_kind_it_cannot_run():
    plan = plan_for(Site.objects.get(name="cern"), NOW)

    assert {slot.test for slot in plan.throughput} == {"tcp"}
    assert {slot.test for slot in plan.disk_to_disk} == {"files"}
    assert msgspec.json.decode(msgspec.json.encode(plan), type=Plan) == plan


def test_a_result_is_stored_as_measured_with_its_limit(mesh):
    receipt = store(mesh.slac.pk, batch(delivered(mesh.slac_cern, run())), NOW)

    row = DiskToDiskTest.objects.get()
    assert (receipt.accepted, receipt.refused) == (1, ())
    assert (row.path_id, row.measured_at, row.test, row.tool) == (mesh.slac_cern.pk, HOUR, "files", "fetch")
    assert (row.disk_to_disk_bps, row.memory_to_memory_bps, row.read_bps, row.write_bps) == (80e6, 94e6, 4e9, 1.2e9)
    assert (row.file_bytes, row.moved_bytes, row.moving_s, row.syncing_s) == (100_000_000, 90_000_000, 8.0, 1.0)
    assert (row.is_verified, row.read_cached_ratio) == (True, 0.0)
    assert row.verdict == "network"
    assert lacks(row.sentence, *FACTS) == []
    assert not ThroughputTest.objects.exists(), "it is no throughput test of the rollups"
    assert newest_measurement_at() == HOUR


def test_a_file_too_short_for_its_memory_transfer_is_undetermined(mesh):
    """10 MB in 3 s, at 27 Mbit/s, and 117.5 MB from memory in 10 s."""
    short = {"file_bytes": 10_000_000, "moved_bytes": 10_000_000, "moving_s": 2.5, "syncing_s": 0.5}
    carried = {"carried_bytes": 127_500_000, "disk_to_disk_bps": 80e6 / 3}

    store(mesh.slac.pk, batch(delivered(mesh.slac_cern, run(**short, **carried))), NOW)

    row = DiskToDiskTest.objects.get()
    assert row.verdict == "undetermined"
    assert lacks(row.sentence, "too short", "larger file") == []


def test_a_failed_measurement_has_no_rate_and_no_verdict(mesh):
    store(mesh.slac.pk, batch(delivered(mesh.slac_cern, failed())), NOW)

    row = DiskToDiskTest.objects.get()
    assert (row.outcome, row.disk_to_disk_bps, row.memory_to_memory_bps) == ("not_permitted", None, None)
    assert (row.read_bps, row.write_bps, row.verdict, row.sentence) == (None, None, None, None)


def test_grafanas_role_reads_every_figure_and_the_limit(mesh):
    later = failed(at=HOUR + MINUTE)
    store(mesh.slac.pk, batch(delivered(mesh.slac_cern, run()), delivered(mesh.slac_cern, later, 2)), NOW)
    sentence = DiskToDiskTest.objects.get(measured_at=HOUR).sentence
    columns = "path_id, measured_at, outcome, disk_to_disk_bps, memory_to_memory_bps, read_bps, write_bps, sentence"

    with connection.cursor() as cursor:
        grant(cursor, "secret")
        cursor.execute(f"SET LOCAL ROLE {ROLE}")
        cursor.execute(f"SELECT {columns}, detail FROM reporting.disk_to_disk_test ORDER BY measured_at")
        rows = cursor.fetchall()

    assert rows == [
        (mesh.slac_cern.pk, HOUR, "measured", 80e6, 94e6, 4e9, 1.2e9, sentence, None),
        (mesh.slac_cern.pk, HOUR + MINUTE, "not_permitted", None, None, None, None, None, later.detail),
    ]


@pytest.mark.parametrize(
    ("result", "outcome", "carried"), [(run(), "measured", 190_000_000), (failed(), "not_permitted", None)]
)
def test_its_slot_ends_with_its_outcome_and_carried_bytes(mesh, result, outcome, carried):
    test = MeshTest.objects.create(name="files", kind="disk-to-disk", every_s=3600, parameters={"duration_s": 10})
    measurement = Measurement.objects.create(path=mesh.slac_cern, test=test, started_at=HOUR)
    slot = Slot.objects.create(measurement=measurement, starts_at=HOUR, ends_at=HOUR + MINUTE)

    store(mesh.slac.pk, batch(delivered(mesh.slac_cern, result, slot_id=slot.pk)), NOW)

    slot.refresh_from_db()
    assert (slot.outcome, slot.carried_bytes) == (outcome, carried)
    assert slot.detail == (result.detail or "")


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
    assert DiskToDiskTest.objects.count() == RefusedResult.objects.count() == 1


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (run(disk_to_disk_bps=None), "measured, but without disk_to_disk_bps"),
        (run(disk_to_disk_bps=0.0), "Expected `float` > 0.0"),
        (run(memory_to_memory_bps=0.0), "Expected `float` > 0.0"),
        (run(write_bps=float("nan")), "Expected `float`"),
        (failed(write_bps=1e9), "not_permitted, but with write_bps 1000000000.0"),
        (run(moved_bytes=100_000_001), "moved_bytes 100000001 is more than file_bytes 100000000"),
        (run(moving_s=-1.0), "Expected `float` >= 0.0"),
        (run(read_cached_ratio=1.1), "Expected `float` <= 1.0"),
        (run(streams=0), "Expected `int` >= 1"),
        (run(family=6), "IPv6 was measured, path {path} is IPv4"),
        (run(at=NOW + timedelta(hours=1)), "is in the future"),
    ],
)
def test_an_impossible_result_is_refused_with_its_reason(mesh, result, reason):
    receipt = store(mesh.slac.pk, batch(delivered(mesh.slac_cern, result)), NOW)

    assert receipt.accepted == 0
    assert reason.format(path=mesh.slac_cern.pk) in receipt.refused[0].reason
    assert not DiskToDiskTest.objects.exists()


def test_the_series_of_a_path_has_every_outcome_in_order(mesh, django_assert_num_queries):
    results = (
        delivered(mesh.slac_cern, failed(at=HOUR + MINUTE), 1),
        delivered(mesh.slac_cern, run(at=HOUR), 2),
        delivered(mesh.slac_anl, run(at=HOUR), 3),
        delivered(mesh.slac_cern, run(at=HOUR - MINUTE), 4),
    )
    store(mesh.slac.pk, batch(*results), NOW)

    with django_assert_num_queries(1):
        points = kind_series("disk-to-disk", mesh.slac_cern.pk, HOUR, HOUR + 3 * MINUTE)

    assert [(point.at, point.outcome, point.disk_to_disk_bps) for point in points] == [
        (HOUR, "measured", 80e6),
        (HOUR + MINUTE, "not_permitted", None),
    ]


def test_it_has_the_retention_of_throughput_tests(mesh, settings):
    settings.RETENTION_DAYS = {**settings.RETENTION_DAYS, "throughput": 30}
    store(mesh.slac.pk, batch(delivered(mesh.slac_cern, run())), NOW)

    delete_old(NOW + timedelta(days=29), Deadline(10))
    assert DiskToDiskTest.objects.count() == 1
    delete_old(NOW + timedelta(days=32), Deadline(10))
    assert DiskToDiskTest.objects.count() == 0


@pytest.fixture
def fetch(client, settings):
    settings.PUBLIC_READ = True

    def get(address):
        return client.get(address, headers={"host": "localhost"})

    return get


def test_the_api_gives_figures_with_units_and_null_for_failures(mesh, fetch):
    store(mesh.slac.pk, batch(delivered(mesh.slac_cern, run()), delivered(mesh.slac_cern, failed(at=NOW), 2)), NOW)

    answer = fetch(
        f"/api/v1/paths/{mesh.slac_cern.pk}/disk-to-disk?since={HOUR:%Y-%m-%dT%H:%M:%SZ}"
        f"&until={NOW + MINUTE:%Y-%m-%dT%H:%M:%SZ}"
    ).json()

    assert [row["outcome"] for row in answer] == ["measured", "not_permitted"]
    assert (answer[0]["disk_to_disk_bps"], answer[0]["verdict"]) == (80e6, "network")
    assert lacks(answer[0]["sentence"], *FACTS) == []
    assert (answer[1]["disk_to_disk_bps"], answer[1]["write_bps"]) == (None, None)
    assert fetch("/api/v1/paths/4711/disk-to-disk").status_code == 404


def test_the_path_page_shows_the_figures_and_the_limit(mesh, fetch, monkeypatch):
    monkeypatch.setattr("django.utils.timezone.now", lambda: NOW)
    store(
        mesh.slac.pk,
        batch(delivered(mesh.slac_cern, run()), delivered(mesh.slac_cern, failed(at=HOUR + MINUTE), 2)),
        NOW,
    )

    html = fetch(f"/paths/{mesh.slac_cern.pk}/").content.decode()

    assert 'id="disk-to-disk"' in html
    assert escape(DiskToDiskTest.objects.get(measured_at=HOUR).sentence) in html
    for figure in (
        "80 Mbit/s",
        "94 Mbit/s",
        "4 Gbit/s",
        "1.2 Gbit/s",
        "90,000,000 of 100,000,000 bytes",
        "checksum verified",
    ):
        assert figure in html
    assert "not permitted</b>: the receiver: disk.folder" in html
    assert ">0 bit/s<" not in html


def test_a_path_without_file_transfers_has_no_such_section(mesh, fetch):
    assert 'id="disk-to-disk"' not in fetch(f"/paths/{mesh.slac_cern.pk}/").content.decode()
