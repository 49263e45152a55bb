"""Files from disk to disk between two ends on loopback addresses, and over a path of the lab; and each kind of
failure."""

import contextlib
import errno
import hashlib
import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import msgspec
import pytest

from monitor.analysis.transfer import DiskLimit, DiskToDisk, network_or_disk
from probes.contract import Deadline, NotPermitted, Outcome, ProbeError
from probes.disk_to_disk import connections, disk, probe, streams
from probes.disk_to_disk.spec import DiskToDiskSpec, PermittedSpec
from probes.transfers import connections as shared_connections
from probes.transfers import control_connection
from probes.transfers.connections import NoConnection
from probes.transfers.control_connection import CONTROL, DATA, client_handshake, server_handshake
from tests.diagnosis.runs import LAB, prepare
from tests.facts import lacks
from tests.lab import RunningLab, wait_until

ROOT = Path(__file__).parents[2]
SENDER, RECEIVER, STRANGER = "127.79.1.1", "127.79.2.1", "127.79.3.1"
KEY = "the key of this slot"
SIZE = 8_000_000
LATE_S = 0.05

needs_iperf3 = pytest.mark.skipif(
    shutil.which("iperf3") is None and not os.environ.get("CI"), reason="iperf3 is not installed"
)


@pytest.fixture
def port():
    """A free port."""
    with socket.socket() as free:
        free.bind((SENDER, 0))
        return free.getsockname()[1]


@pytest.fixture
def folders(tmp_path):
    """A folder for each end."""
    for name in ("sender", "receiver"):
        (tmp_path / name).mkdir()
    return tmp_path / "sender", tmp_path / "receiver"


def permitted_spec(port, folder, **fields):
    defaults = {
        "address": RECEIVER,
        "source": SENDER,
        "port": port,
        "file_bytes": SIZE,
        "duration_s": 1,
        "one_time_key": KEY,
    }
    return PermittedSpec(spec=DiskToDiskSpec(**{**defaults, **fields}), folder=str(folder))


class ReceiverThread(threading.Thread):
    """Runs `receive` in a thread; `raised` is its error."""

    def __init__(self, spec, seconds=30.0):
        super().__init__()
        self.spec, self.deadline, self.raised = spec, Deadline(seconds), None

    def run(self):
        try:
            probe.receive(self.spec, self.deadline)
        except ProbeError as error:
            self.raised = error


def between(port, folders, *, seconds=30.0, **fields):
    """The run between two ends of this process, and the receiver's error."""
    sender, receiver = folders
    receiving = ReceiverThread(permitted_spec(port, receiver, **fields), seconds)
    receiving.start()
    run = probe.measure(permitted_spec(port, sender, **fields), Deadline(seconds))
    receiving.join()
    assert [*sender.iterdir(), *receiver.iterdir()] == [], "files were left"
    return run, receiving.raised


def not_measured(run):
    """Whether a run has no figures."""
    rates = (run.disk_to_disk_bps, run.memory_to_memory_bps, run.read_bps, run.write_bps)
    return run.outcome is not Outcome.MEASURED and rates == (None, None, None, None)


@pytest.mark.parametrize("count", [1, 4])
def test_a_file_is_transferred_with_the_right_checksum(port, folders, count):
    run, raised = between(port, folders, streams=count)

    assert (run.outcome, run.detail, raised) == (Outcome.MEASURED, None, None)
    assert (run.target, run.address, run.streams) == (RECEIVER, RECEIVER, count)
    assert (run.moved_bytes, run.file_bytes, run.is_verified) == (SIZE, SIZE, True)
    assert run.disk_to_disk_bps == pytest.approx(8 * SIZE / (run.moving_s + run.syncing_s))
    assert min(run.memory_to_memory_bps, run.read_bps, run.write_bps) > 0
    assert run.read_cached_ratio in (0.0, 1.0), "all of it on a disk, or all in memory"


@needs_iperf3
def test_iperf3_reads_and_writes_files_at_both_ends(port, folders):
    run, raised = between(port, folders, tool="iperf3", streams=1, seconds=60.0)

    assert (run.outcome, run.detail, raised) == (Outcome.MEASURED, None, None)
    # iperf3's figures exclude data in flight when the sender's file ends.
    assert 0.5 * SIZE < run.moved_bytes <= SIZE
    assert run.disk_to_disk_bps == pytest.approx(8 * run.moved_bytes / (run.moving_s + run.syncing_s))
    assert run.is_verified is None
    assert run.memory_to_memory_bps > 0


