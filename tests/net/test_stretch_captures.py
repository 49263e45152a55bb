"""Captures of a transfer with far more packets than they may keep, compared with tcpdump's of all its packets.

A router between both ends drops packets of one direction at random (nftables). `tcptrace` counts the retransmissions of
the whole transfer, and of the stretches alone after their packets were picked from tcpdump's file.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import sys
import zlib
from contextlib import ExitStack, contextmanager

import msgspec
import pytest

from monitor.analysis.packets import (
    KeptPart,
    LostWhere,
    captured_figures_of,
    connections_of,
    lost_between,
    read_capture,
    time_sequence,
)
from probes.transfers.spec import CapturedHeaders, ThroughputRun, ThroughputSpec
from tests.lab import wait_until
from tests.net.test_transfer_captures import RUN
from tests.net.three_namespaces import FAR, NEAR, three_namespaces

pytestmark = [
    pytest.mark.usefixtures("root_required"),
    pytest.mark.skipif(
        any(shutil.which(tool) is None for tool in ("iperf3", "tcptrace", "tcpdump", "nft"))
        and not os.environ.get("CI"),
        reason="needs iperf3, tcptrace, tcpdump and nftables",
    ),
]
PACKETS = 8_000
ATTEMPTS = 4
DUMP = ("tcpdump", "-Z", "root", "-B", "65536", "-s", "128", "-i", "wan0", "-w")


@pytest.fixture(scope="module")
def path():
    with three_namespaces() as path:
        # One packet a segment, so that there are many of them, and a rate that tcpdump keeps up with.
        for place, device in (("near", "wan0"), ("router", "near"), ("router", "far"), ("far", "wan0")):
            path.at(place, "ip", "link", "set", device, "gso_max_segs", "4")
        yield path


@contextmanager
def dropping(path, destination, one_in):
    rule = f"ip daddr {destination} numgen random mod {one_in} == 0 counter drop"
    path.at("router", "nft", "add table ip lossy")
    try:
        path.at("router", "nft", "add chain ip lossy forward { type filter hook forward priority 0; }")
        path.at("router", "nft", f"add rule ip lossy forward {rule}")
        yield
    finally:
        path.at("router", "nft", "delete table ip lossy")


def transfer(path, folder):
    """The run, the receiver's capture, and what tcpdump dropped; its files are in the folder."""
    spec = ThroughputSpec(address=FAR, source=NEAR, duration_s=4, rate_bps=300_000_000, capture_packets=PACKETS)
    encoded = msgspec.json.encode(spec).decode()
    said = []
    with ExitStack() as undo:
        dumps = [path.start(place, *DUMP, str(folder / f"{place}.pcap"), "tcp") for place in ("near", "far")]
        for dump in dumps:
            undo.callback(dump.kill)
            while "listening" not in (line := dump.stderr.readline()):
                assert line, "tcpdump has ended"
        server = path.start("far", sys.executable, "-c", RUN, "server", encoded)
        undo.callback(server.kill)
        wait_until(lambda: ":5201" in path.at("far", "ss", "-tlnH"), "iperf3 listens")
        client = path.start("near", sys.executable, "-c", RUN, "client", encoded)
        undo.callback(client.kill)
        printed, errors = client.communicate(timeout=60)
        assert client.returncode == 0, errors
        far, _ = server.communicate(timeout=60)
        for dump in dumps:
            dump.terminate()
            said.append(dump.communicate(timeout=30)[1])
    missed = sum(int(count) for text in said for count in re.findall(r"(\d+) packets dropped by kernel", text))
    run = msgspec.json.decode(printed, type=ThroughputRun)
    return run, msgspec.json.decode(far.splitlines()[-1], type=CapturedHeaders), missed


def parts_of(capture):
    return [KeptPart(part.period_bytes, part.kept_bytes, part.until_ns) for part in capture.parts]


def connections(capture):
    return connections_of(read_capture(zlib.decompress(capture.pcap_zlib)))


def data_connection(file):
    return [max(connections_of(read_capture(file.read_bytes())), key=lambda each: each.sender.payload_bytes)]


def retransmitted_by_tcptrace(file):
    """Retransmitted and all data packets of the connection with most data, by its sender."""
    printed = subprocess.run(["tcptrace", "-n", "-l", file], capture_output=True, text=True, check=True).stdout
    resent = re.findall(r"rexmt data pkts: +(\d+) +rexmt data pkts: +(\d+)", printed)
    return max(max(map(int, counts)) for counts in resent)


@pytest.mark.parametrize(
    ("destination", "one_in", "expected"),
    [(FAR, 400, LostWhere.DATA), (NEAR, 60, LostWhere.ACKS)],
    ids=["data", "acks"],
)
def test_stretches_tell_what_all_packets_tell(path, tmp_path, destination, one_in, expected):
    for _ in range(ATTEMPTS):
        with dropping(path, destination, one_in):
            run, far, missed = transfer(path, tmp_path)
        if not missed:
            break
    assert missed == 0, "tcpdump has not all packets of any attempt"
    all_near, all_far = (data_connection(tmp_path / f"{place}.pcap") for place in ("near", "far"))
    whole = lost_between(all_near, all_far)
    near = connections(run.capture)
    parts = parts_of(run.capture)

    losses = lost_between(near, connections(far), parts, parts_of(far))
    figures = captured_figures_of(near[0], parts)

    assert run.capture.packets + far.packets <= 2 * PACKETS
    assert run.capture.left_out_packets > PACKETS
    assert losses.where is whole.where is expected
    end = all_near[0].sender.newest
    last = max(segment.end for segment in near[0].sender.segments)
    assert last > 0.8 * end, "the capture reaches the end of the test"
    share = losses.compared_ratio
    assert 0.005 < share < 0.6
    # The complete captures say the same of the same bytes; a part's last stretch may be seen acknowledged there alone,
    # and each stretch begins later there where one of all segments is longer than those that were kept.
    same = lost_between(all_near, all_far, parts, parts_of(far))
    assert same.sent_bytes - len(parts) * 300_000 <= losses.sent_bytes <= 1.3 * same.sent_bytes
    assert 0.8 * same.lost_bytes - 20_000 <= losses.lost_bytes <= 1.3 * same.lost_bytes + 20_000
    assert 0.8 * same.lost_acks - 5 <= losses.lost_acks <= 1.3 * same.lost_acks + 5
    if expected is LostWhere.DATA:
        resent = retransmitted_by_tcptrace(tmp_path / "near.pcap")
        assert resent > 30
        spread = 4 * (resent * share) ** 0.5 + 2
        assert figures.resent_packets == pytest.approx(resent * share, abs=spread)
    assert time_sequence(near[0], parts).missing


def test_a_file_of_the_stretches_is_one_that_tcptrace_reads(path, tmp_path):
    """Its count of retransmissions in the packets that were kept is ours, but for those whose original was not."""
    with dropping(path, FAR, 400):
        run, _, _ = transfer(path, tmp_path)
    kept = tmp_path / "kept.pcap"
    kept.write_bytes(zlib.decompress(run.capture.pcap_zlib))

    figures = captured_figures_of(connections(run.capture)[0], parts_of(run.capture))

    assert struct.unpack_from("<I", kept.read_bytes())[0] == 0xA1B23C4D
    assert figures.resent_packets == pytest.approx(retransmitted_by_tcptrace(kept), abs=2)
