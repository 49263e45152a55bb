"""A report as typed data: a tree of frozen dataclasses, the source of page, mail and PDF.

`monitor.reports.contents.compose` builds it from the data of `monitor.reports.contents.collect`. Ratios are 0 to 1;
absence is None. The only text for readers is the sentences of the summary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from monitor.analysis.binomial import lower_bound
from monitor.analysis.directions import DirectionLosses, LostDirection, loss_direction
from monitor.analysis.loss import zero_loss_bound_ratio
from monitor.archive.queries.for_reports import ResponseSummary, TransferVerdict
from monitor.archive.queries.paths import PathSummary
from monitor.archive.queries.throughput.aggregates import AggregateSummary
from monitor.archive.queries.throughput.series import PathThroughput
from monitor.archive.queries.throughput.under_load import LatencyUnderLoad
from monitor.archive.upkeep.freshness import EvaluationPause
from monitor.overview.links.use import LinkUse
from monitor.overview.promised_service import PromisedService
from monitor.reports.periods import Period

GOAL_LOSS_RATIO = 0.001
"""The goal for every path: less loss than this."""


@dataclass(frozen=True, slots=True)
class ReportScope:
    """The scope of a report by `kind`: the whole "mesh", the paths from and to a "site", the paths within a "group"."""

    kind: str = "mesh"
    name: str = ""

    def __str__(self) -> str:
        return "mesh" if self.kind == "mesh" else f"{self.kind} {self.name}"


class Goal(StrEnum):
    """Whether a path met the goal of less than 0.1% loss."""

    MET = "met"
    MISSED = "missed"
    UNDETERMINED = "undetermined"
    NO_DATA = "no data"


class ServiceTarget(StrEnum):
    """The figure that a service level limits."""

    LOSS = "loss"
    AVAILABILITY = "availability"
    RTT = "RTT"
    THROUGHPUT = "throughput"


@dataclass(frozen=True, slots=True)
class TargetResult:
    """A target of a path. `budget_used` is the share of the error budget used: above 1 the target is missed.

    `actual` is the measured value: a loss or availability ratio; for RTT and throughput the share of hours or tests
    that met the target.
    """

    target: ServiceTarget
    limit: float
    kept_ratio: float | None
    actual: float
    budget_used: float

    @property
    def is_kept(self) -> bool:
        return self.budget_used <= 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PathReport:
    """A path. `packet_bytes` is its largest packet; `summary`, `before` and `year_before` are None without data,
    `bursts_planned` without a known plan. `loss_days` and `rtt_days_ms` are the days of the sparklines.
    `measured_by` says which packets loss and RTT are of (`monitor.mesh.queries.measured_by`); `directions` are the
    counts of STAMP tests."""

    path_id: int
    source: str
    destination: str
    source_site: str
    destination_site: str
    family: int
    packet_bytes: int | None
    began_at: datetime | None
    retired_at: datetime | None
    summary: PathSummary | None
    before: PathSummary | None
    year_before: PathSummary | None
    bursts_planned: int | None
    throughput: PathThroughput | None
    throughput_before: PathThroughput | None
    throughput_year_before: PathThroughput | None
    capacity_bps: float | None
    verdict: TransferVerdict | None
    targets: tuple[TargetResult, ...]
    loss_days: tuple[float | None, ...]
    rtt_days_ms: tuple[float | None, ...]
    under_load: LatencyUnderLoad | None = None
    measured_by: str | None = None
    directions: DirectionLosses | None = None
    promised: PromisedService | None = None
    links: tuple[LinkUse, ...] = ()

    @property
    def lost_direction(self) -> LostDirection:
        """The direction that loses packets, as far as the counts prove it."""
        return LostDirection.UNKNOWN if self.directions is None else loss_direction(self.directions)

    @property
    def name(self) -> str:
        return f"{self.source} → {self.destination}"

    @property
    def reverse_name(self) -> str:
        return f"{self.destination} → {self.source}"

    @property
    def sent(self) -> int:
        return 0 if self.summary is None else self.summary.sent

    @property
    def lost(self) -> int:
        return 0 if self.summary is None else self.summary.lost

    @property
    def bursts_measured(self) -> int:
        """Measured bursts, also those whose packets were sent during throughput tests."""
        return 0 if self.summary is None else self.summary.bursts_measured

    @property
    def throughput_bps(self) -> float | None:
        return None if self.throughput is None else self.throughput.throughput_median_bps

    @property
    def goal(self) -> Goal:
        return goal_of(self.summary)


def goal_of(summary: PathSummary | None) -> Goal:
    """Compare the loss with the goal.

    With too few packets to bound the loss below the goal even if none was lost, the goal can only be missed, where the
    lower 95% bound is above it: a path with a lost packet or two is then not worse than a path without.
    """
    if summary is None or summary.loss_ratio is None:
        return Goal.NO_DATA
    if zero_loss_bound_ratio(summary.sent) >= GOAL_LOSS_RATIO:
        is_missed = summary.lost > 0 and lower_bound(summary.lost, summary.sent) >= GOAL_LOSS_RATIO
        return Goal.MISSED if is_missed else Goal.UNDETERMINED
    return Goal.MET if summary.loss_ratio < GOAL_LOSS_RATIO else Goal.MISSED


@dataclass(frozen=True, slots=True)
class ScopeFigures:
    """All paths of a scope over a period. Medians are over paths, ratios pooled over all packets and bursts."""

    paths: int
    measured: int
    sent: int
    lost: int
    rtt_median_ms: float | None
    ipdv_median_ms: float | None
    available_ratio: float | None
    zero_loss_ratio: float | None
    throughput_median_bps: float | None
    goals: Mapping[Goal, int]


class ComparedFigure(StrEnum):
    """A figure that is tested for changes."""

    LOSS = "loss"
    RTT = "RTT"
    THROUGHPUT = "throughput"


@dataclass(frozen=True, slots=True)
class FigureChange:
    """A significant change of a path's figure. `chance` is this test's p-value, `adjusted` that among all tests."""

    path: PathReport
    figure: ComparedFigure
    now: float
    before: float
    chance: float
    adjusted: float

    @property
    def is_worse(self) -> bool:
        return (self.now < self.before) == (self.figure is ComparedFigure.THROUGHPUT)


@dataclass(frozen=True, slots=True)
class FigureChanges:
    """The significant changes: `worse` and `better` by size. `not_tested` paths had too few days."""

    tests: int
    not_tested: int
    worse: tuple[FigureChange, ...]
    better: tuple[FigureChange, ...]


@dataclass(frozen=True, slots=True)
class IncidentReport:
    """An incident that was open in the period; `opened_at` is its onset, `closed_at` its end, `seconds` its
    length, up to now if still open.

    `title` is that of its page.
    `damage` orders incidents: by loss × paths × time, those without loss by severity, rule and figure.
    """

    title: str
    damage: tuple[float, int, int, float]
    opened_at: datetime
    closed_at: datetime | None
    seconds: float
    paths: tuple[str, ...]


class Improvement(StrEnum):
    """A measure that would raise a path's throughput."""

    RECEIVE_BUFFER = "raise the receive buffer"
    SEND_BUFFER = "raise the send buffer"
    LOSS = "reduce the loss"


