"""Reads this host's inventory and cached TCP metrics in about 10 ms, without privilege.

Missing values are None or left out.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from probes.transfers.hosts.interface import read_settings
from probes.transfers.hosts.spec import HostInventory, TcpMetrics

PROC_SYS = Path("/proc/sys")
CPU_INFO = Path("/proc/cpuinfo")
GOVERNORS = Path("/sys/devices/system/cpu")
IP_TIMEOUT_S = 2.0
MAX_TEXT = 200

CORE_SYSCTLS = (
    "rmem_max",
    "wmem_max",
    "rmem_default",
    "wmem_default",
    "default_qdisc",
    "netdev_max_backlog",
    "netdev_budget",
)
TCP_SYSCTLS = (
    "rmem",
    "wmem",
    "mem",
    "congestion_control",
    "timestamps",
    "sack",
    "dsack",
    "window_scaling",
    "moderate_rcvbuf",
    "adv_win_scale",
    "mtu_probing",
    "base_mss",
    "ecn",
    "no_metrics_save",
    "slow_start_after_idle",
    "limit_output_bytes",
    "notsent_lowat",
)
# Sysctls of an inventory; net.ipv4.tcp applies to IPv6 too.
SYSCTLS = (*(f"net.core.{name}" for name in CORE_SYSCTLS), *(f"net.ipv4.tcp_{name}" for name in TCP_SYSCTLS))

UNITS_MS = {"s": 1000.0, "sec": 1000.0, "ms": 1.0, "us": 0.001}


def read_inventory(peer: str | None) -> HostInventory:
    """Read the inventory, with the interface to `peer` if known."""
    interface = None if peer is None else interface_to(peer)
    settings = None if interface is None else read_settings(interface)
    link = {} if interface is None else _first(_ip_json("link", "show", "dev", interface))
    return HostInventory(
        kernel=platform.release()[:MAX_TEXT] or None,
        cpu_model=_cpu_model(),
        cpus=os.cpu_count(),
        cpu_governor=_governor(),
        interface=interface,
        driver=None if settings is None else settings.driver,
        speed_bps=None if settings is None else settings.speed_bps,
        mtu_bytes=link.get("mtu"),
        queue_discipline=link.get("qdisc"),
        tx_queue_packets=link.get("txqlen"),
        rx_ring_packets=None if settings is None else settings.rx_ring_packets,
        tx_ring_packets=None if settings is None else settings.tx_ring_packets,
        offloads={} if settings is None else settings.offloads,
        sysctls=read_sysctls(),
    )


def interface_to(peer: str) -> str | None:
    """Interface of the route; None without route or `ip`."""
    name = _first(_ip_json("route", "get", peer)).get("dev")
    return name if isinstance(name, str) else None


def queue_drops(interface: str) -> int | None:
    """Packets dropped by queue disciplines so far; None without `tc`."""
    text = _run("tc", "-s", "-j", "qdisc", "show", "dev", interface)
    try:
        rows = msgspec.json.decode(text or "")
    except msgspec.DecodeError:
        return None
    # A discipline counts the drops of those below it.
    drops = [row["drops"] for row in rows if isinstance(row, dict) and row.get("root") and "drops" in row]
    return int(sum(drops)) if drops else None


def read_sysctls(names: Iterable[str] = SYSCTLS, root: Path = PROC_SYS) -> dict[str, str]:
    values = {}
    for name in names:
        with contextlib.suppress(OSError):
            values[name] = " ".join((root / name.replace(".", "/")).read_text().split())[:MAX_TEXT]
    return values


def read_tcp_metrics(peer: str, source: str | None = None) -> TcpMetrics | None:
    """Cached metrics of `peer`, from `source` if given, or None."""
    text = _ip("tcp_metrics", "show", peer)
    return None if text is None else parse_tcp_metrics(text, source)


def parse_tcp_metrics(text: str, source: str | None = None) -> TcpMetrics | None:
    """Parse the entry of `source`, else the first, of `ip tcp_metrics show ADDRESS`."""
    lines = [line for line in text.splitlines() if line.strip()]
    of_source = [line for line in lines if source is not None and line.rstrip().endswith(f"source {source}")]
    line = next(iter(of_source or lines), None)
    if line is None:
        return None
    return TcpMetrics(
        age_s=_seconds(line, "age"),
        cwnd_segments=_whole(line, "cwnd"),
        ssthresh_segments=_whole(line, "ssthresh"),
        rtt_ms=_milliseconds(line, "rtt"),
        rtt_variation_ms=_milliseconds(line, "rttvar"),
        reordering=_whole(line, "reordering"),
    )


def _whole(line: str, name: str) -> int | None:
    match = re.search(rf"\b{name} (\d+)\b", line)
    return int(match[1]) if match else None


def _milliseconds(line: str, name: str) -> float | None:
    match = re.search(rf"\b{name} ([\d.]+)(us|ms|sec|s)\b", line)
    return round(float(match[1]) * UNITS_MS[match[2]], 6) if match else None


def _seconds(line: str, name: str) -> float | None:
    milliseconds = _milliseconds(line, name)
    return None if milliseconds is None else milliseconds / 1000.0


def _cpu_model() -> str | None:
    with contextlib.suppress(OSError):
        match = re.search(r"^model name\s*:\s*(.+)$", CPU_INFO.read_text(errors="replace"), re.MULTILINE)
        return match[1].strip()[:MAX_TEXT] if match else None
    return None


def _governor() -> str | None:
    names = set()
    for path in GOVERNORS.glob("cpu[0-9]*/cpufreq/scaling_governor"):
        with contextlib.suppress(OSError):
            names.add(path.read_text().strip())
    return ", ".join(sorted(names))[:MAX_TEXT] or None


def _ip_json(*arguments: str) -> Any:
    text = _ip("-j", *arguments)
    try:
        return None if text is None else msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None


def _first(rows: Any) -> dict[str, Any]:
    return rows[0] if isinstance(rows, list) and rows and isinstance(rows[0], dict) else {}


def _ip(*arguments: str) -> str | None:
    return _run("ip", *arguments)


def _run(*command: str) -> str | None:
    environment = {**os.environ, "PATH": f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"}
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=IP_TIMEOUT_S,
            check=False,
            env=environment,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
