"""Messages of request-response measurements, with a single block outstanding (netperf: TCP_RR)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from probes.bounds import Amount, Count, Moment, ShortText, SmallCount, Text
from probes.contract import Outcome
from probes.packets.answered_peers import AnsweredPeer
from probes.packets.egress import PacketTarget
from probes.peers import SharedKey

REQUEST_RESPONSE_PORT = 4821
LARGEST_BLOCK_BYTES = 1 << 20
# Payload of a run in both directions: up to this, a run needs no slot. See docs/storage.md.
LARGEST_RUN_BYTES = 16 << 20
MOST_TRANSACTIONS = 1000
# Uncounted transactions of a run: the first of the connection, and the first after idle.
BEYOND_COUNT = 2

Port = Annotated[int, Meta(ge=1, le=65_535)]
BlockBytes = Annotated[int, Meta(ge=1, le=LARGEST_BLOCK_BYTES)]


class RequestResponseTarget(PacketTarget, frozen=True, kw_only=True):
    """A host with a server. With a `key` both ends prove that they have it."""

    key: SharedKey | None = None


class RequestResponseSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A run to each target in turn: `count` transactions, or as many as `duration_s` allows, each of a request of
    `request_bytes` and a response of `response_bytes`, without a pause.

    The first, and another after `idle_s`, are timed apart.
    """

    targets: tuple[RequestResponseTarget, ...]
    port: Port = REQUEST_RESPONSE_PORT
    request_bytes: BlockBytes = 100
    response_bytes: BlockBytes = 65_536
    count: int = 100
    duration_s: float = 10.0
    idle_s: float = 1.0
    timeout_s: float = 5.0  # a transaction without its whole response by then is an error
    dscp: int = 0

    @property
    def run_bytes(self) -> int:
        """Payload of a run to a target, in both directions."""
        return (self.request_bytes + self.response_bytes) * (self.count + BEYOND_COUNT)

    @property
    def longest_s(self) -> float:
        return 3 * self.timeout_s + self.duration_s + self.idle_s + 2 * self.timeout_s


class RequestResponseTask(msgspec.Struct, frozen=True, kw_only=True):
    """A test that a site repeats every `every_s` seconds, its targets in turn."""

    test: str
    every_s: int
    spec: RequestResponseSpec


class AnsweringPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The server that an agent is to run."""

    peers: tuple[AnsweredPeer, ...]
    port: Port = REQUEST_RESPONSE_PORT


class RequestResponseRun(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag="request-response", tag_field="kind"):
    """The result of a run. Times are in ms, None where not measured."""

    target: str
    address: ShortText | None
    family: Literal[4, 6]
    started_at: Moment
    outcome: Outcome
    request_bytes: Count
    response_bytes: Count
    errors: SmallCount = 0
    connect_ms: Amount | None = None  # TCP handshake
    setup_ms: Amount | None = None  # exchange of the key
    first_ms: Amount | None = None
    after_idle_ms: Amount | None = None
    # in order, without the first and the first after idle
    latencies_ms: Annotated[tuple[Amount, ...], Meta(max_length=MOST_TRANSACTIONS)] = ()
    retransmits: Count | None = None  # segments of requests
    far_retransmits: Count | None = None  # segments of responses, reported by the server
    detail: Text | None = None


def not_measured(
    spec: RequestResponseSpec,
    target: RequestResponseTarget,
    started_at: datetime,
    outcome: Outcome,
    detail: str,
    address: str | None = None,
) -> RequestResponseRun:
    return RequestResponseRun(
        target=target.address,
        address=address,
        family=target.family,
        started_at=started_at,
        outcome=outcome,
        request_bytes=spec.request_bytes,
        response_bytes=spec.response_bytes,
        detail=detail,
    )
