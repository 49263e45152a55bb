"""Captures of throughput tests: delivered with the reports of both ends, evaluated, and deleted by age."""

import os
import signal
import subprocess
import sys
import zlib
from datetime import timedelta

import msgspec
import pytest
from django.db import connection

from monitor.analysis.packets import LostWhere
from monitor.archive.diagnosis import capture_process
from monitor.archive.diagnosis.captures import find_in_captures
from monitor.archive.models import StoredCapture
from monitor.archive.queries.throughput.captures import captures_of
from monitor.archive.upkeep import records
from monitor.mesh.models import Slot
from probes.contract import Deadline
from probes.transfers.spec import MOST_CAPTURE_BYTES, CapturedHeaders
from tests.captures import captured, pcap_of
from tests.db.capture_rows import deliver_captures
from tests.db.mesh_of_three import HOUR, NOW, make_mesh

pytestmark = pytest.mark.timescale


@pytest.fixture
def mesh(db):
    return make_mesh()


def test_both_captures_are_kept_and_evaluated(mesh):
    slot = deliver_captures(mesh, captured("lossy-sender", 7), captured("lossy-receiver"))

    sender, receiver = captures_of(slot.pk)
    assert (sender.role, receiver.role) == ("sender", "receiver")
    assert (sender.left_out_packets, receiver.left_out_packets) == (7, 0)
    assert sender.findings.resent_packets > 0 == receiver.findings.resent_packets
    assert sender.findings.streams == 1, "the tool's own connection is none"
    assert len(sender.findings.plot.resent) > 0
    assert len(receiver.findings.plot.late) > 0
    assert sender.losses.where is LostWhere.DATA
    assert zlib.decompress(StoredCapture.objects.get(slot_id=slot.pk, role="sender").pcap_zlib) == pcap_of(
        "lossy-sender"
    )
    assert "capture" not in Slot.objects.get(pk=slot.pk).served, "stored in its own table alone"


def test_an_end_without_a_capture_says_why(mesh):
    slot = deliver_captures(mesh, captured("lossy-sender"), CapturedHeaders(reason="capturing needs CAP_NET_RAW"))

    sender, receiver = captures_of(slot.pk)
    assert sender.losses is None or sender.losses.where is LostWhere.UNKNOWN
    assert (receiver.packets, receiver.reason, receiver.findings) == (0, "capturing needs CAP_NET_RAW", None)


def test_a_test_without_captures_has_none(mesh):
    assert captures_of(deliver_captures(mesh, msgspec.UNSET, msgspec.UNSET).pk) == []


@pytest.mark.parametrize(
    ("pcap_zlib", "fault"),
    [
        (b"no zlib", "cannot be unpacked"),
        (zlib.compress(bytes(200_000_000), 9), "larger than a capture may be"),
        (zlib.compress(b"GIF89a"), "not a pcap"),
        (zlib.compress(pcap_of("lossy-sender")[:24]), "no TCP packets"),
    ],
    ids=["damaged", "bomb", "other file", "empty"],
)
def test_what_cannot_be_read_has_the_reason(mesh, pcap_zlib, fault):
    assert len(pcap_zlib) < MOST_CAPTURE_BYTES
    slot = deliver_captures(mesh, captured("lossy-sender"), CapturedHeaders(pcap_zlib=pcap_zlib, packets=10))

    sender, receiver = captures_of(slot.pk)
    assert fault in receiver.findings.fault
    assert sender.findings.fault is None
    assert sender.losses is None or sender.losses.where is LostWhere.UNKNOWN


@pytest.mark.parametrize(("limit", "value"), [("MOST_CPU_S", 0), ("MOST_MEMORY_BYTES", 1 << 20), ("MOST_WAIT_S", 0.0)])
def test_a_capture_beyond_the_limits_says_so(mesh, monkeypatch, limit, value):
    """The limits are those of the process: it gets them as a worker with less would."""
    monkeypatch.setattr(capture_process, limit, value)
    code = f"from {capture_process.__name__} import *; import {capture_process.__name__} as p; p.{limit} = {value}; "
    monkeypatch.setattr(capture_process, "COMMAND", (sys.executable, "-c", f"{code} sys.exit(p.main())"))
    slot = deliver_captures(mesh, captured("lossy-sender"), captured("lossy-receiver"))

    sender, receiver = captures_of(slot.pk)
    assert "needs more than" in sender.findings.fault
    assert "needs more than" in receiver.findings.fault
    assert sender.losses is None


WORKER = """
import os, signal, django
from django.conf import settings
django.setup()
settings.DATABASES["default"]["NAME"] = os.environ["NAME"]
from django.utils import timezone
from monitor.archive.diagnosis import captures
captures.evaluate_capture = lambda capture: os.kill(os.getpid(), signal.SIGKILL)
while captures.find_in_captures(timezone.now()):
    pass
"""


@pytest.mark.django_db(transaction=True)
def test_a_capture_that_killed_its_worker_is_not_begun_again():
    StoredCapture.objects.bulk_create(
        StoredCapture(
            slot_id=slot_id, role="sender", path_id=1, captured_at=HOUR, packets=1, left_out_packets=0,
            pcap_zlib=captured("lossy-sender").pcap_zlib,
        )
        for slot_id in (1, 2)
    )  # fmt: skip
    environment = {**os.environ, "NAME": connection.settings_dict["NAME"]}

    died = subprocess.run([sys.executable, "-c", WORKER], env=environment, check=False, timeout=120)

    assert died.returncode == -signal.SIGKILL
    assert find_in_captures(NOW)
    assert not find_in_captures(NOW)
    faults = sorted(row["fault"] or "" for row in StoredCapture.objects.values_list("findings", flat=True))
    assert faults[0] == ""
    assert "has not ended; it is not begun again" in faults[1]


def test_captures_are_deleted_by_age(mesh, settings):
    deliver_captures(mesh, captured("stalled-sender"), captured("stalled-receiver"))
    days = timedelta(days=settings.RETENTION_DAYS["captures"])

    assert records.delete_old(HOUR + days, Deadline(10))["throughput_capture"] == 0
    assert records.delete_old(HOUR + days + timedelta(days=2), Deadline(10))["throughput_capture"] == 2
