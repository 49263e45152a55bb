"""Messages of a host's inventory. None is unknown.

Nothing in it changes from test to test, so that equal inventories are stored once.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from probes.bounds import NO_NUL, Amount, Count, LargeCount, PositiveCount, Ratio

MAX_SETTINGS = 64
MAX_CORES = 1024

SettingName = Annotated[str, Meta(max_length=64, pattern=NO_NUL)]
SettingText = Annotated[str, Meta(max_length=200, pattern=NO_NUL)]


class HostInventory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Settings of a host that limit its transfers, read before a test."""

    kernel: SettingText | None = None
    cpu_model: SettingText | None = None
    cpus: PositiveCount | None = None
    cpu_governor: SettingText | None = None
    interface: SettingName | None = None  # of the route to the peer, as the fields after it
    driver: SettingName | None = None
    speed_bps: Amount | None = None
    mtu_bytes: PositiveCount | None = None
    queue_discipline: SettingName | None = None
    tx_queue_packets: Count | None = None
    rx_ring_packets: Count | None = None
    tx_ring_packets: Count | None = None
    offloads: Annotated[dict[SettingName, bool], Meta(max_length=MAX_SETTINGS)] = {}  # as `ethtool -k` names them
    # by name, with a value's numbers separated by a space
    sysctls: Annotated[dict[SettingName, SettingText], Meta(max_length=MAX_SETTINGS)] = {}


class CoreLoad(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A CPU core while the streams were active, by /proc/stat."""

    number: Count
    busy_ratio: Ratio  # steal time included
    softirq_ratio: Ratio  # in software interrupts, which process network packets


class HostLoad(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Load of a host while the streams were active."""

    cores: Annotated[tuple[CoreLoad, ...], Meta(max_length=MAX_CORES)] = ()
    tool_core: Count | None = None  # usual core of the tool's busiest thread
    tool_ratio: Amount | None = None  # share of time in which that thread ran
    queue_drops: LargeCount | None = None  # by queue disciplines of the interface to the peer


class TcpMetrics(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Cached metrics of the peer before a test (`ip tcp_metrics`), with which connections start."""

    age_s: Amount | None = None  # since their update
    cwnd_segments: Count | None = None
    ssthresh_segments: Count | None = None
    rtt_ms: Amount | None = None
    rtt_variation_ms: Amount | None = None
    reordering: Count | None = None
