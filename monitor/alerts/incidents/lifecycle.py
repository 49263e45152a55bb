"""The life cycle of an incident: pending, open, optionally acknowledged, resolved, possibly reopened.

Conditional updates and unique constraints make concurrent evaluators safe. An evaluation older than its cause's last
change does nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import F, Q, QuerySet

from monitor.alerts.detect.rules.finding import RuleFinding
from monitor.alerts.detect.shares import Share, shares_as_json
from monitor.alerts.detect.snapshot import Key
from monitor.alerts.history import add_entry, add_reopening, add_severity
from monitor.alerts.incidents.gravest import gravest_of, gravity
from monitor.alerts.incidents.outbox import enqueue, enqueue_worse, notified_channels, withdraw
from monitor.alerts.models import UNTOLD, HistoryEvent, Incident, IncidentChange, IncidentPath, Severity
from monitor.mesh.schedule.requests import ask_where_scheduled
from probes.trace.spec import TraceReason

# Long enough to detect findings of the same cause in the same incident.
CONFIRM_S = 20

REOPEN_S = 900


def add_findings(
    cause: str, findings: Sequence[RuleFinding], now: datetime, because: str = "", shares: Sequence[Share] = ()
) -> bool:
    """Add findings (at least one) to the cause's lasting or recent incident, else to a new pending one; returns whether
    it is new."""
    since = now - timedelta(seconds=REOPEN_S)
    ends = set(Incident.objects.filter(cause=cause).exclude(closed_at__lt=since).values_list("closed_at", flat=True))
    if any(end is not None and end > now for end in ends):
        return False
    if None not in ends:
        if ends and _reopen(cause, findings, now, because, shares):
            return False
        if _make(cause, findings, now, because, shares):
            return True
    _extend(cause, findings, now, shares)
    return False


def merge(causes: Collection[str], into: str, now: datetime, because: str = "") -> int:
    """Merge lasting incidents under `into`, into the oldest notified incident; returns the number merged into another.

    Incidents detected or reopened after `now` stay.
    """
    is_earlier = Q(opened_at__lte=now) & (Q(reopened_at__isnull=True) | Q(reopened_at__lte=now))
    try:
        with transaction.atomic():
            lasting = Incident.objects.select_for_update().filter(is_earlier, cause__in=causes, closed_at__isnull=True)
            incidents = sorted(
                lasting.order_by("pk"),
                key=lambda incident: (incident.told_at is None, incident.is_pending, incident.opened_at),
            )
            if {incident.cause for incident in incidents} <= {into}:
                return 0
            whole, *parts = incidents
            rows = [row for part in parts for row in _end_as_part(part, whole, into, now)]
            _take(whole, rows, now)
            before, whole.cause = whole.cause, into
            whole.rule = min((whole.rule, *(row.rule for row in rows)), key=gravity)
            worst = max(incidents, key=lambda incident: Severity(incident.severity).rank)
            if worst is not whole and not whole.is_pending:
                add_severity(whole, worst.severity, f"merged with {worst.cause}", now)
            whole.severity = worst.severity
            own = whole.paths.select_related("path__source", "path__destination").order_by("pk")
            whole.summary = "; ".join(
                [*([because] if because else []), *(f"{row.path}: {row.sentence}" for row in own)]
            )
            whole.has_grown = whole.told_at is not None
            whole.save(update_fields=["cause", "rule", "severity", "summary", "has_grown"])
            merged = "; ".join(f"{row.path}: {row.sentence}" for row in rows) or f"was {before}"
            add_entry(whole.pk, HistoryEvent.MERGED, now, f"{into}: {merged}")
    except IntegrityError as error:
        _is_race(error)
        return 0
    return len(parts)


def open_if_confirmed(incident_id: int, now: datetime, over_since: datetime | None = None) -> bool:
    """Open a pending incident older than CONFIRM_S, as a notice if over; returns whether this call did."""
    old_enough = now - timedelta(seconds=CONFIRM_S)
    pending = Incident.objects.filter(pk=incident_id, is_pending=True, opened_at__lte=old_enough)
    with transaction.atomic():
        as_notice = {} if over_since is None else {"severity": Severity.NOTICE}
        confirmed = pending.update(is_pending=False, **as_notice) == 1
        if confirmed:
            note = "" if over_since is None else f"over since {over_since:%Y-%m-%d %H:%M:%S} UTC"
            add_entry(incident_id, HistoryEvent.OPENED, now, note)
    return confirmed


def queue_notifications(incident_id: int, now: datetime) -> bool:
    """Queue notifications of an unacknowledged incident that opened or grew; returns whether this call did."""
    with transaction.atomic():
        told = Incident.objects.filter(UNTOLD, pk=incident_id).update(told_at=now, has_grown=False)
        if told:
            incident = Incident.objects.get(pk=incident_id)
            rules = incident.paths.filter(is_over=False).values_list("rule", flat=True)
            rule = min(rules, key=gravity, default=incident.rule)
            enqueue_worse(incident, rule, now)
            Incident.objects.filter(pk=incident_id).update(told_rule=rule, told_cause=incident.cause)
            change = IncidentChange.REOPENED if incident.notifications.exists() else IncidentChange.OPENED
            know = withdraw(incident_id, IncidentChange.CLOSED) | notified_channels(incident_id, incident.reopenings)
            enqueue(incident_id, change, now, reopening=incident.reopenings, but=know)
    return told == 1


def acknowledge(incident_id: int, who: str, now: datetime) -> bool:
    """Acknowledge an open incident; returns whether this call did."""
    open_now = Incident.objects.filter(pk=incident_id, closed_at__isnull=True, acknowledged_at__isnull=True)
    with transaction.atomic():
        acknowledged = open_now.update(is_pending=False, acknowledged_at=now, acknowledged_by=who) == 1
        if acknowledged:
            add_entry(incident_id, HistoryEvent.ACKNOWLEDGED, now, who)
    return acknowledged


def unacknowledge(incident_id: int, who: str, now: datetime) -> bool:
    """Remove the acknowledgement; returns whether this call did."""
    held = Incident.objects.filter(pk=incident_id, closed_at__isnull=True, acknowledged_at__isnull=False)
    with transaction.atomic():
        released = held.update(acknowledged_at=None, acknowledged_by="") == 1
        if released:
            add_entry(incident_id, HistoryEvent.UNACKNOWLEDGED, now, who)
    return released


def close(
    incident_id: int,
    over: Collection[Key],
    closing: str,
    now: datetime,
    *,
    ended_at: datetime | None = None,
    is_silenced: bool = False,
) -> bool:
    """Resolve or, if pending, delete an incident without findings beside `over`; returns whether this call did.

    Not if it was detected or reopened after `now`.
    """
    with transaction.atomic():
        incident = _locked(Q(pk=incident_id, closed_at__isnull=True, opened_at__lte=now))
        if incident is None or (incident.reopened_at is not None and incident.reopened_at > now):
            return False
        if not set(incident.paths.filter(is_over=False).values_list("path_id", "rule")) <= set(over):
            return False
        if incident.is_pending:
            incident.delete()
            return True
        Incident.objects.filter(pk=incident_id).update(closed_at=now, closing=closing, told_at=None, ended_at=ended_at)
        incident.paths.filter(is_over=False).update(is_over=True, ended_at=now)
        add_entry(incident_id, HistoryEvent.RESOLVED, now, closing)
        if ended_at is not None:
            incident.parts.filter(closed_at__gt=ended_at).update(ended_at=ended_at)
        path_ids = set(incident.paths.values_list("path_id", flat=True))
        ask_where_scheduled(path_ids, TraceReason.INCIDENT_CLOSED, by=f"incident {incident_id}", now=now)
        parts = incident.parts.filter(told_at__isnull=False)
        notified = [ended for ended in (incident, *parts) if ended.told_at is not None]
        parts.update(told_at=None)
        for ended in notified if not is_silenced else ():
            due_at = now + timedelta(seconds=REOPEN_S if incident.reopenings else 0)
            enqueue(ended.pk, IncidentChange.CLOSED, due_at, reopening=ended.reopenings)
    return True


def end_findings(incident_id: int, reasons: Mapping[Key, str], now: datetime) -> list[int]:
    """End findings of an incident that others keep open; returns the keys ended by this call.

    Findings added after `now` stay.
    """
    ended = []
    with transaction.atomic():
        incident = _locked(Q(pk=incident_id, closed_at__isnull=True))
        if incident is None:
            return []
        for (path_id, rule), reason in reasons.items():
            lasting = incident.paths.filter(path_id=path_id, rule=rule, is_over=False, added_at__lte=now)
            for pk in lasting.values_list("pk", flat=True):
                ended += [pk] if lasting.update(is_over=True, ended_at=now, closing=reason) else []
        if ended and not incident.is_pending:
            add_entry(incident_id, HistoryEvent.NARROWED, now, "; ".join(dict.fromkeys(reasons.values())))
    return ended


def correct(incident_id: int, correction: str, now: datetime, *, is_void: bool = False) -> bool:
    """Store an incident's correction by late results; returns whether it is new."""
    with transaction.atomic():
        others = Incident.objects.filter(pk=incident_id).exclude(correction=correction)
        is_new = others.update(correction=correction) == 1
        if is_new:
            add_entry(incident_id, HistoryEvent.CORRECTED, now, correction)
            if is_void:
                reopening = Incident.objects.values_list("reopenings", flat=True).get(pk=incident_id)
                enqueue(incident_id, IncidentChange.CORRECTED, now, reopening=reopening)
    return is_new


