"""Headlines of incidents: the symptom, place, severity, beginning, and link.

In: an incident with its paths. Out: a headline, or a clause of it. `monitor.alerts.notify.incident_text` has messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings

from monitor.alerts.detect.rules.by_direction import DIRECTION
from monitor.alerts.detect.rules.catalogue import rule_of
from monitor.alerts.detect.rules.finding import Effect, Trouble
from monitor.alerts.evidence.likely_cause import cause_place, where_text
from monitor.alerts.evidence.pooled_loss import (
    few_lost,
    no_newer_data,
    none_lost_text,
    present_levels,
    present_text,
    proven_text,
    with_worst,
    worse_text,
    worst_of_rows,
)
from monitor.alerts.evidence.stated import BY_STAMP
from monitor.alerts.incidents.finding_level import FindingLevel, LevelUnit, is_normal_again
from monitor.alerts.incidents.gravest import (
    SAME_ONSET,
    OutageTimes,
    ended_outage,
    of_gravest_rule,
    unanswered_since,
)
from monitor.alerts.incidents.recovery import (
    is_back_to_normal,
    measured_until,
    over_since,
    paths_back_to_normal,
    paths_not_normal,
    stated_findings,
    without_newer_data,
)
from monitor.alerts.models import Incident, IncidentPath
from monitor.analysis import figures as shown

PLACES = ("AS ", "uplink ", "hop ", "link ", "the border ", "all ")
"""Beginnings of causes that are a part of the network, not its ends."""
OUTAGE_ALONE = timedelta(minutes=1)
"""An incident that ended so soon after the replies of an outage came again was nothing else."""
NAMED = 2
"""So many paths without newer data are named."""
SAME_BEGIN = timedelta(minutes=1)
"""A figure of a time that begins so soon after the onset is of the whole incident."""
PEAK_DIFFERS = 0.2
"""By this share of the peak the present figure is so far below it that a short text has both."""


def link(incident_id: int) -> str:
    """The URL of the incident's page."""
    return f"{settings.PUBLIC_URL}/incidents/{incident_id}/"


def figure_text(rule: str, figures: Mapping[str, Any]) -> str:
    """The figure of a finding in short: `loss 2.1%`, `RTT 45.2 ms (was 20.1 ms)`."""
    words = _words(rule, figures)
    if "lost" in figures and "sent" in figures:
        return f"{words} {shown.loss(figures['lost'], figures['sent'])}"
    if "hits" in figures and "of" in figures:
        was = shown.loss(round(figures["base_hits"]), round(figures["base_of"]))
        unit = rule_of(rule).unit_of_hits
        return f"{words} {shown.loss(round(figures['hits']), round(figures['of']))}{unit} (was {was})"
    if "after_ms" in figures:
        return f"{words} {shown.milliseconds(figures['after_ms'])} (was {shown.milliseconds(figures['before_ms'])})"
    if "after_bps" in figures:
        return f"{words} {shown.bit_rate(figures['after_bps'])} (was {shown.bit_rate(figures['before_bps'])})"
    return words


def _words(rule: str, figures: Mapping[str, Any]) -> str:
    """The symptom before its figure: `loss`, `route change, RTT`."""
    words, figure_words = rule_of(rule).words, rule_of(rule).figure_words
    return f"{words}, {figure_words}" if figure_words and "after_ms" in figures else words


