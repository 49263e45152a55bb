"""What a site's agent and the centre say to each other, as typed structs; the one definition for both ends.

    GET  /api/agent/plan      -> Plan    (ETag is Plan.version; If-None-Match gives 304)
    POST /api/agent/results   Batch -> Receipt, sent after the centre's commit

Both carry `Authorization: Bearer TOKEN`; bodies are JSON, requests may be gzip-encoded. Times are aware, UTC.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from probes.ping.spec import Burst, PingSpec
from probes.throughput.spec import ThroughputRun, ThroughputSpec


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


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """All that one site must measure. `version` is a digest of the rest."""

    version: str
    site: str
    mesh: str
    ping: tuple[PingTask, ...] = ()
    throughput: tuple[ThroughputSlot, ...] = ()


class Delivered(msgspec.Struct, frozen=True, kw_only=True):
    """A result on its way. `sequence` is its number in the agent's spool; `during_test` tells that a throughput
    test of our own ran on this host while it was measured."""

    sequence: int
    path_id: int
    test: str
    result: Burst | ThroughputRun
    slot_id: int | None = None
    during_test: bool = False


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """Results delivered together. `spool` names the agent's spool file for its life, `number` counts its batches
    from 1 without gaps; a batch that is sent again has the same number and the same results."""

    spool: str
    number: int
    agent_version: str
    sent_at: datetime
    results: tuple[Delivered, ...]
    queued: int = 0
    dropped: int = 0


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A result that the centre will never take, and why. The agent sets it aside and does not send it again."""

    sequence: int
    reason: str


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """The centre's answer to a batch: everything in it is stored, but for what is refused."""

    number: int
    accepted: int
    refused: tuple[Refusal, ...] = ()
