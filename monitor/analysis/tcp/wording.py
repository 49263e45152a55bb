"""Throughput estimates as English text, for the command, the pages and reports."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from monitor.analysis import figures
from monitor.analysis.tcp.calibration import LEAST_LOST, LEAST_STRETCHES, Calibration
from monitor.analysis.tcp.corrections import PathPings
from monitor.analysis.tcp.figures import (
    LimitName,
    Loss,
    Rtt,
    Sign,
    SpeedUp,
    StreamRequirements,
    ThroughputEstimate,
    TransferSettings,
)
from monitor.analysis.tcp.forecasts import Forecast, ForecastScore, PathDifference

# Ratio of an interval's ends above which no single rate is named.
TELLS_NOTHING = 100.0


def headline(answer: ThroughputEstimate) -> str:
    if answer.sign is None:
        return "no estimate"
    if answer.throughput_bps is None:
        return f"between {rate(answer.low_bps)} and {rate(answer.high_bps)}"
    if answer.throughput_bps == 0.0:
        return "0 bit/s: every packet is lost"
    if answer.low_bps and answer.high_bps and answer.high_bps > TELLS_NOTHING * answer.low_bps:
        return f"cannot tell: {rate(answer.low_bps)} to {rate(answer.high_bps)} (80%)"
    held = "" if answer.binding is None else f", limited by {answer.binding}"
    return f"{answer.sign} {rate(answer.throughput_bps)}{held}{interval(answer.low_bps, answer.high_bps, ' (80%: {})')}"


def forecast_headline(made: Forecast) -> str:
    """Forecast with its interval and number of tests, or `cannot tell: …` with an outlying newest test."""
    if made.is_unclear and made.others_bps is not None:
        before = "the test before" if made.tests == 2 else f"the median of the {made.tests - 1} before"
        ratio = made.newest_bps / made.others_bps
        share = f"1/{1.0 / ratio:.0f} of" if ratio < 1.0 else f"{ratio:.0f} times"
        newest = f"the newest test got {rate(made.newest_bps)}, {share} {before} ({rate(made.others_bps)})"
        return f"cannot tell: {newest}"
    return f"about {rate(made.throughput_bps)} (80%: {_ends(made)}), from {_tests(made.tests)} of this path"


def _ends(made: Forecast) -> str:
    """Both ends, or the larger distance where three digits do not separate them."""
    low, high = rate(made.low_bps), rate(made.high_bps)
    if low != high:
        return f"{low} to {high}"
    distance = max(made.high_bps - made.throughput_bps, made.throughput_bps - made.low_bps) / made.throughput_bps
    return f"within {figures.percent(distance)}"


def forecast_notes(made: Forecast, until: datetime) -> list[str]:
    """Age of the tests, changes of the path since, and the score of earlier forecasts."""
    age = f"the newest {figures.duration((until - made.newest_at).total_seconds())} before {until:%Y-%m-%d %H:%M} UTC"
    if made.tests == 1:
        lines = [f"From a single test, {age}."]
    else:
        lines = [f"Median of {_tests(made.tests)} since {made.oldest_at:%Y-%m-%d %H:%M} UTC, {age}."]
    if made.newer_left_out:
        lines.append(f"{_tests(made.newer_left_out)} since left out: the pings before had another loss or route.")
    if made.changes:
        lines.append(_changed(made, until))
    lines.append(_scored(made.score))
    return lines


MODEL_ALONE = (
    "No test of this kind to forecast from: from RTT, loss, window and capacity alone, never compared with a test."
)


def age_of_pings(since: datetime | None, until: datetime, *, is_since_change: bool) -> str:
    """Time of an estimate's RTT and loss; None for the whole period."""
    if since is None:
        return "RTT and loss are those of the whole period: the half hour before its end has too few pings."
    age = figures.duration((until - since).total_seconds())
    change = ", since its last change" if is_since_change else ""
    return f"RTT and loss are of the pings of the {age} before {until:%Y-%m-%d %H:%M} UTC{change}."


