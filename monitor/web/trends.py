"""Trends of 24 hours as SVG with a sentence for screen readers; a list costs one or two queries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from monitor.alerts.detect.rules.catalogue import rule_of
from monitor.alerts.detect.rules.finding import Trouble
from monitor.alerts.evidence.words import worst_finding
from monitor.alerts.models import Incident
from monitor.analysis import figures
from monitor.archive.queries import trends
from monitor.archive.queries.trends import HourOfPath, HourOfSite, WantedPath
from monitor.overview.grid import measured_packet_bytes
from monitor.overview.wide.losses import SHARED_FROM_SITES
from monitor.overview.wide.shared import SharedResults
from monitor.reports.formats.sparklines import svg_path

HOURS = 24
WIDTH, HEIGHT = 96, 18
LOSS = "loss"
# The steps of a trend, as its sentence calls them.
HOURLY, TESTS = "hours", "tests"
# The height of a picture is at least this share of the largest value: smaller changes are no news.
MIN_SPAN_RATIO = 0.1
MIN_LOSS_SPAN_RATIO = 0.001

Value = float | None


@dataclass(frozen=True, slots=True)
class Trend:
    """Picture, empty for a single value, with the newest value in words: of a test at `at`, or of packets from `at` to
    `until`."""

    svg: SafeString
    what: str
    newest: str
    at: datetime
    until: datetime | None = None

    @property
    def steps(self) -> str:
        return "test" if self.until is None else "hour"


def draw(steps: Sequence[tuple[datetime, Value]], what: str, step: str, write: Callable[[float], str]) -> Trend | None:
    """Draw steps of `HOURLY` or `TESTS`, oldest first, None without data."""
    measured = [(at, value) for at, value in steps if value is not None]
    if not measured:
        return None
    values = [value for _, value in measured]
    at, newest = measured[-1]
    low, high = write(min(values)), write(max(values))
    spread = low if low == high else f"{low} to {high}"
    missing = len(steps) - len(measured)
    gaps = f", {missing} of {len(steps)} {step} without data" if missing else ""
    sentence = f"{what} of 24 h: {spread}, newest {write(newest)}{gaps}"
    min_span = MIN_LOSS_SPAN_RATIO if what == LOSS else MIN_SPAN_RATIO * max(values)
    line = svg_path([value for _, value in steps], WIDTH, HEIGHT, min_span=min_span)
    svg = (
        ""
        if len(measured) == 1
        else (
            f'<svg class="trend" viewBox="-2 -2 {WIDTH + 4} {HEIGHT + 4}" width="{WIDTH + 4}" height="{HEIGHT + 4}" '
            f'role="img" aria-label="{escape(sentence)}"><title>{escape(sentence)}</title><path d="{line}"/></svg>'
        )
    )
    return Trend(mark_safe(svg), what, write(newest), at, at + timedelta(hours=1) if step == HOURLY else None)


def of_sites(now: datetime, site_ids: Collection[int], sites: int) -> dict[int, Trend]:
    """Loss on the paths from each site. Of many `sites`, readers share the newest hours for seconds, earlier hours for
    minutes."""
    hours = _hours(now)
    if sites < SHARED_FROM_SITES:
        rows = _site_hours(hours[0], now)
    else:
        earlier = _earlier.get(None, now, lambda: _EarlierHours(hours[-2], _site_hours(hours[0], now, hours[-2])))
        since = max(earlier.until, hours[0])
        rows = [row for row in earlier.rows if row.at >= hours[0]]
        rows += _newest.get(since, now, lambda: _site_hours(since, now))
    values: dict[int, dict[datetime, Value]] = defaultdict(dict)
    for row in rows:
        if row.site_id in site_ids:
            values[row.site_id][row.at] = (row.sent - row.received) / row.sent
    return _drawn({key: _on(hours, of_site) for key, of_site in values.items()}, LOSS, HOURLY, figures.percent)


@dataclass(frozen=True, slots=True)
class _EarlierHours:
    """Rows of all hours but the last two, whose results may be on their way."""

    until: datetime
    rows: list[HourOfSite]


_earlier: SharedResults[None, _EarlierHours] = SharedResults(
    new_for=timedelta(minutes=10), shown_for=timedelta(minutes=20), is_large=lambda _: True
)
_newest: SharedResults[datetime, list[HourOfSite]] = SharedResults(
    new_for=timedelta(seconds=30), shown_for=timedelta(minutes=2), is_large=lambda _: True
)


def _site_hours(since: datetime, now: datetime, until: datetime | None = None) -> list[HourOfSite]:
    size = measured_packet_bytes()
    return trends.site_trends(since, until or _hours(now)[-1] + timedelta(hours=1), size)


def of_tests(path_ids: Sequence[int], now: datetime) -> dict[int, Trend]:
    wanted = [WantedPath(path_id, now - timedelta(hours=HOURS), now) for path_id in path_ids]
    steps = _tests(wanted)
    drawn = _drawn(steps, "throughput", TESTS, figures.bit_rate)
    return {path_ids[place]: trend for place, trend in drawn.items()}


def of_incidents(incidents: Sequence[Incident], now: datetime) -> dict[int, Trend]:
    """Trend of each incident's worst path, to its end or now; hours are whole, so it differs from the title's
    figure."""
    of_tests, of_pings, are_rtts = [], [], []
    for incident in incidents:
        finding = worst_finding(incident)
        if finding is None:
            continue
        hours = _hours(incident.closed_at or now)
        trouble = rule_of(finding.rule).trouble
        if trouble is Trouble.RESPONSES:
            continue  # the trend is of pings or of throughput tests
        if trouble.needs_tests:
            until = incident.closed_at or now
            of_tests.append((incident.pk, WantedPath(finding.path_id, until - timedelta(hours=HOURS), until)))
        else:
            of_pings.append((incident.pk, WantedPath(finding.path_id, hours[0], hours[-1] + timedelta(hours=1))))
            are_rtts.append("after_ms" in finding.figures)
    drawn: dict[int, Trend] = {}
    if of_tests:
        steps = _tests([wanted for _, wanted in of_tests])
        for place, trend in _drawn(steps, "throughput", TESTS, figures.bit_rate).items():
            drawn[of_tests[place][0]] = trend
    if of_pings:
        size = measured_packet_bytes()
        rows: dict[int, list[HourOfPath]] = defaultdict(list)
        for row in trends.path_trends([wanted for _, wanted in of_pings], size):
            rows[row.place].append(row)
        for place, (incident_id, wanted) in enumerate(of_pings):
            by_hour = _of_hours(rows[place], wanted, is_rtt=are_rtts[place])
            if by_hour is not None:
                drawn[incident_id] = by_hour
    return drawn


def _of_hours(rows: Sequence[HourOfPath], wanted: WantedPath, *, is_rtt: bool) -> Trend | None:
    hours = [wanted.since + timedelta(hours=number) for number in range(HOURS)]
    if is_rtt:
        return draw(_on(hours, {row.at: row.rtt_median_ms for row in rows}), "RTT", HOURLY, figures.milliseconds)
    losses = {row.at: (row.sent - row.received) / row.sent for row in rows if row.sent}
    return draw(_on(hours, losses), LOSS, HOURLY, figures.percent)


def _tests(wanted: Sequence[WantedPath]) -> dict[int, list[tuple[datetime, Value]]]:
    steps: dict[int, list[tuple[datetime, Value]]] = defaultdict(list)
    for row in trends.throughput_trends(wanted):
        steps[row.place].append((row.at, row.throughput_bps))
    return steps


def _drawn(
    steps: Mapping[int, Sequence[tuple[datetime, Value]]], what: str, step: str, write: Callable[[float], str]
) -> dict[int, Trend]:
    drawn = {key: draw(of_key, what, step, write) for key, of_key in steps.items()}
    return {key: trend for key, trend in drawn.items() if trend is not None}


def _hours(until: datetime) -> list[datetime]:
    last = until.replace(minute=0, second=0, microsecond=0)
    return [last - timedelta(hours=number) for number in range(HOURS - 1, -1, -1)]


def _on(hours: Sequence[datetime], values: Mapping[datetime, Value]) -> list[tuple[datetime, Value]]:
    return [(at, values.get(at)) for at in hours]
