"""Measures disk-to-disk and memory-to-memory transfers, and local disk rates.

`fetch` uses parallel TCP streams and compares checksums, `iperf3` its `-F`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from probes.contract import Deadline, NotPermitted, Outcome, ProbeError
from probes.disk_to_disk import iperf3_transfer, streams
from probes.disk_to_disk.connections import (
    End,
    Message,
    Ready,
    StreamsOpen,
    TransferRequest,
    TransferResult,
    connect_control,
    connect_streams,
    listen,
)
from probes.disk_to_disk.disk import (
    ByteRate,
    background_flush,
    drop_page_cache,
    file_digest,
    measure_read,
    measure_write,
)
from probes.disk_to_disk.scratch import disk_failure, scratch_file
from probes.disk_to_disk.spec import DiskToDiskRun, DiskToDiskSpec, PermittedSpec, not_measured
from probes.transfers.address import resolve_address
from probes.transfers.connections import Listener
from probes.transfers.control_connection import ConnectionLost, ControlConnection, PeerFailure
from probes.transfers.iperf3.process import MISSING
from probes.transfers.iperf3.transfer import OpenFile

NO_KEY = "no one-time key; both ends need the same key"

MessageT = TypeVar("MessageT", bound=Message)


class TransferFailed(ProbeError):
    """No data arrived, or the received data differ from the sent data."""


class DiskToDiskProbe:
    """The sender of a disk-to-disk test."""

    def can_run(self, permitted: PermittedSpec) -> list[str]:
        reasons = []
        if permitted.spec.one_time_key is None:
            reasons.append(NO_KEY)
        if permitted.spec.tool == "iperf3" and shutil.which("iperf3") is None:
            reasons.append(MISSING)
        try:
            resolve_address(permitted.spec.address, permitted.spec.family)
            with scratch_file(permitted.folder):
                pass
        except ProbeError as error:
            reasons.append(str(error))
        return reasons

    def run(self, permitted: PermittedSpec, deadline: Deadline) -> DiskToDiskRun:
        return send(permitted, deadline)


class ReceivingEnd:
    """The receiver of a disk-to-disk test (`probes.contract.FarEnd`)."""

    def serve(self, permitted: PermittedSpec, deadline: Deadline) -> str:
        """Receive a test. Raises `ProbeError`, also if no sender is there."""
        receive(permitted, deadline)
        return "received"

    def decline(self, spec: DiskToDiskSpec, outcome: Outcome, detail: str, deadline: Deadline) -> None:
        decline(spec, outcome, detail, deadline)


@dataclass(frozen=True, slots=True)
class TransferFigures:
    """A transfer as the receiver measured it."""

    moved_bytes: int
    moving_s: float  # until the last byte arrived
    syncing_s: float = 0.0  # fsync
    is_verified: bool | None = None

    @property
    def rate_bps(self) -> float:
        """Bits per second including fsync. Raises `TransferFailed` if no data arrived."""
        rate_bps = ByteRate(self.moved_bytes, self.moving_s + self.syncing_s).rate_bps
        if rate_bps is None:
            raise TransferFailed("the streams were open, but no data arrived")
        return rate_bps


def measure(permitted: PermittedSpec, deadline: Deadline) -> DiskToDiskRun:
    """Run `send`; a failure is a result with its outcome."""
    started_at = datetime.now(UTC)
    try:
        return send(permitted, deadline)
    except ProbeError as error:
        return not_measured(permitted.spec, started_at, error.outcome, str(error))


def send(permitted: PermittedSpec, deadline: Deadline) -> DiskToDiskRun:
    """Run the sender's end of the test. Raises `ProbeError`."""
    spec, started_at = permitted.spec, datetime.now(UTC)
    address = resolve_address(spec.address, spec.family)
    key = _key(spec)
    with listen(spec, key) as listener, scratch_file(permitted.folder) as file:
        measure_write(file, spec.file_bytes, deadline)
        drop_page_cache(file)
        read, cached = measure_read(file, deadline)
        with listener.accept_control(deadline) as control:
            ready = _expect(control, Ready, deadline)
            memory = _request_transfer(control, listener, spec, None, deadline)
            memory_bps = memory.rate_bps
            drop_page_cache(file)
            moved = _request_transfer(control, listener, spec, file, deadline, in_blocks=ready.takes_blocks)
            moved_bps = moved.rate_bps
            control.send(End())
    return DiskToDiskRun(
        target=spec.address,
        address=address,
        family=spec.family,
        started_at=started_at,
        outcome=Outcome.MEASURED,
        tool=spec.tool,
        streams=spec.streams,
        file_bytes=spec.file_bytes,
        moved_bytes=moved.moved_bytes,
        carried_bytes=memory.moved_bytes + moved.moved_bytes,
        moving_s=moved.moving_s,
        syncing_s=moved.syncing_s,
        disk_to_disk_bps=moved_bps,
        memory_to_memory_bps=memory_bps,
        read_bps=read.rate_bps,
        read_cached_ratio=cached,
        write_bps=ByteRate(ready.moved_bytes, ready.seconds).rate_bps,
        is_verified=moved.is_verified,
    )


