"""The fields of a host's inventory: settings of its network interface, processor and TCP. None is not known.

An inventory has no figure that changes from test to test, so that the archive stores equal inventories once. The
kernel's cached metrics of the peer (`TcpMetrics`) do change and are stored with each test.
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
    """Settings of a host that limit its transfers, read before a test.

    `interface` and the fields after it are of the interface that the route to the peer leaves by. `offloads` are those
    of `ethtool -k`, by its names. `sysctls` are values of `hosts.inventory.SYSCTLS` by their names, numbers of one
    value separated by a space.
    """

    kernel: SettingText | None = None
    cpu_model: SettingText | None = None
    cpus: PositiveCount | None = None
    cpu_governor: SettingText | None = None
    interface: SettingName | None = None
    driver: SettingName | None = None
    speed_bps: Amount | None = None
    mtu_bytes: PositiveCount | None = None
    queue_discipline: SettingName | None = None
    tx_queue_packets: Count | None = None
    rx_ring_packets: Count | None = None
    tx_ring_packets: Count | None = None
    offloads: Annotated[dict[SettingName, bool], Meta(max_length=MAX_SETTINGS)] = {}
    sysctls: Annotated[dict[SettingName, SettingText], Meta(max_length=MAX_SETTINGS)] = {}


class CoreLoad(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A CPU core while the streams were active, by /proc/stat: shares of the time in which it was busy (steal time of
    a virtual machine included), and of that in software interrupts, which process the network's packets."""

    number: Count
    busy_ratio: Ratio
    softirq_ratio: Ratio


class HostLoad(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Load of a host while the streams were active. `tool_core` is the core on which the tool's busiest thread was seen
    most, `tool_ratio` the share of the time in which that thread ran. `queue_drops` are packets dropped by the queue
    disciplines of the interface to the peer."""

    cores: Annotated[tuple[CoreLoad, ...], Meta(max_length=MAX_CORES)] = ()
    tool_core: Count | None = None
    tool_ratio: Amount | None = None
    queue_drops: LargeCount | None = None


class TcpMetrics(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The kernel's cached metrics of the peer before a test (`ip tcp_metrics`): a new connection starts with its slow
    start threshold and RTT. `age_s` is the time since they were updated."""

    age_s: Amount | None = None
    cwnd_segments: Count | None = None
    ssthresh_segments: Count | None = None
    rtt_ms: Amount | None = None
    rtt_variation_ms: Amount | None = None
    reordering: Count | None = None
