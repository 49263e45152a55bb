"""Check for `site doctor`: whether the plan's packets fit the known path MTU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from probes.contract import CheckResult
from probes.packets.addresses import path_mtu_bytes
from probes.packets.icmp.icmp_errors import HEADER_BYTES
from probes.packets.resolve import Name, resolved
from probes.ping.spec import PingTask

# IPv6's minimum link MTU (RFC 8200, section 5); certificates and batches need larger packets than that.
MIN_MTU_BYTES = 1280


def check_mtu(tasks: Sequence[PingTask]) -> Iterator[CheckResult]:
    """Check the path MTU to each target."""
    sizes: dict[Name, int] = {}
    for task in tasks:
        for target in task.spec.targets:
            key: Name = (target.address, target.family)
            sizes[key] = max(sizes.get(key, 0), *task.spec.packet_bytes)
    good = 0
    for (name, family), address in resolved(sizes):
        mtu_bytes = path_mtu_bytes(address, family)
        wanted = max(MIN_MTU_BYTES, sizes[name, family] + HEADER_BYTES[family])
        if mtu_bytes is None or mtu_bytes >= wanted:
            good += 1
            continue
        yield CheckResult(
            check="MTU",
            detail=f"{name}: packets of {wanted} bytes do not fit the path MTU of {mtu_bytes}",
            fix="raise the MTU of the interface or tunnel, or ask for smaller packet_bytes in mesh.toml",
        )
    yield CheckResult(check="MTU", detail=f"large enough to {good} of {len(sizes)} targets, as far as the kernel knows")
