"""A likely cause as it is stated: the kind of fault, a sentence, its direction, and the next step."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from monitor.alerts.evidence.facts import RouterErrors
from probes.packets.spec import UNCOUNTED
from probes.quantities import counted

BY_TESTS = "TCP tests"
BY_STAMP = "STAMP"


class Fault(StrEnum):
    """Kinds of faults that a likely cause names."""

    CENTRE = "centre"
    AGENT_SILENT = "agent silent"
    AGENT = "agent"
    CLOCK = "clock"
    TESTS_FAIL = "tests fail"
    SITE_DOWN = "site down"
    ADDRESS = "address"
    INTERRUPTED = "interrupted"
    LOSS = "loss"
    LARGE_PACKETS = "large packets"
    MTU = "mtu"
    ROUTE = "route"
    QUEUE = "queue"
    RATE = "rate"
    POLICER = "policer"
    USUAL = "usual"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class LikelyCause:
    fault: Fault
    sentence: str
    next_step: str = ""  # check first
    # direction of affected packets, if known by `toward_by`; a site's other end is empty
    toward: tuple[str, str] | None = None
    toward_by: str = BY_TESTS

    @property
    def direction_name(self) -> str:
        """The name of a place for the direction of a loss or one-way delay step; empty if unknown."""
        if self.toward is None or not (self.fault is Fault.LOSS or self.toward_by == BY_STAMP):
            return ""
        source, destination = self.toward
        if source and destination:
            return f"{source} → {destination}"
        return f"{source} outbound" if source else f"{destination} inbound"

    @property
    def is_certain(self) -> bool:
        return self.fault is not Fault.UNKNOWN


def reported_by(error: RouterErrors, *, is_over: bool) -> LikelyCause:
    """The cause of an outage with ICMP errors from a router, or uncounted replies."""
    times, said = counted(error.count, "time"), error.name.replace("_", " ")
    if error.name in UNCOUNTED:
        return LikelyCause(
            Fault.INTERRUPTED,
            f"{error.router} replies to the pings, which does not count ({times}): {UNCOUNTED[error.name]}.",
            f"Write {error.router} into mesh.toml if it is an address of the same host; else find out who it is.",
        )
    verb, replies = ("was", "replied") if is_over else ("is", "replies")
    return LikelyCause(
        Fault.INTERRUPTED,
        f"The path {verb} interrupted at {error.router}, which {replies} {said} ({times}).",
        f"Report it to the operator of {error.router}.",
    )
