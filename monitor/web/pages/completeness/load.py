"""Load measurement coverage and missing results by site and day."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from monitor.agents.health import agent_reports
from monitor.analysis import figures
from monitor.archive.queries.operation import completeness
from monitor.archive.queries.operation.completeness import SiteCoverage, SiteDay
from monitor.archive.queries.operation.deliveries import RefusedReport, newest_refused
from monitor.mesh.models import Site
from monitor.web.pages.grid.legend import LegendEntry

REFUSED_SHOWN = 100
DAY = timedelta(days=1)
# Minimum coverage of each class.
BANDS = ((0.0, "loss-5"), (0.8, "loss-4"), (0.95, "loss-3"), (0.99, "loss-1"), (0.999, "loss-0"), (1.0, "none-lost"))


@dataclass(frozen=True, slots=True)
class DayCell:
    style: str
    text: str
    counts: str
    missing: int


@dataclass(frozen=True, slots=True)
class SiteRow:
    site: Site
    cells: tuple[DayCell, ...]


@dataclass(frozen=True, slots=True)
class RefusedRow:
    site: str
    report: RefusedReport


@dataclass(frozen=True, slots=True)
class CompletenessView:
    days: tuple[date, ...]
    rows: tuple[SiteRow, ...]
    coverage: str | None  # in percent, None without scheduled bursts
    measured: int  # bursts
    missing: int
    dropped: int  # agents' own count of results, ever; some have no number
    refused: tuple[RefusedRow, ...]
    most_refused: int
    legend: tuple[LegendEntry, ...]


NOTHING = DayCell("unplanned", "·", "", 0)
PENDING = "pending"
LEGEND = (
    LegendEntry("none-lost", "100%", "all scheduled bursts"),
    LegendEntry("loss-0", "", "99.9% or more"),
    LegendEntry("loss-1", "", "99% or more"),
    LegendEntry("loss-3", "", "95% or more"),
    LegendEntry("loss-4", "", "80% or more"),
    LegendEntry("loss-5", "", "below 80%"),
    LegendEntry("no-data", "none", "nothing measured"),
    LegendEntry("not-measured", "no plan", "unscheduled results"),
    LegendEntry("unplanned", PENDING, "too early to tell"),
    LegendEntry("incident", "▼", "missing results"),
)


def load_completeness(length: int, now: datetime) -> CompletenessView:
    until = now.date() + DAY
    days = tuple(until - number * DAY for number in range(1, length + 1))
    both = completeness.days_of_sites(days[-1], until, now)
    by_site_and_day = {(came.site_id, came.day): (came, covered) for came, covered in both}
    with_any = {site_id for site_id, _ in by_site_and_day}
    sites = {site.pk: site for site in Site.objects.order_by("name")}
    refused = newest_refused(REFUSED_SHOWN)
    return CompletenessView(
        days=days,
        rows=tuple(
            SiteRow(site, tuple(cell_of(by_site_and_day.get((site.pk, day)), runs=day == now.date()) for day in days))
            for site in sites.values()
            if site.pk in with_any or (site.has_agent and site.retired_at is None)
        ),
        coverage=_coverage([covered for _, covered in both]),
        measured=sum(covered.bursts_measured for _, covered in both),
        missing=sum(came.missing for came, _ in both),
        dropped=sum(report.dropped for report in agent_reports(now)),
        refused=tuple(RefusedRow(sites[report.site_id].name, report) for report in refused),
        most_refused=REFUSED_SHOWN,
        legend=LEGEND,
    )


def cell_of(figures_of_day: tuple[SiteDay, SiteCoverage] | None, *, runs: bool) -> DayCell:
    """The cell of a site's day; `runs` is true for today."""
    if figures_of_day is None:
        return NOTHING
    came, covered = figures_of_day
    counts = f"{covered.bursts_measured:,} of {covered.bursts_planned:,}"
    ratio = covered.coverage_ratio
    if ratio is None and runs and covered.bursts_measured == 0:
        return DayCell("unplanned", PENDING, f"{came.delivered:,} received", came.missing)
    if ratio is None:
        return DayCell("not-measured", "no plan", f"{came.delivered:,} received", came.missing)
    if ratio == 0.0:
        return DayCell("no-data", "none", counts, came.missing)
    style = BANDS[bisect_right([least for least, _ in BANDS], ratio) - 1][1]
    return DayCell(style, figures.percent(ratio), counts, came.missing)


def _coverage(covered: list[SiteCoverage]) -> str | None:
    planned = sum(site_day.bursts_planned for site_day in covered)
    measured = sum(min(site_day.bursts_planned, site_day.bursts_measured) for site_day in covered)
    return None if planned == 0 else figures.percent(measured / planned)
