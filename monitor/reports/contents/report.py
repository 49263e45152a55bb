"""A report as a tree of frozen dataclasses, the source of page, mail and PDF.

Ratios are 0 to 1; absence is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from monitor.analysis.directions import DirectionLosses, LostDirection, loss_direction
from monitor.archive.queries.for_reports import ResponseSummary, TransferVerdict
from monitor.archive.queries.paths import PathSummary
from monitor.archive.queries.throughput.aggregates import AggregateSummary
from monitor.archive.queries.throughput.series import PathThroughput
from monitor.archive.queries.throughput.under_load import LatencyUnderLoad
from monitor.archive.upkeep.freshness import EvaluationPause
from monitor.overview.links.use import LinkUse
from monitor.overview.promised_service import PromisedService
from monitor.reports.periods import Period


@dataclass(frozen=True, slots=True)
class ReportScope:
    kind: str = "mesh"  # `mesh`, `site` (paths from and to it) or `group` (paths within it)
    name: str = ""

    def __str__(self) -> str:
        return "mesh" if self.kind == "mesh" else f"{self.kind} {self.name}"


class ServiceTarget(StrEnum):
    """The figure that a service level limits."""

    LOSS = "loss"
    AVAILABILITY = "availability"
    RTT = "RTT"
    THROUGHPUT = "throughput"


@dataclass(frozen=True, slots=True)
class TargetResult:
    target: ServiceTarget
    limit: float
    kept_ratio: float | None
    actual: float  # loss or availability ratio; else share of hours or tests within the target
    budget_used: float  # share of the error budget; above 1 the target is missed

    @property
    def is_kept(self) -> bool:
        return self.budget_used <= 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PathReport:
    path_id: int
    source: str
    destination: str
    source_site: str
    destination_site: str
    family: int
    packet_bytes: int | None  # largest packet
    began_at: datetime | None
    retired_at: datetime | None
    summary: PathSummary | None  # None without data
    before: PathSummary | None  # None without data
    year_before: PathSummary | None  # None without data
    bursts_planned: int | None  # None without a known plan
    throughput: PathThroughput | None
    throughput_before: PathThroughput | None
    throughput_year_before: PathThroughput | None
    capacity_bps: float | None
    verdict: TransferVerdict | None
    targets: tuple[TargetResult, ...]
    loss_days: tuple[float | None, ...]  # days of the sparkline
    rtt_days_ms: tuple[float | None, ...]  # days of the sparkline
    under_load: LatencyUnderLoad | None = None
    measured_by: str | None = None  # packets behind loss and RTT (`monitor.mesh.queries.measured_by`)
    directions: DirectionLosses | None = None  # counts of STAMP tests
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
        """Measured bursts, also those with packets sent during throughput tests."""
        return 0 if self.summary is None else self.summary.bursts_measured

    @property
    def is_below_level(self) -> bool:
        """Whether it missed a target of its service level."""
        return not all(target.is_kept for target in self.targets)

    @property
    def throughput_bps(self) -> float | None:
        return None if self.throughput is None else self.throughput.throughput_median_bps


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


class ComparedFigure(StrEnum):
    LOSS = "loss"
    RTT = "RTT"
    THROUGHPUT = "throughput"


@dataclass(frozen=True, slots=True)
class FigureChange:
    """A significant change of a path's figure."""

    path: PathReport
    figure: ComparedFigure
    now: float
    before: float
    chance: float  # p-value of this test
    adjusted: float  # p-value corrected for all tests

    @property
    def is_worse(self) -> bool:
        return (self.now < self.before) == (self.figure is ComparedFigure.THROUGHPUT)


@dataclass(frozen=True, slots=True)
class FigureChanges:
    """The significant changes, by size."""

    tests: int
    not_tested: int  # paths with too few days
    worse: tuple[FigureChange, ...]
    better: tuple[FigureChange, ...]


@dataclass(frozen=True, slots=True)
class IncidentReport:
    """An incident that was open in the period."""

    incident_id: int
    title: str  # as on its page, in the zone and numbers of the report
    damage: tuple[float, int, int, float]  # sort key: loss × paths × time; without loss severity, rule and figure
    opened_at: datetime  # onset
    closed_at: datetime | None
    seconds: float  # length, up to now if open
    paths: tuple[str, ...]


