"""The environment of iperf3 in a test: keys, the packet filter on its port, samples of its process and its sockets."""

import json
import math
import os
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from probes.throughput import authentication, rsa, sampling, source_filter

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


# Recorded in the lab from ss of iproute2 6.1: a test with four streams, and its control connection.
STREAMS = """\
0 0 10.77.1.1:40000 10.77.2.1:5201 cubic wscale:7,10 rtt:40.855/0.395 mss:1448 bytes_sent:164 bytes_acked:165 \
lastrcv:4996 minrtt:40.18
0 0 10.77.1.1:40002 10.77.2.1:5201 cubic wscale:7,10 rtt:40.855/0.395 mss:1448 bytes_sent:8995925 \
bytes_retrans:13032 segs_out:6257 lastrcv:4996 delivery_rate 15699136bps delivered:6202 busy:4868ms \
rwnd_limited:3708ms(76.2%) dsack_dups:2 reord_seen:3 minrtt:40.18 snd_wnd:80512
0 0 10.77.1.1:40004 10.77.2.1:5201 cubic wscale:7,10 rtt:40.789/0.101 mss:1448 bytes_sent:8993325 \
segs_out:6256 lastrcv:4956 delivery_rate 15.2Mbps delivered:6201 busy:4866ms rwnd_limited:3652ms(75.0%) \
sndbuf_limited:100ms(2.1%) minrtt:40.135 snd_wnd:80512
"""


def test_counts_of_the_streams_are_read_without_control():
    counts = sampling.kernel_counts(STREAMS.splitlines(), streams=2)

    assert counts.age_s == pytest.approx((4.996 + 4.956) / 2)
    assert counts.busy_s == pytest.approx(4.867)
    assert counts.peer_window_limited_s == pytest.approx(3.680)
    assert counts.send_buffer_limited_s == pytest.approx(0.050)
    assert (counts.resent_bytes, counts.duplicates, counts.reordering_seen) == (13032, 2, 3)
    assert counts.delivery_rate_bps == pytest.approx(15_699_136 + 15.2e6)
    assert counts.rtt_min_ms == 40.135
    assert counts.acknowledged_bytes is None


def test_acknowledged_bytes_of_the_streams_are_summed():
    lines = [line.replace("segs_out:", "bytes_acked:8990000 segs_out:") for line in STREAMS.splitlines()]

    assert sampling.kernel_counts(lines, streams=2).acknowledged_bytes == 17_980_000


def test_counts_of_too_few_streams_are_not_used():
    assert sampling.kernel_counts(STREAMS.splitlines(), streams=3) is None
    assert sampling.kernel_counts([], streams=1) is None


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


def test_without_ss_there_are_no_counts(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")

    assert sampling.socket_lines(sampling.StreamAddress("127.0.0.1", 5201)) == []
