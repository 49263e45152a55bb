"""The users' API about TCP throughput."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Annotated, Any

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Query, Router, Schema
from ninja.errors import HttpError
from pydantic import Field

from monitor.analysis.tcp import wording
from monitor.analysis.tcp.corrections import PathPings
from monitor.analysis.tcp.figures import LimitEstimate, ThroughputEstimate
from monitor.analysis.tcp.forecasts import Forecast, ForecastScore
from monitor.analysis.transfer import spread
from monitor.api.freshness import OF_SUMMARIES, date_summaries
from monitor.api.parameters import PacketBytes, ProblemOut, Range, path_or_404
from monitor.api.record_schemas import with_fields_of
from monitor.archive.queries.path_estimates import path_estimate
from monitor.archive.queries.paths import path_summaries
from monitor.archive.queries.tables import Tick
from monitor.archive.queries.throughput.calibrations import PathCalibration
from monitor.archive.queries.throughput.forecasts import UnansweredPings
from monitor.archive.queries.throughput.record_transfers import FastestTest, RecordBy, RecordTransfer, best_transfers
from monitor.archive.queries.throughput.series import scheduled_bps, throughput_series
from monitor.archive.upkeep.freshness import lacks_since
from monitor.mesh.models import Family
from monitor.overview.grid import measured_packet_bytes

RECORDS_LENGTH = timedelta(days=30)

router = Router()


@with_fields_of(
    FastestTest,
    without=(
        "source_latitude_deg",
        "source_longitude_deg",
        "destination_latitude_deg",
        "destination_longitude_deg",
    ),
)
class RecordOut(Schema):
    """The fastest TCP test of a path. `bit_metres_per_s` is its rate times the great-circle distance of its ends."""

    distance_km: float
    bit_metres_per_s: float


class SpreadOut(Schema):
    """The TCP tests of a path that were measured in [since, until). Figures are null where none was; the deviation is
    the sample's, null of a single test."""

    path_id: int
    since: datetime
    until: datetime
    tests: int
    min_bps: float | None
    max_bps: float | None
    mean_bps: float | None
    deviation_bps: float | None


@with_fields_of(LimitEstimate, name=str, sign=str)
class LimitOut(Schema):
    """A limit that is known, with its 80% interval; null is an end that is open."""


@with_fields_of(
    ThroughputEstimate,
    sign=str | None,
    binding=str | None,
    limits=list[LimitOut],
    not_known=list[str],
    reno_index_sign=str | None,
    without=("advice",),
)
class EstimateOut(Schema):
    """The minimum of the limits. `sign` is about, at most, or between `low_bps` and `high_bps`, where
    `throughput_bps` is null; it is null without a known limit."""


@with_fields_of(PathPings, without=("is_since_change",))
class PathStateOut(Schema):
    """The newest pings of half an hour, from `since` on, between which the loss has not changed: median RTT, counts,
    and the usual TTL of the replies. `since` is null of the summary of an hour."""


@with_fields_of(ForecastScore)
class ForecastScoreOut(Schema):
    """Forecasts of the path's earlier tests: how many, within a factor of two of the test, with the test in the 80%
    interval, and the root mean square of the relative errors."""


@with_fields_of(Forecast, changes=list[str], then=PathStateOut, now=PathStateOut, score=ForecastScoreOut | None)
class ForecastOut(Schema):
    """The forecast of a test at `until`, with its 80% interval: the median of `tests` tests from `oldest_at` to
    `newest_at`, without the `newer_left_out`, run on another loss or route than now; `uncorrected_bps`, corrected
    for the `changes` of the path since (loss, route). `newest_bps` is the newest of these tests, `others_bps` the
    median of the others, null without any. `then` are the pings before the newest of the tests, `now`
    those before `until`. `score` is null before the second test."""


class CalibrationOut(Schema):
    """The calibration of the loss by earlier tests of the path. Errors are factors, 1 for none, of stretches left out
    in cross-validation. Figures are null for too few stretches; it is used if it reduces the error."""

    used: bool
    stretches: int
    loss_factor: float | None
    error_factor: float | None
    raw_error_factor: float | None
    low_ratio: float | None
    high_ratio: float | None


