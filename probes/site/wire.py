"""What a site's agent and the centre say to each other, as typed structs; the one definition for both ends.

    GET  /api/agent/plan      -> Plan    (ETag is Plan.version; If-None-Match gives 304)
    POST /api/agent/results   Batch -> Receipt, sent after the centre's commit
    GET  /api/agent/enrol     -> Welcome
    POST /api/agent/enrol     EnrolmentRequest -> Enrolment

The first two carry `Authorization: Bearer TOKEN` and who the agent is (`probes.site.identity`), the others no token;
409 says that another agent holds the token. Each request says which version of this it speaks, each answer which ones
the centre does (`Soundings-Protocols: lowest=1, highest=1, lowest-until=2028-12-31`); 426 says that it is none of them.
Each answer has two headers with the centre's clock, when it took the request up and when it answered, in seconds since
the epoch. Bodies are JSON, a Batch may be MessagePack; requests may be packed by gzip or zstd. Times are aware, UTC.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

import msgspec

from probes.capacity.spec import CapacityRun, CapacitySpec
from probes.disk_to_disk.spec import DiskToDiskRun, DiskToDiskSpec
from probes.ping.spec import Burst, PingSpec
from probes.site.health import Health, Moment
from probes.throughput.spec import Served, ThroughputRun, ThroughputSpec

PROTOCOL = 1
"""The version of all that is here, raised by every change that an older end would misunderstand."""
PROTOCOL_HEADER = "Soundings-Protocol"
PROTOCOLS_HEADER = "Soundings-Protocols"
IDENTITY_HEADER = "Soundings-Agent"
RECEIVED_HEADER = "Soundings-Received-At"
SENT_HEADER = "Soundings-Sent-At"
GAPS_AT_ONCE = 500
"""In one batch."""


class PingTask(msgspec.Struct, frozen=True, kw_only=True):
    """A ping test that this site repeats every `every_s` seconds, aligned to the epoch."""

    test: str
    every_s: int
    spec: PingSpec


class ThroughputSlot(msgspec.Struct, frozen=True, kw_only=True):
    """One planned execution of a throughput test. Both ends get it, each with its own role."""

    slot_id: int
    path_id: int
    test: str
    role: Literal["client", "server"]
    starts_at: datetime
    ends_at: datetime
    spec: ThroughputSpec


class DiskToDiskSlot(msgspec.Struct, frozen=True, kw_only=True, tag="disk-to-disk", tag_field="kind"):
    """As `ThroughputSlot`, of a disk-to-disk test. The client is the path's source: it sends, and reports."""

    slot_id: int
    path_id: int
    test: str
    role: Literal["client", "server"]
    starts_at: datetime
    ends_at: datetime
    spec: DiskToDiskSpec


AnySlot = ThroughputSlot | DiskToDiskSlot


class _SlotKind(msgspec.Struct):
    kind: str | None = None


def read_slot(body: bytes) -> AnySlot:
    """A slot as it was written. Raises `msgspec.DecodeError`."""
    if msgspec.json.decode(body, type=_SlotKind).kind is None:
        return msgspec.json.decode(body, type=ThroughputSlot)
    return msgspec.json.decode(body, type=DiskToDiskSlot)


class CapacityTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A path whose narrowest link is to be estimated."""

    path_id: int
    spec: CapacitySpec


class CapacityTask(msgspec.Struct, frozen=True, kw_only=True):
    """A capacity test that this site repeats every `every_s` seconds, its targets one after the other."""

    test: str
    every_s: int
    targets: tuple[CapacityTarget, ...]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """All that one site must measure. `version` is a digest of the rest."""

    version: str
    site: str
    mesh: str
    ping: tuple[PingTask, ...] = ()
    throughput: tuple[ThroughputSlot, ...] = ()
    capacity: tuple[CapacityTask, ...] = ()
    disk_to_disk: tuple[DiskToDiskSlot, ...] = ()

    @property
    def slots(self) -> tuple[AnySlot, ...]:
        """All that is to begin at a time of its own."""
        return (*self.throughput, *self.disk_to_disk)


class Delivered(msgspec.Struct, frozen=True, kw_only=True):
    """A result on its way. `sequence` is its number in the agent's spool; `during_test` tells that a throughput
    test of our own ran on this host while it was measured. `clock_off_s` is how far this site's clock was ahead of the
    centre's when it was measured, where that was more than a second. `cycle` is that of the test which this is a result
    of, repeated every `every_s` seconds: the one that was to begin at `cycle * every_s` since the epoch, by the
    centre's clock. A throughput or disk-to-disk test has its slot instead."""

    sequence: int
    path_id: int
    test: str
    result: Burst | ThroughputRun | CapacityRun | DiskToDiskRun | Served
    slot_id: int | None = None
    during_test: bool = False
    clock_off_s: float | None = None
    every_s: int | None = None
    cycle: int | None = None


class GapReason(StrEnum):
    """Why planned cycles have no result, from what is surest to what is left to be said."""

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
    test: Annotated[str, msgspec.Meta(max_length=200)] | None = None
    every_s: Annotated[int, msgspec.Meta(ge=1, lt=2**31)] | None = None


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """What became of cycles without a result. All that began before `until` and that the agent knew of are in this
    batch or an earlier one, as a result or in a gap; None where more results wait."""

    until: Moment | None = None
    gaps: Annotated[tuple[Gap, ...], msgspec.Meta(max_length=GAPS_AT_ONCE)] = ()


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """Results delivered together. `spool` names the agent's spool file for its life, `number` counts its batches
    from 1 without gaps; a batch that is sent again has the same number and the same results. Number 0 has none and
    only asks whether the centre can read our batches."""

    spool: str
    number: int
    agent_version: str
    sent_at: datetime
    results: tuple[Delivered, ...]
    queued: int = 0
    dropped: int = 0
    health: Health | None = None
    account: Account | None = None


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A result that the centre will never take, and why. The agent sets it aside and does not send it again."""

    sequence: int
    reason: str


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """The centre's answer to a batch: everything in it is stored, but for what is refused."""

    number: int
    accepted: int
    refused: tuple[Refusal, ...] = ()


class Welcome(msgspec.Struct, frozen=True, kw_only=True):
    """What the centre says to a site that has not joined yet."""

    centre_version: str
    oldest_agent_version: str


class EnrolmentRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A site shows the one-time code that it was given."""

    code: str
    agent_version: str


class Enrolment(msgspec.Struct, frozen=True, kw_only=True):
    """Which site the code was for, and its token: the only time that the centre says it."""

    site: str
    token: str
