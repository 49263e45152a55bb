"""Transfer a file from a local disk to a disk at the peer, beside local disk rates and a memory-to-memory transfer.

`DiskToDiskProbe` and `send` are the sender, which measures and reports; `receive` is the receiver, and `decline` tells
the sender why the receiver does not take part. Both ends write a local file and time it; the sender reads its file
after dropping it from the page cache. The sender then requests two transfers: memory to memory, and disk to disk
including the receiver's fsync. The tool carries the data: `fetch` uses parallel TCP streams (`streams`) and compares
checksums, `iperf3` uses its `-F`. Files are unnamed and disappear with the process that opened them.
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
from probes.disk_to_disk import streams, with_iperf3
from probes.disk_to_disk.conversation import (
    Arrived,
    Conversation,
    End,
    Message,
    Open,
    PeerGone,
    Ready,
    Transfer,
    Unable,
)
from probes.disk_to_disk.disk import Moved, digest, drop_cached, flushing, read_alone, write_alone
from probes.disk_to_disk.door import Door, knocking, listening, opened_streams
from probes.disk_to_disk.scratch import failure, scratch_file
from probes.disk_to_disk.spec import DiskToDiskRun, DiskToDiskSpec, PermittedSpec, not_measured
from probes.throughput.address import resolve
from probes.throughput.iperf3 import MISSING, OpenFile

NO_KEY = "there is no one-time key; both ends need the same"

MessageT = TypeVar("MessageT", bound=Message)


class Broken(ProbeError):
    """The received data differ from the sent data."""


class DiskToDiskProbe:
    """The sender of a disk-to-disk test."""

    def can_run(self, asked: PermittedSpec) -> list[str]:
        """Reasons why the test cannot run from here, each with a fix; empty if it can."""
        reasons = []
        if asked.spec.one_time_key is None:
            reasons.append(NO_KEY)
        if asked.spec.tool == "iperf3" and shutil.which("iperf3") is None:
            reasons.append(MISSING)
        try:
            resolve(asked.spec.address, asked.spec.family)
            with scratch_file(asked.folder):
                pass
        except ProbeError as error:
            reasons.append(str(error))
        return reasons

    def run(self, asked: PermittedSpec, deadline: Deadline) -> DiskToDiskRun:
        """Run the test to the peer that runs `receive`. Raises `ProbeError`."""
        return send(asked, deadline)


class Receiver:
    """The receiver of kind `disk-to-disk` (`probes.contract.FarEnd`)."""

    def serve(self, asked: PermittedSpec, deadline: Deadline) -> str:
        """As `receive`, which raises where no sender was there."""
        receive(asked, deadline)
        return "received"

    def decline(self, spec: DiskToDiskSpec, outcome: Outcome, detail: str, deadline: Deadline) -> None:
        """As `decline`."""
        decline(spec, outcome, detail, deadline)


@dataclass(frozen=True, slots=True)
class Taken:
    """A transfer as the receiver measured it: `moving_s` until the last byte arrived, then `syncing_s` for fsync."""

    moved_bytes: int
    moving_s: float
    syncing_s: float = 0.0
    is_verified: bool | None = None

    @property
    def rate_bps(self) -> float:
        """Bits per second including fsync. Raises `Broken` if no data arrived: that is a failure, not 0 bit/s."""
        rate_bps = Moved(self.moved_bytes, self.moving_s + self.syncing_s).rate_bps
        if rate_bps is None:
            raise Broken("the streams were open, but no data arrived")
        return rate_bps


def measure(asked: PermittedSpec, deadline: Deadline) -> DiskToDiskRun:
    """Run `send` and return a failure as a result with its outcome."""
    started_at = datetime.now(UTC)
    try:
        return send(asked, deadline)
    except ProbeError as error:
        return not_measured(asked.spec, started_at, error.outcome, str(error))


def send(asked: PermittedSpec, deadline: Deadline) -> DiskToDiskRun:
    """Run the sender's end of the test. Raises `ProbeError`."""
    spec, started_at = asked.spec, datetime.now(UTC)
    address = resolve(spec.address, spec.family)
    key = _key(spec)
    with listening(spec, key) as door, scratch_file(asked.folder) as file:
        write_alone(file, spec.file_bytes, deadline)
        drop_cached(file)
        read, cached = read_alone(file, deadline)
        with door.conversation(deadline) as talk:
            written = _hear(talk, Ready, deadline)
            memory = _transfer(talk, door, spec, None, deadline)
            memory_bps = memory.rate_bps
            drop_cached(file)
            moved = _transfer(talk, door, spec, file, deadline)
            moved_bps = moved.rate_bps
            talk.say(End())
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
        write_bps=Moved(written.moved_bytes, written.seconds).rate_bps,
        is_verified=moved.is_verified,
    )


def receive(asked: PermittedSpec, deadline: Deadline) -> None:
    """Run the receiver's end until the sender ends the test. Raises `ProbeError`, after reporting it to the sender."""
    spec = asked.spec
    with scratch_file(asked.folder) as file:
        try:
            written = _write_alone(asked, file, deadline)
        except ProbeError as error:
            decline(spec, error.outcome, str(error), deadline)
            raise
        with knocking(spec, _key(spec), deadline) as talk:
            talk.say(Ready(moved_bytes=written.moved_bytes, seconds=written.seconds))
            _obey(talk, asked, file, deadline)


def _write_alone(asked: PermittedSpec, file: int, deadline: Deadline) -> Moved:
    try:
        written = write_alone(file, asked.spec.file_bytes, deadline)
        os.ftruncate(file, 0)
    except OSError as error:
        raise failure(asked.folder, error) from error
    return written