@needs_iperf3
def test_iperf3_cannot_write_more_than_agreed(port, folders, monkeypatch):
    """The sender's file is ten times longer than announced."""
    written = probe.measure_write
    monkeypatch.setattr(
        probe,
        "measure_write",
        lambda file, size, deadline: written(file, size * (10 if names_sender(file, folders) else 1), deadline),
    )

    run, raised = between(port, folders, tool="iperf3", streams=1, file_bytes=5_000_000, seconds=40.0)

    assert not_measured(run)
    assert raised is not None


def names_sender(file, folders):
    return str(folders[0]) in str(Path(f"/proc/self/fd/{file}").readlink())


SO_MAX_PACING_RATE = 47


def note_stream_bytes(monkeypatch):
    """The bytes of each stream of every transfer from now on, at both ends."""
    counted, run_all = [], streams.run_all

    def noting(connections, work, deadline):
        stream_bytes = run_all(connections, work, deadline)
        counted.append(stream_bytes)
        return stream_bytes

    monkeypatch.setattr(streams, "run_all", noting)
    return counted


def test_a_slow_stream_leaves_its_share_to_the_others(port, folders, monkeypatch):
    """The first of the file's four streams is paced to 1.6 Mbit/s; the others would need less than a second alone."""
    counted = note_stream_bytes(monkeypatch)

    def paced(connection, key, deadline):
        purpose, number, session = server_handshake(connection, key, deadline)
        from_disk = len(counted) == 2  # both ends have counted the transfer from memory
        if (purpose, number, from_disk) == (DATA, 0, True):
            connection.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, 200_000)
        return purpose, number, session

    monkeypatch.setattr(shared_connections, "server_handshake", paced)

    run, _ = between(port, folders)

    assert (run.outcome, run.moved_bytes, run.is_verified) == (Outcome.MEASURED, SIZE, True)
    slow, *others = counted[-1]
    assert slow + sum(others) == SIZE
    assert slow < SIZE // 8, f"{counted[-1]}, where a quarter is {SIZE // 4:,}"


def without_blocks(monkeypatch):
    """Ends whose messages lack the fields that agents before blocks do not have."""
    send = control_connection.ControlConnection.send

    def send_as_before(self, message):
        fields = {**msgspec.to_builtins(message)}
        tag = fields.pop("type")
        lacking = {name: value for name, value in fields.items() if name not in ("takes_blocks", "in_blocks")}
        send(self, msgspec.defstruct("OlderMessage", list(lacking), tag=tag)(**lacking))

    monkeypatch.setattr(control_connection.ControlConnection, "send", send_as_before)


