"""What is sent: the message of one change of an incident, of a digest, of a test. For people, and as JSON for webhooks.

In: notifications with their incidents, paths fetched. Out: `Message`s. The JSON has a version, and docs/alerts.md has
its schema: a key is never taken away or changed in meaning without a new version; new ones may come.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db import Error

from monitor.alerts.evidence import gather, words
from monitor.alerts.evidence.evidence import Evidence, evidence
from monitor.alerts.incidents import queries
from monitor.alerts.models import Change, Incident, Notification, Severity
from monitor.alerts.notify.channels import Message

SCHEMA = "soundings.incident"
VERSION = 1
GOOD = "good"

log = logging.getLogger("monitor.alerts")


class Composer:
    """Writes the messages of one run: each incident is asked for once, whatever the number of channels."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._known: dict[int, tuple[Incident, Evidence]] = {}

    def of_change(self, notification: Notification) -> Message:
        """One change of one incident."""
        incident, found = self._incident(notification.incident_id)
        change = notification.change
        return Message(
            key=str(notification),
            title=words.subject(incident, change, found),
            body=words.body(incident, change, found),
            severity=GOOD if change == Change.CLOSED else incident.severity,
            payload=self._payload(str(notification), change, incident=as_json(incident, found)),
        )

    def of_digest(self, notifications: Sequence[Notification]) -> Message:
        """All that is due for one channel now, an incident in one entry whatever became of it."""
        ids = sorted({one.incident_id for one in notifications})
        both = [self._incident(one) for one in ids]
        lasting = [one for one, _ in both if one.closed_at is None]
        worst = max((Severity(one.severity) for one, _ in both), key=lambda one: one.rank)
        lines = [line for incident, found in both for line in _digest_lines(incident, found)]
        key = f"digest-{min(one.pk for one in notifications)}"
        plural = "" if len(ids) == 1 else "s"
        return Message(
            key=key,
            title=f"Digest {self._now:%Y-%m-%d %H:%M} UTC: {len(ids)} incident{plural}, {len(lasting)} still open",
            body="\n".join(lines).strip(),
            severity=str(worst) if lasting else GOOD,
            payload=self._payload(key, "digest", incidents=[as_json(incident, found) for incident, found in both]),
        )

    def of_test(self, channel: str) -> Message:
        """A message that says that it is only a test."""
        body = f"This is a test of the channel {channel}, sent by hand. Nothing is wrong."
        key = f"test-{self._now:%Y%m%dT%H%M%S}"
        return Message(key, "TEST from Soundings: nothing is wrong", body, "notice", self._payload(key, "test"))

    def _payload(self, key: str, event: str, **rest: Any) -> dict[str, Any]:
        return {
            "schema": SCHEMA, "version": VERSION, "id": key, "event": str(event), "sent_at": _stamp(self._now), **rest,
        }  # fmt: skip

    def _incident(self, incident_id: int) -> tuple[Incident, Evidence]:
        if incident_id not in self._known:
            incident = queries.incident_with_paths(incident_id)
            if incident is None:
                raise LookupError(f"incident {incident_id}")
            self._known[incident_id] = incident, self._evidence(incident)
        return self._known[incident_id]

    def _evidence(self, incident: Incident) -> Evidence:
        """The evidence, gathered now where it was not; a message must go out without it, if need be."""
        if gather.kept(incident) is None:
            try:
                gather.keep(incident, self._now)
            except (Error, ValueError, KeyError):
                log.exception("incident %d: told without its evidence", incident.pk)
        return evidence(incident, self._now)


def as_json(incident: Incident, found: Evidence) -> dict[str, Any]:
    """An incident for programs."""
    began = found.began
    return {
        "id": incident.pk,
        "url": words.link(incident.pk),
        "headline": words.headline(incident, found),
        "state": str(incident.state),
        "severity": incident.severity,
        "rule": incident.rule,
        "cause": incident.cause,
        "opened_at": _stamp(incident.opened_at),
        "reopened_at": _stamp(incident.reopened_at),
        "closed_at": _stamp(incident.closed_at),
        "acknowledged_by": incident.acknowledged_by or None,
        "closing": incident.closing or None,
        "correction": incident.correction or None,
        "began": began and {"at": _stamp(began.at), "earliest": _stamp(began.earliest), "latest": _stamp(began.latest)},
        "likely_cause": found.likely,
        "where": [{"where": one.where, "bad_paths": one.bad, "paths": one.known} for one in found.shares],
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
            for row in gather.gravest_first(incident.paths.all())
        ],
    }


def _digest_lines(incident: Incident, found: Evidence) -> list[str]:
    if incident.closed_at is not None:
        state = f"over since {incident.closed_at:%Y-%m-%d %H:%M} UTC, after {words.lasted(incident)}"
    else:
        state = f"acknowledged by {incident.acknowledged_by}" if incident.acknowledged_by else "still open"
    times = f", {incident.reopenings + 1} times" if incident.reopenings else ""
    head = f"{incident.severity}: {words.headline(incident, found)}"
    return [head, f"  {state}{times}", f"  {found.likely}", f"  {words.link(incident.pk)}", ""]


def _stamp(at: datetime | None) -> str | None:
    return None if at is None else f"{at:%Y-%m-%dT%H:%M:%S.%fZ}"
