"""The cells of the grid of now by incidents: the present level under an open incident, the figures since the end of a
finding that ended, and before an incident the loss that is being checked.

In: the figures of each path's window, and its findings. Out: the figures for the cells. A finding that ends makes no
cell worse: the figures since its end replace those of the window only where they are not worse.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from monitor.alerts.detect import raised_rtts
from monitor.alerts.detect.rules.catalogue import rule_of
from monitor.alerts.detect.rules.finding import Effect
from monitor.alerts.incidents.finding_level import is_normal_again, level_of, loss_over_since
from monitor.alerts.incidents.queries import ended_findings
from monitor.alerts.models import Incident, IncidentPath
from monitor.analysis import binomial
from monitor.analysis.changes.lasting import EndedLoss, LastingLoss
from monitor.analysis.changes.present import LostPackets
from monitor.archive.queries.metrics import Metric
from monitor.overview.incident_values import IncidentValue, incident_value
from monitor.overview.path_figures import FigureState, PathFigures, PathsNow, figures_now, judged

AFTER = timedelta(microseconds=1)
BURST = timedelta(seconds=30)
"""A burst takes less."""


def of_incidents(
    asked: PathsNow, figures: tuple[PathFigures, ...], incidents: list[Incident], *, is_smallest_size: bool
) -> tuple[PathFigures, ...]:
    """Return the figures of now as the grid has them: by the open incidents, by findings that ended, and by RTTs that
    are raised so far."""
    figures = _with_incidents(asked.metric, figures, incidents, is_smallest_size=is_smallest_size)
    figures = _with_ended(asked, figures)
    return _with_raised(figures) if asked.metric is Metric.RTT_MEDIAN and is_smallest_size else figures


def _with_incidents(
    metric: Metric, figures: tuple[PathFigures, ...], incidents: list[Incident], *, is_smallest_size: bool
) -> tuple[PathFigures, ...]:
    """Return the figures, with the present level of an open incident on a measured path; none where it has no data."""
    findings: dict[int, list[IncidentPath]] = {}
    for incident in incidents:
        for finding in incident.paths.all():
            if not finding.is_over:
                findings.setdefault(finding.path_id, []).append(finding)

    def with_findings(path: PathFigures, of_path: list[IncidentPath]) -> PathFigures:
        if metric is not Metric.THROUGHPUT and any(rule_of(row.rule).effect is Effect.NO_DATA for row in of_path):
            return without_data(path)
        path = _with_last_reply(path, of_path)
        return by_incident(metric, path, incident_value(metric, of_path), is_smallest_size=is_smallest_size)

    return tuple(with_findings(path, findings[path.path_id]) if path.path_id in findings else path for path in figures)


def _with_raised(figures: tuple[PathFigures, ...]) -> tuple[PathFigures, ...]:
    """Return the median RTTs, with the level of the newest bursts of a path on which it is raised and that is not told
    by an open incident: the median of ten minutes is still that of before."""
    raised = raised_rtts.levels()

    def risen(path: PathFigures) -> PathFigures:
        rtt = raised.get(path.path_id)
        is_told = rtt is None or path.value is None or path.value_measured is not None or path.value >= rtt.raised_ms
        return path if is_told or rtt is None else replace(path, value=rtt.raised_ms, value_measured=path.value)

    return tuple(map(risen, figures)) if raised else figures


def by_check(path: PathFigures, loss: LastingLoss, *, is_smallest_size: bool) -> PathFigures:
    """The path with the loss that is being checked on it, of packets of all sizes since it began: the packets of ten
    minutes are also those before it. Packets of another size than the smallest that lose more keep their figure."""
    if path.value is None or (path.value > loss.ratio and not is_smallest_size):
        return path
    return _with_loss(path, loss)


def after_check(path: PathFigures, loss: EndedLoss) -> PathFigures:
    """The path after a loss without an incident, with that of the packets of all sizes since, which is not worse."""
    if path.value is None or path.value < loss.after.ratio:
        return path
    level_since = datetime.fromtimestamp(loss.over_since_s, UTC)
    return replace(_with_loss(path, loss.after), level_since=level_since)


def _with_loss(path: PathFigures, loss: LostPackets) -> PathFigures:
    return replace(
        path,
        state=FigureState.VALUE if loss.lost else FigureState.NONE_LOST,
        value=loss.ratio,
        value_measured=path.value,
        value_lower_ratio=float(binomial.lower_bound(loss.lost, loss.sent)),
        value_loss=loss,
        value_sent=round(loss.sent),
        value_received=round(loss.sent - loss.lost),
    )


def _with_last_reply(path: PathFigures, findings: list[IncidentPath]) -> PathFigures:
    """The path with the last reply as its incident has it: of packets of all sizes."""
    levels = [level for finding in findings if (level := level_of(finding)) is not None]
    times = [level.unanswered_since for level in levels if level.unanswered_since is not None]
    return path if path.unanswered_since is None or not times else replace(path, unanswered_since=max(times))


def _with_ended(asked: PathsNow, figures: tuple[PathFigures, ...]) -> tuple[PathFigures, ...]:
    """Return the figures, with those since its end for a path whose last finding ended within its window, unless an
    open incident tells the metric."""
    told = {path.path_id for path in figures if path.incident_id is not None and path.incident_peak is not None}
    last: dict[int, list[IncidentPath]] = {}
    for finding in ended_findings(asked.since, asked.until):
        path_id = finding.path_id
        if path_id not in asked.begins or path_id in told or _end_of(finding) < asked.begins[path_id]:
            continue
        findings = last.setdefault(path_id, [])
        if not findings or findings[0].incident_id == finding.incident_id:
            findings.append(finding)
    if not last:
        return figures
    ends = {path_id: max(map(_end_of, findings)) for path_id, findings in last.items()}
    since_end = {path.path_id: path for path in figures_now(asked.since_each(ends))}

    def ended(path: PathFigures) -> PathFigures:
        findings, newer = last[path.path_id], since_end[path.path_id]
        worst_value = incident_value(asked.metric, findings)
        return after_incident(asked.metric, path, findings[0].incident_id, ends[path.path_id], worst_value, newer)

    return tuple(ended(path) if path.path_id in last else path for path in figures)


def _end_of(finding: IncidentPath) -> datetime:
    """When an ended finding ended: with its incident, of an outage with the first reply on the path; by itself, at the
    beginning of the present by which it is normal again, else at the evaluation that found it over."""
    incident = finding.incident
    is_resolved = incident.closed_at is not None and incident.merged_into_id is None
    if is_resolved and incident.ended_at is not None:
        over_since = loss_over_since(finding)
        if over_since is None:
            return incident.ended_at + AFTER
        # Of an outage the end is a packet of the first burst that was answered, which began before it.
        is_same_burst = timedelta() <= incident.ended_at - over_since < BURST
        return over_since if is_same_burst else incident.ended_at
    ended_at = incident.closed_at if is_resolved else finding.ended_at
    assert ended_at is not None
    level = level_of(finding)
    if finding.ended_at is None or level is None or level.window_s is None or not is_normal_again(finding):
        return ended_at
    return finding.ended_at - timedelta(seconds=level.window_s)


def without_data(path: PathFigures) -> PathFigures:
    """The path without the figures of its window, which are older than an open incident of no data; a failed test is
    newer."""
    if path.state is FigureState.NOT_MEASURED:
        return path
    return PathFigures(
        *(path.path_id, path.source, path.destination, path.family, path.incident_id, path.in_maintenance),
        value_before=path.value_before,
    )


def by_incident(
    metric: Metric, path: PathFigures, incident: IncidentValue | None, *, is_smallest_size: bool
) -> PathFigures:
    """The path with the present level of its open incident; a path that is not measured now stays so.

    The rules count packets of all sizes and time the smallest: unless the figures are of the smallest, a path that is
    worse by its own keeps them. So does a path of which only the figure at detection is known."""
    if incident is None:
        return path
    path = replace(path, incident_peak=incident.peak, worst_loss=incident.worst_loss)
    if incident.now is None or path.value is None or path.state is FigureState.TOTAL_LOSS or path.value == incident.now:
        return path
    is_worse = (path.value > incident.now) != metric.lower_is_worse
    if is_worse and not (is_smallest_size and incident.is_level):
        return path
    is_total = metric is Metric.LOSS and incident.now >= 1.0
    is_none = incident.loss is not None and not incident.loss.lost
    return replace(
        path,
        state=FigureState.TOTAL_LOSS if is_total else FigureState.NONE_LOST if is_none else FigureState.VALUE,
        value=incident.now,
        value_measured=path.value,
        level_s=incident.window_s,
        level_since=incident.since,
        value_loss=incident.loss,
        value_sent=None if incident.loss is None else round(incident.loss.sent),
        value_received=None if incident.loss is None else round(incident.loss.sent - incident.loss.lost),
    )


def after_incident(
    metric: Metric,
    path: PathFigures,
    incident_id: int,
    ended_at: datetime,
    worst_value: IncidentValue | None,
    since_end: PathFigures,
) -> PathFigures:
    """The path after an incident that ended within its window: with the figures since then where there are any, and
    they are not worse. Of few packets they may be: an end makes nothing worse."""
    is_since_end = bool(since_end.sent or since_end.tests_measured) and judged(metric, since_end) <= judged(
        metric, path
    )
    return replace(
        since_end if is_since_end else path,
        value_before=path.value_before,
        incident_peak=None if worst_value is None else worst_value.peak,
        worst_loss=None if worst_value is None else worst_value.worst_loss,
        ended_incident_id=incident_id,
        ended_at=ended_at,
        is_since_end=is_since_end,
    )
