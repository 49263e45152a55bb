"""Checks whether a TCP socket may use a congestion control, by setting it.

The list in /proc is not enough: modules load on demand, and some are reserved for root.
"""

from __future__ import annotations

import socket
from pathlib import Path

from probes.contract import Outcome, ProbeError

AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
ALLOWED = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")


def check(name: str | None) -> None:
    """Check the name; None is the kernel's default. Raises `ProbeError`."""
    option = getattr(socket, "TCP_CONGESTION", None)  # Linux and FreeBSD
    if name is None or option is None:
        return
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as trial:
            trial.setsockopt(socket.IPPROTO_TCP, option, name.encode())
    except PermissionError:
        raise ProbeError(
            f"only root may use congestion control {name} on this host; allowed for other users: "
            f"{_read_names(ALLOWED)}; add it to net.ipv4.{ALLOWED.name}, or choose another",
            outcome=Outcome.NOT_PERMITTED,
            permanent=True,
        ) from None
    except OSError:
        raise ProbeError(
            f"this host's kernel has no congestion control {name}; available: {_read_names(AVAILABLE)}; choose one of "
            f"these, or load its module (modprobe tcp_{name})",
            permanent=True,
        ) from None


def _read_names(path: Path) -> str:
    try:
        return ", ".join(sorted(path.read_text().split()))
    except OSError:
        return "unknown"