def test_an_end_without_blocks_has_a_fixed_part_for_each_stream(port, folders, monkeypatch):
    without_blocks(monkeypatch)
    counted = note_stream_bytes(monkeypatch)

    run, raised = between(port, folders)

    assert (run.outcome, run.moved_bytes, run.is_verified, raised) == (Outcome.MEASURED, SIZE, True, None)
    assert counted[-1] == (SIZE // 4,) * 4


def test_blocks_that_overlap_fail_the_checksum(port, folders, monkeypatch):
    """The sender's second block has the offset of the first."""
    header = streams.BLOCK_HEADER
    _, second = streams.FilePart(0, SIZE, 4).take_block()

    class OverlappingHeader:
        size, unpack = header.size, header.unpack

        @staticmethod
        def pack_into(buffer, at, offset, count):
            header.pack_into(buffer, at, 0 if offset == second else offset, count)

    monkeypatch.setattr(streams, "BLOCK_HEADER", OverlappingHeader)

    run, _ = between(port, folders)

    assert (run.outcome, not_measured(run)) == (Outcome.TOOL_FAILURE, True)
    assert "checksum mismatch" in run.detail


def test_a_transfer_cut_by_time_measures_the_transferred_part(port, folders, monkeypatch):
    """Buffers of both kernels hold some 30 MB that this disk has not written yet."""
    pace(monkeypatch, streams, 200e6)

    run, _ = between(port, folders, file_bytes=120_000_000)

    assert (run.outcome, run.is_verified) == (Outcome.MEASURED, True)
    assert 0 < run.moved_bytes < run.file_bytes
    assert run.disk_to_disk_bps < 220e6


def pace(monkeypatch, module, rate_bps):
    """A disk limited to this rate, for all its writers together. A write that is late on a busy host does not delay
    the next, as with a real disk and its cache."""
    turn, written = threading.Lock(), disk.write_at
    free_s = 0.0

    def slowly(descriptor, data, offset):
        nonlocal free_s
        with turn:
            free_s = max(free_s, time.monotonic() - LATE_S) + 8 * len(data) / rate_bps
            threading.Event().wait(max(0.0, free_s - time.monotonic()))
            written(descriptor, data, offset)

    monkeypatch.setattr(module, "write_at", slowly)


def verdict(run):
    """The verdict for a run, or for its JSON."""
    fields = run if isinstance(run, dict) else {name: getattr(run, name) for name in run.__struct_fields__}
    names = ("disk_to_disk_bps", "memory_to_memory_bps", "read_bps", "write_bps", "read_cached_ratio")
    memory_bits = 8 * (fields["carried_bytes"] - fields["moved_bytes"])
    return network_or_disk(
        DiskToDisk(
            **{name: fields[name] for name in names},
            file_s=fields["moving_s"] + fields["syncing_s"],
            memory_s=memory_bits / fields["memory_to_memory_bps"],
        )
    )


def test_a_slow_disk_of_the_receiver_is_the_verdict(port, folders, monkeypatch):
    pace(monkeypatch, disk, 40e6)
    pace(monkeypatch, streams, 40e6)

    run, _ = between(port, folders, file_bytes=10_000_000)

    judged = verdict(run)
    assert judged.limit is DiskLimit.RECEIVERS_DISK, judged.sentence


def test_a_wrong_key_is_refused_and_the_sender_has_no_client(port, folders):
    sender, receiver = folders
    receiving = ReceiverThread(permitted_spec(port, receiver, one_time_key="another key"), 10.0)
    receiving.start()

    run = probe.measure(permitted_spec(port, sender), Deadline(2.5))
    receiving.join()

    assert (run.outcome, not_measured(run)) == (Outcome.REFUSED, True)
    assert isinstance(receiving.raised, NotPermitted)


def test_without_a_key_nothing_is_sent(port, folders):
    run, raised = between(port, folders, one_time_key=None, seconds=5.0)

    assert (run.outcome, run.detail) == (Outcome.NOT_PERMITTED, probe.NO_KEY)
    assert raised.outcome is Outcome.NOT_PERMITTED


def test_a_sender_without_a_receiver_fails(port, folders):
    run = probe.measure(permitted_spec(port, folders[0]), Deadline(1.5))

    assert (run.outcome, not_measured(run)) == (Outcome.REFUSED, True)
    assert "the receiver did not connect" in run.detail
    assert list(folders[0].iterdir()) == []


def test_a_port_in_use_is_busy(port, folders):
    with socket.socket() as holder:
        holder.bind((SENDER, port))
        holder.listen()

        run = probe.measure(permitted_spec(port, folders[0]), Deadline(5))

    assert (run.outcome, run.detail) == (Outcome.BUSY, f"cannot listen on port {port}: Address already in use")


def test_a_stranger_gets_no_answer_and_the_receiver_does(port, folders):
    sender, receiver = folders
    results = []
    sending = threading.Thread(target=lambda: results.append(probe.measure(permitted_spec(port, sender), Deadline(30))))
    sending.start()
    wait_until(lambda: listens(port), "the sender listens")
    with socket.socket() as stranger:
        stranger.bind((STRANGER, 0))
        stranger.settimeout(0.5)
        with pytest.raises(TimeoutError):
            stranger.connect((SENDER, port))
    with socket.create_connection((SENDER, port), source_address=(RECEIVER, 0)) as other_program:
        other_program.sendall(b"GET / HTTP/1.1\r\n\r\n" + bytes(100))
        receiving = ReceiverThread(permitted_spec(port, receiver))
        receiving.start()
        receiving.join()
    sending.join()

    assert results[0].outcome is Outcome.MEASURED


def test_without_a_packet_filter_a_stranger_is_rejected(port, folders, monkeypatch, caplog):
    def refused(*_):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(connections, "attach", refused)
    with (
        connections.listen(permitted_spec(port, folders[0]).spec, KEY.encode()) as opened,
        socket.create_connection((SENDER, port), source_address=(STRANGER, 0)) as stranger,
    ):
        with pytest.raises(NoConnection), opened.accept_control(Deadline(0.5)):
            pass
        assert stranger.recv(100) == b"", "the stranger received data"

    assert f"rejected {STRANGER}: only the receiver may connect" in caplog.text


def listens(port):
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return any(row[1].endswith(f":{port:04X}") and row[3] == "0A" for row in rows)


def test_a_replayed_handshake_is_refused(port, folders, caplog):
    """The receiver's first messages, recorded and sent again from the same address."""
    caplog.set_level(logging.WARNING)
    spec = permitted_spec(port, folders[0]).spec
    key = hashlib.sha256(KEY.encode()).digest()
    here, there = socket.socketpair()
    recorded = []

    class RecordingSocket:
        def sendall(self, data):
            recorded.append(data)
            there.sendall(data)

        def __getattr__(self, name):
            return getattr(there, name)

    thread = threading.Thread(target=client_handshake, args=(RecordingSocket(), key, CONTROL, 0, Deadline(5)))
    thread.start()
    server_handshake(here, key, Deadline(5))
    thread.join()

    with (
        connections.listen(spec, key) as opened,
        socket.create_connection((SENDER, port), source_address=(RECEIVER, 0)) as replaying,
    ):
        replaying.sendall(b"".join(recorded))
        with pytest.raises(NoConnection), opened.accept_control(Deadline(1)):
            pass

    assert "without the key of this test" in caplog.text


def test_the_receivers_reason_to_decline_is_the_outcome(port, folders):
    spec = permitted_spec(port, folders[0]).spec
    rule = "disk.folder: this site names none, so that no file may be written"
    declining = threading.Thread(target=probe.decline, args=(spec, Outcome.NOT_PERMITTED, rule, Deadline(20)))
    declining.start()

    run = probe.measure(permitted_spec(port, folders[0]), Deadline(20))
    declining.join()

    assert (run.outcome, run.detail, not_measured(run)) == (Outcome.NOT_PERMITTED, f"the receiver: {rule}", True)


def test_a_disk_that_returns_other_data_fails_the_checksum(port, folders, monkeypatch):
    written = streams.write_at

    def corrupted(descriptor, data, offset):
        written(descriptor, data, offset)
        os.pwrite(descriptor, bytes([data[0] ^ 1]), offset)

    monkeypatch.setattr(streams, "write_at", corrupted)

    run, _ = between(port, folders)

    assert (run.outcome, not_measured(run)) == (Outcome.TOOL_FAILURE, True)
    assert "checksum mismatch" in run.detail


@pytest.mark.parametrize("end", ["sender", "receiver"])
def test_a_folder_that_is_a_symbolic_link_is_not_followed(port, folders, tmp_path, end):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    linked = tmp_path / "linked"
    linked.symlink_to(elsewhere)
    sender, receiver = (
        linked if end == name else folder for name, folder in zip(("sender", "receiver"), folders, strict=True)
    )
    receiving = ReceiverThread(permitted_spec(port, receiver), 2.0)
    receiving.start()

    run = probe.measure(permitted_spec(port, sender), Deadline(2))
    receiving.join()

    assert not_measured(run)
    assert list(elsewhere.iterdir()) == []
    failed = run.detail if end == "sender" else str(receiving.raised)
    assert "must be a folder, not a symbolic link" in failed


COMMAND = [sys.executable, "-m", "probes", "disk-to-disk"]


def command(end, port, folder, key, *options):
    other, here = (RECEIVER, SENDER) if end == "send" else (SENDER, RECEIVER)
    common = ["--here", here, "--port", str(port), "--folder", str(folder), "--key", str(key), "--duration-s", "1"]
    return [*COMMAND, end, other, *common, "--file-bytes", str(SIZE), *options]


@pytest.fixture
def key(tmp_path):
    (tmp_path / "key").write_text(KEY + "\n")
    return tmp_path / "key"


def test_by_hand_each_end_is_a_single_command(port, folders, key):
    sender, receiver = folders
    receiving = subprocess.Popen(command("receive", port, receiver, key), cwd=ROOT, stderr=subprocess.DEVNULL)

    sent = subprocess.run(
        command("send", port, sender, key, "--json"), cwd=ROOT, capture_output=True, text=True, timeout=90, check=False
    )

    assert (sent.returncode, receiving.wait(30)) == (0, 0), sent.stderr
    assert json.loads(sent.stdout)["moved_bytes"] == SIZE


def test_a_full_disk_is_reported_by_receiver_and_sender(port, folders, key, request):
    request.getfixturevalue("namespaces_required")
    sender, receiver = folders
    script = 'mount -t tmpfs -o size=5m none "$1" && shift && exec "$@"'
    in_5_mb = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", str(receiver)]
    receiving = subprocess.Popen(
        [*in_5_mb, *command("receive", port, receiver, key)], cwd=ROOT, stderr=subprocess.PIPE, text=True
    )

    run = probe.measure(permitted_spec(port, sender), Deadline(30))
    _, errors = receiving.communicate(timeout=60)

    failure = f"{receiver}: No space left on device"
    assert (run.outcome, not_measured(run)) == (Outcome.TOOL_FAILURE, True)
    assert run.detail.startswith(f"the receiver: {failure}; ")
    assert (receiving.returncode, failure in errors) == (1, True)


def test_the_sender_reports_its_own_full_disk(port, folders, key, request):
    request.getfixturevalue("namespaces_required")
    script = 'mount -t tmpfs -o size=5m none "$1" && shift && exec "$@"'
    in_5_mb = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", str(folders[0])]

    sent = subprocess.run(
        [*in_5_mb, *command("send", port, folders[0], key, "--json")],
        cwd=ROOT, capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip

    run = json.loads(sent.stdout)
    assert (sent.returncode, run["outcome"], run["disk_to_disk_bps"]) == (1, "tool_failure", None)
    assert "No space left on device" in run["detail"]


@pytest.mark.parametrize("killed", ["sender", "receiver"])
def test_a_killed_end_leaves_no_file_and_no_figure(port, folders, key, killed):
    sender, receiver = folders
    end, folder = ("send", sender) if killed == "sender" else ("receive", receiver)
    # Long enough that both ends are streaming when the end is killed.
    theirs = subprocess.Popen(
        [*command(end, port, folder, key), "--duration-s", "20"],
        cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    killer = threading.Thread(target=kill_when_streaming, args=(port, theirs))
    killer.start()
    try:
        if killed == "receiver":
            run = probe.measure(permitted_spec(port, sender, duration_s=20), Deadline(30))
            assert (run.outcome, not_measured(run)) == (Outcome.TOOL_FAILURE, True)
        else:
            with pytest.raises(ProbeError):
                probe.receive(permitted_spec(port, receiver, duration_s=20), Deadline(30))
    finally:
        killer.join()
        theirs.kill()
        theirs.wait()
    assert [*sender.iterdir(), *receiver.iterdir()] == []


def kill_when_streaming(port, process):
    """When data flow: the control connection and four streams, each with two ends."""
    with contextlib.suppress(ProcessLookupError):
        wait_until(lambda: established(port) >= 10, "the streams are there")
        process.send_signal(signal.SIGKILL)


def established(port):
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(f":{port:04X}" in (row[1][8:], row[2][8:]) and row[3] == "01" for row in rows)


@pytest.fixture
def two_ends(namespaces_required):
    with RunningLab(LAB) as lab:
        prepare(lab)
        yield lab


def run_over(lab, folders, key, file_bytes, duration_s):
    """A file from bern to rome; the run as JSON."""
    here, there = lab.address("bern"), lab.address("rome")
    options = ["--key", str(key), "--duration-s", str(duration_s), "--file-bytes", str(file_bytes)]
    receiving = lab.popen("rome", *COMMAND, "receive", here, "--here", there, "--folder", str(folders[1]), *options)

    sent = lab.exec("bern", *COMMAND, "send", there, "--here", here, "--folder", str(folders[0]), "--json", *options)
    receiving.wait(60)

    run = json.loads(sent.stdout)
    assert run["outcome"] == "measured", run["detail"]
    return run


def test_over_a_narrow_path_the_network_is_the_limit(two_ends, folders, key):
    """The lab's path carries 50 Mbit/s, with an RTT of 40 ms; disks are ten times faster."""
    run = run_over(two_ends, folders, key, 10_000_000, 3)

    assert 15e6 < run["disk_to_disk_bps"] < 50e6
    assert 25e6 < run["memory_to_memory_bps"] < 50e6
    judged = verdict(run)
    assert judged.limit is DiskLimit.NETWORK, judged.sentence


def test_a_file_that_ends_within_slow_start_is_too_short(two_ends, folders, key):
    """With an RTT of 200 ms and windows of 10 segments, four streams need five round trips for 1 MB: a second, where
    the path carries 6 MB. No CPU or disk is to blame."""
    two_ends.set("bern-rome", "--both", "--rtt-ms", "200")

    run = run_over(two_ends, folders, key, 1_000_000, 5)

    judged = verdict(run)
    assert judged.limit is DiskLimit.UNDETERMINED, judged.sentence
    assert lacks(judged.sentence, "too short", "larger file") == []
    assert "CPU" not in judged.sentence
