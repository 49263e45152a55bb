"""The parts of a disk-to-disk measurement: its unnamed file, a disk alone, the key, the streams."""

import errno
import hashlib
import itertools
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.contract import Deadline, NotPermitted, Outcome, ProbeError
from probes.disk_to_disk import control_connection, disk, scratch, streams
from probes.disk_to_disk.control_connection import (
    CONTROL,
    DATA,
    ConnectionLost,
    ControlConnection,
    Ready,
    StreamsOpen,
    client_handshake,
    server_handshake,
)
from probes.disk_to_disk.spec import DiskToDiskSpec, slot_length_s
from tests.facts import lacks

KEY = hashlib.sha256(b"of this slot").digest()


def test_messages_keep_their_names_on_the_wire():
    tags = {kind.__struct_config__.tag for kind in get_args(control_connection.Message)}

    assert tags == {"Ready", "Unable", "Transfer", "Open", "Arrived", "End"}


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

    assert sender.receive(soon()) == Ready(moved_bytes=5, seconds=0.5)
    assert sender.receive(soon()) == StreamsOpen()


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
        sender.receive(soon())
    else:
        here.sendall(message)
        sender = ControlConnection(there, receiver.session, sends=False)

    with pytest.raises(NotPermitted, match="does not authenticate"):
        sender.receive(soon())


def test_an_oversized_message_is_not_read():
    sender, _, _, there = control_connections()
    there.sendall(control_connection.LENGTH.pack(2**31))

    with pytest.raises(NotPermitted, match="exceeds 65,536 bytes"):
        sender.receive(soon())


def test_a_peer_that_closes_or_stays_silent_is_gone():
    sender, _, _, there = control_connections()

    with pytest.raises(ConnectionLost, match="in time"):
        sender.receive(Deadline(0.05))
    there.close()
    with pytest.raises(ConnectionLost, match="closed the connection"):
        sender.receive(soon())


# The streams


@given(st.integers(0, 10**13), st.integers(1, 128))
def test_stretches_cover_a_file_once(file_bytes, count):
    parts = streams.byte_ranges(file_bytes, count)

    assert len(parts) == count
    assert (parts[0][0], parts[-1][1]) == (0, file_bytes)
    assert all(part[1] == other[0] for part, other in itertools.pairwise(parts))
    assert max(end - start for start, end in parts) - min(end - start for start, end in parts) <= 1


def transfer(content, file, count, until):
    """Send a file over streams to another file; the bytes sent and received by each stream."""
    parts = streams.byte_ranges(len(content), count)
    pairs = [socket.socketpair() for _ in range(count)]
    received = []
    receiver = threading.Thread(
        target=lambda: received.append(
            streams.run_all(
                [there for _, there in pairs],
                lambda number, sock: streams.receive_file(sock, file, parts[number]),
                soon(),
            )
        )
    )
    receiver.start()
    with scratch.scratch_file("/dev/shm") as source:
        os.pwrite(source, content, 0)
        sent = streams.run_all(
            [here for here, _ in pairs],
            lambda number, sock: streams.send_file(sock, source, parts[number], until),
            soon(),
        )
    receiver.join()
    return sent, received[0]


@pytest.mark.parametrize("count", [1, 3, 8])
def test_a_file_arrives_unchanged(file, count):
    content = os.urandom(2_000_003)

    sent, received = transfer(content, file, count, soon())

    assert sent == received
    assert sum(sent) == len(content)
    assert os.pread(file, len(content) + 1, 0) == content


def test_after_the_deadline_nothing_is_sent(file):
    sent, received = transfer(os.urandom(2_000_003), file, 4, Deadline(0))

    assert sent == received == (0, 0, 0, 0)


def test_memory_is_sent_until_the_deadline():
    here, there = socket.socketpair()
    received = []
    receiver = threading.Thread(target=lambda: received.append(streams.receive_memory(there)))
    receiver.start()

    sent = streams.send_memory(here, Deadline(0.1))
    receiver.join()

    assert sent == received[0] > 0


def test_bytes_beyond_a_stretch_are_not_written(file):
    here, there = socket.socketpair()
    here.sendall(bytes(1001))
    here.close()

    with pytest.raises(ConnectionLost, match="more than the stream's part"):
        streams.receive_file(there, file, (0, 1000))
    assert os.fstat(file).st_size <= 1000


def test_a_failing_stream_ends_the_others():
    pairs = [socket.socketpair() for _ in range(2)]

    def work(number, sock):
        if number == 0:
            raise ConnectionLost("a stream failed")
        return streams.receive_memory(sock)

    with pytest.raises(ConnectionLost, match="a stream failed"):
        streams.run_all([there for _, there in pairs], work, soon())


def test_streams_that_do_not_end_in_time_are_closed():
    here, there = socket.socketpair()

    with pytest.raises(disk.StepTimeout):
        streams.run_all([there], lambda _, sock: streams.receive_memory(sock), Deadline(0.05))
    assert here.recv(1) == b"", "the other end sees it"


def test_a_disk_error_is_not_attributed_to_the_peer(tmp_path):
    here, there = socket.socketpair()
    here.sendall(bytes(1000))
    (tmp_path / "file").write_bytes(b"")
    descriptor = os.open(tmp_path / "file", os.O_RDONLY)

    with pytest.raises(OSError, match="Bad file descriptor"):
        streams.receive_file(there, descriptor, (0, 1000))
    os.close(descriptor)


def test_a_slot_has_room_for_each_step():
    assert slot_length_s(10) == 65
    assert DiskToDiskSpec(address="", source="", duration_s=10).length_s == 20.0


def test_the_centre_cannot_name_files_of_this_machine():
    assert "folder" not in DiskToDiskSpec.__struct_fields__
    assert Path("/") not in [Path(str(default)) for default in DiskToDiskSpec.__struct_defaults__]
