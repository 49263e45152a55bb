"""The life of an incident: pending, open, perhaps acknowledged, resolved, perhaps open again.

In: findings of rules, and the moment `now` of the evaluation. Out: rows of `Incident` and `IncidentPath`, and in the
same transaction the notifications and the turns of its history. Every change is an update on the condition of the state
before it, and counts its rows; with the unique constraints that makes any number of evaluators harmless, at once and in
any order. An evaluation that is older than the last change of its cause changes nothing. What fires and what is over is
decided in `monitor.alerts.detect.rules`, when to be quiet in `monitor.alerts.incidents.quiet`.

- A cause that is found is pending. After CONFIRM_S, if it is not over by then, it opens; if it is, it is forgotten.
- A cause that is found again within REOPEN_S of its end is the same incident, open again.
- Incidents that last become one when one cause explains them: the one that people know best goes on under the name of
  that cause, the others end. People are told of their end with that of the whole, and of nothing else.
- People are told of an incident that is open and not silenced, and of the end of what they were told. The first end is
  told at once, that of an incident which has reopened only when it has lasted for REOPEN_S. So a cause that comes and
  goes is told four times at most before it has been quiet for that long.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F, Q, QuerySet

from monitor.alerts.detect.rules.catalogue import RULES
from monitor.alerts.detect.rules.finding import Finding
from monitor.alerts.detect.shares import Share
from monitor.alerts.detect.snapshot import Key
from monitor.alerts.incidents.outbox import channels_told, enqueue, withdraw
from monitor.alerts.models import UNTOLD, Change, Incident, IncidentPath, IncidentTurn, Severity, Turn

CONFIRM_S = 20
"""Long enough for what has the same cause to be found with it."""

REOPEN_S = 900


def find(
    cause: str, findings: Sequence[Finding], now: datetime, because: str = "", shares: Sequence[Share] = ()
) -> bool:
    """Note what was found of a cause: in its lasting incident, in one that ended lately, or in a new one, pending.

    `because` says why it is this cause, `shares` what else is bad. Returns whether a new one was made. `findings` must
    not be empty; those that a lasting incident has are passed over.
    """
    if Incident.objects.filter(cause=cause, closed_at__gt=now).exists():
        return False
    if not Incident.objects.filter(cause=cause, closed_at__isnull=True).exists():
        if _reopen(cause, findings, now, because, shares):
            return False
        if _make(cause, findings, now, because, shares):
            return True
    _extend(cause, findings, now, shares)
    return False


def merge(causes: Collection[str], into: str, now: datetime) -> int:
    """Make one of the lasting incidents of these causes, now of the cause `into`; returns how many have become part of
    another.

    The oldest of those that people were told of goes on. Each other ends and keeps what it has; a pending one is
    forgotten. Those found or found again after `now` are left alone.
    """
    known = Q(opened_at__lte=now) & (Q(reopened_at__isnull=True) | Q(reopened_at__lte=now))
    try:
        with transaction.atomic():
            lasting = Incident.objects.select_for_update().filter(known, cause__in=causes, closed_at__isnull=True)
            found = sorted(lasting.order_by("pk"), key=lambda one: (one.told_at is None, one.is_pending, one.opened_at))
            if len(found) < 2:
                return 0
            whole, *parts = found
            rows = [row for part in parts for row in _end_as_part(part, whole, into, now)]
            _take(whole, rows, now)
            whole.cause = into
            whole.severity = max((one.severity for one in found), key=lambda one: Severity(one).rank)
            whole.summary += "".join(f"; also {row.path}: {row.sentence}" for row in rows)
            whole.has_grown = whole.told_at is not None
            whole.save(update_fields=["cause", "severity", "summary", "has_grown"])
            _keep(whole.pk, Turn.MERGED, now, f"{into}: {'; '.join(f'{row.path}: {row.sentence}' for row in rows)}")
    except IntegrityError as error:
        _is_race(error)
        return 0
    return len(parts)


def confirm(incident_id: int, now: datetime) -> bool:
    """Open a pending incident that is old enough; returns whether this call did."""
    old_enough = now - timedelta(seconds=CONFIRM_S)
    pending = Incident.objects.filter(pk=incident_id, is_pending=True, opened_at__lte=old_enough)
    with transaction.atomic():
        confirmed = pending.update(is_pending=False) == 1
        if confirmed:
            _keep(incident_id, Turn.OPENED, now)
    return confirmed


def tell(incident_id: int, now: datetime) -> bool:
    """Tell people of an open incident of which they were not told; to be called unless it is silenced.

    Of one that has grown those are told whom a route names only now, as where it has become critical."""
    with transaction.atomic():
        told = Incident.objects.filter(UNTOLD, pk=incident_id).update(told_at=now, has_grown=False)
        if told:
            incident = Incident.objects.get(pk=incident_id)
            change = Change.REOPENED if incident.notifications.exists() else Change.OPENED
            know = withdraw(incident_id, Change.CLOSED) | channels_told(incident_id, incident.reopenings)
            enqueue(incident_id, change, now, reopening=incident.reopenings, but=know)
    return told == 1


def acknowledge(incident_id: int, who: str, now: datetime) -> bool:
    """Note that somebody looks after an open incident; returns whether this call did."""
    open_now = Incident.objects.filter(pk=incident_id, closed_at__isnull=True, acknowledged_at__isnull=True)
    with transaction.atomic():
        acknowledged = open_now.update(is_pending=False, acknowledged_at=now, acknowledged_by=who) == 1
        if acknowledged:
            _keep(incident_id, Turn.ACKNOWLEDGED, now, who)
    return acknowledged


def unacknowledge(incident_id: int, who: str, now: datetime) -> bool:
    """Note that nobody looks after an open incident any more; returns whether this call did."""
    held = Incident.objects.filter(pk=incident_id, closed_at__isnull=True, acknowledged_at__isnull=False)
    with transaction.atomic():
        released = held.update(acknowledged_at=None, acknowledged_by="") == 1
        if released:
            _keep(incident_id, Turn.UNACKNOWLEDGED, now, who)
    return released


def close(incident_id: int, over: Collection[Key], closing: str, now: datetime, *, is_silenced: bool = False) -> bool:
    """End an incident because each of `over` is over; `closing` says so to people. A pending one is forgotten.

    Returns whether this call ended it: not when somebody else did, when it was found or found again after `now`, or
    when something was added to it that is not among `over`.
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
        Incident.objects.filter(pk=incident_id).update(closed_at=now, closing=closing, told_at=None)
        IncidentPath.objects.filter(incident_id=incident_id).update(is_over=True)
        _keep(incident_id, Turn.RESOLVED, now, closing)
        parts = incident.parts.filter(told_at__isnull=False)
        known = [one for one in (incident, *parts) if one.told_at is not None]
        parts.update(told_at=None)
        for one in known if not is_silenced else ():
            due_at = now + timedelta(seconds=REOPEN_S if incident.reopenings else 0)
            enqueue(one.pk, Change.CLOSED, due_at, reopening=one.reopenings)
    return True