class Improvement(StrEnum):
    """A measure that would raise a path's throughput."""

    RECEIVE_BUFFER = "raise the receive buffer"
    SEND_BUFFER = "raise the send buffer"
    LOSS = "reduce the loss"


@dataclass(frozen=True, slots=True)
class SiteAdvice:
    """A change at a site and its gain."""

    measure: Improvement
    site: str
    paths: tuple[str, ...]
    times: float  # median over its paths
    gain_bps: float  # sum over its paths
    window_bytes: float | None  # maximum buffer that its paths need
    loss_ratio: float | None  # maximum loss


@dataclass(frozen=True, slots=True)
class ModelScore:
    """Accuracy of estimates against the median of the tests, over paths."""

    model: str
    figures: int
    median_ratio: float | None  # estimate over measurement, of estimates that are a figure
    within_two: int
    bounds: int
    bounds_held: int  # number of correct bounds


@dataclass(frozen=True, slots=True)
class ForecastResult:
    """Tests of the period forecast from earlier tests."""

    tests: int
    within_two: int
    covered: int


@dataclass(frozen=True, slots=True)
class RouteChangeReport:
    """A route change that changed RTT or loss."""

    path: str
    at: datetime
    effects: tuple[str, ...]  # such as "+60 ms"
    replacement: str  # new part: "now by AS 174 instead of AS 3356"


@dataclass(frozen=True, slots=True)
class RoutesReport:
    traced_paths: int
    changes: int
    with_effect: tuple[RouteChangeReport, ...]  # by time
    steps: int  # RTT steps of these paths
    explained: int  # steps explained by a route change
    as_table: str | None  # source of the AS numbers, with date


@dataclass(frozen=True, slots=True)
class PathCongestionReport:
    """A path that is congested at the same hours of most days."""

    path: str
    days_congested: int
    rise_ms: float
    words: str  # its hours, most days first


@dataclass(frozen=True, slots=True)
class CoverageLine:
    """Number of planned measurements with the same test, outcome and reason."""

    test: str
    outcome: str
    reason: str | None
    count: int


@dataclass(frozen=True, slots=True)
class Sentence:
    rule: str  # rule that wrote it
    text: str
    figures: Mapping[str, object]  # by their names in this tree


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    mesh: str
    scope: ReportScope
    period: Period
    written_at: datetime
    state: ScopeFigures
    before: ScopeFigures
    year_before: ScopeFigures
    paths: tuple[PathReport, ...]  # pinged paths, by name
    throughput_only: tuple[PathReport, ...]  # paths never pinged
    changes: FigureChanges
    pauses: tuple[EvaluationPause, ...]  # of the alert evaluation
    incidents: tuple[IncidentReport, ...]
    routes: RoutesReport | None  # None where no path was traced
    advice: tuple[SiteAdvice, ...]
    scores: tuple[ModelScore, ...]
    forecasts: ForecastResult
    coverage: tuple[CoverageLine, ...]
    data_since: datetime | None  # first data, loaded only for a period without data
    lacks_since: datetime | None  # arrival of the oldest result missing from the hours, or None
    sentences: tuple[Sentence, ...]
    congestion: tuple[PathCongestionReport, ...] = ()
    responses: tuple[tuple[str, ResponseSummary], ...] = ()  # request-response runs by path name and test
    aggregates: tuple[AggregateSummary, ...] = ()  # aggregate tests

    @property
    def is_over(self) -> bool:
        return self.written_at >= self.period.until

    @property
    def is_empty(self) -> bool:
        return not self.state.measured and self.state.throughput_median_bps is None

    @property
    def until(self) -> datetime:
        return min(self.period.until, max(self.written_at, self.period.since))

    @property
    def title(self) -> str:
        return (self.mesh or "Soundings") if self.scope.kind == "mesh" else f"{self.mesh}: {self.scope}"

    @property
    def packet_sizes(self) -> tuple[int, ...]:
        return tuple(sorted({path.packet_bytes for path in self.paths if path.packet_bytes is not None}, reverse=True))