def decline(spec: DiskToDiskSpec, outcome: Outcome, detail: str, deadline: Deadline) -> None:
    """Tell the sender why the receiver does not take part; do nothing if the sender cannot be reached."""
    try:
        with knocking(spec, _key(spec), deadline) as talk:
            talk.say(Unable(outcome=outcome, detail=detail))
    except ProbeError:
        return


def _obey(talk: Conversation, asked: PermittedSpec, file: int, deadline: Deadline) -> None:
    """Serve the sender's requests until it ends the test, and report local failures to the sender."""
    while isinstance(order := talk.hear(deadline), Transfer):
        try:
            talk.say(_taken(talk, asked.spec, order, file, deadline))
        except (OSError, ProbeError) as error:
            told = failure(asked.folder, error) if isinstance(error, OSError) else error
            if not isinstance(told, PeerGone):
                talk.say(Unable(outcome=told.outcome, detail=str(told)))
            raise told from error


def _taken(talk: Conversation, spec: DiskToDiskSpec, order: Transfer, file: int, deadline: Deadline) -> Arrived:
    """Receive a transfer that stays within the spec, and fsync it."""
    if (order.tool, order.streams) != (spec.tool, spec.streams) or (order.file_bytes or 0) > spec.file_bytes:
        raise NotPermitted("the sender wants to send otherwise than was agreed")
    if spec.tool == "fetch":
        return _fetched(talk, spec, order, file, deadline)
    talk.say(Open())
    opened = None if order.file_bytes is None else OpenFile(file, spec.file_bytes)
    with flushing(file):
        with_iperf3.take(spec, talk.session, opened, deadline)
    return Arrived(syncing_s=0.0 if opened is None else _sync(file))


def _fetched(talk: Conversation, spec: DiskToDiskSpec, order: Transfer, file: int, deadline: Deadline) -> Arrived:
    """Receive a transfer over the TCP streams of the tool `fetch`."""
    to_disk = order.file_bytes is not None
    parts = streams.stretches(order.file_bytes or 0, order.streams)

    def take(number: int, one: socket.socket) -> int:
        return streams.receive_file(one, file, parts[number]) if to_disk else streams.receive_memory(one)

    with opened_streams(spec, talk.session, order.streams, deadline) as connections, flushing(file):
        began_s = time.monotonic()
        talk.say(Open())
        received = streams.run_all(connections, take, deadline)
        moving_s = time.monotonic() - began_s
    if not to_disk:
        return Arrived(stream_bytes=received, moving_s=moving_s)
    syncing_s = _sync(file)
    found = digest(file, _there(parts, received), deadline)
    return Arrived(stream_bytes=received, moving_s=moving_s, syncing_s=syncing_s, digest=found)


def _transfer(talk: Conversation, door: Door, spec: DiskToDiskSpec, file: int | None, deadline: Deadline) -> Taken:
    """Request a transfer and send it, from memory or from the file. Raises `ProbeError`."""
    file_bytes = None if file is None else spec.file_bytes
    talk.say(Transfer(tool=spec.tool, streams=spec.streams, duration_s=spec.duration_s, file_bytes=file_bytes))
    if spec.tool == "fetch":
        return _served(talk, door, spec, file, deadline)
    _hear(talk, Open, deadline)
    opened = None if file is None else OpenFile(file, spec.file_bytes)
    moved_bytes, moving_s = with_iperf3.give(spec, talk.session, opened, deadline)
    return Taken(moved_bytes, moving_s, _hear(talk, Arrived, deadline).syncing_s)


def _served(talk: Conversation, door: Door, spec: DiskToDiskSpec, file: int | None, deadline: Deadline) -> Taken:
    """Send a transfer over the TCP streams of the tool `fetch`, and compare checksums."""
    parts = streams.stretches(spec.file_bytes, spec.streams)

    def give(number: int, one: socket.socket) -> int:
        if file is None:
            return streams.send_memory(one, until)
        return streams.send_file(one, file, parts[number], until)

    with door.streams(talk.session, spec.streams, deadline) as connections:
        _hear(talk, Open, deadline)
        until = Deadline(spec.duration_s)
        sent = streams.run_all(connections, give, deadline)
        ours = None if file is None else digest(file, _there(parts, sent), deadline)
        arrived = _hear(talk, Arrived, deadline)
    if arrived.stream_bytes != sent:
        raise Broken(f"{sum(sent):,} bytes were sent and {sum(arrived.stream_bytes):,} arrived")
    if arrived.digest != ours:
        raise Broken("what lies on the receiver's disk is not what was sent: the checksums differ")
    return Taken(sum(sent), arrived.moving_s, arrived.syncing_s, is_verified=None if file is None else True)


def _there(parts: list[tuple[int, int]], counts: tuple[int, ...]) -> list[tuple[int, int]]:
    """The transferred part of each stream's byte range: a transfer may end before its file does."""
    return [(start, start + count) for (start, _), count in zip(parts, counts, strict=True)]


def _sync(file: int) -> float:
    """Run fsync on a file; returns its duration in seconds."""
    began_s = time.monotonic()
    os.fsync(file)
    return time.monotonic() - began_s


def _hear(talk: Conversation, kind: type[MessageT], deadline: Deadline) -> MessageT:
    """Read the receiver's next message, which must be of this type. Raises `ProbeError` if it is another."""
    message = talk.hear(deadline)
    if isinstance(message, Unable):
        raise ProbeError(f"the receiver: {message.detail}", outcome=message.outcome)
    if not isinstance(message, kind):
        raise PeerGone(f"the receiver said {type(message).__name__} where {kind.__name__} was to come")
    return message


def _key(spec: DiskToDiskSpec) -> bytes:
    if spec.one_time_key is None:
        raise NotPermitted(NO_KEY)
    return hashlib.sha256(spec.one_time_key.encode()).digest()
