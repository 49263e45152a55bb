"""The capacity probe over links of known rate.

Four namespaces: near — router — far, and a source of cross traffic beside near. The narrow link is a token bucket (TBF)
in the kernel, on the router, with a bucket of a single packet: it sends each packet after the serialization time of the
previous packet, as a link does, and its timer is accurate to some 10 µs. The lab's relay does the same in user space,
but wakes up to 0.3 ms late when other work shares the processors, which is two packets at 100 Mbit/s.

Rates of a TBF count the Ethernet header; the probe counts bits of IP. `truth_bps` is in bits of IP. Nothing is retried.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ETHERNET_BYTES = 14
IP_BYTES = 1500
SPARE_BYTES = 26
QUEUE_BYTES = 300_000
WITHIN = 0.2
FAR = {4: "10.9.2.2", 6: "fd09:0:0:2::2"}
NETWORKS = {"near": 1, "far": 2, "cross": 3}
LIMIT = Path(__file__).with_name("icmp_limit.py")

OTHER_TRAFFIC = """
import random, socket, sys, time
address, rate_bps = sys.argv[1], float(sys.argv[2])
sizes = (100, 700, 1472)
mean_s = (sum(sizes) / len(sizes) + 28) * 8 / rate_bps
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect((address, 9))
due = time.monotonic()
while True:
    due += random.expovariate(1 / mean_s)
    time.sleep(max(0, due - time.monotonic()))
    try:
        s.send(bytes(random.choice(sizes)))
    except ConnectionRefusedError:
        pass
"""

ONE_A_MILLISECOND = """
import socket, struct, time
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
print("ready", flush=True)
due = time.monotonic()
while True:
    data, to = s.recvfrom(2000)
    if data[20] != 8:
        continue
    due = max(due, time.monotonic()) + 0.001
    time.sleep(max(0, due - time.monotonic()))
    icmp = bytes(4) + data[24:]
    even = icmp + bytes(len(icmp) % 2)
    total = sum(struct.unpack(f">{len(even) // 2}H", even))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    s.sendto(icmp[:2] + struct.pack(">H", ~total & 0xFFFF) + icmp[4:], to)
