"""Messages of a change, a digest, or a test: text, and versioned JSON for webhooks (docs/alert-rules.md)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db import Error

from monitor.alerts.evidence import gather, words
from monitor.alerts.evidence.evidence import Evidence, evidence
from monitor.alerts.history import opened_at
from monitor.alerts.incidents import queries
from monitor.alerts.incidents.gravest import gravest_first, with_turned_outage
from monitor.alerts.models import Incident, IncidentChange, Notification, Severity
from monitor.alerts.notify import incident_text
from monitor.alerts.notify.channels import Message
from probes.quantities import counted

SCHEMA = "soundings.incident"
VERSION = 2
GOOD = "good"
# Incidents: a mail of hundreds is not read, and the evidence of each takes twenty queries.
MOST_IN_DIGEST = 50

log = logging.getLogger("monitor.alerts")


class Composer:
    """Composes the messages of a run, loading each incident once for all channels."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._loaded: dict[int, tuple[Incident, Evidence]] = {}

    def change_message(self, notification: Notification) -> Message:
        incident, evidence = self._incident(notification.incident_id)
        change = notification.change
        return Message(
            key=str(notification),
            title=incident_text.subject(incident, change),
            body=incident_text.body(incident, change, evidence),
            severity=GOOD if change == IncidentChange.CLOSED else incident.severity,
            payload=self._payload(str(notification), change, incident=as_json(incident, evidence)),
        )

    def digest_message(self, notifications: Sequence[Notification]) -> Message:
        """The digest of a channel: an entry for each incident, of the gravest `MOST_IN_DIGEST` at most."""
        ids = sorted({notification.incident_id for notification in notifications})
        states = Incident.objects.in_bulk(ids)
        gravest = sorted(
            ids, key=lambda pk: (states[pk].closed_at is not None, -Severity(states[pk].severity).rank, pk)
        )
        with_evidence = [self._incident(incident_id) for incident_id in sorted(gravest[:MOST_IN_DIGEST])]
        lasting = [incident for incident in states.values() if incident.closed_at is None]
        worst = max((Severity(incident.severity) for incident in states.values()), key=lambda severity: severity.rank)
        lines = [line for pair in with_evidence for line in _digest_lines(*pair)]
        incidents, more = counted(len(ids), "incident"), len(ids) - len(with_evidence)
        lines += [f"and {counted(more, 'more incident')}"] if more else []
        key = f"digest-{min(notification.pk for notification in notifications)}"
        return Message(
            key=key,
            title=f"Digest {self._now:%Y-%m-%d %H:%M} UTC: {incidents}, {len(lasting):,} still open",
            body="\n".join(lines).strip(),
            severity=str(worst) if lasting else GOOD,
            payload=self._payload(key, "digest", incidents=[as_json(*pair) for pair in with_evidence], more=more),
        )

    def sample_message(self, channel: str) -> Message:
        body = f"Test message for channel {channel}, sent manually. There is no incident."
        key = f"test-{self._now:%Y%m%dT%H%M%S}"
        return Message(key, "TEST from Soundings: no incident", body, "notice", self._payload(key, "test"))

    def _payload(self, key: str, event: str, **rest: Any) -> dict[str, Any]:
        return {
            "schema": SCHEMA, "version": VERSION, "id": key, "event": str(event), "sent_at": _stamp(self._now), **rest,
        }  # fmt: skip

    def _incident(self, incident_id: int) -> tuple[Incident, Evidence]:
        if incident_id not in self._loaded:
            incident = queries.incident_with_paths(incident_id)
            if incident is None:
                raise LookupError(f"incident {incident_id}")
            self._loaded[incident_id] = incident, self._evidence(incident)
        return self._loaded[incident_id]

    def _evidence(self, incident: Incident) -> Evidence:
        """The evidence, gathered now if missing or outdated; left out on failure."""
        facts = gather.stored_facts(incident)
        times = [incident.reopened_at, *(row.added_at for row in incident.paths.all() if not row.is_over)]
        is_earlier = facts is not None and any(at is not None and facts.gathered_at < at for at in times)
        if facts is None or is_earlier or with_turned_outage([incident]):
            try:
                gather.store_facts(incident, self._now)
            except (Error, ValueError, KeyError):
                log.exception("incident %d: notified without evidence", incident.pk)
        return evidence(incident, self._now)


def as_json(incident: Incident, evidence: Evidence) -> dict[str, Any]:
    began = evidence.began
    return {
        "id": incident.pk,
        "url": words.link(incident.pk),
        "headline": words.headline(incident),
        "state": str(incident.state),
        "severity": incident.severity,
        "rule": incident.rule,
        "cause": incident.cause,
        "detected_at": _stamp(incident.opened_at),
        "opened_at": _stamp(opened_at(incident)),
        "ended_at": _stamp(words.until(incident)),
        "reopened_at": _stamp(incident.reopened_at),
        "closed_at": _stamp(incident.closed_at),
        "acknowledged_by": incident.acknowledged_by or None,
        "closing": incident.closing or None,
        "correction": incident.correction or None,
        "began": began and {"at": _stamp(began.at), "earliest": _stamp(began.earliest), "latest": _stamp(began.latest)},
        "likely_cause": evidence.likely,
        "next_step": evidence.cause.next_step,
        "where": [
            {"where": share.where, "bad_paths": share.bad, "paths": share.known, "unclear_paths": share.unclear}
            for share in evidence.shares
            if share.known
        ],
        "findings": [
            {
                "path_id": row.path_id,
                "source": row.path.source.name,
                "destination": row.path.destination.name,
                "source_address": row.path.source.address,
                "destination_address": row.path.destination.address,
                "rule": row.rule,
                "sentence": row.sentence,
                "since": _stamp(row.since),
                "figures": row.figures,
            }
            for row in gravest_first(incident.paths.all())
        ],
    }


def _digest_lines(incident: Incident, evidence: Evidence) -> list[str]:
    if incident.closed_at is not None:
        lasted = words.duration_text(incident, incident.closed_at)
        state = f"resolved at {incident.closed_at:%Y-%m-%d %H:%M} UTC, lasted {lasted}"
    else:
        state = f"acknowledged by {incident.acknowledged_by}" if incident.acknowledged_by else "still open"
    times = f", opened {incident.reopenings + 1} times" if incident.reopenings else ""
    head = f"{incident.severity}: {words.headline(incident)}"
    return [head, f"  {state}{times}", f"  {evidence.likely}", f"  {words.link(incident.pk)}", ""]


def _stamp(at: datetime | None) -> str | None:
    return None if at is None else f"{at:%Y-%m-%dT%H:%M:%S.%fZ}"
