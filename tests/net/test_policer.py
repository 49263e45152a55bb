"""The policer test over policers and shapers of the kernel: near, router and far are namespaces.

The router polices UDP by a rule of nftables (`limit rate over … burst … drop`), which counts IP packets and whose
bucket holds the bytes of a second beside the burst (nft_limit.c), or shapes by a token bucket filter (TBF), which
counts the Ethernet header as well. Figures are expected within 10% of the planted; on a busy machine the test may not
tell, and is repeated.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from probes.contract import Deadline
from probes.policer.spec import IP_BYTES
from probes.transfers.two_ends import MIN_KEY_CHARS
from tests.net.three_namespaces import FAR, NEAR, ThreeNamespaces, three_namespaces

ETHERNET_BYTES = 14
WITHIN = 0.1
RETRY_S = 120.0
TEST_S = 120.0


@dataclass(frozen=True)
class Routed(ThreeNamespaces):
    """Three namespaces, and the file of the key."""

    key: Path

    def policed(self, mbps: float, burst_bytes: int) -> AbstractContextManager[None]:
        """UDP above the rate is dropped on the router, behind the burst and a second's bytes."""
        return self._dropping(f"{round(mbps * 125_000)} bytes/second burst {burst_bytes} bytes")

    def policed_by_packets(self, mbps: float, packets: int) -> AbstractContextManager[None]:
        """As `policed`, in packets of the test, whose bucket has the burst alone."""
        return self._dropping(f"{round(mbps * 125_000 / IP_BYTES)}/second burst {packets} packets")

    @contextmanager
    def _dropping(self, limit: str) -> Iterator[None]:
        rate = f"limit rate over {limit} drop"
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
        deadline = Deadline(RETRY_S)
        while True:
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
            if result["verdict"] != "undetermined" or deadline.passed:
                return result


@pytest.fixture(scope="module")
def routed(tmp_path_factory) -> Iterator[Routed]:
    key = tmp_path_factory.mktemp("policer") / "key"
    key.write_text("k" * MIN_KEY_CHARS)
    with three_namespaces() as path:
        yield Routed(path.prefix, key)


def test_policer_with_rate_and_burst(routed):
    with routed.policed(10, 100_000):
        result = routed.measure()
    assert result["verdict"] == "policer", result
    assert result["sustained_bps"] == pytest.approx(10e6, rel=WITHIN), result
    assert result["burst_bytes"] == pytest.approx(1_250_000 + 100_000, rel=WITHIN), result


@pytest.mark.parametrize("packets", [70, 350])
def test_policer_of_50_mbps_with_rate_and_burst(routed, packets):
    with routed.policed_by_packets(50, packets):
        result = routed.measure()
    assert result["verdict"] == "policer", result
    assert result["sustained_bps"] == pytest.approx(50e6, rel=WITHIN), result
    assert result["burst_bytes"] == pytest.approx(packets * IP_BYTES, rel=WITHIN), result


def test_shaper_of_50_mbps_with_rate_and_burst(routed):
    with routed.shaped(50, 200_000, queue_bytes=1_000_000):
        result = routed.measure()
    assert result["verdict"] == "shaper", result
    assert result["sustained_bps"] == pytest.approx(50e6, rel=WITHIN), result
    assert result["burst_bytes"] == pytest.approx(200_000, rel=WITHIN), result


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
