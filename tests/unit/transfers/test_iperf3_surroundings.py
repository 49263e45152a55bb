"""The environment of iperf3 in a test: keys, the packet filter on its port, samples of its process and its sockets."""

import json
import math
import os
import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from probes.contract import Deadline
from probes.transfers import socket_counters, source_filter
from probes.transfers.iperf3 import authentication, rsa, sampling
from probes.transfers.socket_counters import ConnectionCounters, SocketReader, StreamAddress

FIXTURES = Path(__file__).parents[2] / "fixtures" / "iperf3" / "versions"
WITHOUT_FILTER = 0x40000


@pytest.fixture(scope="module")
def pair():
    return rsa.key_pair("of this slot", bits=1024)


def test_a_private_key_decrypts_its_public_keys_output(pair):
    message = 0x1234567890
    assert pair.modulus.bit_length() == 1024
    assert pow(pow(message, rsa.EXPONENT, pair.modulus), pair.private_exponent, pair.modulus) == message


def test_the_same_secret_gives_the_same_pair(pair):
    assert rsa.key_pair("of this slot", bits=1024) == pair
    assert rsa.key_pair("of another slot", bits=1024).modulus != pair.modulus


@pytest.mark.skipif(shutil.which("openssl") is None and not os.environ.get("CI"), reason="needs openssl")
def test_openssl_accepts_both_halves_of_a_pair(pair, tmp_path):
    private, public = tmp_path / "private.pem", tmp_path / "public.pem"
    private.write_text(pair.private_pem())
    public.write_text(pair.public_pem())

    checked = subprocess.run(["openssl", "rsa", "-in", private, "-check", "-noout"], capture_output=True, text=True)
    extracted = subprocess.run(["openssl", "rsa", "-in", private, "-pubout"], capture_output=True, text=True)

    assert "RSA key ok" in checked.stdout
    assert extracted.stdout == public.read_text()


def test_primes_are_distinguished_from_composites():
    by_division = [n for n in range(5, 20_000, 2) if all(n % d for d in range(3, math.isqrt(n) + 1, 2))]

    assert [n for n in range(5, 20_000, 2) if all(rsa._passes(n, base) for base in (2, 3))] == by_division


VERSIONS = ("3.9", "3.12", "3.18", "3.22")


@pytest.fixture
def iperf3_is(monkeypatch):
    """A function that makes this host's iperf3 that version."""
    monkeypatch.setattr(authentication, "_key_pair", lambda secret: rsa.key_pair(secret, bits=512))

    def become(version, features="authentication"):
        text = f"iperf {version} (cJSON 1.7.15)\nOptional features available: SCTP, {features}\n"
        monkeypatch.setattr(authentication, "_version_text", lambda: text)

    return become


def test_credentials_need_a_secret_and_a_capable_build(iperf3_is):
    iperf3_is("3.12", features="zerocopy")

    with (
        authentication.client_credentials("secret", None) as client,
        authentication.server_credentials("secret", None) as server,
    ):
        assert (client, server) == (authentication.Credentials(), authentication.Credentials())
    iperf3_is("3.12")
    with (
        authentication.client_credentials(None, "3.12") as client,
        authentication.server_credentials(None, "3.12") as server,
    ):
        assert (client, server) == (authentication.Credentials(), authentication.Credentials())


def padded(credentials):
    """The padding in the form of the recorded attempts; None for an end without credentials."""
    return "--use-pkcs1-padding" in credentials.arguments if credentials.arguments else None


@pytest.mark.parametrize("server", VERSIONS)
@pytest.mark.parametrize("client", VERSIONS)
def test_known_versions_authenticate_as_real_iperf3_did(iperf3_is, client, server):
    """`authentication.json` has the outcomes of real builds for each padding and each pair of versions; the same builds
    as the reports beside it, of Debian 11, 12, 13 and unstable."""
    tried = json.loads((FIXTURES / "authentication.json").read_text())
    let_in = {
        (pair["client_pads_as_before"], pair["server_pads_as_before"])
        for pair in tried
        if (pair["client"], pair["server"], pair["said"]) == (client, server, None)
    }

    iperf3_is(client)
    with authentication.client_credentials("secret", server) as credentials:
        of_client = padded(credentials)
    iperf3_is(server)
    with authentication.server_credentials("secret", client) as credentials:
        of_server = padded(credentials)

    assert (of_client, of_server) in (let_in or {(None, None)})
    assert bool(let_in) is not (client == "3.22" and server in ("3.9", "3.12")), (
        "the only pairs that cannot authenticate"
    )


