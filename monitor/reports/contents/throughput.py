"""Advice on throughput, by tests and the CUBIC limits of `monitor.analysis.tcp`, and scores of the estimates.

Calibration never uses the report's own tests.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from monitor.analysis.tcp import (
    Calibration,
    CongestionControl,
    LimitName,
    Loss,
    Rtt,
    Sign,
    TransferSettings,
    buffer_bytes,
    estimate,
    loss_limit_bps,
    loss_ratio_for,
)
from monitor.analysis.transfer import Verdict
from monitor.archive.queries.throughput.calibrations import DayOfTests, calibration, control_of, newest_kind
from monitor.archive.queries.throughput.forecasts import Replayed
from monitor.reports.contents.report import ForecastResult, Improvement, ModelScore, PathReport, SiteAdvice

MOST_ADVICE = 3
# A smaller gain is not worth a change.
LEAST_TIMES = 1.1
LOSS_TIMES = 2.0
# Evidence in `monitor.analysis.transfer` of the receiver's window rather than the sender's buffer.
RECEIVERS_WINDOW = "receiver's window"
# Evidence of a window that may be either's: no site can be told to raise it.
OPEN_WINDOW = "window open"


@dataclass(frozen=True, slots=True)
class PathLimit:
    """The throughput that loss and capacity allow at this RTT, as far as known."""

    rtt_ms: float
    rate_bps: float
    sign: Sign


@dataclass(frozen=True, slots=True)
class _Gain:
    measure: Improvement
    site: str
    path: str
    rate_bps: float
    times: float
    rtt_ms: float

    @property
    def gain_bps(self) -> float:
        return (self.times - 1.0) * self.rate_bps


def limits(paths: Iterable[PathReport]) -> dict[int, PathLimit]:
    """Limits of each path with replies, by path id."""
    answered = [
        (path, path.summary, path.summary.rtt_median_ms)
        for path in paths
        if path.summary is not None and path.summary.received and path.summary.rtt_median_ms
    ]
    losses = [Loss.counted(summary.lost, summary.sent) for _, summary, _ in answered]
    rates_bps = loss_limit_bps(
        CongestionControl.CUBIC, [rtt_ms for *_, rtt_ms in answered], [loss.bound_ratio for loss in losses]
    ).tolist()
    return {
        path.path_id: _limit(rtt_ms, rate_bps, path.capacity_bps, loss.sign_of_rate)
        for (path, _, rtt_ms), loss, rate_bps in zip(answered, losses, rates_bps, strict=True)
    }


def _limit(rtt_ms: float, by_loss_bps: float, capacity_bps: float | None, sign: Sign) -> PathLimit:
    """Limit the rate by loss or, if lower, by capacity."""
    if capacity_bps is None or capacity_bps >= by_loss_bps:
        return PathLimit(rtt_ms, by_loss_bps, sign)
    return PathLimit(rtt_ms, capacity_bps, Sign.ABOUT)


def advice(paths: Iterable[PathReport], limits: Mapping[int, PathLimit]) -> tuple[SiteAdvice, ...]:
    """The three changes with the largest gains in bit/s, combined by site."""
    together: dict[tuple[Improvement, str], list[_Gain]] = defaultdict(list)
    for path in paths:
        gain = _gain(path, limits.get(path.path_id))
        if gain is not None:
            together[gain.measure, gain.site].append(gain)
    ordered = sorted(together.values(), key=lambda gains: (-_sum_bps(gains), gains[0].site))
    return tuple(_joined(gains) for gains in ordered[:MOST_ADVICE])


def _sum_bps(gains: Iterable[_Gain]) -> float:
    return sum(gain.gain_bps for gain in gains)


def _joined(gains: Sequence[_Gain]) -> SiteAdvice:
    targets_bps, rtts_ms = [gain.times * gain.rate_bps for gain in gains], [gain.rtt_ms for gain in gains]
    of_loss = gains[0].measure is Improvement.LOSS
    return SiteAdvice(
        measure=gains[0].measure,
        site=gains[0].site,
        paths=tuple(gain.path for gain in gains),
        times=statistics.median(gain.times for gain in gains),
        gain_bps=_sum_bps(gains),
        window_bytes=None if of_loss else float(buffer_bytes(targets_bps, rtts_ms).max()),
        loss_ratio=float(loss_ratio_for(CongestionControl.CUBIC, targets_bps, rtts_ms).min()) if of_loss else None,
    )


def _gain(path: PathReport, limit: PathLimit | None) -> _Gain | None:
    rate_bps = path.throughput_bps
    if path.verdict is None or not rate_bps or limit is None:
        return None
    if OPEN_WINDOW in path.verdict.evidence:
        return None
    if path.verdict.verdict in (Verdict.WINDOW_LIMITED, Verdict.SLOW_RECEIVER):
        times = limit.rate_bps / rate_bps
        at_receiver = RECEIVERS_WINDOW in path.verdict.evidence
        measure = Improvement.RECEIVE_BUFFER if at_receiver else Improvement.SEND_BUFFER
        site = path.destination_site if at_receiver else path.source_site
    elif path.verdict.verdict in (Verdict.RANDOM_LOSS, Verdict.LOSS):
        times = min(LOSS_TIMES, (math.inf if path.capacity_bps is None else path.capacity_bps) / rate_bps)
        measure, site = Improvement.LOSS, path.destination_site
    else:
        return None
    return _Gain(measure, site, path.name, rate_bps, times, limit.rtt_ms) if times >= LEAST_TIMES else None


@dataclass(frozen=True, slots=True)
class CalibratedLimit:
    """The throughput that loss and capacity allow, for the kind of transfer that a path's tests make."""

    limit: PathLimit
    uncalibrated: PathLimit


