"""The messages between a site's agent and the centre, as typed structs: the definition for both ends.

    GET  /api/agent/plan      -> Plan    (ETag is Plan.version; If-None-Match gives 304)
    POST /api/agent/results   Batch -> Receipt, sent after the centre's commit
    POST /api/agent/on-demand-pings   OnDemandPingReport -> {}
    GET  /api/agent/enrol     -> Welcome
    POST /api/agent/enrol     EnrolmentRequest -> Enrolment

The first three carry `Authorization: Bearer TOKEN` and `probes.site.identity`; 409: another agent holds the token.
Requests name their protocol version, answers the supported versions (`Soundings-Protocols`; 426: none fits) and the
centre's clock, in epoch seconds. Bodies are JSON, a Batch may be MessagePack; gzip and zstd are accepted. Times are
aware, UTC.
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

# Raised by every change that an older end would misunderstand. Since 2, a batch may have blocks.
PROTOCOL = 2
# Lowest version that an agent speaks, with a centre that has not told its own.
LOWEST_PROTOCOL = 1
BLOCKS_SINCE = 2
PROTOCOL_HEADER = "Soundings-Protocol"
PROTOCOLS_HEADER = "Soundings-Protocols"
IDENTITY_HEADER = "Soundings-Agent"
RECEIVED_HEADER = "Soundings-Received-At"
SENT_HEADER = "Soundings-Sent-At"
# On a plan request: plan parts unknown to agents of the first versions, separated by commas.
ABILITIES_HEADER = "Soundings-Abilities"
# On a delivery's answer: the version of the site's plan, unless the centre is older or must build it.
PLAN_HEADER = "Soundings-Plan"
ON_DEMAND_PINGS = "on-demand-pings"
ON_DEMAND_TRACES = "on-demand-traces"
MOST_ON_DEMAND_PINGS = 100
# In one batch.
GAPS_AT_ONCE = 500


# Slots of each kind by their JSON tag; throughput tests have none, as in first versions.
SLOTS = {kind.task.__struct_config__.tag: kind.task for kind in SLOT_KINDS}


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
    """Pings that a user asked for, sent once, with replies reported as they arrive."""

    run_id: int
    path_id: int
    address: str
    family: Literal[4, 6]
    begin_by: Moment  # latest start, by the centre's clock
    source: str | None = None
    count: int = 20  # echo requests
    spacing_s: float = 0.2
    timeout_s: float = 2.0
    packet_bytes: int = 100


class OnDemandPingReport(msgspec.Struct, frozen=True, kw_only=True):
    """The state of on-demand pings; each report replaces the last."""

    run_id: LargeCount
    started_at: Moment
    # a value a request sent, None without a reply
    rtts_ms: Annotated[tuple[RttMs | None, ...], msgspec.Meta(max_length=MOST_ON_DEMAND_PINGS)] = ()
    # indices that may still be answered
    awaited: Annotated[tuple[SmallCount, ...], msgspec.Meta(max_length=MOST_ON_DEMAND_PINGS)] = ()
    outcome: Outcome | None = None  # None until all have an answer or timed out
    detail: Text | None = None


class OnDemandTrace(msgspec.Struct, frozen=True, kw_only=True):
    """A trace that the centre asks for, run once."""

    run_id: int
    reason: TraceReason
    begin_by: Moment
    spec: TraceSpec


class PlanOfKinds(msgspec.Struct, frozen=True, kw_only=True):
    """All measurements of a site; `Plan` adds a field for each kind. Empty parts are left out of the JSON."""

    version: str  # digest of the rest
    site: str
    mesh: str
    on_demand_pings: tuple[OnDemandPing, ...] | msgspec.UnsetType = msgspec.UNSET
    on_demand_traces: tuple[OnDemandTrace, ...] | msgspec.UnsetType = msgspec.UNSET
    stamp_reflector: ReflectorPlan | msgspec.UnsetType = msgspec.UNSET
    request_response_server: AnsweringPlan | msgspec.UnsetType = msgspec.UNSET
    # whole seconds since the epoch, by the centre's clock
    destination_tests: dict[int, tuple[tuple[int, int], ...]] | msgspec.UnsetType = msgspec.UNSET

    @property
    def tests_at_destinations(self) -> dict[int, tuple[tuple[int, int], ...]]:
        """Begin and end of throughput tests between a path's destination and other sites, by path."""
        return {} if isinstance(self.destination_tests, msgspec.UnsetType) else self.destination_tests

    @property
    def reflector(self) -> ReflectorPlan | None:
        return None if isinstance(self.stamp_reflector, msgspec.UnsetType) else self.stamp_reflector

    @property
    def server(self) -> AnsweringPlan | None:
        return None if isinstance(self.request_response_server, msgspec.UnsetType) else self.request_response_server

    @property
    def pings_to_send(self) -> tuple[OnDemandPing, ...]:
        return () if isinstance(self.on_demand_pings, msgspec.UnsetType) else self.on_demand_pings

    @property
    def traces_to_run(self) -> tuple[OnDemandTrace, ...]:
        return () if isinstance(self.on_demand_traces, msgspec.UnsetType) else self.on_demand_traces

    def of(self, kind: Kind) -> tuple[Any, ...]:
        tasks: tuple[Any, ...] = getattr(self, kind.field)
        return tasks

    @property
    def slots(self) -> tuple[Slot, ...]:
        return tuple(slot for kind in SLOT_KINDS for slot in self.of(kind))

    @property
    def contents(self) -> str:
        """The number of tests or slots of each kind, in words."""
        return ", ".join(_count(kind, self.of(kind)) for kind in KINDS.values())

    @property
    def cycles(self) -> Iterator[tuple[CycleKind, CycleTask]]:
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
    sequence: SequenceNumber  # number in the agent's spool
    path_id: int
    test: TestName
    result: Result
    slot_id: int | None = None  # of a throughput or disk-to-disk test, instead of a cycle
    during_test: bool = False  # of throughput on this host; a burst during all packets (old agents: any)
    clock_off_s: float | None = None  # clock offset from the centre's, if above a second
    every_s: PositiveCount | None = None
    cycle: Count | None = None  # due at `cycle * every_s` since the epoch, by the centre's clock


