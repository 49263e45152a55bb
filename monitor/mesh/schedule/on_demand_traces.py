"""On-demand traces: both ends of a path trace it at once, when somebody asks for it, an incident begins or ends, or one
end has seen a change.

`ask` makes a request for each direction whose source has an agent; `hand_out` gives those of a site to its agent, with
the plan. Their results are ordinary results of traces, with the reason of the request. A request that no agent takes up
within `TAKE_UP_S` is over; agents of earlier versions do not know on-demand traces.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from monitor.mesh.kinds.kind import ends
from monitor.mesh.models import Measurement, Mesh, Path, TraceRequest
from probes.site.wire import OnDemandTrace
from probes.trace.spec import TraceReason, TraceSpec

TAKE_UP_S = 60
"""An agent asks for its plan every 10 s; one whose centre is slow may ask later."""
REPEAT_S = 60
"""A path is traced on demand at most once within this time: incidents may open on several of its figures at once."""
MOST_PATHS = 200
"""Of one occasion: a trace of many takes the agent's time from the scheduled ones."""


def ask(paths: Sequence[Path], reason: TraceReason, *, by: str, now: datetime) -> list[TraceRequest]:
    """Request traces of these paths and of their reverse paths; returns the requests, none for a path without an agent
    at its source or with a request within `REPEAT_S`."""
    return _request([path for path in _both_directions(paths[:MOST_PATHS]) if _can_trace(path)], reason, by, now)


def ask_where_scheduled(path_ids: Iterable[int], reason: TraceReason, *, by: str, now: datetime) -> list[TraceRequest]:
    """As `ask`, for paths that mesh.toml has traced: nobody who did not ask for traces gets any."""
    traced = _traced(path_ids)
    if not traced:
        return []
    paths = list(Path.objects.in_use().filter(pk__in=traced).order_by("pk")[:MOST_PATHS])
    return _request(_scheduled(_both_directions(paths)), reason, by, now)


def ask_reverse(path_ids: Iterable[int], reason: TraceReason, *, by: str, now: datetime) -> list[TraceRequest]:
    """Request traces of the reverse paths of these, where mesh.toml has them traced: the agent at the other end need
    not have seen the occasion."""
    forward = list(Path.objects.in_use().filter(pk__in=set(path_ids)).order_by("pk")[:MOST_PATHS])
    return _request(_scheduled(_both_directions(forward)[len(forward) :]), reason, by, now)


def _request(paths: Sequence[Path], reason: TraceReason, by: str, now: datetime) -> list[TraceRequest]:
    wanted = {path.pk: path for path in paths}
    if not wanted:
        return []
    lately = TraceRequest.objects.filter(path__in=wanted, asked_at__gt=now - timedelta(seconds=REPEAT_S))
    for path_id in lately.values_list("path_id", flat=True):
        wanted.pop(path_id, None)
    if not wanted:
        return []
    Mesh.objects.update(traces_until=now + timedelta(seconds=TAKE_UP_S))
    return TraceRequest.objects.bulk_create(
        TraceRequest(path=path, reason=reason.value, asked_at=now, asked_by=by) for path in wanted.values()
    )


def hand_out(site_id: int, now: datetime) -> tuple[OnDemandTrace, ...]:
    """The requests for a site's agent, noted as fetched."""
    asked_after = now - timedelta(seconds=TAKE_UP_S)
    rows = TraceRequest.objects.filter(path__source__site=site_id, asked_at__gt=asked_after)
    requests = list(rows.select_related("path__source__site", "path__destination__site").order_by("pk"))
    if not requests:
        return ()
    TraceRequest.objects.filter(pk__in=[request.pk for request in requests], fetched_at=None).update(fetched_at=now)
    settings = _settings(request.path_id for request in requests)
    return tuple(_order(request, settings.get(request.path_id, {})) for request in requests)


def _traced(path_ids: Iterable[int]) -> set[int]:
    """Those of these paths that mesh.toml has traced."""
    scheduled = Measurement.objects.in_use().filter(path__in=set(path_ids), test__kind="trace")
    return set(scheduled.values_list("path_id", flat=True))


def _scheduled(paths: Sequence[Path]) -> list[Path]:
    """Those of these paths that mesh.toml has traced and whose agent can trace now."""
    traced = _traced(path.pk for path in paths)
    return [path for path in paths if path.pk in traced and _can_trace(path)]


def _both_directions(paths: Sequence[Path]) -> list[Path]:
    """The paths, and the reverse paths that are not among them."""
    hosts = {(path.destination_id, path.source_id) for path in paths}
    candidates = Path.objects.in_use().filter(
        source__in={source for source, _ in hosts}, destination__in={destination for _, destination in hosts}
    )
    back = [path for path in candidates if (path.source_id, path.destination_id) in hosts]
    return [*paths, *back]


def _can_trace(path: Path) -> bool:
    return path.retired_at is None and path.source.site.has_agent and not path.destination.behind_nat


def _settings(path_ids: Iterable[int]) -> dict[int, dict[str, Any]]:
    """The settings of the scheduled trace of each path, where there is any."""
    rows = Measurement.objects.in_use().filter(path__in=set(path_ids), test__kind="trace").select_related("test")
    return {row.path_id: row.test.parameters for row in rows.order_by("-test__name")}


def _order(request: TraceRequest, settings: dict[str, Any]) -> OnDemandTrace:
    target = {**ends(request), "path_id": request.path_id}
    return OnDemandTrace(
        run_id=request.pk,
        reason=TraceReason(request.reason),
        begin_by=request.asked_at + timedelta(seconds=TAKE_UP_S),
        spec=msgspec.convert({**settings, "targets": [target]}, TraceSpec),
    )
