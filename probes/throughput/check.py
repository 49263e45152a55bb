"""Checks for `site doctor`: the offered iperf3 server's port, and planned socket buffers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from probes.contract import CheckResult
from probes.quantities import counted
from probes.throughput.limits import Iperf3ServerLimits
from probes.throughput.spec import ThroughputSlot
from probes.transfers.hosts.inventory import read_sysctls
from probes.transfers.socket_buffers import LIMITS, fault_text, fix_text, largest, too_small


def check_offered_server(offer: Iperf3ServerLimits, slots: Sequence[ThroughputSlot]) -> Iterator[CheckResult]:
    if not offer.clients:
        return
    if any(slot.role == "server" and offer.port in slot.spec.ports for slot in slots):
        fix = "name another port as iperf3_server.port in limits.toml, or in the test of mesh.toml"
        yield CheckResult(check="iperf3 server", detail=f"port {offer.port} is also that of a planned test", fix=fix)
        return
    networks = counted(len(offer.clients), "network")
    yield CheckResult(check="iperf3 server", detail=f"offered to {networks} on port {offer.port}")


def check_socket_buffers(
    slots: Sequence[ThroughputSlot], sysctls: Mapping[str, str] | None = None
) -> Iterator[CheckResult]:
    window_bytes = largest([slot.spec.window_bytes for slot in slots])
    if window_bytes is None:
        return
    limits = too_small(window_bytes, read_sysctls(LIMITS) if sysctls is None else sysctls)
    if limits:
        fix = (
            f"{fix_text(window_bytes, limits)}, and keep them in /etc/sysctl.d, or a smaller window_bytes in mesh.toml"
        )
        yield CheckResult(check="socket buffers", detail=fault_text(window_bytes, limits), fix=fix)
    else:
        yield CheckResult(check="socket buffers", detail=f"tests may set {window_bytes} bytes")
