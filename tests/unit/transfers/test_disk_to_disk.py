"""The parts of a disk-to-disk measurement: its unnamed file, a disk alone, the key, the streams."""

import errno
import hashlib
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from probes.contract import Deadline, NotPermitted, Outcome, ProbeError
from probes.disk_to_disk import disk, scratch
from probes.disk_to_disk.connections import Message, Ready, StreamsOpen, TransferRequest
from probes.disk_to_disk.spec import DiskToDiskSpec, slot_length_s
from probes.transfers import control_connection
from probes.transfers.control_connection import (
    CONTROL,
    DATA,
    ConnectionLost,
    ControlConnection,
    client_handshake,
    server_handshake,
)
from tests.facts import lacks

KEY = hashlib.sha256(b"of this slot").digest()


def test_messages_keep_their_names_on_the_wire():
    tags = {kind.__struct_config__.tag for kind in get_args(Message)}

    assert tags == {"Ready", "Unable", "Transfer", "Open", "Arrived", "End"}


class ReadyBeforeBlocks(msgspec.Struct, frozen=True, kw_only=True, tag="Ready"):
    """A message as agents knew it before blocks."""

    moved_bytes: int
    seconds: float


class TransferRequestBeforeBlocks(msgspec.Struct, frozen=True, kw_only=True, tag="Transfer"):
    """As above."""

    tool: str
    streams: int
    duration_s: int
    file_bytes: int | None


@pytest.mark.parametrize(
    ("message", "before"),
    [
        (Ready(moved_bytes=5, seconds=0.5, takes_blocks=True), ReadyBeforeBlocks(moved_bytes=5, seconds=0.5)),
        (
            TransferRequest(tool="fetch", streams=4, duration_s=10, file_bytes=10),
            TransferRequestBeforeBlocks(tool="fetch", streams=4, duration_s=10, file_bytes=10),
        ),
    ],
)
def test_agents_with_and_without_blocks_understand_each_other(message, before):
    assert msgspec.json.decode(msgspec.json.encode(message), type=type(before)) == before
    read = msgspec.json.decode(msgspec.json.encode(before), type=Message)
    assert not getattr(read, "takes_blocks", False)
    assert not getattr(read, "in_blocks", False)


def soon():
    return Deadline(10)


# The file


def test_the_file_is_unnamed_while_it_is_used(tmp_path):
    with scratch.scratch_file(str(tmp_path)) as file:
        os.pwrite(file, b"something", 0)
        assert os.pread(file, 100, 0) == b"something"
        assert list(tmp_path.iterdir()) == []
    assert list(tmp_path.iterdir()) == []


def test_without_unnamed_files_the_name_is_removed_at_once(tmp_path, monkeypatch):
    opened = os.open

    def without_tmpfile(path, flags, *arguments, **options):
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")
        return opened(path, flags, *arguments, **options)

    monkeypatch.setattr(os, "open", without_tmpfile)

    with scratch.scratch_file(str(tmp_path)) as file:
        os.pwrite(file, b"something", 0)
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("signal", ["SIGKILL", "SIGTERM"])
def test_the_file_disappears_with_its_process(tmp_path, signal):
    program = (
        "import os, signal, sys\n"
        "from probes.disk_to_disk.scratch import scratch_file\n"
        "with scratch_file(sys.argv[1]) as file:\n"
        "    os.pwrite(file, bytes(1_000_000), 0)\n"
        "    os.kill(os.getpid(), getattr(signal, sys.argv[2]))\n"
    )

    done = subprocess.run([sys.executable, "-c", program, str(tmp_path), signal], check=False)

    assert done.returncode < 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("make", "facts"),
    [
        (lambda folder: None, ("No such file or directory", "create it", "disk.folder", "limits.toml")),
        (lambda folder: folder.write_text(""), ("disk.folder", "limits.toml", "must be a folder")),
        (lambda folder: folder.symlink_to("/var"), ("disk.folder", "limits.toml", "not a symbolic link")),
    ],
)
def test_a_path_that_is_no_folder_is_refused_with_a_fix(tmp_path, make, facts):
    folder = tmp_path / "there"
    make(folder)

    with pytest.raises(scratch.DiskFailure) as failed, scratch.scratch_file(str(folder)):
        pass
    assert lacks(str(failed.value), *facts) == []
    assert (failed.value.outcome, str(failed.value).startswith(f"{folder}: ")) == (Outcome.TOOL_FAILURE, True)


