"""Inventories of hosts: stored once, referenced by tests, and what changed on a path."""

from datetime import timedelta

import msgspec
import pytest

from monitor.archive.diagnosis.pending import diagnose_awaited
from monitor.archive.models import StoredInventory, ThroughputTest
from monitor.archive.queries.throughput.inventories import inventory_changes
from monitor.archive.queries.throughput.transfers import transfer_of
from monitor.archive.upkeep import records
from probes.contract import Deadline, Outcome
from probes.transfers.hosts.spec import HostInventory, TcpMetrics
from probes.transfers.spec import ServerReport
from tests.db.archive.test_transfers import real
from tests.db.mesh_of_three import HOUR, NOW, batch, delivered, make_mesh
from tests.deliveries import store

pytestmark = pytest.mark.timescale

SENDER = HostInventory(kernel="6.1", mtu_bytes=9000, sysctls={"net.core.wmem_max": "212992"})
RECEIVER = HostInventory(kernel="6.1", mtu_bytes=1500, sysctls={"net.core.rmem_max": "6291456"})
TUNED = msgspec.structs.replace(RECEIVER, sysctls={"net.core.rmem_max": "67108864", "net.ipv4.tcp_sack": "1"})
METRICS = TcpMetrics(age_s=10.0, cwnd_segments=10, rtt_ms=20.0)


@pytest.fixture
def mesh(db):
    return make_mesh()


def deliver_pair(mesh, at, receiver, number, *, sender=SENDER):
    """A test with the reports of both ends."""
    slot = mesh.slot(mesh.slac_cern, starts_at=at)
    run = msgspec.structs.replace(real("queue", at=at), inventory=sender)
    served = ServerReport(
        family=4, started_at=at, outcome=Outcome.MEASURED, detail="served it", inventory=receiver, metrics=METRICS
    )
    for site, said in ((mesh.slac, run), (mesh.cern, served)):
        receipt = store(site.pk, batch(delivered(mesh.slac_cern, said, number, slot_id=slot.pk), number=number), NOW)
        assert receipt.refused == ()
    diagnose_awaited(NOW)


def test_equal_inventories_are_stored_once(mesh):
    deliver_pair(mesh, HOUR, RECEIVER, 1)
    deliver_pair(mesh, HOUR + timedelta(minutes=10), RECEIVER, 2)

    assert StoredInventory.objects.count() == 2
    stored = transfer_of(mesh.slac_cern.pk, HOUR + timedelta(minutes=10))
    assert (stored.sender_inventory, stored.receiver_inventory) == (SENDER, RECEIVER)
    assert (stored.transfer.sender_metrics, stored.transfer.receiver_metrics) == (None, METRICS)
    newest = StoredInventory.objects.values_list("last_at", flat=True)
    assert set(newest) == {HOUR + timedelta(minutes=10)}


def test_a_test_without_inventories_has_none(mesh):
    assert store(mesh.slac.pk, batch(delivered(mesh.slac_cern, real("queue"), 1)), NOW).refused == ()

    stored = transfer_of(mesh.slac_cern.pk, HOUR)
    assert (stored.sender_inventory, stored.receiver_inventory) == (None, None)
    assert inventory_changes(mesh.slac_cern.pk, HOUR) == []


def test_a_changed_setting_is_dated_by_its_first_test(mesh):
    """A sysctl that only the newer inventory has is no change: an agent of another version reports it."""
    for number, receiver in enumerate((RECEIVER, RECEIVER, TUNED, TUNED), 1):
        deliver_pair(mesh, HOUR + timedelta(minutes=number), receiver, number)

    [change] = inventory_changes(mesh.slac_cern.pk, HOUR + timedelta(minutes=4))

    assert (change.role, change.setting) == ("receiver", "net.core.rmem_max")
    assert (change.before, change.after) == ("6291456", "67108864")
    assert change.at == HOUR + timedelta(minutes=3)
    assert inventory_changes(mesh.slac_cern.pk, HOUR + timedelta(minutes=2)) == []


def test_an_inventory_is_kept_as_long_as_its_tests(mesh, settings):
    deliver_pair(mesh, HOUR, RECEIVER, 1)
    days = timedelta(days=settings.RETENTION_DAYS["throughput"])

    assert records.delete_old(HOUR + days, Deadline(10))["host_inventory"] == 0
    assert records.delete_old(HOUR + days + timedelta(days=4), Deadline(10))["host_inventory"] == 2
    assert ThroughputTest.objects.exists(), "this test's rows are deleted by retention, not here"


def test_page_and_api_show_the_hosts_and_the_change(mesh, client, django_user_model):
    deliver_pair(mesh, HOUR, RECEIVER, 1)
    deliver_pair(mesh, HOUR + timedelta(minutes=1), TUNED, 2)
    client.force_login(django_user_model.objects.create_superuser("root"))

    at = (HOUR + timedelta(minutes=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    whole = client.get(f"/api/v1/paths/{mesh.slac_cern.pk}/throughput/{at}").json()
    page = client.get(f"/paths/{mesh.slac_cern.pk}/?period=day&at={at}&test={at}").content.decode()

    assert whole["sender_inventory"]["mtu_bytes"] == 9000
    assert whole["receiver_inventory"]["sysctls"]["net.core.rmem_max"] == "67108864"
    assert [(change["setting"], change["before"]) for change in whole["inventory_changes"]] == [
        ("net.core.rmem_max", "6291456")
    ]
    assert whole["transfer"]["receiver_metrics"]["rtt_ms"] == 20.0
    assert "net.core.rmem_max 6.29 MB → 67.1 MB" in page
    assert "9,000 bytes" in page
    assert "RTT 20.00 ms" in page
