"""The present and the worst figure of each finding while its incident lasts, and the severity that follows from them.

In: the lasting incidents, the snapshot of an evaluation, and the newest bursts of their paths. Out:
`IncidentPath.level`, and a higher severity of the incident where the damage has grown. The figures with which a finding
fired stay as they were: its rule compares with them.

The present figure is that of the last NOW_S or NOW_CYCLES, whichever is longer; of an RTT the median of the newest
bursts in that time. That of a loss is of a longer time where its packets are too few (`analysis.changes.present`), but
never of any before its onset or its last change, whose time is stored with it and does not move back.

The worst loss is in `monitor.alerts.incidents.worst_loss`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import numpy as np
from django.db import transaction
from numpy.typing import NDArray

from monitor.alerts.detect.damage import CRITICAL_TESTS, severity_of
from monitor.alerts.detect.packet_times import SAME_S, BurstsKey, EndedOutage, PathBursts, bursts_by_key
from monitor.alerts.detect.rules.by_direction import DIRECTION
from monitor.alerts.detect.rules.catalogue import rule_of
from monitor.alerts.detect.rules.finding import Effect, RuleFinding, Trouble, followed_figure
from monitor.alerts.detect.rules.request_response import newest_latency_ms
from monitor.alerts.detect.shares import Share, shares_as_json
from monitor.alerts.detect.silence import silent_since
from monitor.alerts.detect.snapshot import Snapshot
from monitor.alerts.history import add_severity
from monitor.alerts.incidents import lasting_state
from monitor.alerts.incidents.ends.early_ends import with_early_ends
from monitor.alerts.incidents.ends.loss_ends import with_exact_ends
from monitor.alerts.incidents.ends.other_troubles import with_other_troubles
from monitor.alerts.incidents.ends.present_rtts import present_rtt
from monitor.alerts.incidents.finding_level import (
    FindingLevel,
    LevelUnit,
    at_detection,
    ended_s,
    is_normal,
    level_of,
    with_ends,
)
from monitor.alerts.incidents.gravest import gravest_first
from monitor.alerts.incidents.worst_loss import loss_of_all, worst_of, worst_of_all
from monitor.alerts.models import Incident, IncidentPath, Severity
from monitor.analysis.changes.present import LostPackets, present_loss, worse
from monitor.archive.queries.for_alerts import DIRECTIONS, newest_bursts, newest_directions
from monitor.archive.queries.recent import fresh_s
from monitor.mesh.document.alert_rules import RuleSettings

Floats = NDArray[np.float64]

NOW_S = 120
NOW_CYCLES = 3
"""Length of the present: the longer of the two."""
SEVERE_S = 300
"""The mean of a loss of so long raises the severity; of a shorter time all of its interval: few packets vary more."""
LONGEST_S = 600
LONGEST_CYCLES = 20
"""The longest time of a present loss, whichever is longer."""

Settings = Mapping[str, Mapping[int, RuleSettings]]


def set_shares(incident: Incident, shares: Sequence[Share]) -> None:
    """Store how many other paths are bad now; no query where that is unchanged."""
    stored = shares_as_json(shares)
    if stored != incident.shares:
        Incident.objects.filter(pk=incident.pk, closed_at=None, shares=incident.shares).update(shares=stored)


def update_levels(
    lasting: Sequence[Incident], snapshot: Snapshot, settings: Settings, firing: Sequence[RuleFinding] = ()
) -> None:
    """Store the present levels of all findings that last, and raise the severity of incidents that have worsened.
    `firing` are those of this evaluation."""
    bursts, replies = _newest_bursts(lasting, snapshot), lasting_state.last_replies(lasting, snapshot)
    ended = lasting_state.ended_outages(lasting, snapshot, bursts)
    stored = {row.pk: level_of(row) for incident in lasting for row in incident.paths.all()}
    for incident in lasting:
        rows = [row for row in incident.paths.all() if not row.is_over]
        measured = [measure(row, incident, snapshot, bursts, ended) for row in rows]
        own = [bursts.get(_bursts_key(row)) for row in rows]
        levels = with_early_ends(incident, with_ends(rows, measured, own, snapshot.now), own, snapshot.now)
        levels = with_exact_ends(incident, rows, levels, snapshot, bursts)
        for row, level in zip(rows, levels, strict=True):
            if level is not None:
                level = _with_recovery(row, lasting_state.with_last_reply(row, level, replies), snapshot)
                row.level = msgspec.to_builtins(level)
    with_other_troubles(lasting, firing, snapshot, settings)
    changed = [row for incident in lasting for row in incident.paths.all() if level_of(row) != stored[row.pk]]
    IncidentPath.objects.bulk_update(changed, ["level"])
    _store_worst_losses(lasting)
    for incident in lasting:
        _raise_severity(incident, settings, snapshot)


def _store_worst_losses(lasting: Sequence[Incident]) -> None:
    changed = []
    for incident in lasting:
        worst = worst_of_all(incident)
        if worst != incident.worst_loss:
            incident.worst_loss = worst
            changed.append(incident)
    Incident.objects.bulk_update(changed, ["worst_loss"])


def _with_recovery(row: IncidentPath, level: FindingLevel, snapshot: Snapshot) -> FindingLevel:
    """The level with the time since when it is back to normal: of its first burst, which follows the last change."""
    before = level_of(row)
    if level.is_ended:
        return level
    if not is_normal(level, row):
        return level if before is None else replace(level, recovered_at=before.recovered_at)
    was_back = before.recovered_at if before is not None and is_normal(before, row) else None
    if before is not None and was_back is not None:
        is_earlier = before.is_back_by and level.since is not None and level.since < was_back  # by late results
        return (
            replace(level, recovered_at=level.since)
            if is_earlier
            else replace(level, recovered_at=was_back, is_back_by=before.is_back_by)
        )
    return replace(level, recovered_at=level.since or snapshot.now - timedelta(seconds=level.window_s or 0.0))


def _newest_bursts(lasting: Sequence[Incident], snapshot: Snapshot) -> dict[BurstsKey, PathBursts]:
    """The bursts of the findings about loss, by path and direction."""
    now_s = snapshot.now.timestamp()
    since_s: dict[bool, dict[int, float]] = {False: {}, True: {}}
    for incident in lasting:
        for row in incident.paths.all():
            if not row.is_over and lasting_state.is_of_loss(row, snapshot):
                longest_s = max(_longest_s(row, snapshot), ended_s(row, snapshot.now))
                since_s[DIRECTION in row.figures][row.path_id] = now_s - longest_s
    bursts: dict[BurstsKey, PathBursts] = {}
    if since_s[False]:
        columns = newest_bursts(list(since_s[False]), list(since_s[False].values()), snapshot.now)
        bursts |= bursts_by_key(columns, "")
    if since_s[True]:
        columns = newest_directions(list(since_s[True]), list(since_s[True].values()), snapshot.now)
        for direction in DIRECTIONS:
            bursts |= bursts_by_key(columns, direction)
    return bursts


def _bursts_key(row: IncidentPath) -> BurstsKey:
    return row.path_id, row.figures.get(DIRECTION, "")


def _window_s(row: IncidentPath, snapshot: Snapshot) -> float:
    """The length of the present of a path."""
    return max(NOW_S, NOW_CYCLES * _every_s(row, snapshot))


def _longest_s(row: IncidentPath, snapshot: Snapshot) -> float:
    """The longest present of a path's loss."""
    return max(LONGEST_S, LONGEST_CYCLES * _every_s(row, snapshot))


