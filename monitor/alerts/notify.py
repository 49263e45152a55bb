"""Telling people: every opening and closing of an incident goes once to each channel of SOUNDINGS_NOTIFY_URLS.

In: changes of incidents, written down by `enqueue` in the transaction of the change. Out: messages through Apprise,
sent by `deliver` at each evaluation. A channel that fails is logged and tried again after 30 s, 1 min, 2 min and so on,
ten times over four hours; other channels and the evaluation do not wait for it. A message is sent twice only when
the process dies between sending it and noting that. `log://` writes to the logger `monitor.alerts`.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

import apprise
from apprise.decorators import notify as apprise_notify
from django.conf import settings
from django.db import transaction
from django.db.models import Exists, F, OuterRef, QuerySet

from monitor.alerts.models import Change, Incident, Notification
from monitor.analysis import figures

MAX_ATTEMPTS = 10
FIRST_RETRY_S = 30
MESSAGES_PER_RUN = 50

log = logging.getLogger("monitor.alerts")


class NotSent(Exception):
    """A channel did not take a message. The text says why, without the channel's secrets."""


def channels() -> dict[str, str]:
    """The configured channels: a name that is safe to store and show -> the Apprise URL."""
    return {_channel_name(url): url for url in settings.NOTIFY_URLS}


def enqueue(
    incident_id: int, change: Change, due_at: datetime, *, reopening: int = 0, but: Collection[str] = ()
) -> None:
    """Write down that each channel must be told, `but` for some; call it in the transaction of the change."""
    Notification.objects.bulk_create(
        Notification(incident_id=incident_id, change=change, reopening=reopening, channel=channel, due_at=due_at)
        for channel in channels()
        if channel not in but
    )


def withdraw(incident_id: int, change: Change) -> set[str]:
    """Take back what was not tried yet, since it no longer holds; returns the channels that will never know."""
    waiting = Notification.objects.filter(incident_id=incident_id, change=change, attempts=0, sent_at__isnull=True)
    with transaction.atomic():
        rows = list(waiting.select_for_update())
        Notification.objects.filter(pk__in=[row.pk for row in rows]).delete()
    return {row.channel for row in rows}


def deliver(now: datetime) -> int:
    """Send what is due, at most `MESSAGES_PER_RUN`; returns how many messages were taken by their channel.

    A channel that fails gets nothing more in this run: waiting for its time-out once is enough.
    """
    sent = 0
    failing: set[str] = set()
    for notification in list(_due(now)[:MESSAGES_PER_RUN]):
        if notification.channel in failing or not _claim(notification, now):
            continue
        if _attempt(notification, now):
            sent += 1
        else:
            failing.add(notification.channel)
    return sent


def _due(now: datetime) -> QuerySet[Notification]:
    """What can be sent now, oldest first. A closing waits for its opening, so that they arrive in order."""
    pending = Notification.objects.filter(sent_at__isnull=True, attempts__lt=MAX_ATTEMPTS)
    earlier = pending.filter(incident=OuterRef("incident"), channel=OuterRef("channel"), pk__lt=OuterRef("pk"))
    return pending.filter(~Exists(earlier), due_at__lte=now).select_related("incident").order_by("pk")


def _attempt(notification: Notification, now: datetime) -> bool:
    try:
        _send(notification)
    except NotSent as error:
        _note_failure(notification, str(error))
        return False
    except Exception as error:  # whatever a channel's plugin does must not stop the evaluation
        _note_failure(notification, f"{type(error).__name__} in the channel's plugin")
        log.debug("plugin of %s", notification.channel, exc_info=True)
        return False
    Notification.objects.filter(pk=notification.pk).update(sent_at=now, problem="")
    return True


def _claim(notification: Notification, now: datetime) -> bool:
    """Take this attempt; false when another evaluator has it. Until `due_at` nobody else tries."""
    retry_at = now + timedelta(seconds=FIRST_RETRY_S * 2**notification.attempts)
    claimed = Notification.objects.filter(
        pk=notification.pk, sent_at__isnull=True, attempts=notification.attempts, due_at__lte=now
    ).update(attempts=F("attempts") + 1, due_at=retry_at)
    return claimed == 1


def _note_failure(notification: Notification, problem: str) -> None:
    Notification.objects.filter(pk=notification.pk).update(problem=problem)
    attempt = notification.attempts + 1
    what_next = "no more attempts" if attempt == MAX_ATTEMPTS else "it will be tried again"
    log.error(
        "channel %s did not take the notification that incident %d %s (attempt %d of %d): %s; %s",
        notification.channel,
        notification.incident_id,
        notification.change,
        attempt,
        MAX_ATTEMPTS,
        problem,
        what_next,
    )


def _send(notification: Notification) -> None:
    url = channels().get(notification.channel)
    if url is None:
        raise NotSent("SOUNDINGS_NOTIFY_URLS no longer names this channel")
    sender = apprise.Apprise()
    if not sender.add(url):
        raise NotSent("Apprise does not understand the URL; compare it with its list of services")
    closed = notification.change == Change.CLOSED
    taken = sender.notify(
        title=_title(notification.incident, notification.change),
        body=_closing(notification.incident) if closed else _opening(notification.incident),
        notify_type=apprise.NotifyType.SUCCESS if closed else apprise.NotifyType.WARNING,
        body_format=apprise.NotifyFormat.TEXT,
    )
    if not taken:
        raise NotSent("the service refused it or could not be reached")


def _title(incident: Incident, change: str) -> str:
    return f"Incident {incident.pk} {change}: {incident.rule} on {incident.cause}"


def _opening(incident: Incident) -> str:
    again = "" if incident.reopened_at is None else f" Again since {incident.reopened_at:%Y-%m-%d %H:%M:%S} UTC."
    return f"{incident.summary}.\nOpened {incident.opened_at:%Y-%m-%d %H:%M:%S} UTC.{again}"


def _closing(incident: Incident) -> str:
    if incident.closed_at is None:
        raise NotSent("it has reopened since")
    lasted = figures.duration((incident.closed_at - incident.opened_at).total_seconds())
    return (
        f"{incident.closing}.\n"
        f"Open from {incident.opened_at:%Y-%m-%d %H:%M:%S} to {incident.closed_at:%Y-%m-%d %H:%M:%S} UTC ({lasted}).\n"
        f"It had been opened for {incident.summary}."
    )


def _channel_name(url: str) -> str:
    """The URL's scheme and a digest: URLs hold passwords and tokens, which belong neither in rows nor in logs."""
    return f"{url.partition(':')[0]}:{hashlib.sha256(url.encode()).hexdigest()[:12]}"


@apprise_notify(on="log", name="Log")  # type: ignore[no-untyped-call]
def _write_to_log(body: str, title: str, notify_type: str, *args: Any, **kwargs: Any) -> bool:
    """The channel `log://`: one line to the logger `monitor.alerts`."""
    level = logging.WARNING if notify_type == apprise.NotifyType.WARNING.value else logging.INFO
    log.log(level, "%s. %s", title, " ".join(body.splitlines()))
    return True