class PathEstimateOut(Schema):
    """The expected TCP throughput of a path, and its inputs. `forecast` is the result for a path with tests, else null.
    `estimate` is the result of the model alone; if a calibration is used, `uncalibrated` is that without it.
    `congestion_control` is that of the tests. `rtt_ms`, `lost` and `sent` are of the pings (`lost` and `sent` of the
    STAMP tests forward where these are counted) from `pings_since` to `until`: half an hour at most, since the last
    change of the loss; it is null where they are of the whole period, for want of newer pings."""

    path_id: int
    packet_bytes: int
    since: datetime
    until: datetime
    pings_since: datetime | None
    rtt_ms: float
    lost: int
    sent: int
    window_bytes: float | None
    capacity_bps: float | None
    congestion_control: str | None
    streams: int
    forecast: ForecastOut | None
    estimate: EstimateOut
    uncalibrated: EstimateOut | None
    calibration: CalibrationOut | None


@router.get("/records", response={200: list[RecordOut], 422: ProblemOut}, summary="The record transfers, best first")
def list_records(
    request: HttpRequest,
    between: Query[Range],
    by: RecordBy = RecordBy.RATE,
    family: Family | None = None,
    limit: Annotated[int, Field(ge=1, le=1000)] = 20,
) -> list[dict[str, object]]:
    since, until = between.resolve_at(timezone.now(), RECORDS_LENGTH)
    return [_record(record) for record in best_transfers(since, until, by=by, family=family, limit=limit)]


@router.get(
    "/paths/{int:path_id}/spread",
    response={200: SpreadOut, 404: ProblemOut, 422: ProblemOut},
    summary="Minimum, maximum, mean and standard deviation of a path's scheduled TCP throughput tests",
)
def get_spread(request: HttpRequest, path_id: int, between: Query[Range]) -> dict[str, object]:
    path_or_404(path_id)
    since, until = between.resolve_at(timezone.now())
    figures_of_tests = spread(scheduled_bps(throughput_series(path_id, since, until)))
    figures = {"tests": 0} if figures_of_tests is None else asdict(figures_of_tests)
    nothing = dict.fromkeys(("min_bps", "max_bps", "mean_bps", "deviation_bps"))
    return {"path_id": path_id, "since": since, "until": until, **nothing, **figures}


@router.get(
    "/paths/{int:path_id}/estimate",
    response={200: PathEstimateOut, 404: ProblemOut, 422: ProblemOut},
    summary="The expected TCP throughput of a path, and its limit",
    openapi_extra=OF_SUMMARIES,
)
def get_estimate(
    request: HttpRequest, response: HttpResponse, path_id: int, between: Query[Range], size: PacketBytes = None
) -> dict[str, object]:
    path_or_404(path_id)
    now = timezone.now()
    since, until = between.resolve_at(now)
    date_summaries(response, lacks_since(Tick.HOUR, now))
    packet_bytes = measured_packet_bytes(size)
    summaries = path_summaries(since, until, packet_bytes=packet_bytes, path_ids=[path_id])
    tests = throughput_series(path_id, since, until)
    made = path_estimate(summaries[0] if summaries else None, tests, since, until)
    if made is None:
        raise HttpError(404, f"no ping of {packet_bytes} bytes was answered on path {path_id} in this time")
    if isinstance(made, UnansweredPings):
        raise HttpError(404, wording.unanswered(made.since, made.until))
    return {
        "path_id": path_id,
        "packet_bytes": packet_bytes,
        "since": since,
        "until": until,
        "rtt_ms": made.rtt.median_ms,
        "pings_since": made.pings_since,
        "lost": made.loss.lost,
        "sent": made.loss.sent,
        "window_bytes": made.transfer.window_bytes,
        "capacity_bps": made.transfer.capacity_bps,
        "congestion_control": made.sender,
        "streams": made.transfer.streams,
        "forecast": made.forecast,
        "estimate": made.estimate,
        "uncalibrated": made.uncalibrated,
        "calibration": None if made.calibration is None else _calibration(made.calibration),
    }


def _record(record: RecordTransfer) -> dict[str, object]:
    return {**asdict(record.fastest), "distance_km": record.distance_km, "bit_metres_per_s": record.bit_metres_per_s}


def _calibration(learnt: PathCalibration) -> dict[str, Any]:
    nothing = dict.fromkeys(("loss_factor", "error_factor", "raw_error_factor", "low_ratio", "high_ratio"))
    figures = {} if learnt.calibration is None else asdict(learnt.calibration)
    return {**nothing, **figures, "used": learnt.used is not None, "stretches": learnt.stretches}