class BurstBlock(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Measured bursts of a test as columns, to be delivered; other fields as in `Delivered`.

    A burst with ICMP errors, packets under load or requests that were not sent is a `Delivered` itself.
    """

    first: SequenceNumber = 0  # of the first burst; the others follow
    test: TestName
    family: Literal[4, 6]
    clock_source: ShortText | None
    bursts: bytes  # records of `probes.packets.columns.RECORD`
    rtts_ns: bytes  # of all requests, burst after burst: little-endian int64, -1 where lost
    targets: tuple[str, ...]  # this and the next columns: a text for each burst, or none at all
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

# Begin of the detail of a slot that had begun before its agent knew of it.
PLANNED_LATE = "the agent got the plan with this slot"


class GapReason(StrEnum):
    """Reason why scheduled cycles have no result, most certain first."""

    SET_ASIDE = "set_aside"
    DROPPED = "dropped"
    DISK_FULL = "disk_full"
    AGENT_FAILED = "agent_failed"
    AGENT_OFFLINE = "agent_offline"
    LATE = "late"


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """Why cycles due in [since, until), by the centre's clock, have no result."""

    since: Moment
    until: Moment
    reason: GapReason
    test: TestName | None = None  # None, with `every_s`, for all
    every_s: PositiveCount | None = None


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """Explanation of cycles without a result."""

    until: Moment | None = None  # earlier known cycles are all accounted for; None if more results wait
    gaps: Annotated[tuple[Gap, ...], msgspec.Meta(max_length=GAPS_AT_ONCE)] = ()


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """Results delivered together; a resent batch has the same number and results."""

    spool: str  # name of the agent's spool file for its life
    number: int  # from 1 without gaps; 0 only asks for readability
    agent_version: str
    sent_at: datetime
    results: tuple[Delivered, ...]
    blocks: tuple[BurstBlock, ...] | msgspec.UnsetType = msgspec.UNSET  # left out if none, or for an earlier protocol
    queued: int = 0
    dropped: int = 0
    health: Health | None = None
    account: Account | None = None

    @property
    def all_blocks(self) -> tuple[BurstBlock, ...]:
        return () if isinstance(self.blocks, msgspec.UnsetType) else self.blocks

    @property
    def sequences(self) -> list[int]:
        singles = [delivered.sequence for delivered in self.results]
        return singles + [sequence for block in self.all_blocks for sequence in block.sequences]


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A result that the centre will never take, and why; the agent quarantines it."""

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
    code: str
    agent_version: str


class Enrolment(msgspec.Struct, frozen=True, kw_only=True):
    """The site of a one-time code, and its token, which the centre shows once."""

    site: str
    token: str