@dataclass(frozen=True, slots=True)
class SiteAdvice:
    """A change at a site and its gain: `times` is the median over its paths, `gain_bps` their sum.

    `window_bytes` is the maximum buffer that its paths need, `loss_ratio` the maximum loss.
    """

    measure: Improvement
    site: str
    paths: tuple[str, ...]
    times: float
    gain_bps: float
    window_bytes: float | None
    loss_ratio: float | None


@dataclass(frozen=True, slots=True)
class ModelScore:
    """Accuracy of estimates against the median of the tests, over paths. `median_ratio` is estimate over measurement,
    of the estimates that are a figure; `bounds_held` counts the correct bounds."""

    model: str
    figures: int
    median_ratio: float | None
    within_two: int
    bounds: int
    bounds_held: int


@dataclass(frozen=True, slots=True)
class ForecastResult:
    """Tests of the period that were forecast from earlier tests of their path: how many, within a factor of two of the
    forecast, and in its 80% interval."""

    tests: int
    within_two: int
    covered: int


@dataclass(frozen=True, slots=True)
class RouteChangeReport:
    """A route change that changed RTT or loss: `effects` such as "+60 ms", and `replacement`, its new part,
    as "now by AS 174 instead of AS 3356"."""

    path: str
    at: datetime
    effects: tuple[str, ...]
    replacement: str


