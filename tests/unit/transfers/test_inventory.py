"""The inventory of a host: what the system does not provide is absent, figures keep their units."""

import struct

import pytest

from monitor.archive.queries.throughput.inventories import settings_of
from monitor.web.pages.path.hosts import setting_text
from probes.transfers.hosts import interface, inventory
from probes.transfers.hosts.spec import HostInventory, TcpMetrics

TWO_SOURCES = """\
192.0.2.7 age 12.500sec ssthresh 44 cwnd 22 rtt 151.2ms rttvar 900us source 198.51.100.1
192.0.2.7 age 3sec cwnd 10 rtt 1.5s rttvar 2ms reordering 5 source 198.51.100.2
"""


def test_metrics_are_those_of_our_address():
    metrics = inventory.parse_tcp_metrics(TWO_SOURCES, "198.51.100.2")

    assert metrics == TcpMetrics(age_s=3.0, cwnd_segments=10, rtt_ms=1500.0, rtt_variation_ms=2.0, reordering=5)


def test_metrics_without_an_own_entry_are_the_first():
    metrics = inventory.parse_tcp_metrics(TWO_SOURCES, "203.0.113.9")

    assert metrics == TcpMetrics(age_s=12.5, cwnd_segments=22, ssthresh_segments=44, rtt_ms=151.2, rtt_variation_ms=0.9)


def test_a_peer_without_cached_metrics_has_none():
    assert inventory.parse_tcp_metrics("", None) is None


def test_absent_sysctls_are_left_out(tmp_path):
    (tmp_path / "net/ipv4").mkdir(parents=True)
    (tmp_path / "net/ipv4/tcp_rmem").write_text("4096\t131072\t6291456\n")

    assert inventory.read_sysctls(root=tmp_path) == {"net.ipv4.tcp_rmem": "4096 131072 6291456"}


def test_without_the_tools_an_inventory_has_no_interface(monkeypatch, tmp_path):
    monkeypatch.setattr(inventory, "_ip", lambda *arguments: None)

    read = inventory.read_inventory("192.0.2.1")

    assert (read.interface, read.driver, read.mtu_bytes, read.offloads) == (None, None, None, {})
    assert inventory.read_tcp_metrics("192.0.2.1") is None


@pytest.mark.parametrize(
    ("megabits", "speed_bps"),
    [(100, 100e6), (10_000, 10e9), (100_000, 100e9), (0xFFFFFFFF, None), (0xFFFF, None), (0, None)],
)
def test_the_speed_is_read_from_both_halves(megabits, speed_bps):
    """ethtool_cmd: u32 cmd, supported, advertising; u16 speed; 8 octets; u32 maxtxpkt, maxrxpkt; u16 speed_hi."""
    settings = struct.pack("=IIIH8xIIxxH12x", 1, 0, 0, megabits & 0xFFFF, 0, 0, 0)
    settings = (
        settings[:12] + struct.pack("=H", megabits & 0xFFFF) + settings[14:28] + struct.pack("=H", megabits >> 16)
    )

    assert interface._speed_bps(settings.ljust(44, b"\0")) == speed_bps


def test_an_interface_that_does_not_exist_has_no_settings():
    read = interface.read_settings("no-such-dev0")

    assert (read.driver, read.speed_bps, read.offloads, read.rx_ring_packets) == (None, None, {}, None)


def test_settings_are_flat_and_lack_the_unknown():
    host = HostInventory(
        cpus=8, speed_bps=1e10, offloads={"lro": False, "gro": True}, sysctls={"net.core.rmem_max": "6291456"}
    )

    assert settings_of(host) == {
        "cpus": "8",
        "speed_bps": "10000000000",
        "gro": "on",
        "lro": "off",
        "net.core.rmem_max": "6291456",
    }


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("net.core.rmem_max", "64000000", "64 MB"),
        ("net.ipv4.tcp_rmem", "4096 131072 6291456", "4.1 kB 131 kB 6.29 MB"),
        ("net.ipv4.tcp_mem", "190000 256000 380000", "190000 256000 380000"),
        ("speed_bps", "10000000000", "10 Gbit/s"),
        ("mtu_bytes", "9000", "9,000 bytes"),
        ("driver", "mlx5_core", "mlx5_core"),
        ("driver", None, "–"),
    ],
)
def test_a_setting_is_shown_with_its_unit(name, value, text):
    assert setting_text(name, value) == text
