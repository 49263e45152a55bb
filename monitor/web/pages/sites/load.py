"""Load the sites page: each agent's state and problems in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

import probes
from monitor.agents.health import AgentReport, ClockWasOff, agent_reports, clock_off_periods
from monitor.agents.holders import SecondAgent, enrolled_sites, second_agents
from monitor.agents.late_agents import is_late
from monitor.agents.problems import ProblemKind
from monitor.analysis import figures
from monitor.archive.queries.operation.ledger import time_offline
from monitor.archive.queries.recent import fresh_s
from monitor.mesh.models import Site
from monitor.mesh.queries import shortest_cycles_s
from monitor.overview.wide.losses import SHARED_FROM_SITES
from monitor.overview.wide.mesh_results import MeshResult
from probes.commands.own_command import MANAGE
from probes.site.health import Health
from probes.site.versions import is_older

CLOCKS_SHOWN = timedelta(days=7)
OFFLINE_SHOWN = timedelta(days=1)
PROBLEMS_SINCE = timedelta(hours=1)
POOR_STAMP = "user"
# Figures of an older report are shown with its age.
FRESH_FOR = timedelta(minutes=1)
# An unsynchronised clock with this offset will soon be a second off.
DRIFTING_S = 0.1


class AgentState(Enum):
    """Sign, style and label, worst first."""

    LATE = ("▲", "loss-4", "late")
    TROUBLE = ("▲", "loss-3", "in trouble")
    NOTICE = ("●", "loss-2", "needs attention")
    SILENT = ("○", "no-data", "never reported")
    WELL = ("✓", "none-lost", "OK")

    def __init__(self, sign: str, style: str, word: str) -> None:
        self.sign = sign
        self.style = style
        self.word = word


@dataclass(frozen=True, slots=True)
class CardProblem:
    state: AgentState
    text: str


@dataclass(frozen=True, slots=True)
class SiteCard:
    site: Site
    report: AgentReport | None  # None if it never reported
    findings: tuple[CardProblem, ...]
    has_token: bool
    offline: timedelta | None = None  # recent downtime by its own account, excluded from missed cycles

    @property
    def offline_text(self) -> str:
        return "none" if self.offline is None else figures.duration(self.offline.total_seconds())

    @property
    def state(self) -> AgentState:
        return next(
            (state for state in AgentState if any(finding.state is state for finding in self.findings)), AgentState.WELL
        )

    @property
    def health(self) -> Health | None:
        return None if self.report is None else self.report.health

    @property
    def age(self) -> str:
        """Age of the report, empty where figures are current."""
        return "" if self.report is None else _age(self.report)

    @property
    def clock(self) -> str | None:
        """Clock offset, None where it was not compared."""
        if self.health is None or self.health.clock_offset_s is None:
            return None
        return _clock(self.health.clock_offset_s) + (", no NTP" if _no_ntp(self.health) else "")


@dataclass(frozen=True, slots=True)
class OffPeriod:
    site: str
    period: ClockWasOff

    @property
    def offset(self) -> str:
        return _clock(self.period.offset_s)


@dataclass(frozen=True, slots=True)
class SitesView:
    """Worst first; `counts` has sites by state."""

    cards: tuple[SiteCard, ...]
    counts: tuple[tuple[AgentState, int], ...]
    off_periods: tuple[OffPeriod, ...]


_cycles_s = MeshResult(shortest_cycles_s, is_large=lambda of_sites: len(of_sites) >= SHARED_FROM_SITES)


def load_sites(now: datetime) -> SitesView:
    sites = list(Site.objects.in_use().filter(has_agent=True))
    reports = {report.site_id: report for report in agent_reports(now)}
    states = list(AgentState)
    seconds, offline = second_agents(now), time_offline(now - OFFLINE_SHOWN, now)
    every_s = _cycles_s.get()
    enrolled = enrolled_sites() if any(site.pk not in reports for site in sites) else ()
    cards = [
        SiteCard(
            site,
            report,
            (*_second_agent_problems(site, seconds.get(site.pk), now), *_findings(report, every_s.get(site.pk), now)),
            site.name in enrolled,
            offline.get(site.pk),
        )
        for site in sites
        for report in [reports.get(site.pk)]
    ]
    cards.sort(key=lambda card: (states.index(card.state), card.site.name))
    counts = Counter(card.state for card in cards)
    names = {site.pk: site.name for site in sites}
    periods = clock_off_periods(now - CLOCKS_SHOWN, now + CLOCKS_SHOWN, site_ids=list(names))
    return SitesView(
        cards=tuple(cards),
        counts=tuple((state, counts[state]) for state in AgentState if counts[state]),
        off_periods=tuple(OffPeriod(names[period.site_id], period) for period in reversed(periods)),
    )


def _second_agent_problems(site: Site, second: SecondAgent | None, now: datetime) -> Iterator[CardProblem]:
    if second is None:
        return
    ago = figures.duration((now - second.refused_at).total_seconds())
    where = f" at {second.address}" if second.address else ""
    yield CardProblem(
        AgentState.TROUBLE,
        f"a second agent{where} shows this site's token and is refused, last {ago} ago: stop one of the two; "
        f"{MANAGE} site rotate {site.name} gives the site to another",
    )


def _findings(report: AgentReport | None, every_s: int | None, now: datetime) -> Iterator[CardProblem]:
    if report is None:
        yield CardProblem(AgentState.SILENT, "its agent never reported")
        return
    if is_late(report.accepted_ago):
        yield CardProblem(AgentState.LATE, f"no report for {figures.duration(report.accepted_ago.total_seconds())}")
    elif every_s is not None and report.accepted_ago.total_seconds() > fresh_s(every_s):
        ago = figures.duration(report.accepted_ago.total_seconds())
        yield CardProblem(AgentState.NOTICE, f"its next report is overdue, the last was {ago} ago")
    for problem in report.problems(now - PROBLEMS_SINCE):
        if problem.kind is ProblemKind.CLOCK and report.health is not None and report.health.clock_offset_s is not None:
            yield CardProblem(
                AgentState.TROUBLE, f"its clock is {_clock(report.health.clock_offset_s)}; results are kept and flagged"
            )
        else:
            age = _age(report)
            yield CardProblem(AgentState.NOTICE, f"{problem.text} at its last report, {age}" if age else problem.text)
    if is_older(report.agent_version, than=probes.__version__):
        yield CardProblem(
            AgentState.NOTICE, f"version {report.agent_version} is older than the centre's, {probes.__version__}"
        )
    if report.health is not None:
        yield from _health_problems(report.health)


def _age(report: AgentReport) -> str:
    ago = report.accepted_ago
    return f"{figures.duration(ago.total_seconds())} ago" if ago > FRESH_FOR else ""


def _health_problems(health: Health) -> Iterator[CardProblem]:
    for drops in health.dropped:
        yield CardProblem(
            AgentState.NOTICE, f"its spool dropped {drops.count:,} results of kind {drops.kind}: {_words(drops.reason)}"
        )
    if health.set_aside:
        yield CardProblem(AgentState.NOTICE, f"{health.set_aside:,} results quarantined: the centre rejected them")
    if health.lost_ticks:
        yield CardProblem(AgentState.NOTICE, f"{health.lost_ticks:,} missed cycles since it started")
    if health.bugs:
        yield CardProblem(AgentState.NOTICE, f"{health.bugs:,} unexpected errors since it started; see the agent's log")
    if health.stamp == POOR_STAMP:
        yield CardProblem(
            AgentState.NOTICE, "RTTs use timestamps of the program, not the kernel: they include its own delays"
        )
    if health.clock_offset_s is not None and abs(health.clock_offset_s) > DRIFTING_S and _no_ntp(health):
        yield CardProblem(AgentState.NOTICE, f"its clock is {_clock(health.clock_offset_s)}, not synchronised by NTP")


def _no_ntp(health: Health) -> bool:
    return health.kernel_clock is not None and not health.kernel_clock.is_synchronised


def _clock(offset_s: float) -> str:
    way = "ahead" if offset_s >= 0 else "behind"
    size_s = abs(offset_s)
    return f"{figures.duration(size_s)} {way}" if size_s >= 60 else f"{size_s:.3f} s {way}"


def _words(reason: str) -> str:
    return reason.replace("_", " ")
