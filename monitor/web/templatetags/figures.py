"""Template filters, named as in `monitor.analysis.figures` and `monitor.web.request.times`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property

from django import template
from django.template import Context
from django.urls import reverse
from django.utils import timezone
from django.utils.html import conditional_escape, format_html
from django.utils.safestring import SafeString

from monitor.alerts.evidence import ending, words
from monitor.alerts.evidence.words import headline
from monitor.alerts.incidents.gravest import active_findings
from monitor.alerts.incidents.own_track import own_track
from monitor.alerts.models import Incident, IncidentState
from monitor.analysis import figures
from monitor.archive.queries.paths import PathSummary
from monitor.archive.upkeep import freshness, trouble
from monitor.mesh.models import Path
from monitor.overview.changes import PathChange
from monitor.overview.grid import Grid
from monitor.overview.mesh_state import MeshState, load_mesh_state
from monitor.web import labels
from monitor.web.charts.marks import CHANGE_SIGNS
from monitor.web.request import times
from monitor.web.trends import Trend

register = template.Library()
register.filter("milliseconds", figures.milliseconds)
register.filter("bit_rate", figures.bit_rate)
register.filter("bit_rates", figures.bit_rates)
register.filter("count", figures.count)
register.filter("over_words", words.over_words)
register.filter("percent", figures.percent)
register.filter("distance", times.distance)
register.filter("clock", times.clock)
register.filter("words", labels.outcome_label)
register.filter("turn", labels.turn_label)
register.filter("ordinal", labels.ordinal)
register.filter("in_zone", times.in_zone_marked)


@register.filter(name="headline")
def headline_in_zone(incident: Incident) -> str:
    return times.in_zone(headline(incident))


@register.filter
def field_time(minute_utc: str) -> str:
    """A UTC minute as date fields show it in the reader's zone."""
    at = datetime.fromisoformat(minute_utc).replace(tzinfo=UTC)
    return f"{timezone.localtime(at):%Y-%m-%dT%H:%M}"


@register.filter
def loss(summary: PathSummary) -> str:
    return figures.loss(summary.lost, summary.sent)


@register.filter
def moment(at: datetime) -> SafeString:
    return times.marked(at, times.minute(at))


@register.filter
def instant(at: datetime) -> str:
    """UTC to the microsecond, as in addresses."""
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


@register.simple_tag
def excluded_packets() -> str:
    """Packets excluded from all figures but those under load."""
    return figures.EXCLUDED_PACKETS


@register.simple_tag
def age(at: datetime, now: datetime) -> SafeString:
    """Age that a script keeps counting; on paper, the time."""
    return format_html(
        '<time datetime="{}" data-age data-at="{}">{}</time>', at.isoformat(), times.minute(at), times.age(at, now)
    )


@register.simple_tag
def trend_time(trend: Trend, now: datetime) -> SafeString:
    """Age of a test, `since` the running hour began, or the hour."""
    if trend.until is None:
        return age(trend.at, now)
    if trend.until > now:
        return format_html("since {}", times.marked(trend.at, times.clock_minute(trend.at)))
    return times.marked(trend.at, times.span(trend.at, trend.until))


@register.simple_tag
def lasting(since: datetime, until: datetime) -> str:
    return figures.duration((until - since).total_seconds())


@register.simple_tag
def lasting_so_far(since: datetime, now: datetime) -> str:
    """Duration, never rounded up, as in the state's sentence."""
    return figures.time_so_far((now - since).total_seconds())


@register.simple_tag
def incident_lasted(incident: Incident, now: datetime) -> str:
    return words.duration_text(incident, now)


@register.simple_tag
def incident_so_far(incident: Incident, now: datetime) -> SafeString:
    """Duration, or since when the incident is over or lacks newer data."""
    if incident.over_since is not None:
        return format_html("over since {}", times.clock(incident.over_since))
    tracks = [own_track(row) for row in active_findings(incident)]
    newest_s = [track.newest_s for track in tracks if track is not None and track.level is None]
    if newest_s and len(newest_s) == len(tracks):
        return format_html("no newer data since {}", times.clock(datetime.fromtimestamp(max(newest_s), UTC)))
    return format_html("ongoing for {}", words.duration_text(incident, now))


@register.simple_tag
def span_of(since: datetime, until: datetime) -> SafeString:
    return times.marked(since, times.span(since, until))


@register.simple_tag
def moment_to_second(at: datetime) -> SafeString:
    return times.marked(at, times.second(at))