def headline(incident: Incident) -> str:
    """The title of an incident wherever it is named, for example `loss 20% now on cern ↔ slac, 2 paths, peak 22.5%,
    since 2026-11-21 10:00 UTC`, or `loss 20% now from slac to cern, since …`. It reads the incident and its paths, no
    evidence.

    The figures are of the worst path; an incident that is over has only the peak, and the time of its end.
    """
    paths, where = len(incident.path_ids), place(incident)
    # Of two paths between a pair of hosts the reverse is not at fault.
    is_one_way = incident.toward_by == BY_STAMP and " → " in incident.toward and paths <= 2
    several = f", {paths} paths" if paths > 1 and f"{paths} paths" not in where and not is_one_way else ""
    normal, notes = len(paths_back_to_normal(incident)), []
    if 0 < normal < paths:
        notes.append(f"over on {normal}")
    silent = without_newer_data(incident)
    if silent:
        named = dict.fromkeys(str(row.path) for row in silent)
        notes.append(f"no newer data on {', '.join(named) if len(named) <= NAMED else f'{len(named)} paths'}")
    several += f" ({'; '.join(notes)})" if notes else ""
    silent_since = unanswered_since(incident)
    is_as_old = silent_since is not None and abs(silent_since - since(incident)) <= SAME_ONSET
    has_times = is_as_old or (incident.closed_at is None and ended_outage(incident) is not None)
    figure, beside = _symptom_parts(incident)
    has_time = any(word in f"{figure}{beside} " for word in (" since ", " in the last ", " as of "))
    when = "" if has_times else f", {period(incident, 'began' if has_time else 'since')}"
    return f"{figure} {where}{several}{beside}{when}"


def brief(incident: Incident, now: datetime) -> str:
    """The incident as a clause of a sentence on the whole mesh: `slac ↔ ornl RTT 64 → 124 ms for 3 min`; where the
    present differs from the peak `cern ↔ slac no loss since 10:05:10 UTC, up to 25% in the last 5 min`. An incident
    that is over has its peak."""
    silent_since = unanswered_since(incident)
    if silent_since is not None:
        silent = shown.time_so_far((now - silent_since).total_seconds())
        return f"{incident.toward or cause_place(incident.cause)} no reply for {silent}{_seen_from(incident)}"
    outage = was_outage(incident)
    at_first, ended = outage_before_loss(incident), until(incident)
    if at_first is not None and ended is not None:
        silent = shown.duration((at_first.first_reply - at_first.last_reply).total_seconds())
        return f"{cause_place(incident.cause)} no reply for {silent}, then loss until {ended:%H:%M} UTC"
    if outage is not None and incident.closed_at is None:
        silent = shown.duration((outage.first_reply - outage.last_reply).total_seconds())
        again = f"replies again since {outage.first_reply:%H:%M:%S} UTC, {_after_outage(incident)}"
        return f"{cause_place(incident.cause)} {again}, after no reply for {silent}"
    rows, lasted = stated_findings(incident), duration_text(incident, now)
    if incident.closed_at is None:
        lasted = shown.time_so_far((now - since(incident)).total_seconds())
    if outage is not None and rule_of(rows[0].rule).effect is Effect.LOSS:
        return f"{cause_place(incident.cause)} no reply for {lasted}"
    figure, peak = _brief_symptom(incident, rows) if rows else (rule_of(incident.rule).words, "")
    if measured_until(incident) is not None or " as of " in figure:
        long = ""
    elif incident.closed_at is None and not _is_dated(incident):
        long = f", {peak}, {period(incident)}" if peak else f", {period(incident)}"
    elif peak:
        long = f", {peak} in the last {lasted}"
    else:
        long = f", began {lasted} ago" if " since " in figure or " now" in figure else f" for {lasted}"
    none_lost = none_lost_text(rows) if incident.closed_at is None else ""
    return f"{incident.toward or cause_place(incident.cause)} {figure}{long}{none_lost}{_seen_from(incident)}"


def symptom(incident: Incident) -> str:
    """The figure of the gravest rule on the worst path, now and at its peak: `loss 20% now, peak 22.5%`."""
    return "".join(_symptom_parts(incident))