def test_a_disk_error_during_the_transfer_is_reported(tmp_path):
    with (
        pytest.raises(scratch.DiskFailure, match=r"No space left on device; .*file_bytes"),
        scratch.scratch_file(str(tmp_path)),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


# The disk alone


@pytest.fixture
def file(tmp_path):
    with scratch.scratch_file(str(tmp_path)) as descriptor:
        yield descriptor


@pytest.mark.parametrize("size", [1, disk.BLOCK_BYTES, 3 * disk.BLOCK_BYTES + 17])
def test_a_file_is_written_completely_without_equal_blocks(file, size):
    transfer = disk.measure_write(file, size, soon())

    content = os.pread(file, size + 1, 0)
    assert (transfer.moved_bytes, len(content)) == (size, size)
    blocks = [content[at : at + disk.BLOCK_BYTES] for at in range(0, size, disk.BLOCK_BYTES)]
    assert len(set(blocks)) == len(blocks)
    assert transfer.rate_bps == pytest.approx(8 * size / transfer.seconds)


def test_a_file_is_read_completely(file):
    disk.measure_write(file, 5_000_000, soon())

    transfer, _ = disk.measure_read(file, soon())

    assert transfer.moved_bytes == 5_000_000


def test_a_cached_file_is_detected():
    with scratch.scratch_file("/dev/shm") as in_memory:
        disk.measure_write(in_memory, 3_000_000, soon())
        disk.drop_page_cache(in_memory)

        assert disk.cached_ratio(in_memory) == 1.0


def test_a_half_cached_file_has_a_cached_ratio_of_a_half(file):
    disk.measure_write(file, 64 * disk.BLOCK_BYTES, soon())
    disk.drop_page_cache(file)
    before = disk.cached_ratio(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)  # or the system would read ahead
    for offset in range(0, 32 * disk.BLOCK_BYTES, disk.BLOCK_BYTES):
        os.pread(file, disk.BLOCK_BYTES, offset)

    if before == 1.0:
        assert disk.cached_ratio(file) == 1.0, "this folder is a memory file system"
    else:
        assert (before, disk.cached_ratio(file)) == (0.0, pytest.approx(0.5, abs=0.02))


def test_an_empty_file_has_no_cached_ratio(file):
    assert disk.cached_ratio(file) is None


def test_zero_bytes_give_no_rate():
    assert disk.ByteRate(0, 1.0).rate_bps is None


def test_a_disk_out_of_time_reports_its_progress(file):
    with pytest.raises(disk.StepTimeout) as failed:
        disk.measure_write(file, 5_000_000, Deadline(0))
    assert lacks(str(failed.value), "out of time", "writing 5,000,000 bytes", " 0 bytes") == []


def test_the_checksum_is_that_of_the_stretches(file):
    content = os.urandom(3_000_000)
    os.pwrite(file, content, 0)

    digest = disk.file_digest(file, [(0, 1_500_000), (2_000_000, 2_000_007)], soon())

    assert digest == hashlib.sha256(content[:1_500_000] + content[2_000_000:2_000_007]).hexdigest()


# The key


def handshake(of_receiver=KEY, of_sender=KEY, purpose=CONTROL, number=0):
    """The results of both ends of a connection: a session key, or the raised error."""
    here, there = socket.socketpair()
    parts_read = {}

    def receiver():
        try:
            parts_read["receiver"] = client_handshake(there, of_receiver, purpose, number, soon())
        except ProbeError as error:
            parts_read["receiver"] = error

    thread = threading.Thread(target=receiver)
    thread.start()
    try:
        parts_read["sender"] = server_handshake(here, of_sender, soon())
    except ProbeError as error:
        parts_read["sender"] = error
        here.close()
    thread.join()
    return parts_read["sender"], parts_read["receiver"], here, there


def test_both_ends_with_the_key_agree_on_a_session_key():
    (purpose, number, session), theirs, *_ = handshake(purpose=DATA, number=7)
    (_, _, second_session), *_ = handshake(purpose=DATA, number=7)

    assert (purpose, number, theirs) == (DATA, 7, session)
    assert len({session, second_session, KEY}) == 3


@pytest.mark.parametrize("wrong", ["of_receiver", "of_sender"])
def test_without_the_key_both_ends_refuse(wrong):
    sender, receiver, *_ = handshake(**{wrong: bytes(32)})

    assert isinstance(sender, NotPermitted)
    assert isinstance(receiver, NotPermitted)


class RecordingSocket:
    """A socket that records the sent bytes."""

    def __init__(self, connection):
        self.connection = connection
        self.sent = b""

    def sendall(self, data):
        self.sent += data
        self.connection.sendall(data)

    def __getattr__(self, name):
        return getattr(self.connection, name)


def test_a_replayed_handshake_is_refused():
    here, there = socket.socketpair()
    recording = RecordingSocket(there)
    thread = threading.Thread(target=client_handshake, args=(recording, KEY, CONTROL, 0, soon()))
    thread.start()
    server_handshake(here, KEY, soon())
    thread.join()

    here, there = socket.socketpair()
    there.sendall(recording.sent)

    with pytest.raises(NotPermitted, match="without the key"):
        server_handshake(here, KEY, soon())


def test_a_server_cannot_reflect_the_clients_proof():
    here, there = socket.socketpair()
    here.sendall(bytes(32))
    received = []

    def receiver():
        with pytest.raises(NotPermitted):
            client_handshake(there, KEY, CONTROL, 0, soon())
        received.append("refused")

    thread = threading.Thread(target=receiver)
    thread.start()
    hello = here.recv(1000)
    here.sendall(hello[-32:])
    thread.join()

    assert received == ["refused"]


def control_connections():
    (_, _, session), _, here, there = handshake()
    return ControlConnection(here, session, sends=True), ControlConnection(there, session, sends=False), here, there


def test_messages_arrive_as_sent():
    sender, receiver, *_ = control_connections()

    receiver.send(Ready(moved_bytes=5, seconds=0.5))
    receiver.send(StreamsOpen())

    assert sender.receive(Message, soon()) == Ready(moved_bytes=5, seconds=0.5)
    assert sender.receive(Message, soon()) == StreamsOpen()


@pytest.mark.parametrize("spoil", ["bit", "again", "back"])
def test_a_changed_repeated_or_reflected_message_is_refused(spoil):
    _, receiver, here, there = control_connections()
    recording = RecordingSocket(there)
    speaker = ControlConnection(recording, receiver.session, sends=False)
    speaker.send(Ready(moved_bytes=5, seconds=0.5))
    message = recording.sent
    sender = ControlConnection(here, receiver.session, sends=True)
    if spoil == "bit":
        here.recv(len(message))
        there.sendall(message[:-3] + bytes([message[-3] ^ 1]) + message[-2:])
    elif spoil == "again":
        there.sendall(message)
        sender.receive(Message, soon())
    else:
        here.sendall(message)
        sender = ControlConnection(there, receiver.session, sends=False)

    with pytest.raises(NotPermitted, match="does not authenticate"):
        sender.receive(Message, soon())


def test_an_oversized_message_is_not_read():
    sender, _, _, there = control_connections()
    there.sendall(control_connection.LENGTH.pack(2**31))

    with pytest.raises(NotPermitted, match="exceeds 65,536 bytes"):
        sender.receive(Message, soon())


def test_a_peer_that_closes_or_stays_silent_is_gone():
    sender, _, _, there = control_connections()

    with pytest.raises(ConnectionLost, match="in time"):
        sender.receive(Message, Deadline(0.05))
    there.close()
    with pytest.raises(ConnectionLost, match="closed the connection"):
        sender.receive(Message, soon())


def test_a_slot_has_room_for_each_step():
    assert slot_length_s(10) == 65
    assert DiskToDiskSpec(address="", source="", duration_s=10).length_s == 20.0


def test_the_centre_cannot_name_files_of_this_machine():
    assert "folder" not in DiskToDiskSpec.__struct_fields__
    assert Path("/") not in [Path(str(default)) for default in DiskToDiskSpec.__struct_defaults__]