def unanswered(since: datetime, until: datetime) -> str:
    """Why there is no estimate at `until`."""
    return (
        f"No ping was answered from {since:%Y-%m-%d %H:%M:%S} to {until:%H:%M:%S} UTC: no expected throughput before "
        "replies return."
    )


def _tests(count: int) -> str:
    return f"{figures.count(count)} test{'' if count == 1 else 's'}"


def _changed(made: Forecast, until: datetime) -> str:
    words = {
        PathDifference.LOSS: f"loss {_loss(made.then)}, now {_loss(made.now)}",
        PathDifference.ROUTE: f"TTL of replies {made.then.ttl}, now {made.now.ttl}, RTT {_rtt(made.then)}, now"
        f" {_rtt(made.now)}",
    }
    differences = "; ".join(words[change] for change in made.changes)
    since = made.now.since
    when = "" if since is None else f" (pings of the {figures.duration((until - since).total_seconds())} before)"
    return (
        f"Pings before that test: {differences}{when}. Corrected from {rate(made.uncorrected_bps)}, with a wider "
        "interval, until another test."
    )


def _rtt(state: PathPings) -> str:
    return figures.milliseconds(state.rtt_ms)


def _loss(state: PathPings) -> str:
    return figures.loss(state.lost, state.sent)


def _scored(score: ForecastScore | None) -> str:
    if score is None:
        return "No earlier forecast to compare with a test."
    return (
        f"Earlier forecasts of this path: {figures.count(score.within_two)} of {figures.count(score.forecasts)} within "
        f"a factor of two of the next test, {figures.count(score.covered)} with the test in the 80% interval."
    )


def notes(loss_seen: Loss, answer: ThroughputEstimate) -> list[str]:
    lines = []
    if answer.sign is None:
        seen = "A rate of retransmits is no limit" if loss_seen.is_retransmits else "No loss was seen"
        lines.append(f"{seen}, and window and capacity are unknown: no figure shows the limit.")
    if answer.not_known and answer.throughput_bps:
        lines.append(f"Unknown: {' and '.join(answer.not_known)}, which may limit it further.")
    if loss_seen.is_forward:
        lines.append("The loss is that of the forward direction, which carries the data, counted by STAMP.")
    if loss_seen.is_retransmits and loss_seen.ratio > 0.0:
        lines.append("The loss is at most the rate of retransmits: that gives a lower bound of the throughput alone.")
    if loss_seen.none_of_some and any(limit.name is LimitName.LOSS for limit in answer.limits):
        lines.append(f"No loss seen; its 95% upper bound is used, {loss(loss_seen.bound_ratio)}.")
    if loss_seen.all_of_some:
        lines.append(f"Every packet was lost; the 95% lower bound of the loss is used, {loss(loss_seen.bound_ratio)}.")
    if answer.packets_to_tell is not None:
        lines.append(
            f"Unknown whether loss is the limit: that takes {figures.count(answer.packets_to_tell)} packets "
            "without a loss."
        )
    return lines


def ground(name: LimitName, rtt: Rtt, loss_seen: Loss, transfer: TransferSettings) -> str:
    streams = "" if transfer.streams == 1 else f" × {transfer.streams} streams"
    if name is LimitName.WINDOW:
        return f"{size(transfer.window_bytes or 0.0)} per RTT of {figures.milliseconds(rtt.median_ms)}{streams}"
    if name is LimitName.CAPACITY:
        return "given"
    if loss_seen.sent is None or loss_seen.lost is None:
        kind = "retransmits" if loss_seen.is_retransmits else "a loss"
        return f"{transfer.control} at {kind} of {loss(loss_seen.ratio)}{streams}"
    verb = "retransmitted" if loss_seen.is_retransmits else "lost"
    counts = f"{figures.count(loss_seen.lost)} of {figures.count(loss_seen.sent)} {verb}"
    way = " forward, by STAMP" if loss_seen.is_forward else ""
    return f"{transfer.control}, {counts} ({figures.loss(loss_seen.lost, loss_seen.sent)}){way}{streams}"