def _symptom_parts(incident: Incident) -> tuple[str, str]:
    """The symptom before the place, and its peak after it."""
    rows, silent_since = stated_findings(incident), unanswered_since(incident)
    if silent_since is not None:
        return f"no reply since {silent_since:%Y-%m-%d %H:%M:%S} UTC", ""
    outage = was_outage(incident)
    if outage is not None and incident.closed_at is not None and rule_of(rows[0].rule).effect is Effect.LOSS:
        return "no reply", ""
    if outage is not None and incident.closed_at is None:
        return f"no reply {_times_text(outage)}, since then {_after_outage(incident)}", ""
    at_first = outage_before_loss(incident)
    if at_first is not None:
        return f"no reply {_times_text(at_first)}, then loss", ""
    return _symptom(incident, rows) if rows else (rule_of(incident.rule).words, "")


def was_outage(incident: Incident) -> OutageTimes | None:
    """The outage that an incident was; of an open one also if some loss followed it."""
    outage, ended = ended_outage(incident), until(incident)
    if outage is None or (ended is not None and ended > outage.first_reply + OUTAGE_ALONE):
        return None
    return outage


def outage_before_loss(incident: Incident) -> OutageTimes | None:
    """The outage as which an incident of loss began that is over, and went on with partial loss."""
    is_of_loss = rule_of(incident.rule).effect in (Effect.LOSS, Effect.UNREACHABLE)
    return ended_outage(incident) if is_of_loss and incident.closed_at and was_outage(incident) is None else None


def _times_text(outage: OutageTimes) -> str:
    day = "" if outage.first_reply.date() == outage.last_reply.date() else "%Y-%m-%d "
    return f"from {outage.last_reply:%Y-%m-%d %H:%M:%S} to {outage.first_reply.strftime(f'{day}%H:%M:%S')} UTC"


def _after_outage(incident: Incident) -> str:
    """The loss of all paths since an outage, after words that say since when: `no loss (below 4.6%)`."""
    _, level = worst_of_rows(stated_findings(incident), is_open=True)
    if level is None or level.now is None:
        return "no newer data"
    if level.is_ended and level.lost:
        return few_lost(level)
    return f"no loss{proven_text(level)}" if level.now == 0.0 else f"loss {level.now_text}"


def is_unanswered(incident: Incident) -> bool:
    """Whether all paths with the gravest finding of an open incident of loss have not answered lately."""
    return unanswered_since(incident) is not None


def worst_finding(incident: Incident) -> IncidentPath | None:
    """The finding that the title has the figure of; None for an incident without findings."""
    rows = of_gravest_rule(incident)
    return worst_of_rows(rows, is_open=incident.closed_at is None)[0] if rows else None


def place(incident: Incident) -> str:
    """The paths of an incident: in the direction that tests tell, `from slac to cern`, otherwise as its cause names
    them. A part of the network that several paths cross is named with the direction."""
    named = cause_place(incident.cause)
    if not incident.toward:
        return f"on {named}"
    source, found, destination = incident.toward.partition(" → ")
    if not found:
        return where_text(incident.toward).removeprefix("on the paths ")
    toward = f"from {source} to {destination}"
    return f"on {named}, {toward}" if named.startswith(PLACES) else toward


def _seen_from(incident: Incident) -> str:
    """The sender, where the cause is a pair of hosts and only one of the two paths shows it: a round trip crosses both
    directions, so this is not the direction of the loss. Not of one that waits to be resolved."""
    if incident.toward or is_back_to_normal(incident) or " ↔ " not in cause_place(incident.cause):
        return ""
    rows = list(incident.paths.all())
    lasting = paths_not_normal(incident) or {row.path_id for row in rows}
    paths = {str(row.path): row for row in rows if row.path_id in lasting}
    if len(paths) != 1:
        return ""
    ((path, row),) = paths.items()
    if rule_of(row.rule).trouble is not Trouble.ROUND_TRIPS or DIRECTION in row.figures:
        return f" ({path})"
    return f" (so far only in pings from {path.partition(' → ')[0]}, direction unknown)"