def _every_s(row: IncidentPath, snapshot: Snapshot) -> float:
    """The interval of a path's pings, or of its STAMP tests where the finding is of a direction."""
    direction = snapshot.directions.get(row.figures.get(DIRECTION, ""))
    paths = snapshot.paths if direction is None or row.path_id not in direction.paths else direction.paths
    return paths[row.path_id].every_s


def measure(
    row: IncidentPath,
    incident: Incident,
    snapshot: Snapshot,
    bursts: Mapping[BurstsKey, PathBursts],
    ended: Mapping[int, EndedOutage],
) -> FindingLevel | None:
    """The level of a finding now, its peak included; None if its rule has no figure that changes."""
    newest, before = _newest(row, incident, snapshot, bursts, ended), level_of(row)
    if newest is None:
        return None
    if newest.newest_at is not None:
        age_s = (snapshot.now - newest.newest_at).total_seconds()
        newest = replace(newest, is_stale=age_s > fresh_s(_every_s(row, snapshot)))
    if newest.is_stale and before is not None and before.now is not None and before.newest_at == newest.newest_at:
        # The window moves on without new bursts: the figure stays that of the time which is stated with it.
        return replace(before, is_stale=True)
    if newest.now is None:
        return (
            None
            if before is None
            else replace(
                before,
                now=None,
                sent=None,
                window_s=None,
                unanswered_since=None,
                since=None,
                ended_outage=newest.ended_outage or before.ended_outage,
            )
        )
    peak = at_detection(row.figures) if before is None else before.peak
    if peak is None or newest.unit is LevelUnit.LOSS_RATIO:
        return newest
    worst = min if newest.unit is LevelUnit.BITS_PER_SECOND else max
    return replace(newest, peak=worst(newest.now, peak))