@pytest.mark.parametrize(
    ("version", "of_client", "of_server"),
    [
        ("3.12", False, False),
        ("3.16", False, False),
        ("3.17", True, True),
        ("3.19", True, True),
        ("3.20", False, True),
        ("4.0", False, True),
    ],
)
@pytest.mark.parametrize("peer", [None, "", "of a later kind"])
def test_an_unknown_peer_version_gets_the_old_padding_if_usable(iperf3_is, version, of_client, of_server, peer):
    iperf3_is(version)

    with (
        authentication.client_credentials("secret", peer) as client,
        authentication.server_credentials("secret", peer) as server,
    ):
        assert (padded(client), padded(server)) == (of_client, of_server)


@pytest.mark.parametrize(("version", "has_option"), [("3.9", False), ("3.10", True), ("3.22", True)])
def test_only_versions_with_a_clock_skew_option_get_it(iperf3_is, version, has_option):
    iperf3_is(version)

    with authentication.server_credentials("secret", version) as server:
        assert ("--time-skew-threshold" in server.arguments) is has_option


def test_a_replaced_iperf3_is_queried_again(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    program = tmp_path / "iperf3"
    samples = []
    for number, version in enumerate(("3.12", "3.22")):
        program.write_text(f"#!/bin/sh\necho iperf {version}\n")
        program.chmod(0o700)
        os.utime(program, (number, number))
        samples.append(authentication.version())

    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert (samples, authentication.version()) == (["3.12", "3.22"], None)


def test_an_iperf3_that_did_not_answer_is_queried_again(tmp_path, monkeypatch):
    program = tmp_path / "iperf3"
    program.write_text("#!/bin/sh\necho iperf 3.12\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with monkeypatch.context() as busy:
        busy.setattr(subprocess, "run", lambda *_, **__: (_ for _ in ()).throw(subprocess.TimeoutExpired("iperf3", 10)))
        assert authentication.version() is None

    assert authentication.version() == "3.12"


def test_keys_prepared_ahead_are_not_generated_again(monkeypatch):
    generated = []
    monkeypatch.setattr(authentication, "is_supported", lambda: True)
    monkeypatch.setattr(
        authentication, "key_pair", lambda secret: generated.append(secret) or rsa.key_pair(secret, bits=512)
    )
    authentication.prepare_keys("ahead of its slot")

    with (
        authentication.client_credentials("ahead of its slot", None),
        authentication.client_credentials("ahead of its slot", None),
    ):
        assert generated == ["ahead of its slot"]
    authentication.prepare_keys(None)
    assert generated == ["ahead of its slot"]


def test_an_agent_derives_the_keys_of_300_peers_once_in_an_hour(monkeypatch):
    """A test with a peer as its client, a test as its server, and tests with all other peers between them."""
    generated = []
    pair = rsa.key_pair("any", bits=512)
    monkeypatch.setattr(authentication, "is_supported", lambda: True)
    monkeypatch.setattr(authentication, "key_pair", lambda secret: generated.append(secret) or pair)
    secrets = [f"peer {number}, this hour" for number in range(300)]

    for credentials in (authentication.client_credentials, authentication.server_credentials):
        for secret in secrets:
            authentication.prepare_keys(secret)
            with credentials(secret, None) as given:
                assert given.arguments

    assert generated == secrets


def run_filter(program, packet):
    """Run a classic BPF program of loads and jumps on an IP packet: that part of McCanne and Jacobson's machine."""
    accumulator, at = 0, 0
    while True:
        code, if_true, if_false, operand = program[at]
        if code == source_filter.RETURN:
            return operand
        if code == source_filter.LOAD_WORD:
            offset = operand - source_filter.AT_IP_HEADER
            accumulator = int.from_bytes(packet[offset : offset + 4])
        elif code == source_filter.LOAD_BYTE:
            accumulator = packet[operand - source_filter.AT_IP_HEADER]
        elif code == source_filter.AND:
            accumulator &= operand
        else:
            at += if_true if accumulator == operand else if_false
        at += 1


def ip_packet(source):
    """An IP header with this source address and nothing else."""
    packed = source_filter.ipaddress.ip_address(source).packed
    if len(packed) == 4:
        return b"\x45" + bytes(11) + packed + bytes(4)
    return b"\x60" + bytes(7) + packed + bytes(16)


@pytest.mark.parametrize(
    ("peer", "stranger"),
    [
        ("192.0.2.1", "192.0.2.2"),
        ("192.0.2.1", "193.0.2.1"),
        ("2001:db8::1", "2001:db8::2"),
        ("2001:db8::1", "2001:db9::1"),
        ("2001:db8::1", "2001:db8:1::1"),
        ("2001:db8::1", "2001:db8::1:0:1"),
    ],
)
def test_the_filter_accepts_the_peer_only(peer, stranger):
    program = source_filter.source_program(peer)

    assert run_filter(program, ip_packet(peer)) == WITHOUT_FILTER
    assert run_filter(program, ip_packet(stranger)) == 0


@pytest.mark.parametrize(
    ("source", "passes"),
    [
        ("192.0.2.1", True),
        ("192.0.2.255", True),
        ("192.0.3.1", False),
        ("192.0.2.77", False),
        ("198.51.101.9", True),
        ("198.51.102.9", False),
        ("2001:db8:7:ffff::1", True),
        ("2001:db8:8::1", False),
        ("2001:db8:7:bad::1", False),
        ("::ffff:192.0.2.1", False),
    ],
)
def test_the_filter_accepts_admitted_networks_only(source, passes):
    admitted = ("192.0.2.0/24", "198.51.100.0/23", "2001:db8:7::/48")
    program = source_filter.networks_program(admitted, ("192.0.2.77/32", "2001:db8:7:bad::/64"))

    assert run_filter(program, ip_packet(source)) == (WITHOUT_FILTER if passes else 0)


def test_a_whole_family_can_be_admitted():
    program = source_filter.networks_program(("::/0",), ())

    assert run_filter(program, ip_packet("2001:db8::1")) == WITHOUT_FILTER
    assert run_filter(program, ip_packet("192.0.2.1")) == 0


def counters(number: int, sent_bytes: int, busy_s: float, **fields: object) -> ConnectionCounters:
    values: dict[str, object] = {
        "acknowledged_bytes": sent_bytes,
        "resent_bytes": 0,
        "peer_window_limited_s": 0.0,
        "send_buffer_limited_s": 0.0,
        "age_s": 5.0,
        "duplicates": 0,
        "reordering_seen": 0,
        "delivery_rate_bps": 0.0,
        "rtt_min_ms": 40.0,
        "segment_bytes": 1448,
        "cwnd_segments": 10,
        "rtt_ms": 40.0,
        "timeout_s": 0.24,
        "outstanding_bytes": 0,
    }
    return ConnectionCounters(bytes([number]), sent_bytes, busy_s=busy_s, **{**values, **fields})


# A test with two streams, and its control connection.
STREAMS = (
    counters(0, 164, 0.02),
    counters(
        1, 8_995_925, 4.868, acknowledged_bytes=8_990_000, resent_bytes=13_032, age_s=4.996, delivery_rate_bps=15.7e6,
        peer_window_limited_s=3.708, duplicates=2, reordering_seen=3, rtt_min_ms=40.18,
    ),
    counters(
        2, 8_993_325, 4.866, acknowledged_bytes=8_990_000, age_s=4.956, delivery_rate_bps=15.2e6,
        peer_window_limited_s=3.652, send_buffer_limited_s=0.1, rtt_min_ms=40.135,
    ),
)  # fmt: skip


def test_counts_of_the_streams_are_read_without_control():
    counts = sampling.kernel_counts(STREAMS, streams=2)

    assert counts.age_s == pytest.approx((4.996 + 4.956) / 2)
    assert counts.busy_s == pytest.approx(4.867)
    assert counts.peer_window_limited_s == pytest.approx(3.680)
    assert counts.send_buffer_limited_s == pytest.approx(0.050)
    assert (counts.resent_bytes, counts.duplicates, counts.reordering_seen) == (13032, 2, 3)
    assert counts.delivery_rate_bps == pytest.approx(30.9e6)
    assert counts.rtt_min_ms == 40.135
    assert counts.acknowledged_bytes == 17_980_000
    assert counts.segment_bytes == 1448


def test_counts_of_too_few_streams_are_not_used():
    assert sampling.kernel_counts(STREAMS, streams=4) is None
    assert sampling.kernel_counts((counters(0, 164, 0.0), *STREAMS[1:2]), streams=2) is None
    assert sampling.kernel_counts([], streams=1) is None


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
@pytest.mark.parametrize("from_port", [False, True])
def test_counters_are_those_that_ss_shows(address, from_port):
    """Both as the first reading, which lists all sockets, and as a later reading of this socket alone."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with (
        socket.create_server((address, 0), family=family) as listener,
        socket.create_connection(listener.getsockname()[:2]) as client,
    ):
        server, _ = listener.accept()
        with server:
            sender, receiver = (server, client) if from_port else (client, server)
            sender.sendall(bytes(50_000))
            left = 50_000
            while left:
                left -= len(receiver.recv(left))
            port = listener.getsockname()[1]
            own = sender.getsockname()[1]
            with SocketReader(StreamAddress(address, port, from_port=from_port)) as reader:
                deadline = Deadline(10.0)
                # The last acknowledgement may be delayed.
                while [row.outstanding_bytes for row in reader.read()] != [0] and not deadline.passed:
                    time.sleep(0.01)
                readings = [reader.read() for _ in range(6)]
            said = subprocess.run(["ss", "-tinOH", "sport", "=", f":{own}"], capture_output=True, text=True).stdout
        line = next(line for line in said.splitlines() if "bytes_sent:50000" in line)
        shown = dict(part.split(":", 1) for part in line.split() if part.count(":") == 1)

    for (row,) in readings:
        assert (row.sent_bytes, row.segment_bytes) == (50_000, int(shown["mss"]))
        assert (row.acknowledged_bytes, row.cwnd_segments) == (int(shown["bytes_acked"]), int(shown["cwnd"]))
        assert row.rtt_min_ms == pytest.approx(float(shown["minrtt"]))
        # It leaves out a time of less than a millisecond.
        assert row.age_s <= int(shown.get("lastrcv", "0")) / 1000


def test_a_kernel_without_all_counters_gives_none():
    assert socket_counters._counters(b"", bytes(socket_counters.TCP_INFO_BYTES - 1)) is None
    assert socket_counters._counters(b"", bytes(socket_counters.TCP_INFO_BYTES)).sent_bytes == 0


def test_a_busy_thread_is_scheduled_all_the_time():
    ended = threading.Event()
    turning = threading.Thread(target=lambda: [None for _ in iter(ended.is_set, True)])
    turning.start()
    try:
        before = sampling.scheduled_s(os.getpid())
        ended.wait(0.5)
        after = sampling.scheduled_s(os.getpid())
    finally:
        ended.set()
        turning.join()

    assert max(sum(after[thread]) - sum(before.get(thread, (0.0, 0.0))) for thread in after) > 0.05


def test_an_ended_process_is_not_sampled():
    done = subprocess.Popen(["true"])
    done.wait()

    assert sampling.scheduled_s(done.pid) == {}
    with sampling.ToolSampler(done.pid, None) as watch:
        pass
    assert (watch.wanted_ratio(), watch.kernel_counts()) == (None, None)


def test_without_a_diagnostic_socket_there_are_no_counts(monkeypatch):
    def refused(*arguments, **keywords):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(socket_counters.socket, "socket", refused)

    with SocketReader(StreamAddress("127.0.0.1", 5201)) as reader:
        assert reader.read() == []