def _brief_symptom(incident: Incident, rows: Sequence[IncidentPath]) -> tuple[str, str]:
    """As `_symptom` in fewer words: from the baseline to the present figure; and the peak, only where it differs."""
    row, level = worst_of_rows(rows, is_open=incident.closed_at is None)
    level = None if level is None else with_worst(incident, level)
    words = _words(row.rule, row.figures)
    if _is_unreachable(row):
        return _unreachable_text(incident, words, level), ""
    if level is None:
        return _change(words, row.figures) or figure_text(row.rule, row.figures), ""
    if incident.closed_at is not None or level.now is None:
        ending = "" if incident.closed_at is not None else no_newer_data(level)
        return f"{words} {_from_baseline(row.figures, level.unit, level.peak, level.peak_text)}{ending}", ""
    worse = _worse_text(incident, rows, level)
    figure = f"{words} {_from_baseline(row.figures, level.unit, level.now, level.now_text)}{worse}"
    if level.has_changed or level.is_stale:
        figure += f" {level.when_text}"
    to = f"{'down' if level.unit is LevelUnit.BITS_PER_SECOND else 'up'} to "
    peak = f"{'peak ' if ' to ' in level.peak_text else to}{level.peak_text}"  # of an interval there is no "up to"
    if is_normal_again(row):
        return present_text(words, row, level), peak
    if abs(level.now - level.peak) <= PEAK_DIFFERS * abs(level.peak) or not level.is_below_peak:
        return figure, ""
    return figure, peak


def _worse_text(incident: Incident, rows: Sequence[IncidentPath], level: FindingLevel) -> str:
    is_told = level.unit is LevelUnit.LOSS_RATIO and " → " not in incident.toward
    return worse_text(level, present_levels(rows)) if is_told else ""


def _change(words: str, figures: Mapping[str, Any]) -> str:
    """The change with which a finding without a level fired; empty where it has none."""
    if "after_ms" in figures:
        unit, after = LevelUnit.MILLISECONDS, float(figures["after_ms"])
        return f"{words} {_from_baseline(figures, unit, after, shown.milliseconds(after))}"
    if "after_bps" in figures:
        unit, after = LevelUnit.BITS_PER_SECOND, float(figures["after_bps"])
        return f"{words} {_from_baseline(figures, unit, after, shown.bit_rate(after))}"
    return ""


def _from_baseline(figures: Mapping[str, Any], unit: LevelUnit, value: float, text: str) -> str:
    """`64 → 124 ms`; the value's own text where there is no baseline in its unit."""
    if unit is LevelUnit.MILLISECONDS and "before_ms" in figures:
        return shown.change_ms(float(figures["before_ms"]), value)
    if unit is LevelUnit.BITS_PER_SECOND and "before_bps" in figures:
        return f"{shown.bit_rate(figures['before_bps'])} → {text}"
    return text


def _is_unreachable(row: IncidentPath) -> bool:
    return rule_of(row.rule).effect is Effect.UNREACHABLE


def _unreachable_text(incident: Incident, words: str, level: FindingLevel | None) -> str:
    """The symptom itself while it lasts; with the loss of the newest replies until it is over."""
    if incident.closed_at is not None or level is None or level.now is None or level.now >= 1.0:
        return words
    return f"{words} until recently, loss {level.now_text} {level.when_text}"


