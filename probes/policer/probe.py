"""Sends UDP trains to a peer to find their limit.

An authenticated TCP connection, as in disk-to-disk tests, carries arrivals, by which the next train is planned.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import msgspec
import numpy as np

from probes.contract import Deadline, NoRoute, NotPermitted, Outcome, ProbeError
from probes.packets.addresses import FAMILY
from probes.packets.icmp.packet_filter import attach
from probes.policer.estimate import PolicerEstimate, estimate, first_train, next_train
from probes.policer.spec import PolicerRun, PolicerSpec, not_measured
from probes.policer.trains import TrainPlan, UdpTrain
from probes.policer.udp import TOKEN_BYTES, TrainReceiver, send_train
from probes.transfers.address import is_local, resolve_address
from probes.transfers.connections import Listener, PortInUse, authenticate, connect
from probes.transfers.control_connection import CONTROL, ConnectionLost, ControlConnection, PeerFailure
from probes.transfers.source_filter import source_program

# Packets of a message, which is limited to 64 kB.
MOST_REPORTED = 3000
SETTLE_S = 1.0
RECEIVER = "the receiver"
NO_KEY = "no one-time key; both ends need the same key"


class TrainSent(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """All packets of a train have been sent."""

    train: int


class TestOver(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """No train follows."""


class TrainArrivals(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    packets: bytes  # 32-bit packet numbers
    arrived_s: bytes  # 64-bit floats, s
    host_drops: int  # dropped by the receiver's socket since the test began
    is_last: bool


ToReceiver = TrainSent | TestOver
ToSender = TrainArrivals | PeerFailure


class PolicerProbe:
    """The sender (`probes.contract.Probe`)."""

    def can_run(self, spec: PolicerSpec) -> list[str]:
        reasons = [] if spec.one_time_key is not None else [NO_KEY]
        try:
            resolve_address(spec.address, spec.family)
        except ProbeError as error:
            reasons.append(str(error))
        return reasons

    def run(self, spec: PolicerSpec, deadline: Deadline) -> PolicerRun:
        """Run the test to `TrainsEnd.serve`. Raises `ProbeError`."""
        started_at = datetime.now(UTC)
        address = resolve_address(spec.address, spec.family)
        with connect(RECEIVER, address, spec.port, _source(spec), spec.family, deadline) as connection:
            session = authenticate(connection, RECEIVER, _key(spec), CONTROL, 0, deadline)
            control = ControlConnection(connection, session, sends=False)
            with _udp_socket(spec, address) as sock:
                trains, host_drops = _send_all(control, sock, spec, _token(session), deadline)
            with contextlib.suppress(ConnectionLost):
                control.send(TestOver())
        return _run_of(spec, address, started_at, trains, estimate(trains, host_drops))


class TrainsEnd:
    """The receiver (`probes.contract.FarEnd`)."""

    def serve(self, spec: PolicerSpec, deadline: Deadline) -> str:
        """Receive trains until the sender ends the test. Raises `ProbeError`."""
        with _listener(spec) as listener, _receiving_socket(spec) as sock, listener.accept_control(deadline) as control:
            receiver = TrainReceiver(sock, _token(control.session))
            receiver.start()
            try:
                while isinstance(message := control.receive(ToReceiver, deadline), TrainSent):
                    _report(control, receiver, message.train, deadline)
            finally:
                receiver.close()
        return "received"

    def decline(self, spec: PolicerSpec, outcome: Outcome, detail: str, deadline: Deadline) -> None:
        """Tell the sender why this end declines, if it connects."""
        with contextlib.suppress(ProbeError), _listener(spec) as listener, listener.accept_control(deadline) as control:
            control.send(PeerFailure(outcome=outcome, detail=detail))
            control.receive(ToReceiver, Deadline(SETTLE_S))


def measure(spec: PolicerSpec, deadline: Deadline) -> PolicerRun:
    """Run the sender; a failure is a result with its outcome."""
    started_at = datetime.now(UTC)
    try:
        return PolicerProbe().run(spec, deadline)
    except ProbeError as error:
        return not_measured(spec, started_at, error.outcome, str(error))


def _send_all(
    control: ControlConnection, sock: socket.socket, spec: PolicerSpec, token: bytes, deadline: Deadline
) -> tuple[list[UdpTrain], int]:
    trains: list[UdpTrain] = []
    host_drops = 0
    plan: TrainPlan | None = first_train(spec.peak_bps, spec.train_bytes)
    while plan is not None and plan.pause_s + plan.send_times_s()[-1] + SETTLE_S < deadline.remaining_s:
        try:
            sent_s = send_train(sock, spec.family, token, len(trains), plan)
            control.send(TrainSent(train=len(trains)))
        except OSError as error:
            raise ConnectionLost(f"cannot send: {error.strerror}") from error
        arrived_s = np.full(len(sent_s), np.nan)
        is_last = False
        while not is_last:
            message = control.receive(ToSender, deadline)
            if isinstance(message, PeerFailure):
                raise ProbeError(f"the receiver: {message.detail}", outcome=message.outcome)
            packets = np.frombuffer(message.packets, "<u4")
            known = packets < len(sent_s)
            arrived_s[packets[known]] = np.frombuffer(message.arrived_s, "<f8")[known]
            host_drops, is_last = message.host_drops, message.is_last
        trains.append(UdpTrain(plan.ip_bytes, sent_s, arrived_s, plan.lead_packets))
        plan = next_train(trains, spec.peak_bps, spec.train_bytes)
    return trains, host_drops


def _report(control: ControlConnection, receiver: TrainReceiver, train: int, deadline: Deadline) -> None:
    arrivals = receiver.arrivals(train, deadline)
    for start in range(0, max(1, len(arrivals)), MOST_REPORTED):
        part = arrivals[start : start + MOST_REPORTED]
        control.send(
            TrainArrivals(
                packets=np.array([packet for packet, _ in part], "<u4").tobytes(),
                arrived_s=np.array([at_s for _, at_s in part], "<f8").tobytes(),
                host_drops=receiver.host_drops,
                is_last=start + MOST_REPORTED >= len(arrivals),
            )
        )


def _run_of(
    spec: PolicerSpec, address: str, started_at: datetime, trains: list[UdpTrain], estimated: PolicerEstimate
) -> PolicerRun:
    sustained = estimated.sustained_range_bps or (None, None)
    burst = estimated.burst_range_bytes or (None, None)
    sent = sum(len(train) for train in trains)
    return PolicerRun(
        target=spec.address,
        address=address,
        family=spec.family,
        started_at=started_at,
        outcome=Outcome.MEASURED,
        verdict=estimated.verdict,
        sustained_bps=estimated.sustained_bps,
        sustained_low_bps=sustained[0],
        sustained_high_bps=sustained[1],
        burst_bytes=estimated.burst_bytes,
        burst_low_bytes=burst[0],
        burst_high_bytes=burst[1],
        peak_bps=trains[0].sent_bps if trains else None,
        packet_bytes=trains[0].ip_bytes if trains else None,
        sent=sent,
        received=sum(int(train.passed.sum()) for train in trains),
        sent_bytes=sum(len(train) * train.ip_bytes for train in trains),
        delay_rise_ms=None if estimated.delay_rise_s is None else 1000.0 * estimated.delay_rise_s,
        detail=estimated.detail,
    )


def _key(spec: PolicerSpec) -> bytes:
    if spec.one_time_key is None:
        raise NotPermitted(NO_KEY)
    return hashlib.sha256(b"policer" + spec.one_time_key.encode()).digest()


def _token(session: bytes) -> bytes:
    return hmac.digest(session, b"policer trains", hashlib.sha256)[:TOKEN_BYTES]


def _source(spec: PolicerSpec) -> str | None:
    return None if spec.source is None else resolve_address(spec.source, spec.family)


@contextmanager
def _udp_socket(spec: PolicerSpec, address: str) -> Iterator[socket.socket]:
    with socket.socket(FAMILY[spec.family], socket.SOCK_DGRAM) as sock:
        source = _source(spec)
        if source is not None and is_local(source):
            sock.bind((source, 0))
        try:
            sock.connect((address, spec.port))
        except OSError as error:
            raise NoRoute(f"the receiver at {address}: {error.strerror}") from error
        yield sock


@contextmanager
def _listener(spec: PolicerSpec) -> Iterator[Listener]:
    key = _key(spec)
    with _listening_socket(spec, socket.SOCK_STREAM) as sock:
        sock.listen(2)
        yield Listener(sock, key, _peer(spec))


@contextmanager
def _receiving_socket(spec: PolicerSpec) -> Iterator[socket.socket]:
    with _listening_socket(spec, socket.SOCK_DGRAM) as sock:
        yield sock


@contextmanager
def _listening_socket(spec: PolicerSpec, kind: socket.SocketKind) -> Iterator[socket.socket]:
    own_address = resolve_address(spec.address, spec.family)
    with socket.socket(FAMILY[spec.family], kind) as sock:
        if kind == socket.SOCK_STREAM:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if spec.family == 6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        # Some container runtimes permit no filter; the handshake and the token keep other hosts out as well.
        with contextlib.suppress(OSError):
            attach(sock, source_program(_peer(spec)))
        try:
            sock.bind((own_address if is_local(own_address) else "", spec.port))
        except OSError as error:
            in_use = error.errno == errno.EADDRINUSE
            raise PortInUse(f"cannot listen on port {spec.port}: {'in use' if in_use else error.strerror}") from error
        yield sock


def _peer(spec: PolicerSpec) -> str:
    if spec.source is None:
        raise ProbeError("the address of the sender is unknown", permanent=True)
    return resolve_address(spec.source, spec.family)