def _newest(
    row: IncidentPath,
    incident: Incident,
    snapshot: Snapshot,
    bursts: Mapping[BurstsKey, PathBursts],
    ended: Mapping[int, EndedOutage],
) -> FindingLevel | None:
    figures: Mapping[str, Any] = row.figures
    if lasting_state.is_of_loss(row, snapshot):
        return _loss(row, incident, snapshot, bursts.get(_bursts_key(row)), ended.get(row.path_id))
    figure = followed_figure(figures)
    if figure is not None and row.path_id in snapshot.rows:
        return present_rtt(row, figure, snapshot, _window_s(row, snapshot), _every_s(row, snapshot))
    if rule_of(row.rule).trouble is Trouble.RESPONSES:
        newest_ms = newest_latency_ms(snapshot.responses, row.path_id, figures)
        return None if newest_ms is None else FindingLevel(LevelUnit.MILLISECONDS, newest_ms, newest_ms)
    if rule_of(row.rule).trouble.needs_tests and "after_bps" in figures and row.path_id in snapshot.test_rows:
        newest_bps = float(snapshot.tests_bps[snapshot.test_rows[row.path_id], -1])
        return None if np.isnan(newest_bps) else FindingLevel(LevelUnit.BITS_PER_SECOND, newest_bps, newest_bps)
    return None


def _loss(
    row: IncidentPath, incident: Incident, snapshot: Snapshot, bursts: PathBursts | None, ended: EndedOutage | None
) -> FindingLevel:
    """The loss of the present, from the onset, from the last change and from the end of an outage on, and the worst
    loss. `ended` is an outage that has just ended."""
    now_s, none, before = snapshot.now.timestamp(), FindingLevel(LevelUnit.LOSS_RATIO, None, 0.0), level_of(row)
    if bursts is None:
        return none
    last_reply = silent_since(row.path_id, snapshot) if rule_of(row.rule).effect is Effect.LOSS else None
    if last_reply is not None:
        since = last_reply if before is None else before.unanswered_since or last_reply
        silent = bursts.since(since.timestamp() + SAME_S).counts(1.0)
        return FindingLevel(
            LevelUnit.LOSS_RATIO,
            1.0,
            1.0,
            unanswered_since=since,
            together=1.0 if before is None else before.together,
            began_at=None if before is None else before.began_at,
            stretch=silent,
            worst=silent if silent is None else worse(None if before is None else before.worst, silent),
        )
    stretch_s, is_rise_near = _stretch(row, incident, before, snapshot)
    lost, outage = None, ended or (None if before is None else before.ended_outage)
    if outage is not None:
        # A cycle of another test has packets of its own from before the first reply.
        outage = outage if DIRECTION not in row.figures else replace(outage, burst_at=outage.first_reply, lost=0)
        lost = None if ended is None else bursts.lost_in(ended)
        bursts, stretch_s = bursts.after(outage), max(stretch_s, outage.first_reply.timestamp())
    newest = bursts.since(max(stretch_s, now_s - _longest_s(row, snapshot)) - SAME_S)
    columns = newest.at_s, newest.sent, newest.received
    recent_s, detected_s = now_s - _window_s(row, snapshot), row.added_at.timestamp()
    together = 1.0 if before is None else before.together
    present = present_loss(*columns, recent_s, detected_s, rises=is_rise_near, together=together)
    if present is None:
        return replace(none, ended_outage=outage)
    began_s = present.changed_s or (stretch_s if np.isfinite(stretch_s) else float(newest.at_s[0]))
    has_changed = present.has_changed if present.changed_s or before is None else before.has_changed
    has_changed = has_changed or (outage is not None and not present.changed_s)
    is_all_since = began_s >= now_s - _longest_s(row, snapshot) and _is_first(present.since_s, began_s, newest.at_s)
    worst = worst_of(row, before, present, incident.began_at, lost)
    return FindingLevel(
        LevelUnit.LOSS_RATIO,
        present.now.ratio,
        worst.ratio,
        sent=round(present.now.sent),
        window_s=now_s - present.since_s,
        has_changed=has_changed and is_all_since,
        together=present.now.together,
        began_at=_time(began_s),
        since=_time(present.since_s),
        stretch=present.stretch,
        worst=worst,
        ended_outage=outage,
        clean=present.clean,
        newest_at=_time(newest.at_s[-1]),
    )


