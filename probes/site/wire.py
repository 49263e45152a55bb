"""The messages between a site's agent and the centre, as typed structs: the definition for both ends.

    GET  /api/agent/plan      -> Plan    (ETag is Plan.version; If-None-Match gives 304)
    POST /api/agent/results   Batch -> Receipt, sent after the centre's commit
    POST /api/agent/on-demand-pings   OnDemandPingReport -> {}
    GET  /api/agent/enrol     -> Welcome
    POST /api/agent/enrol     EnrolmentRequest -> Enrolment

The first three carry `Authorization: Bearer TOKEN` and who the agent is (`probes.site.identity`), the others no token;
409 says that another agent holds the token. Each request says which version of this it speaks, each answer which ones
the centre does (`Soundings-Protocols: lowest=1, highest=1, lowest-until=2028-12-31`); 426 says that it is none of them.
Each answer has two headers with the centre's clock, when it took the request up and when it answered, in seconds since
the epoch. Bodies are JSON, a Batch may be MessagePack; requests may be packed by gzip or zstd. Times are aware, UTC.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, cast

import msgspec

from probes.bounds import (
    Count,
    LargeCount,
    Moment,
    PositiveCount,
    RttMs,
    SequenceNumber,
    ShortText,
    SmallCount,
    TestName,
    Text,
)
from probes.contract import CycleKind, CycleTask, Kind, Outcome, Result, Slot
from probes.kinds import CYCLE_KINDS, KINDS, SLOT_KINDS
from probes.quantities import counted
from probes.request_response.spec import AnsweringPlan
from probes.site.health import Health
from probes.stamp.spec import ReflectorPlan
from probes.trace.spec import TraceReason, TraceSpec

PROTOCOL = 2
"""The version of all that is here, raised by every change that an older end would misunderstand. Since 2, a batch may
have blocks."""
LOWEST_PROTOCOL = 1
"""The lowest version that an agent speaks, with a centre that has not told which ones it does."""
BLOCKS_SINCE = 2
PROTOCOL_HEADER = "Soundings-Protocol"
PROTOCOLS_HEADER = "Soundings-Protocols"
IDENTITY_HEADER = "Soundings-Agent"
RECEIVED_HEADER = "Soundings-Received-At"
SENT_HEADER = "Soundings-Sent-At"
ABILITIES_HEADER = "Soundings-Abilities"
"""On a request for the plan: the parts of a plan, separated by commas, that agents of the first versions do not
know."""
PLAN_HEADER = "Soundings-Plan"
"""On the answer to a delivery: the version of the site's plan. Without it the centre is older, or has to build the
plan to know: only a request for the plan tells."""
ON_DEMAND_PINGS = "on-demand-pings"
ON_DEMAND_TRACES = "on-demand-traces"
MOST_ON_DEMAND_PINGS = 100
GAPS_AT_ONCE = 500
"""In one batch."""


SLOTS = {kind.task.__struct_config__.tag: kind.task for kind in SLOT_KINDS}
"""The slots of each kind by the tag in their JSON; those of throughput tests have none, as before there were others."""


class _SlotTag(msgspec.Struct):
    kind: str | None = None


def read_slot(body: bytes) -> Slot:
    """Decode a slot. Raises `msgspec.DecodeError`."""
    tag = msgspec.json.decode(body, type=_SlotTag).kind
    if tag not in SLOTS:
        raise msgspec.ValidationError(f"slots of kind {tag} are not known")
    slot: Any = msgspec.json.decode(body, type=SLOTS[tag])
    return cast("Slot", slot)


class OnDemandPing(msgspec.Struct, frozen=True, kw_only=True):
    """Pings that a user asked for: `count` echo requests to the destination of a path, sent once, as soon as the agent
    reads this, and not after `begin_by` by the centre's clock. Their replies are reported while they arrive."""

    run_id: int
    path_id: int
    address: str
    family: Literal[4, 6]
    begin_by: Moment
    source: str | None = None
    count: int = 20
    spacing_s: float = 0.2
    timeout_s: float = 2.0
    packet_bytes: int = 100


class OnDemandPingReport(msgspec.Struct, frozen=True, kw_only=True):
    """The state of on-demand pings: `rtts_ms` has an entry for each request sent so far, None without a reply;
    `awaited` are the indices of those that may still be answered. `outcome` is None until all have an answer or have
    timed out. Each report replaces the one before."""

    run_id: LargeCount
    started_at: Moment
    rtts_ms: Annotated[tuple[RttMs | None, ...], msgspec.Meta(max_length=MOST_ON_DEMAND_PINGS)] = ()
    awaited: Annotated[tuple[SmallCount, ...], msgspec.Meta(max_length=MOST_ON_DEMAND_PINGS)] = ()
    outcome: Outcome | None = None
    detail: Text | None = None


