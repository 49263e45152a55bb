"""The users' API about tests on demand, for operators (`monitor.accounts.access`).

A test's number is its slot's; an aggregate test's its first member's.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Router, Schema, Status
from ninja.errors import HttpError
from pydantic import Field

from monitor.accounts.access import may_operate
from monitor.api.limited_requests import ask_aggregate, ask_pings, ask_traces, cancel_aggregate
from monitor.api.parameters import ProblemOut, path_or_404
from monitor.api.record_schemas import with_fields_of
from monitor.api.throughput.aggregates import AggregateOut
from monitor.archive.queries.throughput.on_demand import (
    MemberState,
    OnDemand,
    OnDemandAggregate,
    on_demand,
    on_demand_aggregate,
)
from monitor.mesh.kinds.aggregate import MOST_MEMBERS
from monitor.mesh.models import PingRequest, PingRun
from monitor.mesh.schedule.on_demand import (
    FIRST_PORT,
    MOST_AT_A_TIME,
    MOST_SECONDS,
    ON_DEMAND_LEAD_S,
    AggregateSettings,
    Settings,
    ask,
    cancel,
    settings_of,
)
from monitor.mesh.schedule.requests import COUNT, PINGS_TAKE_UP_S, SPACING_S, TRACES_TAKE_UP_S, pings_of
from monitor.mesh.schedule.slots import LEAD_S
from probes.bounds import LARGEST_BIGINT
from probes.toml.keys import keys_of

router = Router(tags=["on demand"])
FoundT = TypeVar("FoundT")


def number(name: str, meaning: str) -> Any:
    bounds: Any = keys_of(Settings)[name].type_info
    return Field(ge=bounds.ge, le=bounds.le, description=meaning)


Id = Annotated[int, Field(ge=1, le=LARGEST_BIGINT)]
Hosts = Annotated[list[str], Field(min_length=1, max_length=MOST_MEMBERS, description="names of hosts")]


AskedBy = Annotated[str | None, Field(description="told to those who may operate")]


class FlowIn(Schema, extra="forbid"):
    """The settings of a throughput test or of each member; defaults are those of a test in mesh.toml."""

    duration_s: Annotated[int, number("duration_s", "measured, in seconds")] = 10
    omit_s: Annotated[int, number("omit_s", "sent before that and left out, in seconds")] = 0
    streams: Annotated[int, number("streams", "parallel streams")] = 1
    protocol: Literal["tcp", "udp"] = "tcp"
    rate_bps: Annotated[int | None, number("rate_bps", "of all streams together; UDP needs it")] = None
    window_bytes: Annotated[int | None, number("window_bytes", "socket buffers of both ends")] = None
    congestion_control: Annotated[str | None, Field(pattern="^[a-z_][a-z0-9_]*$", max_length=16)] = None
    mss_bytes: Annotated[int | None, number("mss_bytes", "payload of a segment")] = None
    block_bytes: Annotated[int | None, number("block_bytes", "length of each write; for UDP, of a datagram")] = None


class SettingsIn(FlowIn):
    """The settings of the test; defaults are those of a test in mesh.toml."""

    port: Annotated[int, number("port", "of the end that listens")] = 5201
    reverse: Annotated[
        bool, Field(description="reverse connection: the receiver connects; data flows the same way")
    ] = False
    capture_packets: Annotated[
        int | None,
        number("capture_packets", "packets whose headers both ends keep, as far as their limits.toml allows; TCP only"),
    ] = None


class PlannedIn(Schema, extra="forbid"):
    """An aggregate test of mesh.toml, with its hosts and settings."""

    test: str


class AggregateIn(FlowIn):
    """Hosts, and the settings of each member; defaults are those of a test in mesh.toml."""

    shape: Literal["many-to-one", "one-to-many", "pairs"]
    senders: Hosts
    receivers: Hosts
    duration_s: Annotated[int, number("duration_s", f"measured, in seconds; at most {MOST_SECONDS} with omit_s")] = 10
    streams: Annotated[int, number("streams", "parallel streams of each member")] = 1
    port: Annotated[
        int | None,
        number("port", f"of the first member's server; by default the first of as many free ports, from {FIRST_PORT}"),
    ] = None
    rate_bps: Annotated[int | None, number("rate_bps", "of each member; UDP needs it")] = None
    pacing_bps: Annotated[int | None, number("pacing_bps", "of each sender's kernel")] = None

    @property
    def asked(self) -> AggregateSettings:
        hosts = {"shape", "senders", "receivers"}
        return AggregateSettings(
            shape=self.shape,
            senders=tuple(self.senders),
            receivers=tuple(self.receivers),
            settings=Settings(**self.dict(exclude=hosts, exclude_none=True)),
            has_port=self.port is not None,
        )


class RequestedOut(Schema):
    """What somebody asked for."""

    @staticmethod
    def resolve_asked_by(requested: OnDemand | OnDemandAggregate | PingRequest, context: Any) -> str | None:
        return requested.asked_by if may_operate(context["request"]) else None

    @staticmethod
    def resolve_settings(requested: OnDemand | OnDemandAggregate) -> dict[str, Any]:
        return requested.parameters


State = Literal["planned", "running", "awaited", "ended"]


@with_fields_of(OnDemand, without=("parameters",), asked_by=AskedBy, state=State)
class OnDemandOut(RequestedOut):
    """A requested test. `state` is `planned`, `running`, `awaited` (done, its result pending)
    or `ended`; `outcome` and `detail` give its result, with the rule where `limits.toml` of a site does not permit it.
    Figures are null unless the outcome is `measured`; `measured_at` is the address of the test in full, under
    /paths/{path_id}/throughput/."""

    settings: dict[str, Any]


@with_fields_of(MemberState)
class MemberStateOut(Schema):
    """A member. `outcome` is null until it is reported; a member without a report for ten minutes is `missed`."""


@with_fields_of(
    OnDemandAggregate,
    without=("parameters",),
    asked_by=AskedBy,
    state=State,
    members=list[MemberStateOut],
    result=AggregateOut | None,
)
class OnDemandAggregateOut(RequestedOut):
    """A requested test. `state` is `planned`, `running`, `awaited` (done, reports pending) or `ended`. `result` is null
    until it is computed; it is provisional until `is_final`."""

    settings: dict[str, Any]


class PingRunOut(Schema):
    """A direction. `state` is `waiting` (its agent has not asked for its plan), `fetched`, `running` or `ended`.
    `rtts_ms` has an entry for each request sent so far, null without a reply; `awaited` are the indices of those that
    may still be answered, which do not count as lost. `outcome` is null until it ended: `measured` (total loss
    included), another outcome of a measurement, `not_taken_up` or `not_reported`, with the reason in `detail`."""

    path_id: int
    source: str
    destination: str
    state: Literal["waiting", "fetched", "running", "ended"]
    count: int
    rtts_ms: list[float | None]
    awaited: list[int]
    sent: int
    received: int
    lost: int
    rtt_min_ms: float | None
    rtt_median_ms: float | None
    rtt_max_ms: float | None
    outcome: str | None
    detail: str | None
    started_at: datetime | None
    ended_at: datetime | None

    @staticmethod
    def resolve_source(run: PingRun) -> str:
        return run.path.source.name

    @staticmethod
    def resolve_destination(run: PingRun) -> str:
        return run.path.destination.name

    @staticmethod
    def resolve_count(run: PingRun) -> int:
        return COUNT

    @staticmethod
    def resolve_detail(run: PingRun) -> str | None:
        return run.detail or None


class OnDemandPingsOut(RequestedOut):
    """On-demand pings of a path: `runs` has the path, and the reverse path where the other end has an agent."""

    id: int
    path_id: int
    asked_at: datetime
    asked_by: AskedBy
    runs: list[PingRunOut]


class TraceRequestOut(Schema):
    """A trace that the agent at the source of a path is asked for."""

    path_id: int
    asked_at: datetime


@router.post(
    "/paths/{int:path_id}/on-demand",
    response={201: OnDemandOut, 404: ProblemOut, 409: ProblemOut, 422: ProblemOut},
    summary="Run a throughput test now",
    description=f"It begins {ON_DEMAND_LEAD_S} seconds later, or as soon as its hosts are free. "
    "409 where they are not free within an hour, or a budget of mesh.toml is used up.",
)
def run_now(request: HttpRequest, path_id: int, body: SettingsIn) -> Status[OnDemand]:
    slot = ask(path_or_404(path_id), Settings(**body.dict()), by=request.user.get_username(), now=timezone.now())
    return Status(201, get_on_demand(request, slot.pk))


@router.get(
    "/on-demand/{int:slot_id}",
    response={200: OnDemandOut, 404: ProblemOut},
    summary="The state of an on-demand throughput test",
)
def get_on_demand(request: HttpRequest, slot_id: Id) -> OnDemand:
    return _or_404(on_demand(slot_id, timezone.now()), f"there is no on-demand test {slot_id}")


@router.delete(
    "/on-demand/{int:slot_id}",
    response={204: None, 404: ProblemOut, 409: ProblemOut},
    summary="Cancel an on-demand throughput test that no agent has fetched yet",
    description="409 if it starts too soon, is running or has ended.",
)
def cancel_on_demand(request: HttpRequest, slot_id: Id) -> HttpResponse:
    test = get_on_demand(request, slot_id)
    return _cancelled(test, is_cancelled=cancel(slot_id, timezone.now()))


@router.post(
    "/on-demand-aggregates",
    response={201: OnDemandAggregateOut, 409: ProblemOut, 422: ProblemOut, 429: ProblemOut},
    summary="Run an aggregate test now",
    description=f"It begins {LEAD_S} seconds later, or as soon as all its hosts are free. 409 where they are not free "
    f"within an hour, a budget of mesh.toml is used up, or {MOST_AT_A_TIME} are planned or running; 429 with "
    "Retry-After above the rate limit of the user.",
)
def run_aggregate_now(request: HttpRequest, body: PlannedIn | AggregateIn) -> Status[OnDemandAggregate]:
    settings = settings_of(body.test) if isinstance(body, PlannedIn) else body.asked
    slot = ask_aggregate(settings, request.user.get_username(), timezone.now())
    return Status(201, get_on_demand_aggregate(request, slot.pk))


@router.get(
    "/on-demand-aggregates/{int:slot_id}",
    response={200: OnDemandAggregateOut, 404: ProblemOut},
    summary="The state of an on-demand aggregate test, and its result",
)
def get_on_demand_aggregate(request: HttpRequest, slot_id: Id) -> OnDemandAggregate:
    return _or_404(on_demand_aggregate(slot_id, timezone.now()), f"there is no on-demand aggregate test {slot_id}")


@router.delete(
    "/on-demand-aggregates/{int:slot_id}",
    response={204: None, 404: ProblemOut, 409: ProblemOut},
    summary="Cancel an on-demand aggregate test that no agent has fetched yet",
    description="409 if it starts too soon, is running or has ended.",
)
def cancel_on_demand_aggregate(request: HttpRequest, slot_id: Id) -> HttpResponse:
    test = get_on_demand_aggregate(request, slot_id)
    is_cancelled = cancel_aggregate(slot_id, request.user.get_username(), timezone.now())
    return _cancelled(test, is_cancelled=is_cancelled)


@router.post(
    "/paths/{int:path_id}/on-demand-pings",
    response={201: OnDemandPingsOut, 404: ProblemOut, 409: ProblemOut, 422: ProblemOut, 429: ProblemOut},
    summary="Ping a path now, in both directions",
    description=f"{COUNT} echo requests, {SPACING_S:g} s apart, within the limits of each site; agents take them up "
    f"with their next plan, within {PINGS_TAKE_UP_S} s. 409 while the path is being pinged already, 429 with "
    "Retry-After above the rate limit of the user. Excluded from all figures, alerts and reports.",
)
def ping_now(request: HttpRequest, path_id: int) -> Status[PingRequest]:
    asked = ask_pings(path_or_404(path_id), request.user.get_username(), timezone.now())
    return Status(201, get_on_demand_pings(request, asked.pk))


@router.get(
    "/on-demand-pings/{int:request_id}",
    response={200: OnDemandPingsOut, 404: ProblemOut},
    summary="On-demand pings, with the replies so far",
)
def get_on_demand_pings(request: HttpRequest, request_id: Id) -> PingRequest:
    pings = pings_of(request_id, timezone.now())
    return _or_404(pings, f"there are no on-demand pings {request_id}; they are kept for a week")


@router.post(
    "/paths/{int:path_id}/on-demand-traces",
    response={201: list[TraceRequestOut], 404: ProblemOut, 422: ProblemOut, 429: ProblemOut},
    summary="Trace a path now, in both directions",
    description=f"Agents take it up with their next plan, within {TRACES_TAKE_UP_S} s; the traces then have the reason "
    "`on_demand`. 429 with Retry-After above the rate limit of the user, or if the path was traced on demand just now.",
)
def trace_now(request: HttpRequest, path_id: int) -> Status[object]:
    return Status(201, ask_traces(path_or_404(path_id), request.user.get_username(), timezone.now()))


def _or_404(found: FoundT | None, fault: str) -> FoundT:
    if found is None:
        raise HttpError(404, fault)
    return found


def _cancelled(test: OnDemand | OnDemandAggregate, *, is_cancelled: bool) -> HttpResponse:
    if not is_cancelled:
        raise HttpError(409, f"test {test.id} is {test.state}, and its agents have it in hand already")
    return HttpResponse(status=204)