def calibrated(paths: Iterable[PathReport], days: Mapping[int, Sequence[DayOfTests]]) -> dict[int, CalibratedLimit]:
    """Calibrated limits of each path with enough tests before the period, by path id."""
    by_path = {}
    for path in paths:
        summary, tested = path.summary, days.get(path.path_id)
        if summary is None or not summary.rtt_median_ms or not tested:
            continue
        sender, streams = newest_kind(tested)
        learnt = calibration(tested, sender, streams)
        if learnt is not None and learnt.used is not None:
            transfer = TransferSettings(control=control_of(sender), streams=streams)
            by_path[path.path_id] = CalibratedLimit(_by(path, transfer, learnt.used), _by(path, transfer, None))
    return by_path


def _by(path: PathReport, transfer: TransferSettings, used: Calibration | None) -> PathLimit:
    assert path.summary is not None
    rtt = Rtt(path.summary.rtt_median_ms or 0.0)
    estimated = estimate(rtt, Loss.counted(path.summary.lost, path.summary.sent), transfer, calibration=used)
    by_loss = next(limit for limit in estimated.limits if limit.name is LimitName.LOSS)
    return _limit(rtt.median_ms, by_loss.throughput_bps, path.capacity_bps, by_loss.sign)


def scores(
    paths: Iterable[PathReport], limits: Mapping[int, PathLimit], by_tests: Mapping[int, CalibratedLimit]
) -> tuple[ModelScore, ...]:
    """Score the model against tests: CUBIC, with capacity, and calibrated. The Mathis (Reno) index is no estimate."""
    measured = [(path, path.throughput_bps) for path in paths if path.throughput_bps]
    learnt = [(by_tests[path.path_id], rate_bps) for path, rate_bps in measured if path.path_id in by_tests]
    return (
        _score("CUBIC", [(_as_estimate(limits.get(path.path_id)), rate_bps) for path, rate_bps in measured]),
        _score("calibrated", [(_as_estimate(calibration.limit), rate_bps) for calibration, rate_bps in learnt]),
        _score(
            "same paths, not calibrated",
            [(_as_estimate(calibration.uncalibrated), rate_bps) for calibration, rate_bps in learnt],
        ),
    )


def forecast_result(forecasts: Sequence[Replayed]) -> ForecastResult:
    return ForecastResult(
        tests=len(forecasts),
        within_two=sum(made_bps <= 2.0 * test_bps <= 4.0 * made_bps for made_bps, _, _, test_bps in forecasts),
        covered=sum(low_bps <= test_bps <= high_bps for _, low_bps, high_bps, test_bps in forecasts),
    )


Estimated = tuple[float, Sign] | None


def _as_estimate(limit: PathLimit | None) -> Estimated:
    return None if limit is None else (limit.rate_bps, limit.sign)


def _score(model: str, pairs: Iterable[tuple[Estimated, float]]) -> ModelScore:
    estimates = [(estimated[0], estimated[1], rate_bps) for estimated, rate_bps in pairs if estimated is not None]
    ratios = [figure_bps / rate_bps for figure_bps, sign, rate_bps in estimates if sign is Sign.ABOUT]
    bounds = [(figure_bps, sign, rate_bps) for figure_bps, sign, rate_bps in estimates if sign in _HOLDS]
    return ModelScore(
        model=model,
        figures=len(ratios),
        median_ratio=statistics.median(ratios) if ratios else None,
        within_two=sum(0.5 <= ratio <= 2.0 for ratio in ratios),
        bounds=len(bounds),
        bounds_held=sum(_HOLDS[sign](rate_bps, figure_bps) for figure_bps, sign, rate_bps in bounds),
    )


_HOLDS: dict[Sign, Callable[[float, float], bool]] = {
    Sign.AT_LEAST: lambda rate_bps, bound_bps: rate_bps >= bound_bps,
    Sign.AT_MOST: lambda rate_bps, bound_bps: rate_bps <= bound_bps,
}