class OnDemandTrace(msgspec.Struct, frozen=True, kw_only=True):
    """A trace that the centre asks for: run once, as soon as the agent reads this, and not after `begin_by` by the
    centre's clock. `spec` has one target, with the path; the result has this reason, and the test `on-demand`."""

    run_id: int
    reason: TraceReason
    begin_by: Moment
    spec: TraceSpec


class PlanOfKinds(msgspec.Struct, frozen=True, kw_only=True):
    """All measurements of a site. `version` is a digest of the rest. A `Plan` has a field for each kind as well;
    `on_demand_pings`, `on_demand_traces`, `stamp_reflector`, `request_response_server` and `destination_tests` are left
    out of the JSON while there are none, as before there were any. `destination_tests` are in whole seconds since the
    epoch, by the centre's clock."""

    version: str
    site: str
    mesh: str
    on_demand_pings: tuple[OnDemandPing, ...] | msgspec.UnsetType = msgspec.UNSET
    on_demand_traces: tuple[OnDemandTrace, ...] | msgspec.UnsetType = msgspec.UNSET
    stamp_reflector: ReflectorPlan | msgspec.UnsetType = msgspec.UNSET
    request_response_server: AnsweringPlan | msgspec.UnsetType = msgspec.UNSET
    destination_tests: dict[int, tuple[tuple[int, int], ...]] | msgspec.UnsetType = msgspec.UNSET

    @property
    def tests_at_destinations(self) -> dict[int, tuple[tuple[int, int], ...]]:
        """Begin and end of throughput tests between the destination of a path and other sites, by path."""
        return {} if isinstance(self.destination_tests, msgspec.UnsetType) else self.destination_tests

    @property
    def reflector(self) -> ReflectorPlan | None:
        """The STAMP reflector that this site is to run."""
        return None if isinstance(self.stamp_reflector, msgspec.UnsetType) else self.stamp_reflector

    @property
    def server(self) -> AnsweringPlan | None:
        """The request-response server that this site is to run."""
        return None if isinstance(self.request_response_server, msgspec.UnsetType) else self.request_response_server

    @property
    def pings_to_send(self) -> tuple[OnDemandPing, ...]:
        """The on-demand pings of this site."""
        return () if isinstance(self.on_demand_pings, msgspec.UnsetType) else self.on_demand_pings

    @property
    def traces_to_run(self) -> tuple[OnDemandTrace, ...]:
        """The on-demand traces of this site."""
        return () if isinstance(self.on_demand_traces, msgspec.UnsetType) else self.on_demand_traces

    def of(self, kind: Kind) -> tuple[Any, ...]:
        """The tasks, or slots, of a kind."""
        tasks: tuple[Any, ...] = getattr(self, kind.field)
        return tasks

    @property
    def slots(self) -> tuple[Slot, ...]:
        """All that is to begin at a time of its own."""
        return tuple(slot for kind in SLOT_KINDS for slot in self.of(kind))

    @property
    def contents(self) -> str:
        """The number of tests or slots of each kind, in words."""
        return ", ".join(_count(kind, self.of(kind)) for kind in KINDS.values())

    @property
    def cycles(self) -> Iterator[tuple[CycleKind, CycleTask]]:
        """All that is repeated, with its kind."""
        return ((kind, task) for kind in CYCLE_KINDS for task in self.of(kind))


def _count(kind: Kind, tasks: Sequence[Any]) -> str:
    if not isinstance(kind, CycleKind):
        return counted(len(tasks), f"{kind.name} slot")
    targets = sum(len(kind.targets(task)) for task in tasks)
    tests = counted(len(tasks), f"{kind.name} test")
    return tests if kind.one_at_a_time else f"{tests} with {counted(targets, 'target')}"


if TYPE_CHECKING:

    class Plan(PlanOfKinds, frozen=True, kw_only=True):
        def __init__(self, *, version: str, site: str, mesh: str, **tasks: tuple[Any, ...]) -> None: ...
        def __getattr__(self, field: str) -> tuple[Any, ...]: ...

else:
    Plan = msgspec.defstruct(
        "Plan",
        [(kind.field, tuple[kind.task, ...], ()) for kind in KINDS.values()],
        bases=(PlanOfKinds,),
        module=__name__,
        frozen=True,
        kw_only=True,
    )
    Result = Union[tuple(result for kind in KINDS.values() for result in kind.results)]  # noqa: UP007


