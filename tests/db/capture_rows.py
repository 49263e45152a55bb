"""Throughput tests whose ends captured packets, delivered as agents do."""

from __future__ import annotations

import msgspec

from monitor.archive.diagnosis.captures import find_in_captures
from monitor.archive.diagnosis.pending import diagnose_awaited
from monitor.mesh.models import Slot
from probes.contract import Outcome
from probes.transfers.spec import CapturedHeaders, ServerReport
from tests.db.mesh_of_three import HOUR, NOW, MeshOfThree, batch, delivered
from tests.db.throughput_runs import lab_run
from tests.deliveries import store

Capture = CapturedHeaders | msgspec.UnsetType


def deliver_captures(mesh: MeshOfThree, sender: Capture, receiver: Capture) -> Slot:
    """A test at `HOUR` whose ends have these captures, with its findings."""
    slot = mesh.slot(mesh.slac_cern)
    run = msgspec.structs.replace(lab_run("queue"), started_at=HOUR, target="x", address="192.0.2.2", capture=sender)
    served = ServerReport(family=4, started_at=HOUR, outcome=Outcome.MEASURED, detail="served it", capture=receiver)
    for site, said in ((mesh.slac, run), (mesh.cern, served)):
        result = delivered(mesh.slac_cern, said, slot_id=slot.pk)  # type: ignore[arg-type]
        assert store(site.pk, batch(result), NOW).refused == ()
    diagnose_awaited(NOW)
    while find_in_captures(NOW):
        pass
    return slot