def _symptom(incident: Incident, rows: Sequence[IncidentPath]) -> tuple[str, str]:
    """The figure of the worst of these findings of a rule now, or until its last lost packet; and its peak."""
    row, level = worst_of_rows(rows, is_open=incident.closed_at is None)
    level = None if level is None else with_worst(incident, level)
    if _is_unreachable(row):
        return _unreachable_text(incident, rule_of(row.rule).words, level), ""
    if level is None:
        return figure_text(row.rule, row.figures), ""
    words, worst = _words(row.rule, row.figures), "lowest" if level.unit is LevelUnit.BITS_PER_SECOND else "peak"
    was = _was(row.figures)
    if incident.closed_at is not None:
        return f"{words} {worst} {level.peak_text}{was}", ""
    if level.now is None:
        return f"{words} {worst} {level.peak_text}{was}", no_newer_data(level)
    is_whole = level.since is not None and level.since - since(incident) <= SAME_BEGIN
    present, none_lost = present_text(words, row, level, is_whole=is_whole), none_lost_text(rows)
    present = present.removesuffix(" now") if none_lost else present
    figure = f"{present}{_worse_text(incident, rows, level)}{was}"
    if level.is_at_peak or level.now_text == level.peak_text:
        return figure, none_lost
    return figure, f"{f', {worst} {level.peak_text}' if level.is_below_peak else ''}{none_lost}"


def _was(figures: Mapping[str, Any]) -> str:
    if "before_ms" in figures:
        return f" (was {shown.milliseconds(figures['before_ms'])})"
    if "before_bps" in figures:
        return f" (was {shown.bit_rate(figures['before_bps'])})"
    if "base_hits" in figures:
        return f" (was {shown.loss(round(figures['base_hits']), round(figures['base_of']))})"
    return ""


def since(incident: Incident) -> datetime:
    """When it began: by the bursts, without these by the rules, of a loss since its detection: its rules give the begin
    of a window only."""
    if incident.began_at is not None:
        return incident.began_at
    rows = [row for row in incident.paths.all() if rule_of(row.rule).effect is not Effect.LOSS]
    silent = [row for row in rows if _is_unreachable(row) and not row.is_over]
    return min((row.since for row in silent or rows), default=incident.opened_at)


def until(incident: Incident) -> datetime | None:
    """When it ended: its last bad burst, or its resolution where no bursts tell; None while it lasts."""
    if incident.closed_at is None:
        return None
    return max(min(incident.ended_at or incident.closed_at, incident.closed_at), since(incident))


def lasted_s(incident: Incident, now: datetime) -> float:
    """How long it lasted, in seconds, wherever a duration is stated: from the onset to its end, also if it only waits
    to be closed, or to `now`."""
    return max(((until(incident) or over_since(incident) or now) - since(incident)).total_seconds(), 0.0)


def period(incident: Incident, word: str = "since") -> str:
    """`since 2026-11-21 10:00 UTC`, or with another word; `since about` where the interval of the onset is a minute or
    longer; `detected 2026-11-21 10:02 UTC` without an onset of a loss, whose rules give the begin of a window only.
    Once it is over `from 2026-11-21 10:00 to 10:14 UTC`, to the second where that is less than ten minutes."""
    began, ended = since(incident), until(incident)
    if ended is None and not _is_dated(incident):
        return f"detected {incident.opened_at:%Y-%m-%d %H:%M} UTC"
    if ended is None:
        return f"{word} {about(incident)}{began:%Y-%m-%d %H:%M} UTC"
    day = "" if ended.astimezone(UTC).date() == began.astimezone(UTC).date() else "%Y-%m-%d "
    clock = shown.clock_format(began, ended)
    return f"from {about(incident)}{began.strftime(f'%Y-%m-%d {clock}')} to {ended.strftime(f'{day}{clock}')} UTC"


def _is_dated(incident: Incident) -> bool:
    """Whether the onset is known: of a loss only by its evidence."""
    effects = [rule_of(row.rule).effect for row in incident.paths.all()]
    return incident.began_at is not None or Effect.LOSS not in effects


def about(incident: Incident) -> str:
    """`about ` before the minute of an onset that is not known to the minute, otherwise empty."""
    return "about " if (incident.began_within_s or 0.0) >= 60.0 else ""


def duration_text(incident: Incident, now: datetime) -> str:
    """How long it lasted, in words."""
    lasted = lasted_s(incident, now)
    return shown.time_so_far(lasted) if incident.closed_at is None else shown.duration(lasted)