def _severity(findings: Sequence[RuleFinding], *others: str) -> str:
    return max((*others, *(finding.severity for finding in findings)), key=lambda severity: Severity(severity).rank)


def _make(cause: str, findings: Sequence[RuleFinding], now: datetime, because: str, shares: Sequence[Share]) -> bool:
    try:
        with transaction.atomic():
            ordered = _free(findings)
            if not ordered:
                return False
            incident = Incident.objects.create(
                rule=ordered[0].rule,
                cause=cause,
                is_pending=True,
                opened_at=now,
                summary=_summary(because, ordered),
                severity=_severity(ordered),
                shares=shares_as_json(shares),
            )
            _add(incident, ordered, now)
            add_entry(incident.pk, HistoryEvent.FOUND, now, incident.summary)
            _trace(incident.pk, ordered, now)
    except IntegrityError as error:
        return _is_race(error)
    return True


def _reopen(cause: str, findings: Sequence[RuleFinding], now: datetime, because: str, shares: Sequence[Share]) -> bool:
    """Reopen an incident of the same symptom that ended within REOPEN_S."""
    lately = Q(cause=cause, merged_into=None, closed_at__gte=now - timedelta(seconds=REOPEN_S), closed_at__lte=now)
    try:
        with transaction.atomic():
            ordered = _free(findings)
            # Another symptom is another incident: the first one's begin, cause and texts would be wrong.
            incident = _locked(lately & Q(rule=ordered[0].rule)) if ordered else None
            if incident is None:
                return False
            summary = _summary(because, ordered)
            Incident.objects.filter(pk=incident.pk).update(
                closed_at=None,
                ended_at=None,
                closing="",
                toward="",
                toward_by="",
                reopened_at=now,
                reopenings=F("reopenings") + 1,
                acknowledged_at=None,
                acknowledged_by="",
                summary=summary,
                rule=ordered[0].rule,
                severity=_severity(ordered),
                shares=shares_as_json(shares),
                has_grown=False,
                told_rule="",
                told_cause="",
            )
            # The end of merged incidents is notified with the end of this incident.
            for part in incident.parts.all():
                if withdraw(part.pk, IncidentChange.CLOSED):
                    Incident.objects.filter(pk=part.pk).update(told_at=now)
            _add(incident, ordered, now)
            add_reopening(incident, now, summary)
            _trace(incident.pk, ordered, now)
    except IntegrityError as error:
        return _is_race(error)
    return True