def calibrated(by: Calibration, raw: ThroughputEstimate) -> list[str]:
    """Basis of the calibration used, and the answer without it."""
    return [
        f"Calibrated: TCP saw {by.loss_factor:.2g} times the loss that ping saw, in {by.stretches} stretches of days "
        f"before this time. Cross-validated error: a factor of {by.error_factor:.2f}, without calibration "
        f"{by.raw_error_factor:.2f}.",
        f"Without calibration: {headline(raw)}.",
    ]


def not_calibrated(by: Calibration | None, stretches: int) -> str:
    """Why the answer is not calibrated by the path's own tests."""
    if by is None:
        return (
            f"Not calibrated: {stretches} of the {LEAST_STRETCHES} required stretches of days, each with a "
            f"test that the path limited and {LEAST_LOST} lost pings."
        )
    return (
        f"Not calibrated: cross-validated over {by.stretches} stretches of days, the error is a factor of "
        f"{by.raw_error_factor:.2f}, with calibration {by.error_factor:.2f}."
    )


def advice_rows(advice: SpeedUp, loss_seen: Loss, transfer: TransferSettings) -> list[tuple[str, str, str]]:
    rows = []
    if advice.window_bytes is not None:
        rows.append(("window", f"at least {size(advice.window_bytes)}", _now(transfer.window_bytes, size)))
    if advice.loss_ratio is not None:
        rows.append(("loss", f"at most {loss(advice.loss_ratio)}", f"now {loss(loss_seen.ratio)}"))
    if advice.capacity_bps is not None:
        rows.append(("capacity", f"at least {rate(advice.capacity_bps)}", _now(transfer.capacity_bps, rate)))
    if advice.streams is not None:
        now = f"now {figures.count(transfer.streams)}{_replaced_limits(advice)}"
        rows.append(("streams", figures.count(advice.streams), now))
    return rows


def at_this_rate(requirements: StreamRequirements) -> str:
    return (
        f"At this rate each stream needs a buffer of {size(requirements.buffer_bytes)}; ramp-up "
        f"{_time(requirements.slow_start_s)}, recovery from a loss {_time(requirements.recovery_s)}."
    )


def signed(rate_bps: float | None, sign: Sign | None) -> str:
    """A rate, with the sign of a bound."""
    if rate_bps is None or sign is None:
        return "none"
    mark = {Sign.AT_LEAST: "≥ ", Sign.AT_MOST: "≤ "}.get(sign, "")
    return f"{mark}{rate(rate_bps)}"


def interval(low_bps: float | None, high_bps: float | None, form: str) -> str:
    """Both ends, put into `form`; nothing where an end is open."""
    if low_bps is None or high_bps is None or low_bps == high_bps:
        return ""
    return form.format(f"{rate(low_bps)} to {rate(high_bps)}")


def rate(value_bps: float | None) -> str:
    return "0 bit/s" if value_bps == 0.0 else figures.bit_rate(value_bps)


def loss(ratio: float) -> str:
    """Loss in percent, or as a power of ten where it is tiny."""
    return figures.percent(ratio) if ratio == 0.0 or ratio >= 1e-6 else f"{ratio:.1e} (a ratio)"


def size(size_bytes: float) -> str:
    for scale, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size_bytes >= scale:
            return f"{size_bytes / scale:.3g} {unit}"
    return f"{size_bytes:.3g} bytes"


def _time(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds < 10.0 else figures.duration(seconds)


def _replaced_limits(advice: SpeedUp) -> str:
    spared = (LimitName.WINDOW, advice.window_bytes), (LimitName.LOSS, advice.loss_ratio)
    names = [name for name, wanted in spared if wanted is not None]
    return f"; instead of {' and '.join(names)}" if names else ""


def _now(value: float | None, written: Callable[[float], str]) -> str:
    return "now unknown" if value is None else f"now {written(value)}"