class Delivered(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A result to be delivered. `sequence` is its number in the agent's spool; `during_test`: a throughput
    test ran on this host during the measurement, for a burst while all its packets were sent (agents that do not tell
    packets apart: any of them). `clock_off_s` is the offset of this site's clock from the centre's at that time, where
    it exceeded a second. `cycle` is that of the test which this is a result of, repeated every `every_s` seconds: the
    one that was to begin at `cycle * every_s` since the epoch, by the centre's clock. A throughput or disk-to-disk test
    has its slot instead."""

    sequence: SequenceNumber
    path_id: int
    test: TestName
    result: Result
    slot_id: int | None = None
    during_test: bool = False
    clock_off_s: float | None = None
    every_s: PositiveCount | None = None
    cycle: Count | None = None


class BurstBlock(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Measured bursts of a test as columns, to be delivered. `bursts` are records of `probes.packets.columns.RECORD`,
    `rtts_ns` the RTTs of all their requests, burst after burst, as little-endian integers of 64 bits, -1 where lost;
    the other columns have a text for each burst, or none at all. `first` is the sequence of the first burst, the others
    have the numbers after it. The rest is that of `Delivered`. A burst with ICMP errors, packets under load or requests
    that were not sent is a `Delivered` of its own."""

    first: SequenceNumber = 0
    test: TestName
    family: Literal[4, 6]
    clock_source: ShortText | None
    bursts: bytes
    rtts_ns: bytes
    targets: tuple[str, ...]
    addresses: tuple[ShortText, ...]
    source_addresses: tuple[ShortText | None, ...]
    details: tuple[str | None, ...] = ()
    clock_off_s: float | None = None
    every_s: PositiveCount | None = None
    cycle: Count | None = None

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def sequences(self) -> range:
        return range(self.first, self.first + len(self))


ToDeliver = Delivered | BurstBlock

PLANNED_LATE = "the agent got the plan with this slot"
"""Begin of the detail of a slot that had begun before its agent knew of it."""


class GapReason(StrEnum):
    """Reason why scheduled cycles have no result, most certain first."""

    SET_ASIDE = "set_aside"
    DROPPED = "dropped"
    DISK_FULL = "disk_full"
    AGENT_FAILED = "agent_failed"
    AGENT_OFFLINE = "agent_offline"
    LATE = "late"


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """Cycles that were to begin in [since, until), by the centre's clock: where such a cycle of a path has no result,
    this is why. Those of one test with one schedule, or of all where `test` and `every_s` are None."""

    since: Moment
    until: Moment
    reason: GapReason
    test: TestName | None = None
    every_s: PositiveCount | None = None


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """What became of cycles without a result. All that began before `until` and that the agent knew of are in this
    batch or an earlier one, as a result or in a gap; None where more results wait."""

    until: Moment | None = None
    gaps: Annotated[tuple[Gap, ...], msgspec.Meta(max_length=GAPS_AT_ONCE)] = ()


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """Results delivered together. `spool` names the agent's spool file for its life, `number` counts its batches
    from 1 without gaps; a batch that is sent again has the same number and the same results. Number 0 has none and
    only asks whether the centre can read our batches. `blocks` have results too; they are left out where there are
    none, or where the centre speaks an earlier version of the protocol."""

    spool: str
    number: int
    agent_version: str
    sent_at: datetime
    results: tuple[Delivered, ...]
    blocks: tuple[BurstBlock, ...] | msgspec.UnsetType = msgspec.UNSET
    queued: int = 0
    dropped: int = 0
    health: Health | None = None
    account: Account | None = None

    @property
    def all_blocks(self) -> tuple[BurstBlock, ...]:
        return () if isinstance(self.blocks, msgspec.UnsetType) else self.blocks

    @property
    def sequences(self) -> list[int]:
        """The numbers of all its results."""
        singles = [delivered.sequence for delivered in self.results]
        return singles + [sequence for block in self.all_blocks for sequence in block.sequences]


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A result that the centre will never take, and why. The agent sets it aside and does not send it again."""

    sequence: int
    reason: str


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """The centre's answer to a batch: all results are stored, except those refused."""

    number: int
    accepted: int
    refused: tuple[Refusal, ...] = ()


class Welcome(msgspec.Struct, frozen=True, kw_only=True):
    """The centre's answer to a site that has not joined yet."""

    centre_version: str
    oldest_agent_version: str


class EnrolmentRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A site's request to join, with its one-time code."""

    code: str
    agent_version: str


class Enrolment(msgspec.Struct, frozen=True, kw_only=True):
    """The site of a one-time code, and its token, which the centre never shows again."""

    site: str
    token: str
