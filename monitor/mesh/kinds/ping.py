"""Ping tests in mesh.toml and plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from monitor.mesh.document.entries import TestKeys, TestName
from monitor.mesh.kinds.kind import CyclePeriodS, Length, MeshKind, PacketDscp, task_maker
from probes.packets.spec import Pattern, PingSpec
from probes.ping.kind import KIND as PING
from probes.ping.spec import PingTask
from probes.toml.keys import DISTINCT, NOT_EMPTY, meaning
from probes.toml.tables import Table

# Size of the priming request, as in PingER.
PRIMING_BYTES = 56
# Row of a burst without its RTTs, indexes included.
BURST_BYTES = 192
RTT_BYTES = 4
MIN_SPACING_S = 0.01
# The result of an even cycle is complete only at the end of its period.
LONGEST_EVEN_S = 600


# The key `pattern` of tests with bursts as results.
CyclePattern = Annotated[
    Pattern,
    meaning(
        '"burst" sends the requests of a cycle in a row at its beginning, as PingER does; "even" spreads them over '
        "the period, with jitter, so that no outage falls into a pause."
    ),
]


class PingEntry(TestKeys, frozen=True, tag="ping"):
    """Bursts of echo requests, from the source in cycles."""

    name: TestName
    every_s: CyclePeriodS
    count: Annotated[int, Meta(ge=1, le=1000), meaning("Echo requests per cycle and packet size.")] = 10
    packet_bytes: Annotated[
        tuple[Annotated[int, Meta(ge=16, le=65_000)], ...],
        NOT_EMPTY,
        DISTINCT,
        meaning("Sizes of the ICMP payload."),
    ] = (100, 1000)
    pattern: CyclePattern = "burst"
    spacing_s: Annotated[
        float,
        Meta(ge=0.01, le=60),
        meaning('Interval between requests to the same address. With pattern = "even" it follows from the period.'),
    ] = 1.0
    timeout_s: Annotated[float, Meta(ge=0.1, le=60), meaning("Time after which a request without a reply is lost.")] = (
        2.0
    )
    priming: Annotated[
        bool, meaning("Send a request before the counted ones; it is not counted (PingER's priming).")
    ] = True
    dont_fragment: Annotated[bool, meaning("Set the don't-fragment bit, to detect the path MTU.")] = False
    dscp: PacketDscp = 0

    @property
    def parameters(self) -> dict[str, object]:
        """Fields of the `probes.packets.spec.PingSpec` without the targets."""
        is_even = self.pattern == "even"
        return {
            "packet_bytes": list(self.packet_bytes),
            "count": self.count,
            "spacing_s": self.every_s / (self.count * len(self.packet_bytes)) if is_even else self.spacing_s,
            "timeout_s": self.timeout_s,
            "priming_bytes": PRIMING_BYTES if self.priming and not is_even else None,
            "dont_fragment": self.dont_fragment,
            **({"pattern": self.pattern} if is_even else {}),
            **({"dscp": self.dscp} if self.dscp else {}),
        }


def _check_table(table: Table) -> None:
    check_even(table, ("spacing_s", "priming"))


def check_even(table: Table, burst_keys: Sequence[str]) -> None:
    """Report burst keys and long periods in an even test."""
    if table.get("pattern") != "even":
        return
    for key in burst_keys:
        if table.has(key):
            table.problem(f'{key} is for bursts; remove it, or write pattern = "burst"', key)
    every_s = table.get("every_s") if table.has("every_s") else None
    if every_s is not None and every_s > LONGEST_EVEN_S:
        table.problem(
            f"an even cycle is delivered when its period is over, and every_s = {every_s} would delay alerts; "
            f'write every_s = {LONGEST_EVEN_S} or less, or pattern = "burst"',
            "every_s",
        )


def _length(test: PingEntry) -> Length:
    if test.pattern == "even":
        return _length_of_even(test)
    spec = msgspec.convert({**test.parameters, "targets": []}, PingSpec)
    priming = f" + {spec.spacing_s:g} s for priming" if test.priming else ""
    reason = (
        f"{len(spec.packet_bytes)} sizes × {spec.count} × {spec.spacing_s:g} s{priming} + "
        f"{spec.timeout_s:g} s timeout + {spec.late_s:g} s for late replies"
    )
    return Length(round(spec.duration_s, 6), reason)


def _length_of_even(test: PingEntry) -> Length:
    spec = msgspec.convert({**test.parameters, "targets": []}, PingSpec)
    least_s = test.count * len(test.packet_bytes) * MIN_SPACING_S
    answers_s = spec.timeout_s + spec.late_s
    if least_s > answers_s:
        return Length(
            round(least_s, 6),
            f"{len(spec.packet_bytes)} sizes × {spec.count} × at least {MIN_SPACING_S:g} s between requests",
        )
    return Length(
        round(answers_s, 6), f"{spec.timeout_s:g} s timeout + {spec.late_s:g} s for late replies of the cycle before"
    )


def _result_bytes(parameters: Mapping[str, Any]) -> int:
    """Bytes of a burst of each size, as in `tests.bench`."""
    return len(parameters["packet_bytes"]) * (BURST_BYTES + RTT_BYTES * int(parameters["count"]))


KIND = MeshKind(
    kind=PING,
    entry=PingEntry,
    check_table=_check_table,
    table="burst",
    result_bytes=_result_bytes,
    length=_length,
    identified_by_size=True,
    task=task_maker(PingTask, PingSpec),
)
