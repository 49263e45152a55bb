"""The users' API about on-demand pings: requesting them, and their replies while they arrive.

As in `monitor.api.users`, which these addresses are part of; requests need the operator role, checked in
`monitor.accounts.access`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Router, Schema, Status
from ninja.errors import HttpError
from pydantic import Field

from monitor.accounts.access import may_operate
from monitor.api.parameters import ProblemOut, path_or_404, too_often
from monitor.mesh.schedule.on_demand_pings import COUNT, SPACING_S, TAKE_UP_S, PingsRefused, PingsRunning
from monitor.mesh.schedule.ping_runs import PingRunState, PingsState, pings_of
from monitor.overview.on_demand.pings import PingsTooOften, ask
from probes.bounds import LARGEST_BIGINT

router = Router(tags=["on demand"])
RequestId = Annotated[int, Field(ge=1, le=LARGEST_BIGINT)]


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


class OnDemandPingsOut(Schema):
    """On-demand pings of a path: `runs` has the path, and the reverse path where the other end has an agent. `asked_by`
    is only told to those who may operate."""

    id: int
    path_id: int
    asked_at: datetime
    asked_by: str | None
    runs: list[PingRunOut]


@router.post(
    "/paths/{int:path_id}/on-demand-pings",
    response={201: OnDemandPingsOut, 404: ProblemOut, 409: ProblemOut, 422: ProblemOut, 429: ProblemOut},
    summary="Ping a path now, in both directions",
    description=f"{COUNT} echo requests, {SPACING_S:g} s apart, within the limits of each site; agents take them up "
    f"with their next plan, within {TAKE_UP_S} s. 409 while the path is being pinged already, 429 with Retry-After "
    "above the rate limit of the user. Excluded from all figures, alerts and reports.",
)
def ping_now(request: HttpRequest, path_id: int, response: HttpResponse) -> Status[object]:
    path = path_or_404(path_id)
    now = timezone.now()
    try:
        asked = ask(path, request.user.get_username(), now)
    except PingsTooOften as error:
        return too_often(response, error)
    except PingsRefused as error:
        raise HttpError(409 if isinstance(error, PingsRunning) else 422, str(error)) from error
    return Status(201, _out(request, _pings_or_404(asked.pk, now)))


@router.get(
    "/on-demand-pings/{int:request_id}",
    response={200: OnDemandPingsOut, 404: ProblemOut},
    summary="On-demand pings, with the replies so far",
)
def get_on_demand_pings(request: HttpRequest, request_id: RequestId) -> dict[str, object]:
    return _out(request, _pings_or_404(request_id, timezone.now()))


def _pings_or_404(request_id: int, now: datetime) -> PingsState:
    pings = pings_of(request_id, now)
    if pings is None:
        raise HttpError(404, f"there are no on-demand pings {request_id}; they are kept for a week")
    return pings


def _out(request: HttpRequest, pings: PingsState) -> dict[str, object]:
    return {
        "id": pings.id,
        "path_id": pings.path_id,
        "asked_at": pings.asked_at,
        "asked_by": pings.asked_by if may_operate(request) else None,
        "runs": [_run_out(run) for run in pings.runs],
    }


def _run_out(run: PingRunState) -> dict[str, object]:
    named = {"path_id", "source", "destination", "rtts_ms", "awaited"}
    return {
        **{name: getattr(run, name) for name in PingRunOut.model_fields if name not in named},
        "path_id": run.path.pk,
        "source": run.path.source.name,
        "destination": run.path.destination.name,
        "rtts_ms": list(run.rtts_ms),
        "awaited": list(run.awaited),
    }
