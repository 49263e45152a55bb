"""The two transfers of a disk-to-disk measurement by iperf3: one stream, from memory to memory or file to file.

The sender connects, the receiver runs a single-use server on the same port. Each transfer has a key of its own, made of
that of the conversation. iperf3 tells a rate and compares no checksum.
"""

from __future__ import annotations

import hashlib
import hmac
import threading
from datetime import UTC, datetime

from probes.contract import Deadline, Outcome, ProbeError
from probes.disk_to_disk.conversation import PeerGone
from probes.disk_to_disk.spec import DiskToDiskSpec
from probes.throughput import authentication
from probes.throughput.address import resolve
from probes.throughput.iperf3 import OpenFile, client_arguments, run_client, serve
from probes.throughput.spec import ThroughputRun, ThroughputSpec

COME_AGAIN = (Outcome.REFUSED, Outcome.BUSY)
TRY_AGAIN_S = 0.3


def give(spec: DiskToDiskSpec, session: bytes, file: OpenFile | None, deadline: Deadline) -> tuple[int, float]:
    """Send, as soon as the receiver's server is there; the bytes that it got, and the seconds. Raises `ProbeError`."""
    asked = _asked(spec, session, file)
    while True:
        try:
            run = _client(asked, file, deadline)
        except ProbeError as error:
            if error.outcome not in COME_AGAIN or deadline.remaining_s < spec.duration_s:
                raise
        else:
            break
        threading.Event().wait(TRY_AGAIN_S)
    if run.received_bytes is None or run.duration_s is None:
        raise PeerGone("iperf3 does not say what arrived")
    return run.received_bytes, run.duration_s


def take(spec: DiskToDiskSpec, session: bytes, file: OpenFile | None, deadline: Deadline) -> None:
    """Serve one transfer. Raises `ProbeError`."""
    if serve(_asked(spec, session, file), deadline, file) is None:
        raise PeerGone("the sender's iperf3 did not come")


def _client(asked: ThroughputSpec, file: OpenFile | None, deadline: Deadline) -> ThroughputRun:
    address = resolve(asked.address, asked.family)
    with authentication.of_client(asked.one_time_key, asked.peer_iperf3) as credentials:
        return run_client(
            client_arguments(asked, address), asked, address, datetime.now(UTC), deadline, credentials, file
        )


def _asked(spec: DiskToDiskSpec, session: bytes, file: OpenFile | None) -> ThroughputSpec:
    what = b"iperf3 from memory" if file is None else b"iperf3 from disk"
    return ThroughputSpec(
        address=spec.address,
        family=spec.family,
        source=resolve(spec.source, spec.family),
        port=spec.port,
        duration_s=spec.duration_s,
        one_time_key=hmac.digest(session, what, hashlib.sha256).hex(),
        peer_iperf3=spec.peer_iperf3,
    )
