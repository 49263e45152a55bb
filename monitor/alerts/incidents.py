"""The life of an incident: opened once for a cause, extended by more paths, closed once.

In: findings (a path, its name, the evidence that it fires) and the moment `now` of the evaluation. Out: rows of
`Incident` and `IncidentPath`, and in the same transaction the notifications of every opening and closing. Any number
of evaluators may run at once and in any order: the unique constraint lets one of them open, a conditional update lets
one of them close, and an evaluation that is older than the last change of its cause changes nothing. What fires and
what is clear is not decided here (`monitor.alerts.rules`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import IntegrityError, transaction

from monitor.alerts import notify, rules
from monitor.alerts.models import Change, Incident, IncidentPath
from monitor.alerts.rules import Evidence


@dataclass(frozen=True, slots=True)
class Finding:
    """That a path fires: its name for people and the evidence."""

    path: str
    evidence: Evidence


def open_or_extend(rule: str, cause: str, findings: Sequence[Finding], now: datetime) -> bool:
    """Open the incident of `cause`, or add the paths that its open incident does not have yet.

    Returns whether this call opened it. `findings` must not be empty.
    """
    if _changed_since(rule, cause, now):
        return False
    if _open_id(rule, cause) is None and _try_open(rule, cause, findings, now):
        return True
    _extend(rule, cause, findings, now)
    return False


def close(incident_id: int, path_ids: Iterable[int], closing: str, now: datetime) -> bool:
    """Close an incident because each of `path_ids` is clear; `closing` says so to people.

    Returns whether this call closed it: not when somebody else did, when it has opened after `now`, or when a path
    was added to it that is not among `path_ids`.
    """
    with transaction.atomic():
        # The lock keeps `_extend` out, so that no path is added between the look at the paths and the update.
        incident = Incident.objects.select_for_update().filter(pk=incident_id, closed_at__isnull=True).first()
        if incident is None or incident.paths.exclude(path_id__in=list(path_ids)).exists():
            return False
        closed = Incident.objects.filter(pk=incident_id, closed_at__isnull=True, opened_at__lte=now).update(
            closed_at=now, closing=closing
        )
        if closed:
            notify.enqueue(incident_id, Change.CLOSED, now)
    return closed == 1


def _try_open(rule: str, cause: str, findings: Sequence[Finding], now: datetime) -> bool:
    try:
        with transaction.atomic():
            incident = Incident.objects.create(
                rule=rule, cause=cause, opened_at=now, summary=_summary(cause, findings, now)
            )
            _add_paths(incident, findings, now)
            notify.enqueue(incident.pk, Change.OPENED, now)
    except IntegrityError as error:
        if "one_open_incident_per_cause" not in str(error):
            raise
        return False
    return True


def _extend(rule: str, cause: str, findings: Sequence[Finding], now: datetime) -> None:
    with transaction.atomic():
        incident = Incident.objects.select_for_update().filter(rule=rule, cause=cause, closed_at__isnull=True).first()
        if incident is None:
            return
        known = set(incident.paths.values_list("path_id", flat=True))
        new = [finding for finding in findings if finding.evidence.path_id not in known]
        if new:
            _add_paths(incident, new, now)
            incident.summary += "".join(f"; also {_sentence(finding.path, [finding], now)}" for finding in new)
            incident.save(update_fields=["summary"])


def _add_paths(incident: Incident, findings: Sequence[Finding], now: datetime) -> None:
    IncidentPath.objects.bulk_create(
        IncidentPath(
            incident=incident,
            path_id=finding.evidence.path_id,
            added_at=now,
            window_s=finding.evidence.window_s,
            sent=finding.evidence.sent,
            lost=finding.evidence.lost,
            loss_lower_ratio=finding.evidence.loss_lower_ratio,
            threshold_ratio=finding.evidence.threshold_ratio,
        )
        for finding in findings
    )


def _summary(cause: str, findings: Sequence[Finding], now: datetime) -> str:
    return _sentence(cause if len(findings) > 1 else findings[0].path, findings, now)


def _sentence(subject: str, findings: Sequence[Finding], now: datetime) -> str:
    return f"{subject}: {rules.describe(rules.pooled([finding.evidence for finding in findings]), now)}"


def _open_id(rule: str, cause: str) -> int | None:
    open_ids = Incident.objects.filter(rule=rule, cause=cause, closed_at__isnull=True).values_list("pk", flat=True)
    return open_ids.first()


def _changed_since(rule: str, cause: str, now: datetime) -> bool:
    """Whether the cause was closed at or after `now`: then this evaluation looked at older data than the closing."""
    return Incident.objects.filter(rule=rule, cause=cause, closed_at__gte=now).exists()