@dataclass(frozen=True, slots=True)
class RoutesReport:
    """Routes of the traced paths: the number of changes, those with an effect, by time, and how many of the RTT `steps`
    of these paths a route change explains. `as_table` is the source of the AS numbers with its date."""

    traced_paths: int
    changes: int
    with_effect: tuple[RouteChangeReport, ...]
    steps: int
    explained: int
    as_table: str | None


@dataclass(frozen=True, slots=True)
class PathCongestionReport:
    """A path that is congested at the same hours of most days, with its hours in words: those of most days first."""

    path: str
    days_congested: int
    rise_ms: float
    words: str


@dataclass(frozen=True, slots=True)
class CoverageLine:
    """Number of planned measurements of a test with the same outcome and reason, in the terms of the ledger."""

    test: str
    outcome: str
    reason: str | None
    count: int


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of the summary, the rule that wrote it, and its figures, by their names in this tree."""

    rule: str
    text: str
    figures: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A report. `paths` are the pinged paths by name; `throughput_only` the paths that are never pinged. `pauses` are
    those of the alert evaluation. `data_since` is only loaded for a period without data: when the first data begin.
    `lacks_since` is the arrival of the oldest result that its hours lack, None where they have all. `routes` is None
    where no path was traced. `responses` are the request-response runs by path and test, with the name of the path,
    `aggregates` the aggregate tests."""

    mesh: str
    scope: ReportScope
    period: Period
    written_at: datetime
    state: ScopeFigures
    before: ScopeFigures
    year_before: ScopeFigures
    paths: tuple[PathReport, ...]
    throughput_only: tuple[PathReport, ...]
    changes: FigureChanges
    pauses: tuple[EvaluationPause, ...]
    incidents: tuple[IncidentReport, ...]
    routes: RoutesReport | None
    advice: tuple[SiteAdvice, ...]
    scores: tuple[ModelScore, ...]
    forecasts: ForecastResult
    coverage: tuple[CoverageLine, ...]
    data_since: datetime | None
    lacks_since: datetime | None
    sentences: tuple[Sentence, ...]
    congestion: tuple[PathCongestionReport, ...] = ()
    responses: tuple[tuple[str, ResponseSummary], ...] = ()
    aggregates: tuple[AggregateSummary, ...] = ()

    @property
    def is_over(self) -> bool:
        return self.written_at >= self.period.until

    @property
    def is_empty(self) -> bool:
        """Whether nothing was measured in it."""
        return not self.state.measured and self.state.throughput_median_bps is None

    @property
    def until(self) -> datetime:
        """End of its data."""
        return min(self.period.until, max(self.written_at, self.period.since))

    @property
    def title(self) -> str:
        return (self.mesh or "Soundings") if self.scope.kind == "mesh" else f"{self.mesh}: {self.scope}"

    @property
    def packet_sizes(self) -> tuple[int, ...]:
        return tuple(sorted({path.packet_bytes for path in self.paths if path.packet_bytes is not None}, reverse=True))