def _is_first(at_s: float, began_s: float, bursts_s: Floats) -> bool:
    """Whether the burst at this time is the first since a change, which may have been seen by packets of a test."""
    since = bursts_s[bursts_s >= began_s - SAME_S]
    return at_s <= max(began_s, float(since.min(initial=at_s))) + SAME_S


def _time(at_s: float) -> datetime:
    return datetime.fromtimestamp(at_s, UTC)


def _stretch(
    row: IncidentPath, incident: Incident, before: FindingLevel | None, snapshot: Snapshot
) -> tuple[float, bool]:
    """Where the present stretch of a loss begins as far as is known: at its onset by the evidence, or where it began
    before; and whether its rise has still to be found among the newest bursts, as the window of its rule says."""
    stored = None if before is None else before.began_at
    began_s = max((at.timestamp() for at in (stored, incident.began_at) if at is not None), default=-np.inf)
    is_dated = stored is not None or (incident.began_at is not None and row.added_at <= incident.opened_at)
    return began_s, not is_dated and row.since > snapshot.now - timedelta(seconds=_longest_s(row, snapshot))


def _raise_severity(incident: Incident, settings: Settings, snapshot: Snapshot) -> None:
    """Raise the severity to that of the worst damage of its findings now, with the figure that the title has. It does
    not fall while the incident lasts."""
    worst, of = incident.severity, None
    together = loss_of_all(incident)
    for row in gravest_first(incident.paths.all()):
        level, rule = level_of(row), settings.get(row.rule, {}).get(row.path_id)
        if row.is_over or level is None or rule is None or is_normal(level, row):
            continue
        for counts, text in _stated_losses(row, level, together):
            severity = _severity(row, level, rule, snapshot, counts)
            if Severity(severity).rank > Severity(worst).rank:
                worst, of = severity, text
    if of is None:
        return
    with transaction.atomic():
        raised = Incident.objects.filter(pk=incident.pk, closed_at__isnull=True, severity=incident.severity)
        if raised.update(severity=worst, has_grown=incident.told_at is not None):
            add_severity(incident, worst, of, snapshot.now)
            incident.severity = worst


def _stated_losses(
    row: IncidentPath, level: FindingLevel, together: LostPackets | None
) -> list[tuple[LostPackets | None, str]]:
    """The figures of a finding as its incident shows them: for a loss those of all its paths together, and its own;
    none once it is over, or of an earlier time."""
    words = rule_of(row.rule).words
    if level.unit is not LevelUnit.LOSS_RATIO:
        return [(None, f"{row.path}: {words} {level.peak_text}")]
    if level.unanswered_since is not None:
        return [(level.stretch, f"{row.path}: no reply")] if level.stretch is not None else []
    if level.is_ended or level.is_stale or level.counts is None:
        return []
    stated: list[tuple[LostPackets | None, str]] = [(level.counts, f"{row.path}: {words} {level.now_text}")]
    return stated if together is None else [(together, f"{words} {together.text}"), *stated]


def _least_ratio(lost: LostPackets, level: FindingLevel) -> float:
    """The least loss by its interval; of SEVERE_S or longer its mean, which varies less."""
    return lost.ratio if (level.window_s or 0.0) >= SEVERE_S else lost.interval[0]


def _severity(
    row: IncidentPath, level: FindingLevel, rule: RuleSettings, snapshot: Snapshot, lost: LostPackets | None
) -> str:
    if level.unit is LevelUnit.LOSS_RATIO:
        return severity_of(rule, None if lost is None else _least_ratio(lost, level))
    if level.unit is LevelUnit.BITS_PER_SECOND and row.figures.get("before_bps"):
        newest_bps = snapshot.tests_bps[snapshot.test_rows[row.path_id], -CRITICAL_TESTS:]
        return severity_of(rule, None, float(newest_bps.max()) / float(row.figures["before_bps"]))  # NaN is not below
    return rule.severity