@register.filter
def incident_over(incident: Incident) -> datetime | None:
    """Since when an open incident only waits to be closed."""
    at: datetime | None = incident.over_since
    return at


@register.filter
def incident_style(incident: Incident) -> str:
    """Style of a card: `open`, `open over` or `closed`."""
    if incident.closed_at is not None:
        return "closed"
    return "open" if incident.over_since is None or incident.is_pending else "open over"


@register.filter
def incident_has_ended(incident: Incident) -> bool:
    return ending.is_over(incident)


@register.filter
def incident_since(incident: Incident) -> datetime:
    return words.since(incident)


@register.filter
def incident_about(incident: Incident) -> str:
    """`about ` before an onset not known to the minute."""
    return words.about(incident)


@register.filter
def incident_until(incident: Incident) -> datetime | None:
    """End of an incident, None while it lasts."""
    return words.until(incident)


@register.simple_tag
def change_sign(change: PathChange) -> SafeString:
    sign = CHANGE_SIGNS[change.kind]
    return format_html('<span class="key-sign {}-change" aria-hidden="true">{}</span>', change.kind, sign)


@register.filter
def of_key(by_key: Mapping[int, Trend] | str, key: int) -> Trend | None:
    return by_key.get(key) if isinstance(by_key, Mapping) else None


@register.simple_tag
def with_path_links(sentence: str, links: Mapping[str, int]) -> SafeString:
    html, rest = SafeString(), sentence
    for name, path_id in links.items():
        before, found, rest = rest.partition(name)
        link = format_html('<a href="{}">{}</a>', reverse("path", args=[path_id]), name) if found else ""
        html += format_html("{}{}", before, link)
    return html + conditional_escape(rest)


@register.simple_tag
def database_troubles() -> list[trouble.DatabaseTrouble]:
    """Known reasons why nothing can be stored now."""
    return trouble.current_trouble()


class Current:
    """State of mesh and summaries, read once, when first needed."""

    def __init__(
        self,
        can_ask: bool,
        state: MeshState | None = None,
        fresh: freshness.Freshness | None = None,
    ) -> None:
        self._can_ask = can_ask
        self._state = state
        self._given = fresh

    @cached_property
    def _fresh(self) -> freshness.Freshness:
        return freshness.load() if self._given is None else self._given

    @cached_property
    def mesh(self) -> MeshState | None:
        """State of the mesh, None on error pages."""
        if self._state is not None:
            return self._state
        return load_mesh_state(self._fresh, timezone.now()) if self._can_ask else None

    @cached_property
    def stale(self) -> dict[str, freshness.OverdueWork]:
        return {work.work.value: work for work in self._fresh.stale_at(timezone.now())} if self._can_ask else {}

    @cached_property
    def lacks_since(self) -> datetime | None:
        """Since when hourly and longer summaries lack results."""
        return self._fresh.summaries_lack_since(timezone.now()) if self._can_ask else None


@register.simple_tag(takes_context=True)
def current_state(context: Context) -> Current:
    """State for a page; error pages have neither request nor database."""
    grid, state, fresh = (context.get(name) for name in ("grid", "state", "fresh"))
    if isinstance(grid, Grid) and fresh is None:
        fresh = grid.fresh
    return Current(
        "request" in context,
        state if isinstance(state, MeshState) else None,
        fresh if isinstance(fresh, freshness.Freshness) else None,
    )


# The sign and the style of each state of an incident; its word is always there too.
SIGNS = {
    IncidentState.PENDING: ("○", "no-data"),
    IncidentState.OPEN: ("▲", "incident"),
    IncidentState.ACKNOWLEDGED: ("◐", "not-measured"),
    IncidentState.RESOLVED: ("✓", "none-lost"),
}
WAITS = "✓", "none-lost", "over, waiting to close"


@register.simple_tag
def incident_state(incident: Incident) -> SafeString:
    sign, style, word = WAITS if incident_style(incident) == "open over" else (*SIGNS[incident.state], incident.state)
    return format_html(
        '<span class="swatch {}"><span aria-hidden="true">{}&nbsp;</span>{}</span> <span class="severity {}">{}</span>',
        *(style, sign, word, incident.severity, incident.severity),
    )


@register.filter
def paths_of(incident: Incident, most: int) -> list[Path]:
    return list(_paths(incident).values())[:most]


@register.filter
def paths_beyond(incident: Incident, most: int) -> int:
    return max(0, len(_paths(incident)) - most)


def _paths(incident: Incident) -> dict[int, Path]:
    return {row.path_id: row.path for row in incident.paths.all()}
