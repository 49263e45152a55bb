"""Transfers of a disk-to-disk test with iperf3: a single stream, without checksum.

Each transfer's key derives from the session key.
"""

from __future__ import annotations

import hashlib
import hmac
import threading
from datetime import UTC, datetime

from probes.contract import Deadline, Outcome, ProbeError
from probes.disk_to_disk.spec import DiskToDiskSpec
from probes.transfers.address import resolve_address
from probes.transfers.control_connection import ConnectionLost
from probes.transfers.iperf3 import authentication
from probes.transfers.iperf3.transfer import OpenFile, client_arguments, run_client, serve
from probes.transfers.spec import ThroughputRun, ThroughputSpec

RETRY_OUTCOMES = (Outcome.REFUSED, Outcome.BUSY)
RETRY_S = 0.3


def send(spec: DiskToDiskSpec, session: bytes, file: OpenFile | None, deadline: Deadline) -> tuple[int, float]:
    """Send once the receiver's server listens; return received bytes and seconds. Raises `ProbeError`."""
    transfer = _transfer_spec(spec, session, file)
    while True:
        try:
            run = _run_client(transfer, file, deadline)
        except ProbeError as error:
            if error.outcome not in RETRY_OUTCOMES or deadline.remaining_s < spec.duration_s:
                raise
        else:
            break
        threading.Event().wait(RETRY_S)
    if run.received_bytes is None or run.duration_s is None:
        raise ConnectionLost("iperf3's report lacks the received bytes")
    return run.received_bytes, run.duration_s


def receive(spec: DiskToDiskSpec, session: bytes, file: OpenFile | None, deadline: Deadline) -> None:
    """Receive a transfer. Raises `ProbeError`."""
    if serve(_transfer_spec(spec, session, file), deadline, file) is None:
        raise ConnectionLost("the sender's iperf3 did not connect")


def _run_client(transfer: ThroughputSpec, file: OpenFile | None, deadline: Deadline) -> ThroughputRun:
    address = resolve_address(transfer.address, transfer.family)
    with authentication.client_credentials(transfer.one_time_key, transfer.peer_iperf3) as credentials:
        return run_client(
            client_arguments(transfer, address), transfer, address, datetime.now(UTC), deadline, credentials, file
        )


def _transfer_spec(spec: DiskToDiskSpec, session: bytes, file: OpenFile | None) -> ThroughputSpec:
    label = b"iperf3 from memory" if file is None else b"iperf3 from disk"
    return ThroughputSpec(
        address=spec.address,
        family=spec.family,
        source=resolve_address(spec.source, spec.family),
        port=spec.port,
        duration_s=spec.duration_s,
        one_time_key=hmac.digest(session, label, hashlib.sha256).hex(),
        peer_iperf3=spec.peer_iperf3,
    )