def _extend(cause: str, findings: Sequence[RuleFinding], now: datetime, shares: Sequence[Share]) -> None:
    try:
        with transaction.atomic():
            incident = _locked(Q(cause=cause, closed_at__isnull=True))
            new = _free(findings)
            if incident is not None and new:
                before = set(incident.paths.values_list("path_id", "rule"))
                added = [finding for finding in new if (finding.path_id, finding.rule) not in before]
                _add(incident, new, now)
                incident.summary += "".join(f"; also {_sentence(finding)}" for finding in added)
                severity = _severity(new, incident.severity)
                is_worse = severity != incident.severity
                if is_worse and not incident.is_pending:
                    worst = next(joined for joined in new if joined.severity == severity)
                    add_severity(incident, severity, _sentence(worst), now)
                incident.rule = min((incident.rule, new[0].rule), key=gravity)
                incident.severity = severity
                incident.shares = shares_as_json(shares)
                incident.has_grown |= incident.told_at is not None and bool(added or is_worse)
                incident.save(update_fields=["rule", "summary", "severity", "shares", "has_grown"])
                add_entry(incident.pk, HistoryEvent.WIDENED, now, _summary("", new))
                _trace(incident.pk, new, now)
    except IntegrityError as error:
        _is_race(error)


def _end_as_part(part: Incident, whole: Incident, cause: str, now: datetime) -> list[IncidentPath]:
    rows = list(part.paths.filter(is_over=False).select_related("path__source", "path__destination").order_by("pk"))
    if part.is_pending:
        part.delete()
        return rows
    closing = f"part of incident {whole.pk}: {cause}"
    part.paths.update(is_over=True)
    part.parts.update(merged_into=whole)
    Incident.objects.filter(pk=part.pk).update(closed_at=now, closing=closing, merged_into=whole)
    add_entry(part.pk, HistoryEvent.MERGED, now, closing)
    return rows


