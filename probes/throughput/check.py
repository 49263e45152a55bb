"""Check for `site doctor`: the port of the iperf3 server that is offered to others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from probes.contract import CheckResult
from probes.quantities import counted
from probes.throughput.limits import Iperf3ServerLimits
from probes.throughput.spec import ThroughputSlot


def check_offered_server(offer: Iperf3ServerLimits, slots: Sequence[ThroughputSlot]) -> Iterator[CheckResult]:
    """Check that no test of the plan listens on the server's port, if it is offered to anybody."""
    if not offer.clients:
        return
    if any(slot.role == "server" and offer.port in slot.spec.ports for slot in slots):
        fix = "name another port as iperf3_server.port in limits.toml, or in the test of mesh.toml"
        yield CheckResult(check="iperf3 server", detail=f"port {offer.port} is also that of a planned test", fix=fix)
        return
    networks = counted(len(offer.clients), "network")
    yield CheckResult(check="iperf3 server", detail=f"offered to {networks} on port {offer.port}")
