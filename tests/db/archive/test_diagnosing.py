"""Diagnosis after the delivery: fast to store, no test left undiagnosed, and repeated when the other end's report
arrives."""

from datetime import timedelta

import msgspec
import pytest
from django.db import connections, transaction

from monitor.archive import tasks
from monitor.archive.diagnosis import pending
from monitor.archive.diagnosis.pending import AT_ONCE, diagnose_awaited
from monitor.archive.models import ThroughputHour, ThroughputTest, UndiagnosedTest
from monitor.archive.queries.throughput.transfers import transfer_of
from monitor.archive.rollup.recompute import roll_up
from monitor.mesh.models import Mesh
from probes.contract import Outcome
from probes.transfers.spec import ServerReport
from tests.db.archive.test_transfers import real
from tests.db.mesh_of_three import HOUR, NOW, batch, delivered, make_mesh, throughput
from tests.deliveries import store
from tests.facts import lacks

pytestmark = pytest.mark.timescale


@pytest.fixture
def mesh(db):
    return make_mesh()


def deliver(mesh, *runs, number=1, slot_id=None):
    results = [delivered(mesh.slac_cern, run, place, slot_id=slot_id) for place, run in enumerate(runs, 100 * number)]
    assert store(mesh.slac.pk, batch(*results, number=number), NOW).refused == ()


def test_a_delivery_diagnoses_nothing_itself(mesh, monkeypatch):
    monkeypatch.setattr(pending, "diagnose_run", lambda *_: pytest.fail("in the delivery"))

    deliver(mesh, real("queue"), throughput(1e6, at=HOUR + timedelta(minutes=1)))

    stored = ThroughputTest.objects.get(measured_at=HOUR)
    assert (stored.throughput_bps, stored.average_bps, stored.verdict) == (stored.average_bps, stored.average_bps, None)
    assert list(UndiagnosedTest.objects.values_list("path_id", "measured_at")) == [(mesh.slac_cern.pk, HOUR)]


def test_the_steady_rate_is_in_the_summary(mesh):
    deliver(mesh, real("queue"))
    roll_up(NOW)

    assert diagnose_awaited(NOW) == 1
    roll_up(NOW + timedelta(hours=1))

    stored = ThroughputTest.objects.get()
    assert stored.verdict == "bottleneck queue"
    assert stored.throughput_bps != stored.average_bps
    [hour] = ThroughputHour.objects.filter(path_id=mesh.slac_cern.pk).values_list("throughput_median_bps", flat=True)
    assert hour == stored.throughput_bps
    assert diagnose_awaited(NOW) == 0


def test_the_task_leaves_no_test_undiagnosed(mesh, monkeypatch):
    run = real("small_window")
    runs = [msgspec.structs.replace(run, started_at=HOUR + timedelta(seconds=place)) for place in range(AT_ONCE + 3)]
    deliver(mesh, *runs)

    assert tasks.diagnose() == AT_ONCE + 3

    assert not UndiagnosedTest.objects.exists()
    assert set(ThroughputTest.objects.values_list("verdict", flat=True)) == {"window-limited"}


def test_after_a_crash_the_diagnosis_is_repeated(mesh, monkeypatch):
    deliver(mesh, real("queue"))

    with monkeypatch.context() as patched:
        patched.setattr(pending, "mark_dirty", lambda *_: (_ for _ in ()).throw(MemoryError))
        with pytest.raises(MemoryError):
            diagnose_awaited(NOW)

    assert ThroughputTest.objects.get().verdict is None
    assert diagnose_awaited(NOW) == 1
    assert ThroughputTest.objects.get().verdict == "bottleneck queue"


def test_an_internal_error_is_logged_and_blocks_no_other_test(mesh, monkeypatch, caplog):
    sound = pending.diagnose_run

    def failing_diagnosis(run, background, hosts):
        if run.started_at == HOUR:
            raise ZeroDivisionError("division by zero")
        return sound(run, background, hosts)

    monkeypatch.setattr(pending, "diagnose_run", failing_diagnosis)
    later = HOUR + timedelta(minutes=5)
    deliver(mesh, real("queue"), real("queue", at=later))

    assert diagnose_awaited(NOW) == 2

    verdicts = dict(ThroughputTest.objects.values_list("measured_at", "verdict"))
    assert verdicts == {HOUR: "undetermined", later: "bottleneck queue"}
    sentence = ThroughputTest.objects.get(measured_at=HOUR).sentence
    assert lacks(sentence, "undetermined", "cannot be diagnosed", "ZeroDivisionError: division by zero") == []
    assert "cannot be diagnosed" in caplog.text


@pytest.mark.parametrize("server_first", [True, False])
def test_the_receivers_wait_for_its_cpu_is_part_of_the_diagnosis(mesh, server_first):
    """A reader without CPU time looks like a slow receiver; with its wait known it is reported as CPU-bound."""
    slot = mesh.slot(mesh.slac_cern)
    served = ServerReport(family=4, started_at=HOUR, outcome=Outcome.MEASURED, detail="served it", wanted_ratio=0.97)

    def serve():
        served_result = delivered(mesh.slac_cern, served, 1, slot_id=slot.pk)
        assert store(mesh.cern.pk, batch(served_result), NOW).refused == ()

    if server_first:
        serve()
    deliver(mesh, real("slow_disk"), slot_id=slot.pk)
    diagnose_awaited(NOW)
    before = transfer_of(mesh.slac_cern.pk, HOUR)
    if not server_first:
        assert before.verdict == "slow receiver"
        serve()
        assert diagnose_awaited(NOW) == 1

    after = transfer_of(mesh.slac_cern.pk, HOUR)
    assert after.verdict == "CPU-bound"
    assert after.transfer.receiver_cpu.wanted_ratio == 0.97
    assert after.transfer.sender_cpu == real("slow_disk").transfer.sender_cpu


@pytest.mark.django_db(transaction=True)
def test_two_workers_share_the_work_without_duplicates():
    mesh = make_mesh()
    run = real("small_window")
    deliver(mesh, *[msgspec.structs.replace(run, started_at=HOUR + timedelta(seconds=place)) for place in range(3)])

    with transaction.atomic():
        assert diagnose_awaited(NOW, most=2) == 2
        other = connections.create_connection("default")
        try:
            with other.cursor() as cursor:
                cursor.execute("SELECT count(*) FROM (SELECT FROM undiagnosed_test FOR UPDATE SKIP LOCKED) AS free")
                assert cursor.fetchone() == (1,)
        finally:
            other.close()
    assert diagnose_awaited(NOW) == 1


@pytest.mark.parametrize(
    ("promised_bps", "full"), [(None, False), (10e6, True), (40e6, False)], ids=["unknown", "all of it", "a share"]
)
def test_only_the_promised_rate_is_called_a_full_path(mesh, promised_bps, full):
    """9.65 Mbit/s behind a queue: all of a path of 10 Mbit/s, a share of one of 40."""
    if promised_bps is not None:
        Mesh.objects.create(name="Mesh", applied_at=NOW, service_levels={"promised_bps": promised_bps})
    deliver(mesh, real("queue"))

    diagnose_awaited(NOW)

    stored = ThroughputTest.objects.get()
    assert stored.verdict == "bottleneck queue"
    assert ("the path is full" in stored.sentence) == full, stored.sentence
    assert ("this flow's share" in stored.sentence) == (not full)