def _take(incident: Incident, rows: Sequence[IncidentPath], now: datetime) -> None:
    """Add findings, replacing those from before the incident reopened."""
    keys = {(row.path_id, row.rule) for row in rows}
    over = incident.paths.filter(is_over=True, path_id__in={row.path_id for row in rows})
    IncidentPath.objects.filter(pk__in=[row.pk for row in over if (row.path_id, row.rule) in keys]).delete()
    for row in rows:
        row.pk, row.incident, row.added_at = None, incident, now
    IncidentPath.objects.bulk_create(rows)


def _locked(condition: Q) -> Incident | None:
    # Lock the incident's row, so that no finding is added meanwhile.
    incidents: QuerySet[Incident] = Incident.objects.select_for_update().filter(condition)
    return incidents.order_by("-pk").first()


def _free(findings: Sequence[RuleFinding]) -> list[RuleFinding]:
    path_ids = [finding.path_id for finding in findings]
    taken = set(IncidentPath.objects.filter(is_over=False, path_id__in=path_ids).values_list("path_id", "rule"))
    return [finding for finding in gravest_of(findings) if (finding.path_id, finding.rule) not in taken]


def _add(incident: Incident, findings: Sequence[RuleFinding], now: datetime) -> None:
    rows = [
        IncidentPath(
            path_id=finding.path_id,
            rule=finding.rule,
            sentence=finding.sentence,
            since=finding.since,
            figures=dict(finding.figures),
        )
        for finding in findings
    ]
    _take(incident, rows, now)


def _trace(incident_id: int, findings: Sequence[RuleFinding], now: datetime) -> None:
    """Trace paths of new findings now, before a repair changes the route."""
    path_ids = {finding.path_id for finding in findings}
    ask_where_scheduled(path_ids, TraceReason.INCIDENT_OPENED, by=f"incident {incident_id}", now=now)


def _is_race(error: IntegrityError) -> bool:
    """Return False for a race with another evaluator; re-raise other errors."""
    if not any(name in str(error) for name in ("one_open_incident_per_cause", "finding_in_one_lasting_incident")):
        raise error
    return False


def _summary(because: str, findings: Sequence[RuleFinding]) -> str:
    return "; ".join([*([because] if because else []), *map(_sentence, findings)])


def _sentence(finding: RuleFinding) -> str:
    return f"{finding.path}: {finding.sentence}"