def correct(incident_id: int, correction: str, now: datetime, *, is_void: bool = False) -> bool:
    """Note what late results say of an incident; returns whether that is new.

    Where nothing of what opened it would have (`is_void`), those who were told of it are told so, once.
    """
    with transaction.atomic():
        others = Incident.objects.filter(pk=incident_id).exclude(correction=correction)
        is_new = others.update(correction=correction) == 1
        if is_new:
            _keep(incident_id, Turn.CORRECTED, now, correction)
            if is_void:
                reopening = Incident.objects.values_list("reopenings", flat=True).get(pk=incident_id)
                enqueue(incident_id, Change.CORRECTED, now, reopening=reopening)
    return is_new


def _severity(findings: Sequence[Finding], *others: str) -> str:
    """The greatest severity of all."""
    return max((*others, *(finding.severity for finding in findings)), key=lambda one: Severity(one).rank)


def _kept(shares: Sequence[Share]) -> list[dict[str, Any]]:
    return [asdict(share) for share in shares]


def gravest(findings: Iterable[Finding]) -> list[Finding]:
    """The findings, the gravest rule first, then by path."""
    order = {name: place for place, name in enumerate(RULES)}
    return sorted(findings, key=lambda finding: (order[finding.rule], finding.path))


def _make(cause: str, findings: Sequence[Finding], now: datetime, because: str, shares: Sequence[Share]) -> bool:
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
                shares=_kept(shares),
            )
            _add(incident, ordered, now)
            _keep(incident.pk, Turn.FOUND, now, incident.summary)
    except IntegrityError as error:
        return _is_race(error)
    return True


