"""Load the status page, which may be public.

It never names hosts, uplinks, addresses, people, or text by people: incidents are named by sites and symptom, never by
cause or title.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta

from monitor.alerts.detect.rules.catalogue import rule_of
from monitor.alerts.detect.rules.finding import Effect, Trouble
from monitor.alerts.evidence import words
from monitor.alerts.incidents import listing, quiet
from monitor.alerts.incidents.gravest import active_findings, gravest_first
from monitor.alerts.incidents.own_present import load_present, own_present, signal_of
from monitor.alerts.incidents.own_track import is_outage
from monitor.alerts.incidents.queries import incidents_between
from monitor.alerts.models import Incident, IncidentPath, QuietPeriod
from monitor.analysis import figures
from monitor.archive.upkeep import freshness
from monitor.mesh.models import Group, Mesh, Site
from monitor.overview.mesh_state import MeshState, load_mesh_state
from monitor.overview.now.sentence import count_of_paths, rest
from monitor.present.conditions import Condition
from monitor.present.read import PresentPath
from monitor.present.track import Signal
from monitor.present.words import begun
from monitor.web.pages.status.bars import Bars, UptimeBar, draw
from monitor.web.pages.status.shares import StepShares, load_shares

DAYS = 90
HOURS = 24
PAST_DAYS = 14
MOST_PAST = 100
MOST_SITES = 100
# After the name of the running day and hour: their shares are of the elapsed time.
SO_FAR = " so far"
# Sites by name in the place of an incident; the others are counted.
MOST_NAMED = 4

_SYMPTOMS = {
    Effect.NO_DATA: "no measurements",
    Effect.UNREACHABLE: "no reply",
    Effect.LOSS: "packet loss",
    Effect.LOW_THROUGHPUT: "low throughput",
}
# Of a path that flaps: between its outages it answers.
AT_TIMES = "no reply at times"
# Of a path with a loss in trouble now.
LOSS_SYMPTOMS = {
    Condition.SUSPECT: _SYMPTOMS[Effect.LOSS],
    Condition.BAD: _SYMPTOMS[Effect.LOSS],
    Condition.FLAPS: AT_TIMES,
    Condition.DEAD: _SYMPTOMS[Effect.UNREACHABLE],
}
# By the words of their rule.
_SYMPTOMS_OF_DELAYS = {"RTT": "longer RTT", "jitter": "more jitter", "MOS": "poor voice quality"}
MOST_SYMPTOMS = 2


@dataclass(frozen=True, slots=True)
class PublicIncident:
    place: str
    symptom: str
    began_at: datetime  # when its present trouble began
    ended_at: datetime | None  # None while open
    over_since: datetime | None  # since when an open incident only waits to be resolved


@dataclass(frozen=True, slots=True)
class PublicMaintenance:
    """Maintenance at present or next."""

    place: str
    begins_at: datetime
    ends_at: datetime
    is_now: bool


@dataclass(frozen=True, slots=True)
class SiteUptime:
    name: str
    title: str
    days: Bars
    hours: Bars
    uptime_ratio: float | None  # share of measured path time without incidents; None if nothing was measured
    period: str  # period of the bars, or time since the site is measured
    open_incidents: int
    over_incidents: int  # of these, waiting to close

    @property
    def uptime_text(self) -> str:
        return "–" if self.uptime_ratio is None else _floored_percent(self.uptime_ratio)


@dataclass(frozen=True, slots=True)
class _Sites:
    """`at` and `earlier_at` as in `SiteShares`."""

    listed: tuple[SiteUptime, ...]
    number: int
    at: datetime | None
    earlier_at: datetime | None


@dataclass(frozen=True, slots=True)
class StatusView:
    mesh_name: str
    state: str
    style: str
    sites: tuple[SiteUptime, ...]
    all_sites: int
    counted_at: datetime | None  # when bars and uptime were counted; None for now
    earlier_at: datetime | None  # when bars of earlier days and hours were counted; None for now
    open: tuple[PublicIncident, ...]
    past: tuple[PublicIncident, ...]
    more_past: int
    maintenance: tuple[PublicMaintenance, ...]

    @property
    def more_sites(self) -> int:
        return self.all_sites - len(self.sites)


def load_status(now: datetime) -> StatusView:
    mesh = Mesh.objects.first()
    state = load_mesh_state(freshness.load(), now)
    recent = incidents_between(now - timedelta(days=PAST_DAYS), now + timedelta(seconds=1))
    # Merged incidents go on as part of another.
    ended = [row for row in recent if row.closed_at is not None and row.merged_into_id is None]
    past = [_public(row, ()) for row in sorted(ended, key=lambda row: row.closed_at or now, reverse=True)]
    sites, present = _sites(state, now), load_present(state.incidents)
    return StatusView(
        mesh_name="" if mesh is None else mesh.name,
        state=_state(state),
        style=state.style,
        sites=sites.listed,
        all_sites=sites.number,
        counted_at=sites.at,
        earlier_at=sites.earlier_at,
        open=tuple(_public(row, own_present(row, present)) for row in state.incidents),
        past=tuple(past[:MOST_PAST]),
        more_past=max(0, len(past) - MOST_PAST),
        maintenance=tuple(_maintenance(now)),
    )


def _state(state: MeshState) -> str:
    # Sentence without the names in incident titles.
    tally, number = state.tally, len(state.incidents)
    of_all = f"of {count_of_paths(tally.paths)}"
    if state.unknown_since is not None:
        return f"State unknown: not updated since {state.unknown_since:%Y-%m-%d %H:%M} UTC."
    if not tally.paths:
        return "Nothing is measured yet."
    if number:
        over = sum(incident.over_since is not None for incident in state.incidents)
        opened = f"{number} open incident{'s' if number > 1 else ''}{words.over_words(number, over)}"
        bad = "no path has a problem now"
        if tally.with_problems:
            verb = "has a problem" if tally.with_problems == 1 else "have problems"
            bad = f"{figures.count(tally.with_problems)} {of_all} {verb}"
        return f"{opened}: {bad}. {rest(tally, {'with_problems'})}".strip()
    if tally.checked:
        verb = "is" if tally.checked == 1 else "are"
        return f"{figures.count(tally.checked)} {of_all} {verb} being checked. {rest(tally, {'checked'})}".strip()
    return state.title


def _sites(state: MeshState, now: datetime) -> _Sites:
    midnight = datetime.combine(now.astimezone(UTC).date(), time(), UTC)
    days = [midnight - timedelta(days=number) for number in range(DAYS - 1, -1, -1)]
    hours = [midnight + timedelta(hours=number) for number in range(now.astimezone(UTC).hour + 1)]
    ends = ((incident.pk, incident.over_since) for incident in state.incidents)
    shares = load_shares(days, hours, now, {key: at for key, at in ends if at is not None})
    troubled = Counter(site for incident in state.incidents for site in _sites_of(incident))
    over = Counter(site for incident in state.incidents if incident.over_since for site in _sites_of(incident))
    every_site = list(Site.objects.in_use().values_list("id", "name", "title"))

    def order(site: tuple[int, str, str]) -> tuple[int, float]:
        ratio = shares.uptime.get(site[0])
        return -troubled[site[1]], 2.0 if ratio is None else ratio

    listed = every_site if len(every_site) <= MOST_SITES else sorted(every_site, key=order)[:MOST_SITES]
    day_names = [f"{at:%Y-%m-%d}{SO_FAR if at == days[-1] else ''}" for at in days]
    hour_names = [f"{at:%H:%M} UTC{SO_FAR if at == hours[-1] else ''}" for at in hours]
    sites = []
    for site_id, name, title in listed:
        daily = [_bar(site_id, at, day, shares.days) for at, day in zip(days, day_names, strict=True)]
        hourly = [_bar(site_id, at, hour, shares.hours) for at, hour in zip(hours, hour_names, strict=True)]
        sites.append(
            SiteUptime(
                name,
                title,
                draw(daily, f"{name}, last {DAYS} days", DAYS),
                draw(hourly, f"{name}, today by hour", HOURS),
                shares.uptime.get(site_id),
                _period(shares.since.get(site_id), days[0]),
                troubled[name],
                over[name],
            )
        )
    return _Sites(tuple(sites), len(every_site), shares.at, shares.earlier_at)


def _bar(site_id: int, at: datetime, name: str, shares: StepShares) -> UptimeBar:
    return UptimeBar(at, name, shares.incident.get((site_id, at), 0.0), shares.measured.get((site_id, at)))


def _period(since: datetime | None, first_day: datetime) -> str:
    return f"{DAYS} days" if since is None or since <= first_day else f"since {since.astimezone(UTC):%Y-%m-%d}"


def _floored_percent(ratio: float) -> str:
    # Rounded down, so that no incident rounds to 100%.
    return "100%" if ratio >= 1.0 else f"{int(ratio * 10_000) / 100:.2f}%"


def _public(incident: Incident, own: Sequence[PresentPath]) -> PublicIncident:
    began_at = begun(own) or words.since(incident)
    return PublicIncident(
        _place(incident), _symptom(incident, own), began_at, words.until(incident), incident.over_since
    )


def _symptom(incident: Incident, own: Sequence[PresentPath]) -> str:
    rows, present = gravest_first(active_findings(incident)), {path.path_id: path.condition for path in own}
    bad = [row for row in rows if row.path_id in present and present[row.path_id].is_trouble] or rows
    symptoms = list(dict.fromkeys(_symptom_of_row(row, present.get(row.path_id)) for row in bad))
    return " and ".join((symptoms or [_symptom_of(incident.rule)])[:MOST_SYMPTOMS])


def _symptom_of_row(row: IncidentPath, condition: Condition | None) -> str:
    if condition in LOSS_SYMPTOMS and signal_of(row) is Signal.LOSS:
        return LOSS_SYMPTOMS[condition]
    return _SYMPTOMS[Effect.UNREACHABLE] if is_outage(row) else _symptom_of(row.rule)


def _symptom_of(name: str) -> str:
    rule = rule_of(name)
    if rule.effect is not None:
        return _SYMPTOMS[rule.effect]
    return _SYMPTOMS_OF_DELAYS.get(rule.words, _of_trouble(rule.trouble))


def _of_trouble(trouble: Trouble) -> str:
    return {Trouble.THROUGHPUT: "low throughput", Trouble.RESPONSES: "slow responses"}.get(trouble, "degraded")


def _pairs(incident: Incident) -> set[tuple[str, str]]:
    return {(row.path.source.site.name, row.path.destination.site.name) for row in incident.paths.all()}


def _sites_of(incident: Incident) -> set[str]:
    return {site for pair in _pairs(incident) for site in pair}


def _place(incident: Incident) -> str:
    """`cern → slac` if the direction is known, `cern ↔ slac`, `cern (8 paths)` for a common site, else site names."""
    pairs = _pairs(incident)
    # Pings of either path cross both directions: the direction may be that of the reverse path.
    if incident.toward in {f"{source} → {to}" for pair in pairs for source, to in (pair, pair[::-1])}:
        return incident.toward
    sites = _sites_of(incident)
    if len(pairs) == 1 and rule_of(incident.rule).trouble in (Trouble.THROUGHPUT, Trouble.RESPONSES):
        return " → ".join(*pairs)  # pings cross both directions, a transfer one
    if len(sites) <= 2:
        return " ↔ ".join(sorted(sites))
    common = sorted(set.intersection(*(set(pair) for pair in pairs)))
    return f"{common[0]} ({len(incident.path_ids)} paths)" if common else _names(sites)


def _names(sites: Iterable[str]) -> str:
    named = sorted(sites)
    left = len(named) - MOST_NAMED
    return ", ".join(named[:MOST_NAMED]) + (f" and {left} more" if left > 0 else "")


def _maintenance(now: datetime) -> Iterable[PublicMaintenance]:
    members: dict[int, set[str]] = defaultdict(set)
    for group_id, site in Group.objects.in_use().values_list("id", "sites__name"):
        members[group_id].add(site)
    announced = []
    for row in listing.quiet_times(QuietPeriod.Kind.MAINTENANCE, now=now):
        time_of = quiet.next_time(row, now)
        if time_of is not None and time_of[0] < now + timedelta(days=PAST_DAYS):
            announced.append(PublicMaintenance(_scope(row, members), *time_of, is_now=row.holds_at(now)))
    return sorted(announced, key=lambda entry: (entry.begins_at, entry.place))


def _scope(row: QuietPeriod, members: Mapping[int, set[str]]) -> str:
    if row.path is not None:
        return _names({row.path.source.site.name, row.path.destination.site.name})
    if row.site is not None:
        return row.site.name
    return "all sites" if row.group_id is None else _names(members.get(row.group_id, set()))