"""


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
    return done.stdout


@dataclass(frozen=True)
class Path4:
    """The four namespaces, by the prefix of their names."""

    prefix: str

    def at(self, place: str, *command: str) -> str:
        """Run a command in a namespace."""
        return run("ip", "netns", "exec", f"{self.prefix}-{place}", *command)

    def measure(self, address: str = FAR[4]) -> dict[str, Any]:
        """`python -m probes capacity` in the near namespace."""
        return json.loads(self.at("near", sys.executable, "-m", "probes", "capacity", address, "--json"))

    @contextmanager
    def narrowed(
        self, mbps: float, place: str = "router", device: str = "far", ip_bytes: int = IP_BYTES
    ) -> Iterator[None]:
        """A link of this rate where packets of at most `ip_bytes` leave `place` by `device`."""
        bucket_bytes = ip_bytes + ETHERNET_BYTES + SPARE_BYTES
        tbf = ("tbf", "rate", f"{mbps}mbit", "burst", str(bucket_bytes), "limit", str(QUEUE_BYTES))
        self.at(place, "tc", "qdisc", "add", "dev", device, "root", *tbf)
        try:
            yield
        finally:
            self.at(place, "tc", "qdisc", "delete", "dev", device, "root")

    @contextmanager
    def other_traffic(self, mbps: float) -> Iterator[None]:
        """UDP in packets of three sizes at random times, from the cross namespace to the far namespace. Checks at the
        narrow link that it arrives."""
        command = ["ip", "netns", "exec", f"{self.prefix}-cross", sys.executable, "-c", OTHER_TRAFFIC]
        process = subprocess.Popen([*command, FAR[4], str(mbps * 1e6)])
        try:
            self._wait_for_traffic()
            passed_bytes, started_s = self._passed_bytes(), time.monotonic()
            yield
            passed_mbps = (self._passed_bytes() - passed_bytes) * 8e-6 / (time.monotonic() - started_s)
            assert passed_mbps > 0.85 * mbps
        finally:
            process.kill()
            process.wait()

    def _wait_for_traffic(self) -> None:
        until, before = time.monotonic() + 20, self._passed_bytes()
        while self._passed_bytes() < before + 20 * IP_BYTES:
            assert time.monotonic() < until, "the cross traffic does not arrive"
            time.sleep(0.02)

    def _passed_bytes(self) -> int:
        [root] = json.loads(self.at("router", "tc", "-json", "-s", "qdisc", "show", "dev", "far"))
        return int(root["bytes"])

    @contextmanager
    def slow_far_end(self) -> Iterator[None]:
        """Limit the far end to an echo per millisecond, of any size."""
        setting = "net.ipv4.icmp_echo_ignore_all"
        self.at("far", "sysctl", "-qw", f"{setting}=1")
        process = subprocess.Popen(
            ["ip", "netns", "exec", f"{self.prefix}-far", sys.executable, "-c", ONE_A_MILLISECOND],
            stdout=subprocess.PIPE,
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield
        finally:
            process.kill()
            process.communicate()
            self.at("far", "sysctl", "-qw", f"{setting}=0")


@contextmanager
def four_namespaces() -> Iterator[Path4]:
    path = Path4(f"capacity-{secrets.token_hex(3)}")
    with ExitStack() as undo:
        for place in ("router", *NETWORKS):
            run("ip", "netns", "add", f"{path.prefix}-{place}")
            undo.callback(run, "ip", "netns", "delete", f"{path.prefix}-{place}")
        path.at("router", "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
        for place, number in NETWORKS.items():
            there = f"{path.prefix}-{place}"
            path.at("router", "ip", "link", "add", place, "type", "veth", "peer", "wan", "netns", there)
            for side, device, host in (("router", place, 1), (place, "wan", 2)):
                path.at(side, "ip", "address", "add", f"10.9.{number}.{host}/24", "dev", device)
                path.at(side, "ip", "address", "add", f"fd09:0:0:{number}::{host}/64", "dev", device, "nodad")
                path.at(side, "ip", "link", "set", device, "up")
            path.at(place, "ip", "route", "add", "default", "via", f"10.9.{number}.1")
            path.at(place, "ip", "route", "add", "default", "via", f"fd09:0:0:{number}::1")
        yield path


@pytest.fixture
def path(namespaces_required: None, root_required: None) -> Iterator[Path4]:
    with four_namespaces() as built:
        yield built


def truth_bps(mbps: float) -> float:
    return mbps * 1e6 * IP_BYTES / (IP_BYTES + ETHERNET_BYTES)


rates = pytest.mark.parametrize("mbps", [10, 50, 100])


@rates
def test_the_rate_of_a_link_is_measured(path, mbps):
    with path.narrowed(mbps):
        measured = path.measure()

    assert measured["verdict"] == "measured", measured
    assert measured["capacity_bps"] == pytest.approx(truth_bps(mbps), rel=WITHIN)
    assert (measured["packet_bytes"], measured["received"]) == (IP_BYTES - 28, measured["sent"])
    assert measured["sent"] <= 200


@rates
def test_cross_traffic_of_a_third_of_the_rate_does_not_hide_it(path, mbps):
    with path.narrowed(mbps), path.other_traffic(mbps / 3):
        measured = path.measure()

    assert measured["verdict"] == "measured", measured
    assert measured["capacity_bps"] == pytest.approx(truth_bps(mbps), rel=WITHIN)


def test_a_narrow_reverse_link_is_measured_over_ipv6(path):
    with path.narrowed(50, device="near"):
        measured = path.measure(FAR[6])

    assert (measured["verdict"], measured["family"], measured["packet_bytes"]) == ("measured", 6, IP_BYTES - 48), (
        measured
    )
    assert measured["capacity_bps"] == pytest.approx(truth_bps(50), rel=WITHIN)


def test_a_link_faster_than_this_host_gets_a_lower_bound(path):
    # A host that is busy all the time has no packets close enough for a bound.
    tries = (path.measure() for _ in range(4))
    measured = next((tried for tried in tries if tried["capacity_low_bps"] is not None), None)

    assert measured is not None, "four times no bound"
    assert measured["verdict"] in ("own_limit", "resolution"), measured
    assert measured["capacity_bps"] is measured["capacity_high_bps"] is None
    assert measured["capacity_low_bps"] > 100e6
    assert measured["detail"]


def test_its_own_narrow_interface_is_reported_as_own_limit(path):
    with path.narrowed(50, place="near", device="wan"):
        measured = path.measure()

    assert (measured["verdict"], measured["capacity_bps"]) == ("own_limit", None), measured
    assert measured["capacity_low_bps"] == pytest.approx(truth_bps(50), rel=WITHIN)


def test_a_far_end_that_limits_icmp_is_recognised(path):
    path.at("far", sys.executable, str(LIMIT), "20", "4")

    measured = path.measure()

    assert (measured["verdict"], measured["capacity_bps"]) == ("rate_limited", None), measured
    assert "rate-limited" in measured["detail"]
    assert 0 < measured["received"] < measured["sent"]


def test_an_icmp_rate_limit_is_reported_with_the_rate_of_pairs(path):
    path.at("far", sys.executable, str(LIMIT), "200", "5")

    with path.narrowed(50):
        measured = path.measure()

    assert (measured["verdict"], measured["method"]) == ("measured", "pairs"), measured
    assert measured["capacity_bps"] == pytest.approx(truth_bps(50), rel=WITHIN)
    assert "rate-limited" in measured["detail"]


def test_a_far_end_with_an_echo_per_ms_is_not_taken_for_a_link(path):
    with path.slow_far_end():
        measured = path.measure()

    # The far end is late on a busy machine, and then nothing tells its limit from a link.
    assert measured["verdict"] in ("per_packet", "unsettled"), measured
    assert measured["capacity_bps"] is None


def test_packets_fit_the_smallest_mtu_of_the_path(path):
    path.at("router", "ip", "link", "set", "far", "mtu", "1300")

    with path.narrowed(50, ip_bytes=1300):
        measured = path.measure()

    assert (measured["verdict"], measured["packet_bytes"]) == ("measured", 1300 - 28), measured
    assert measured["capacity_bps"] == pytest.approx(50e6 * 1300 / (1300 + ETHERNET_BYTES), rel=WITHIN)


def test_an_absent_host_gets_only_four_requests(path):
    measured = path.measure("10.9.2.77")

    assert (measured["outcome"], measured["verdict"], measured["capacity_bps"]) == ("measured", "no_reply", None)
    assert (measured["sent"], measured["received"]) == (4, 0)


def test_without_a_route_capacity_is_not_measured(path):
    path.at("near", "ip", "route", "delete", "default")

    command = ["ip", "netns", "exec", f"{path.prefix}-near", sys.executable, "-m", "probes", "capacity", FAR[4]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout.partition(":")[0]) == (1, FAR[4])
    assert "no_route" in done.stdout