def receive(permitted: PermittedSpec, deadline: Deadline) -> None:
    """Run the receiver's end. Raises `ProbeError`, after reporting it to the sender."""
    spec = permitted.spec
    with scratch_file(permitted.folder) as file:
        try:
            written = _measure_write(permitted, file, deadline)
        except ProbeError as error:
            decline(spec, error.outcome, str(error), deadline)
            raise
        with connect_control(spec, _key(spec), deadline) as control:
            control.send(Ready(moved_bytes=written.moved_bytes, seconds=written.seconds, takes_blocks=True))
            _serve_requests(control, permitted, file, deadline)


def _measure_write(permitted: PermittedSpec, file: int, deadline: Deadline) -> ByteRate:
    try:
        written = measure_write(file, permitted.spec.file_bytes, deadline)
        os.ftruncate(file, 0)
    except OSError as error:
        raise disk_failure(permitted.folder, error) from error
    return written


def decline(spec: DiskToDiskSpec, outcome: Outcome, detail: str, deadline: Deadline) -> None:
    """Tell the sender why the receiver declines, if it can be reached."""
    try:
        with connect_control(spec, _key(spec), deadline) as control:
            control.send(PeerFailure(outcome=outcome, detail=detail))
    except ProbeError:
        return


def _serve_requests(control: ControlConnection, permitted: PermittedSpec, file: int, deadline: Deadline) -> None:
    while isinstance(request := control.receive(Message, deadline), TransferRequest):
        try:
            control.send(_receive_transfer(control, permitted.spec, request, file, deadline))
        except (OSError, ProbeError) as error:
            reported = disk_failure(permitted.folder, error) if isinstance(error, OSError) else error
            if not isinstance(reported, ConnectionLost):
                control.send(PeerFailure(outcome=reported.outcome, detail=str(reported)))
            raise reported from error


def _receive_transfer(
    control: ControlConnection, spec: DiskToDiskSpec, request: TransferRequest, file: int, deadline: Deadline
) -> TransferResult:
    if (request.tool, request.streams) != (spec.tool, spec.streams) or (request.file_bytes or 0) > spec.file_bytes:
        raise NotPermitted("the sender requested a transfer that differs from the plan")
    if spec.tool == "fetch":
        return _receive_streams(control, spec, request, file, deadline)
    control.send(StreamsOpen())
    open_file = None if request.file_bytes is None else OpenFile(file, spec.file_bytes)
    with background_flush(file):
        iperf3_transfer.receive(spec, control.session, open_file, deadline)
    return TransferResult(syncing_s=0.0 if open_file is None else _sync(file))


