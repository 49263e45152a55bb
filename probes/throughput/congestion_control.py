"""Which congestion control a TCP socket of this host may have, as its kernel answers.

The list in /proc is no answer: a module may be loaded when it is asked for, and what is there may be kept for root.
"""

from __future__ import annotations

import socket
from pathlib import Path

from probes.contract import Outcome, ProbeError

AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
ALLOWED = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")


def check(name: str | None) -> None:
    """Whether we may send with it; None is the kernel's own choice. Raises `ProbeError` with the mend."""
    option = getattr(socket, "TCP_CONGESTION", None)  # Linux and FreeBSD
    if name is None or option is None:
        return
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as asked:
            asked.setsockopt(socket.IPPROTO_TCP, option, name.encode())
    except PermissionError:
        raise ProbeError(
            f"this host lets only root use the congestion control {name}, and others {_listed(ALLOWED)}: "
            f"add it to net.ipv4.{ALLOWED.name}, or choose another",
            outcome=Outcome.NOT_PERMITTED,
            permanent=True,
        ) from None
    except OSError:
        raise ProbeError(
            f"this host's kernel has no congestion control {name}, but {_listed(AVAILABLE)}: choose one of these, "
            f"or load its module (modprobe tcp_{name})",
            permanent=True,
        ) from None


def _listed(path: Path) -> str:
    try:
        return ", ".join(sorted(path.read_text().split()))
    except OSError:
        return "others"