def _reopen(cause: str, findings: Sequence[Finding], now: datetime, because: str, shares: Sequence[Share]) -> bool:
    """Open again what ended within REOPEN_S before `now`, with what is found now."""
    lately = Q(cause=cause, merged_into=None, closed_at__gte=now - timedelta(seconds=REOPEN_S), closed_at__lte=now)
    try:
        with transaction.atomic():
            incident, ordered = _locked(lately), _free(findings)
            if incident is None or not ordered:
                return False
            summary = _summary(because, ordered)
            Incident.objects.filter(pk=incident.pk).update(
                closed_at=None,
                closing="",
                reopened_at=now,
                reopenings=F("reopenings") + 1,
                acknowledged_at=None,
                acknowledged_by="",
                summary=summary,
                rule=ordered[0].rule,
                severity=_severity(ordered),
                shares=_kept(shares),
                has_grown=False,
            )
            # The end of its parts is told with its own, which is still to come.
            for part in incident.parts.all():
                if withdraw(part.pk, Change.CLOSED):
                    Incident.objects.filter(pk=part.pk).update(told_at=now)
            _add(incident, ordered, now)
            _keep(incident.pk, Turn.REOPENED, now, summary)
    except IntegrityError as error:
        return _is_race(error)
    return True


def _extend(cause: str, findings: Sequence[Finding], now: datetime, shares: Sequence[Share]) -> None:
    try:
        with transaction.atomic():
            incident = _locked(Q(cause=cause, closed_at__isnull=True))
            new = _free(findings)
            if incident is not None and new:
                _add(incident, new, now)
                incident.summary += "".join(f"; also {_sentence(finding)}" for finding in new)
                incident.severity = _severity(new, incident.severity)
                incident.shares = _kept(shares)
                incident.has_grown = incident.told_at is not None
                incident.save(update_fields=["summary", "severity", "shares", "has_grown"])
                _keep(incident.pk, Turn.WIDENED, now, _summary("", new))
    except IntegrityError as error:
        _is_race(error)


def _end_as_part(part: Incident, whole: Incident, cause: str, now: datetime) -> list[IncidentPath]:
    """End a lasting incident as part of another, which is of this cause now; returns what it had that is not over."""
    rows = list(part.paths.filter(is_over=False).select_related("path__source", "path__destination").order_by("pk"))
    if part.is_pending:
        part.delete()
        return rows
    closing = f"part of incident {whole.pk}: {cause}"
    part.paths.update(is_over=True)
    part.parts.update(merged_into=whole)
    Incident.objects.filter(pk=part.pk).update(closed_at=now, closing=closing, merged_into=whole)
    _keep(part.pk, Turn.MERGED, now, closing)
    return rows


def _take(incident: Incident, rows: Sequence[IncidentPath], now: datetime) -> None:
    """Add rows, new ones or what other incidents had, each in the place of what this incident had of it before it
    reopened."""
    for row in rows:
        incident.paths.filter(path_id=row.path_id, rule=row.rule, is_over=True).delete()
        row.pk, row.incident, row.added_at = None, incident, now
    IncidentPath.objects.bulk_create(rows)


def _locked(condition: Q) -> Incident | None:
    """The incident, locked, so that nothing is added to it between a look at its rows and a change."""
    found: QuerySet[Incident] = Incident.objects.select_for_update().filter(condition)
    return found.order_by("-pk").first()


def _free(findings: Sequence[Finding]) -> list[Finding]:
    """Those that no lasting incident has, the gravest first."""
    path_ids = [finding.path_id for finding in findings]
    taken = set(IncidentPath.objects.filter(is_over=False, path_id__in=path_ids).values_list("path_id", "rule"))
    return [finding for finding in gravest(findings) if (finding.path_id, finding.rule) not in taken]


def _add(incident: Incident, findings: Sequence[Finding], now: datetime) -> None:
    """Add findings."""
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


def _keep(incident_id: int, turn: Turn, at: datetime, note: str = "") -> None:
    """Write the turn into the incident's history; call it in the transaction of the change."""
    IncidentTurn.objects.create(incident_id=incident_id, at=at, turn=turn, note=note)


def _is_race(error: IntegrityError) -> bool:
    """False where somebody else was first, which is no error; anything else is raised again."""
    if not any(name in str(error) for name in ("one_open_incident_per_cause", "finding_in_one_lasting_incident")):
        raise error
    return False


def _summary(because: str, findings: Sequence[Finding]) -> str:
    return "; ".join([*([because] if because else []), *map(_sentence, findings)])


def _sentence(finding: Finding) -> str:
    return f"{finding.path}: {finding.sentence}"
