"""The policer test over policers and shapers of the kernel: near, router and far are namespaces.

The router polices UDP by a rule of nftables (`limit rate over … burst … drop`), which counts IP packets and whose
bucket holds the bytes of a second beside the burst (nft_limit.c), or shapes by a token bucket filter (TBF), which
counts the Ethernet header as well. Figures are expected within 10% of the planted; on a busy machine the test may not
tell, and is repeated.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from probes.disk_to_disk.command import MIN_KEY_CHARS
from probes.policer.spec import IP_BYTES
from tests.lab import repository_environment

NEAR, FAR = "10.9.1.2", "10.9.2.2"
ETHERNET_BYTES = 14
WITHIN = 0.1
ATTEMPTS = 5
TEST_S = 120.0


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
    return done.stdout


@dataclass(frozen=True)
class Routed:
    """Namespaces by the prefix of their names, and the file of the key."""

    prefix: str
    key: Path

    def at(self, place: str, *command: str) -> str:
        return run("ip", "netns", "exec", f"{self.prefix}-{place}", *command)

    def start(self, place: str, *command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["ip", "netns", "exec", f"{self.prefix}-{place}", *command],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=repository_environment(),
        )  # fmt: skip

    @contextmanager
    def policed(self, mbps: float, burst_bytes: int) -> Iterator[None]:
        """UDP above the rate is dropped on the router, behind the burst and a second's bytes."""
        rate = f"limit rate over {round(mbps * 125_000)} bytes/second burst {burst_bytes} bytes drop"
        self.at("router", "nft", "add table ip policer")
        try:
            self.at("router", "nft", "add chain ip policer forward { type filter hook forward priority 0; }")
            self.at("router", "nft", f"add rule ip policer forward meta l4proto udp {rate}")
            yield
        finally:
            self.at("router", "nft", "delete table ip policer")

    @contextmanager
    def shaped(self, mbps: float, burst_bytes: int, queue_bytes: int) -> Iterator[None]:
        """What exceeds rate and burst waits on the router; both in bytes of IP packets."""
        with_header = (IP_BYTES + ETHERNET_BYTES) / IP_BYTES
        self.at(
            "router", "tc", "qdisc", "add", "dev", "far", "root", "tbf", "rate", f"{round(mbps * 1e6 * with_header)}",
            "burst", f"{round(burst_bytes * with_header)}", "limit", f"{round(queue_bytes * with_header)}",
        )  # fmt: skip
        try:
            yield
        finally:
            self.at("router", "tc", "qdisc", "delete", "dev", "far", "root")

    def measure(self) -> dict[str, Any]:
        """`python -m probes policer` in the near and far namespaces; repeated where it cannot tell."""
        for _ in range(ATTEMPTS):
            command = (sys.executable, "-m", "probes", "policer")
            options = ("--key", str(self.key), "--json")
            with self.start("far", *command, "receive", NEAR, "--here", FAR, *options) as receiver:
                try:
                    sender = self.start("near", *command, "send", FAR, "--here", NEAR, *options)
                    out, err = sender.communicate(timeout=TEST_S)
                    assert sender.returncode == 0, err + out
                    assert receiver.wait(TEST_S) == 0
                finally:
                    receiver.kill()
            result: dict[str, Any] = json.loads(out)
            if result["verdict"] != "undetermined":
                return result
        return result


@pytest.fixture(scope="module")
def routed(tmp_path_factory) -> Iterator[Routed]:
    key = tmp_path_factory.mktemp("policer") / "key"
    key.write_text("k" * MIN_KEY_CHARS)
    path = Routed(f"pol{secrets.token_hex(2)}", key)
    with ExitStack() as undo:
        for place in ("near", "router", "far"):
            run("ip", "netns", "add", f"{path.prefix}-{place}")
            undo.callback(run, "ip", "netns", "delete", f"{path.prefix}-{place}")
            path.at(place, "ip", "link", "set", "lo", "up")
        for number, place in ((1, "near"), (2, "far")):
            run(
                "ip", "link", "add", "wan0", "netns", f"{path.prefix}-{place}", "type", "veth",
                "peer", "name", place, "netns", f"{path.prefix}-router",
            )  # fmt: skip
            for where, device, address in (("router", place, f"10.9.{number}.1"), (place, "wan0", f"10.9.{number}.2")):
                path.at(where, "ip", "address", "add", f"{address}/24", "dev", device)
                path.at(where, "ip", "link", "set", device, "up")
            path.at(place, "ip", "route", "add", "default", "via", f"10.9.{number}.1")
        path.at("router", "sysctl", "-q", "-w", "net.ipv4.ip_forward=1")
        yield path


def test_policer_with_rate_and_burst(routed):
    with routed.policed(10, 100_000):
        result = routed.measure()
    assert result["verdict"] == "policer", result
    assert result["sustained_bps"] == pytest.approx(10e6, rel=WITHIN), result
    assert result["burst_bytes"] == pytest.approx(1_250_000 + 100_000, rel=WITHIN), result


def test_shaper_with_rate_and_burst(routed):
    with routed.shaped(10, 100_000, queue_bytes=200_000):
        result = routed.measure()
    assert result["verdict"] == "shaper", result
    assert result["sustained_bps"] == pytest.approx(10e6, rel=WITHIN), result
    assert result["burst_bytes"] == pytest.approx(100_000, rel=WITHIN), result


def test_link_is_neither(routed):
    with routed.shaped(10, 2 * IP_BYTES, queue_bytes=100_000):
        result = routed.measure()
    assert result["verdict"] == "link", result
    assert result["sustained_bps"] == pytest.approx(10e6, rel=WITHIN), result
    assert result["burst_bytes"] is None


def test_plain_path_has_no_limit(routed):
    result = routed.measure()
    assert result["verdict"] == "no_limit", result
    assert result["received"] == result["sent"]
