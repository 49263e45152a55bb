"""The users' API about throughput tests on demand: requesting a test, its state, cancelling it.

As in `monitor.api.users`, which these addresses are part of. A test is a slot like a scheduled test, and its number is
that of the slot; requests need the operator role, checked in `monitor.accounts.access`.
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
from monitor.api.parameters import ProblemOut, path_or_404
from monitor.archive.queries.throughput import on_demand as outcomes
from monitor.archive.queries.throughput.on_demand import OnDemand
from monitor.mesh.schedule import on_demand
from monitor.mesh.schedule.on_demand import NoFreeSlot, OnDemandError, Settings
from probes.bounds import LARGEST_BIGINT
from probes.toml.keys import keys_of

router = Router(tags=["on demand"])


def number(name: str, meaning: str) -> Any:
    """Field with the bounds of a setting."""
    bounds: Any = keys_of(Settings)[name].type_info
    return Field(ge=bounds.ge, le=bounds.le, description=meaning)


SlotId = Annotated[int, Field(ge=1, le=LARGEST_BIGINT)]


class SettingsIn(Schema, extra="forbid"):
    """The settings of the test; defaults are those of a test in mesh.toml."""

    duration_s: Annotated[int, number("duration_s", "measured, in seconds")] = 10
    omit_s: Annotated[int, number("omit_s", "sent before that and left out, in seconds")] = 0
    streams: Annotated[int, number("streams", "parallel streams")] = 1
    port: Annotated[int, number("port", "of the end that listens")] = 5201
    protocol: Literal["tcp", "udp"] = "tcp"
    rate_bps: Annotated[int | None, number("rate_bps", "of all streams together; UDP needs it")] = None
    window_bytes: Annotated[int | None, number("window_bytes", "socket buffers of both ends")] = None
    congestion_control: Annotated[str | None, Field(pattern="^[a-z_][a-z0-9_]*$", max_length=16)] = None
    mss_bytes: Annotated[int | None, number("mss_bytes", "payload of a segment")] = None
    block_bytes: Annotated[int | None, number("block_bytes", "length of each write; for UDP, of a datagram")] = None
    reverse: Annotated[
        bool, Field(description="reverse connection: the receiver connects; data flows the same way")
    ] = False
    capture_packets: Annotated[
        int | None,
        number("capture_packets", "packets whose headers both ends keep, as far as their limits.toml allows; TCP only"),
    ] = None


class OnDemandOut(Schema):
    """A requested test. `state` is `planned`, `running`, `awaited` (done, its result pending)
    or `ended`; `outcome` and `detail` give its result, with the rule where `limits.toml` of a site does not permit it.
    Figures are null unless the outcome is `measured`; `measured_at` is the address of the test in full, under
    /paths/{path_id}/throughput/. `asked_by` is only told to those who may operate."""

    id: int
    path_id: int
    asked_at: datetime
    asked_by: str | None
    starts_at: datetime
    ends_at: datetime
    settings: dict[str, Any]
    state: Literal["planned", "running", "awaited", "ended"]
    outcome: str | None
    detail: str | None
    measured_at: datetime | None
    throughput_bps: float | None
    average_bps: float | None
    verdict: str | None
    sentence: str | None


@router.post(
    "/paths/{int:path_id}/on-demand",
    response={201: OnDemandOut, 404: ProblemOut, 409: ProblemOut, 422: ProblemOut},
    summary="Run a throughput test now",
    description=f"It begins {on_demand.ON_DEMAND_LEAD_S} seconds later, or as soon as its hosts are free. "
    "409 where they are not free within an hour, or a budget of mesh.toml is used up.",
)
def run_now(request: HttpRequest, path_id: int, body: SettingsIn) -> Status[dict[str, object]]:
    path = path_or_404(path_id)
    now = timezone.now()
    try:
        slot = on_demand.ask(path, Settings(**body.dict()), by=request.user.get_username(), now=now)
    except OnDemandError as error:
        raise HttpError(409 if isinstance(error, NoFreeSlot) else 422, str(error)) from error
    return Status(201, _out(request, _test_or_404(slot.pk, now)))


@router.get(
    "/on-demand/{int:slot_id}",
    response={200: OnDemandOut, 404: ProblemOut},
    summary="The state of an on-demand throughput test",
)
def get_on_demand(request: HttpRequest, slot_id: SlotId) -> dict[str, object]:
    return _out(request, _test_or_404(slot_id, timezone.now()))


@router.delete(
    "/on-demand/{int:slot_id}",
    response={204: None, 404: ProblemOut, 409: ProblemOut},
    summary="Cancel an on-demand throughput test that no agent has fetched yet",
    description="409 if it starts too soon, is running or has ended.",
)
def cancel(request: HttpRequest, slot_id: SlotId) -> HttpResponse:
    now = timezone.now()
    test = _test_or_404(slot_id, now)
    if not on_demand.cancel(slot_id, now):
        raise HttpError(409, f"test {slot_id} is {test.state}, and its agents have it in hand already")
    return HttpResponse(status=204)


def _test_or_404(slot_id: int, now: datetime) -> OnDemand:
    test = outcomes.on_demand(slot_id, now)
    if test is None:
        raise HttpError(404, f"there is no on-demand test {slot_id}")
    return test


def _out(request: HttpRequest, test: OnDemand) -> dict[str, object]:
    fields = {name: getattr(test, name) for name in OnDemandOut.model_fields if name != "settings"}
    by = test.asked_by if may_operate(request) else None
    return {**fields, "asked_by": by, "settings": test.parameters}
