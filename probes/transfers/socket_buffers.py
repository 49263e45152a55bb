"""Whether this system grants requested socket buffers.

The kernel silently cuts larger requests; iperf3 fails if the doubled buffer is still smaller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from probes.transfers.hosts.inventory import read_sysctls

LIMITS = ("net.core.rmem_max", "net.core.wmem_max")
DOUBLED = 2


def too_small(window_bytes: int | None, sysctls: Mapping[str, str]) -> dict[str, int]:
    """The limits below the requested buffer, by sysctl."""
    if window_bytes is None:
        return {}
    limits = {name: int(sysctls[name]) for name in LIMITS if sysctls.get(name, "").isdigit()}
    return {name: limit for name, limit in limits.items() if limit < window_bytes}


def fix_text(window_bytes: int, limits: Mapping[str, int]) -> str:
    return "; ".join(f"sysctl -w {name}={window_bytes}" for name in limits)


def fault_text(window_bytes: int, limits: Mapping[str, int]) -> str:
    listed = " and ".join(f"{name} = {limit}" for name, limit in limits.items())
    return f"window_bytes = {window_bytes} is more than {listed} of this host"


def refusal(window_bytes: int | None, sysctls: Mapping[str, str] | None = None) -> str | None:
    """Why iperf3 could not run here, with the fix, or None."""
    found = read_sysctls(LIMITS) if sysctls is None else sysctls
    limits = too_small(window_bytes, found)
    if window_bytes is None or not any(DOUBLED * limit < window_bytes for limit in limits.values()):
        return None
    return f"{fault_text(window_bytes, limits)}: {fix_text(window_bytes, limits)}"


def largest(windows_bytes: Sequence[int | None]) -> int | None:
    return max((window for window in windows_bytes if window is not None), default=None)
