"""The users' API about aggregate tests on demand: requesting a test, its state and result, cancelling it.

As in `monitor.api.users`, which these addresses are part of; requests need the operator role, checked in
`monitor.accounts.access`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Router, Schema, Status
from ninja.errors import HttpError
from pydantic import Field

from monitor.accounts.access import may_operate
from monitor.api.on_demand import SlotId, number
from monitor.api.parameters import ProblemOut, too_often
from monitor.api.throughput.aggregates import AggregateOut, aggregate_out
from monitor.archive.queries.throughput.on_demand_aggregates import OnDemandAggregate, on_demand_aggregate
from monitor.mesh.kinds.aggregate import MOST_MEMBERS
from monitor.mesh.schedule.on_demand import NoFreeSlot, OnDemandError, Settings
from monitor.mesh.schedule.on_demand_aggregates import (
    FIRST_PORT,
    MOST_AT_A_TIME,
    MOST_SECONDS,
    AggregateSettings,
    settings_of,
)
from monitor.mesh.schedule.slots import LEAD_S
from monitor.overview.on_demand import aggregates
from monitor.overview.on_demand.aggregates import AggregatesTooOften

router = Router(tags=["on demand"])
Hosts = Annotated[list[str], Field(min_length=1, max_length=MOST_MEMBERS)]


class PlannedIn(Schema, extra="forbid"):
    """An aggregate test of mesh.toml, with its hosts and settings."""

    test: str


class AggregateIn(Schema, extra="forbid"):
    """Hosts, and the settings of each member; defaults are those of a test in mesh.toml."""

    shape: Literal["many-to-one", "one-to-many", "pairs"]
    senders: Annotated[Hosts, Field(description="names of hosts")]
    receivers: Annotated[Hosts, Field(description="names of hosts")]
    duration_s: Annotated[int, number("duration_s", f"measured, in seconds; at most {MOST_SECONDS} with omit_s")] = 10
    omit_s: Annotated[int, number("omit_s", "sent before that and left out, in seconds")] = 0
    streams: Annotated[int, number("streams", "parallel streams of each member")] = 1
    port: Annotated[
        int | None,
        number("port", f"of the first member's server; by default the first of as many free ports, from {FIRST_PORT}"),
    ] = None
    protocol: Literal["tcp", "udp"] = "tcp"
    rate_bps: Annotated[int | None, number("rate_bps", "of each member; UDP needs it")] = None
    pacing_bps: Annotated[int | None, number("pacing_bps", "of each sender's kernel")] = None
    window_bytes: Annotated[int | None, number("window_bytes", "socket buffers of both ends")] = None
    congestion_control: Annotated[str | None, Field(pattern="^[a-z_][a-z0-9_]*$", max_length=16)] = None
    mss_bytes: Annotated[int | None, number("mss_bytes", "payload of a segment")] = None
    block_bytes: Annotated[int | None, number("block_bytes", "length of each write; for UDP, of a datagram")] = None


class MemberStateOut(Schema):
    """A member. `outcome` is null until it is reported; a member without a report for ten minutes is `missed`."""

    path_id: int
    source: str
    destination: str
    outcome: str | None
    detail: str | None


class OnDemandAggregateOut(Schema):
    """A requested test. `state` is `planned`, `running`, `awaited` (done, reports pending) or `ended`. `result` is null
    until it is computed; it is provisional until `is_final`. `asked_by` is only told to those who may operate."""

    id: int
    asked_at: datetime
    asked_by: str | None
    starts_at: datetime
    ends_at: datetime
    settings: dict[str, Any]
    state: Literal["planned", "running", "awaited", "ended"]
    members: list[MemberStateOut]
    result: AggregateOut | None


@router.post(
    "/on-demand-aggregates",
    response={201: OnDemandAggregateOut, 409: ProblemOut, 422: ProblemOut, 429: ProblemOut},
    summary="Run an aggregate test now",
    description=f"It begins {LEAD_S} seconds later, or as soon as all its hosts are free. 409 where they are not free "
    f"within an hour, a budget of mesh.toml is used up, or {MOST_AT_A_TIME} are planned or running; 429 with "
    "Retry-After above the rate limit of the user.",
)
def run_now(request: HttpRequest, body: PlannedIn | AggregateIn, response: HttpResponse) -> Status[object]:
    now = timezone.now()
    try:
        slot = aggregates.ask(_settings(body), request.user.get_username(), now)
    except AggregatesTooOften as error:
        return too_often(response, error)
    except OnDemandError as error:
        raise HttpError(409 if isinstance(error, NoFreeSlot) else 422, str(error)) from error
    return Status(201, _out(request, _test_or_404(slot.pk, now)))


@router.get(
    "/on-demand-aggregates/{int:slot_id}",
    response={200: OnDemandAggregateOut, 404: ProblemOut},
    summary="The state of an on-demand aggregate test, and its result",
)
def get_on_demand_aggregate(request: HttpRequest, slot_id: SlotId) -> dict[str, object]:
    return _out(request, _test_or_404(slot_id, timezone.now()))


@router.delete(
    "/on-demand-aggregates/{int:slot_id}",
    response={204: None, 404: ProblemOut, 409: ProblemOut},
    summary="Cancel an on-demand aggregate test that no agent has fetched yet",
    description="409 if it starts too soon, is running or has ended.",
)
def cancel(request: HttpRequest, slot_id: SlotId) -> HttpResponse:
    now = timezone.now()
    test = _test_or_404(slot_id, now)
    if not aggregates.cancel(slot_id, request.user.get_username(), now):
        raise HttpError(409, f"test {slot_id} is {test.state}, and its agents have it in hand already")
    return HttpResponse(status=204)


def _settings(body: PlannedIn | AggregateIn) -> AggregateSettings:
    """Raises `UnknownPath`."""
    if isinstance(body, PlannedIn):
        return settings_of(body.test)
    fields = body.dict(exclude={"shape", "senders", "receivers"}, exclude_none=True)
    return AggregateSettings(
        shape=body.shape,
        senders=tuple(body.senders),
        receivers=tuple(body.receivers),
        settings=Settings(**fields),
        has_port=body.port is not None,
    )


def _test_or_404(slot_id: int, now: datetime) -> OnDemandAggregate:
    test = on_demand_aggregate(slot_id, now)
    if test is None:
        raise HttpError(404, f"there is no on-demand aggregate test {slot_id}")
    return test


def _out(request: HttpRequest, test: OnDemandAggregate) -> dict[str, object]:
    return {
        "id": test.id,
        "asked_at": test.asked_at,
        "asked_by": test.asked_by if may_operate(request) else None,
        "starts_at": test.starts_at,
        "ends_at": test.ends_at,
        "settings": test.parameters,
        "state": test.state,
        "members": [{name: getattr(member, name) for name in MemberStateOut.model_fields} for member in test.members],
        "result": None if test.result is None else aggregate_out(test.result),
    }