def _receive_streams(
    control: ControlConnection, spec: DiskToDiskSpec, request: TransferRequest, file: int, deadline: Deadline
) -> TransferResult:
    to_disk = request.file_bytes is not None
    parts = streams.divide(request.file_bytes or 0, request.streams, in_blocks=request.in_blocks)
    receive_to_disk = streams.receive_blocks if request.in_blocks else streams.receive_file

    def receive_stream(number: int, connection: socket.socket) -> int:
        return receive_to_disk(connection, file, parts[number]) if to_disk else streams.receive_memory(connection)

    with connect_streams(spec, control.session, request.streams, deadline) as connections, background_flush(file):
        began_s = time.monotonic()
        control.send(StreamsOpen())
        received = streams.run_all(connections, receive_stream, deadline)
        moving_s = time.monotonic() - began_s
    if not to_disk:
        return TransferResult(stream_bytes=received, moving_s=moving_s)
    syncing_s = _sync(file)
    digest = file_digest(file, streams.taken_ranges(parts), deadline)
    return TransferResult(stream_bytes=received, moving_s=moving_s, syncing_s=syncing_s, digest=digest)


def _request_transfer(
    control: ControlConnection,
    listener: Listener,
    spec: DiskToDiskSpec,
    file: int | None,
    deadline: Deadline,
    *,
    in_blocks: bool = False,
) -> TransferFigures:
    file_bytes = None if file is None else spec.file_bytes
    request = TransferRequest(
        tool=spec.tool,
        streams=spec.streams,
        duration_s=spec.duration_s,
        file_bytes=file_bytes,
        in_blocks=in_blocks,
    )
    control.send(request)
    if spec.tool == "fetch":
        return _send_streams(control, listener, request, file, deadline)
    _expect(control, StreamsOpen, deadline)
    open_file = None if file is None else OpenFile(file, spec.file_bytes)
    moved_bytes, moving_s = iperf3_transfer.send(spec, control.session, open_file, deadline)
    return TransferFigures(moved_bytes, moving_s, _expect(control, TransferResult, deadline).syncing_s)


def _send_streams(
    control: ControlConnection, listener: Listener, request: TransferRequest, file: int | None, deadline: Deadline
) -> TransferFigures:
    parts = streams.divide(request.file_bytes or 0, request.streams, in_blocks=request.in_blocks)

    def send_stream(number: int, connection: socket.socket) -> int:
        if file is None:
            return streams.send_memory(connection, until)
        return streams.send_file(connection, file, parts[number], until, in_blocks=request.in_blocks)

    with listener.accept_streams(control.session, request.streams, deadline) as connections:
        _expect(control, StreamsOpen, deadline)
        until = Deadline(request.duration_s)
        sent = streams.run_all(connections, send_stream, deadline)
        own_digest = None if file is None else file_digest(file, streams.taken_ranges(parts), deadline)
        arrived = _expect(control, TransferResult, deadline)
    if arrived.stream_bytes != sent:
        raise TransferFailed(f"{sum(sent):,} bytes were sent and {sum(arrived.stream_bytes):,} arrived")
    if arrived.digest != own_digest:
        raise TransferFailed("checksum mismatch: the receiver's file differs from the sent data")
    return TransferFigures(sum(sent), arrived.moving_s, arrived.syncing_s, is_verified=None if file is None else True)


def _sync(file: int) -> float:
    began_s = time.monotonic()
    os.fsync(file)
    return time.monotonic() - began_s


def _expect(control: ControlConnection, kind: type[MessageT], deadline: Deadline) -> MessageT:
    message: Message = control.receive(Message, deadline)
    if isinstance(message, PeerFailure):
        raise ProbeError(f"the receiver: {message.detail}", outcome=message.outcome)
    if not isinstance(message, kind):
        raise ConnectionLost(f"the receiver sent {type(message).__name__} instead of {kind.__name__}")
    return message


def _key(spec: DiskToDiskSpec) -> bytes:
    if spec.one_time_key is None:
        raise NotPermitted(NO_KEY)
    return hashlib.sha256(spec.one_time_key.encode()).digest()
