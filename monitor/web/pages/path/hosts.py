"""Hosts of a throughput test: settings side by side, and earlier changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from monitor.analysis import figures
from monitor.analysis.tcp import wording
from monitor.archive.queries.throughput.inventories import InventoryChange, settings_of
from monitor.archive.queries.throughput.transfers import StoredTransfer
from probes.transfers.hosts.spec import TcpMetrics

UNKNOWN = "–"

LABELS = {
    "cpu_model": "CPU model",
    "cpus": "CPUs",
    "cpu_governor": "CPU governor",
    "speed_bps": "link speed",
    "mtu_bytes": "MTU",
    "queue_discipline": "queue discipline",
    "tx_queue_packets": "transmit queue length",
    "rx_ring_packets": "receive ring",
    "tx_ring_packets": "transmit ring",
}
UNITS = {
    "mtu_bytes": "bytes",
    "tx_queue_packets": "packets",
    "rx_ring_packets": "packets",
    "tx_ring_packets": "packets",
}
# Name endings of sysctls with values in bytes.
BUFFERS = ("rmem", "wmem", "rmem_max", "wmem_max", "rmem_default", "wmem_default")


@dataclass(frozen=True, slots=True)
class ChangeRow:
    role: str
    setting: str
    before: str
    after: str
    since: datetime


@dataclass(frozen=True, slots=True)
class HostsView:
    """Settings of both hosts, in rows of name, sender, receiver."""

    rows: tuple[tuple[str, str, str], ...]
    differing: frozenset[str]  # names of settings that the two do not share
    changes: tuple[ChangeRow, ...]


def hosts_view(stored: StoredTransfer, changes: Sequence[InventoryChange]) -> HostsView | None:
    if stored.sender_inventory is None and stored.receiver_inventory is None:
        return None
    sender, receiver = (
        {} if inventory is None else settings_of(inventory)
        for inventory in (stored.sender_inventory, stored.receiver_inventory)
    )
    rows = [
        (LABELS.get(name, name), _or_unknown(name, sender), _or_unknown(name, receiver))
        for name in {**sender, **receiver}
    ]
    transfer = stored.transfer
    if transfer is not None and (transfer.sender_metrics or transfer.receiver_metrics):
        of_sender, of_receiver = _metrics(transfer.sender_metrics), _metrics(transfer.receiver_metrics)
        rows.append(("cached metrics of the peer", of_sender, of_receiver))
    return HostsView(
        rows=tuple(rows),
        differing=frozenset(label for label, of_sender, of_receiver in rows if of_sender != of_receiver),
        changes=tuple(
            ChangeRow(
                role=change.role,
                setting=LABELS.get(change.setting, change.setting),
                before=setting_text(change.setting, change.before),
                after=setting_text(change.setting, change.after),
                since=change.at,
            )
            for change in changes
        ),
    )


def setting_text(name: str, value: str | None) -> str:
    """Value with unit: 6.29 MB, 10 Gbit/s, 1,500 bytes."""
    if value is None:
        return UNKNOWN
    if name.startswith("net.") and name.removeprefix("net.core.").removeprefix("net.ipv4.tcp_") in BUFFERS:
        return " ".join(wording.size(float(part)) if part.isdigit() else part for part in value.split())
    if name == "speed_bps":
        return figures.bit_rate(float(value))
    return f"{figures.count(int(value))} {UNITS[name]}" if name in UNITS else value


def _or_unknown(name: str, settings: dict[str, str]) -> str:
    """A setting, with units unless it is a sysctl."""
    value = settings.get(name, UNKNOWN)
    # Sysctls stay as they are, to compare and copy.
    return value if name.startswith("net.") or value == UNKNOWN else setting_text(name, value)


def _metrics(metrics: TcpMetrics | None) -> str:
    if metrics is None:
        return UNKNOWN
    parts = [
        "" if metrics.rtt_ms is None else f"RTT {figures.milliseconds(metrics.rtt_ms)}",
        "" if metrics.cwnd_segments is None else f"window {figures.count(metrics.cwnd_segments)} segments",
        ""
        if metrics.ssthresh_segments is None
        else f"slow start threshold {figures.count(metrics.ssthresh_segments)} segments",
        "" if metrics.age_s is None else f"{figures.duration(metrics.age_s)} old",
    ]
    return ", ".join(part for part in parts if part) or UNKNOWN
