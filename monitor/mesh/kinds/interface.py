"""Interface counters in mesh.toml and plans."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from monitor.mesh.document import addresses
from monitor.mesh.document.entries import TestKeys, TestName
from monitor.mesh.kinds.kind import MeshKind, task_maker
from probes.interface.kind import KIND as INTERFACE
from probes.interface.spec import USUAL_PERIOD_S, InterfaceSpec, InterfaceTask
from probes.toml.keys import Text, check, meaning
from probes.toml.tables import Table


def _fault_of_router(address: str | None) -> str | None:
    return None if address is None else addresses.fault(address)


class InterfaceEntry(TestKeys, frozen=True, tag="interface"):
    """Use of the interface that each path leaves by, from the counters of its source's kernel, or of a router.

    Each source's agent polls the router over SNMP, with credentials and permission in its limits.toml.
    """

    name: TestName
    every_s: Annotated[int, Meta(ge=10, le=300), meaning("Interval between readings.")] = USUAL_PERIOD_S
    router: Annotated[
        Text | None,
        check(_fault_of_router),
        meaning("Address of a router to poll. Default: the source's own counters."),
    ] = None
    interface: Annotated[
        Text | None, meaning('Interface of the router: its ifName or ifAlias, or "#" and its ifIndex.')
    ] = None
    capacity_bps: (
        Annotated[float, Meta(gt=0, le=1e15), meaning("Capacity of the link. Default: the speed of the interface.")]
        | None
    ) = None

    @property
    def parameters(self) -> dict[str, object]:
        """Fields of `probes.interface.spec.InterfaceSpec` without targets, and the capacity."""
        return {"router": self.router, "interface": self.interface, "capacity_bps": self.capacity_bps}


def _check_table(table: Table) -> None:
    router, interface = table.values.get("router"), table.values.get("interface")
    if router is not None and interface is None:
        table.problem('router needs interface; write interface = "…" (its ifName or ifAlias)', "router")
    if interface is not None and router is None:
        table.problem("interface is that of a router; add router, or remove it", "interface")
    if isinstance(interface, str) and interface.startswith("#") and not interface[1:].isdigit():
        table.problem(f'interface = "{interface}" is not an ifIndex; write "#12"', "interface")


KIND = MeshKind(
    kind=INTERFACE,
    entry=InterfaceEntry,
    check_table=_check_table,
    table="interface_result",
    result_bytes=lambda parameters: 250,
    task=task_maker(InterfaceTask, InterfaceSpec),
)
