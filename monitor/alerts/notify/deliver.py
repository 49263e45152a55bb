"""Deliver queued notifications in a task of its own, to all channels in parallel, a single run at a time.

Failures are retried ten times over four hours, then become dead letters.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from queue import SimpleQueue

from django.db.models import Exists, F, OuterRef, Q, QuerySet

from monitor.alerts.advisory_lock import advisory_lock
from monitor.alerts.models import DeliveryState, Incident, IncidentChange, Notification
from monitor.alerts.notify import channels
from monitor.alerts.notify.channels import Message, SendResult
from monitor.alerts.notify.messages import Composer
from monitor.archive.upkeep import freshness
from monitor.archive.upkeep.freshness import RecurringWork
from monitor.mesh.document import notify_routes
from probes.commands.own_command import MANAGE

MAX_ATTEMPTS = 10
FIRST_RETRY_S = 30
MESSAGES_PER_RUN = 50
MESSAGES_PER_CHANNEL = 10
# With more due at once, a channel gets a digest: nobody reads hundreds of messages, and the last would come late.
MOST_AT_ONCE = 20
# A SENDING row older than this is orphaned.
LEASE_S = 120
NO_CHANNEL = "SOUNDINGS_NOTIFY_URLS has no channel with this name"
# Key of the advisory lock: unique in this database.
_KEY = 0x50_4E_44_4E_4F_54_49_46

log = logging.getLogger("monitor.alerts")


@dataclass(frozen=True, slots=True)
class _Job:
    channel: str
    rows: tuple[Notification, ...]  # a single notification, or several for a digest
    message: Message


def deliver(now: datetime) -> int:
    """Send at most `MESSAGES_PER_RUN` due notifications; returns how many were accepted.

    Does nothing while another run holds the advisory lock.
    """
    with advisory_lock(_KEY) as is_alone:
        if not is_alone:
            return 0
        sent = _sent(_jobs(_claimed(now), now), now)
        freshness.note(RecurringWork.NOTIFICATION, now)
        return sent


def _due(now: datetime) -> QuerySet[Notification]:
    """Notifications due now, oldest first; a closing waits for its opening."""
    unsent = Notification.objects.filter(state__in=(DeliveryState.WAITING, DeliveryState.SENDING))
    earlier = unsent.filter(
        incident=OuterRef("incident"), channel=OuterRef("channel"), is_digest=False, pk__lt=OuterRef("pk")
    )
    lost = Q(state=DeliveryState.SENDING, claimed_at__lt=now - timedelta(seconds=LEASE_S))
    ready = Q(state=DeliveryState.WAITING, due_at__lte=now)
    return (
        Notification.objects.filter(ready | lost).filter(Q(is_digest=True) | ~Exists(earlier)).order_by("due_at", "pk")
    )


def _claimed(now: datetime) -> list[Notification]:
    held: dict[str, int] = {}
    claimed: list[Notification] = []
    due = list(_due(now))
    _digest_many(due)
    for row in due:
        has_room = held.get(row.channel, 0) < MESSAGES_PER_CHANNEL and len(claimed) < MESSAGES_PER_RUN
        if (row.is_digest or has_room) and _claim(row, now):
            held[row.channel] = held.get(row.channel, 0) + (not row.is_digest)
            claimed.append(row)
    return claimed


def _digest_many(due: Sequence[Notification]) -> None:
    single = [row for row in due if not row.is_digest and row.state == DeliveryState.WAITING]
    of_channel = Counter(row.channel for row in single)
    many = [row for row in single if of_channel[row.channel] > MOST_AT_ONCE]
    Notification.objects.filter(pk__in=[row.pk for row in many]).update(is_digest=True)
    for row in many:
        row.is_digest = True


def _claim(row: Notification, now: datetime) -> bool:
    """Claim a notification; an orphaned attempt counts. Returns whether this call did."""
    was_lost = int(row.state == DeliveryState.SENDING)
    same = Notification.objects.filter(pk=row.pk, state=row.state, attempts=row.attempts, claimed_at=row.claimed_at)
    if was_lost and row.attempts + 1 >= MAX_ATTEMPTS:
        same.update(state=DeliveryState.DEAD, attempts=F("attempts") + 1, problem="the sender died without a result")
        return False
    taken = same.update(state=DeliveryState.SENDING, claimed_at=now, attempts=F("attempts") + was_lost)
    row.attempts, row.state, row.claimed_at = row.attempts + was_lost, DeliveryState.SENDING, now
    return taken == 1


def _jobs(rows: Sequence[Notification], now: datetime) -> list[_Job]:
    """Compose the messages; a composing error counts as a failed attempt."""
    composer = Composer(now)
    jobs = []
    digests: dict[str, list[Notification]] = {}
    for row in rows:
        if row.is_digest:
            digests.setdefault(row.channel, []).append(row)
            continue
        if not _still_holds(row):
            Notification.objects.filter(pk=row.pk).update(
                state=DeliveryState.DROPPED, problem="not sent: the incident had reopened"
            )
            continue
        try:
            jobs.append(_Job(row.channel, (row,), composer.change_message(row)))
        except Exception:
            log.exception("incident %d: composing the message of %s failed", row.incident_id, row.change)
            _fail((row,), "composing the message failed; the reason is in the worker's log", now)
    for channel, of_channel in digests.items():
        try:
            jobs.append(_Job(channel, tuple(of_channel), composer.digest_message(of_channel)))
        except Exception:
            log.exception("channel %s: composing the digest failed", channel)
            _fail(of_channel, "composing the digest failed; the reason is in the worker's log", now)
    return jobs


def _still_holds(row: Notification) -> bool:
    """Whether it still applies: not a closing once the incident reopened."""
    return (
        row.change != IncidentChange.CLOSED
        or Incident.objects.filter(pk=row.incident_id, closed_at__isnull=False).exists()
    )


def _sent(jobs: Sequence[_Job], now: datetime) -> int:
    of_channel: dict[str, list[_Job]] = {}
    for job in jobs:
        of_channel.setdefault(job.channel, []).append(job)
    urls = notify_routes.channels()
    answers: SimpleQueue[tuple[_Job, str] | str] = SimpleQueue()

    def work(channel: str) -> None:
        of = {job.message.key: job for job in of_channel[channel]}
        try:
            channels.send(
                urls[channel],
                [job.message for job in of.values()],
                lambda answer: answers.put((of[answer.key], answer.problem)),
                channels.SEND_LIMIT_S,
            )
        except Exception as error:  # a bug, which must not block the other channels
            log.exception("channel %s: sending failed", channel)
            answers.put((of_channel[channel][0], f"{type(error).__name__} while sending"))
        finally:
            answers.put(channel)

    sent = 0
    for channel in of_channel.keys() - urls.keys():
        for job in of_channel.pop(channel):
            _fail(job.rows, NO_CHANNEL, now)
    left = {row.pk for jobs_of in of_channel.values() for job in jobs_of for row in job.rows}
    with ThreadPoolExecutor(max_workers=max(len(of_channel), 1), thread_name_prefix="notify") as pool:
        for channel in of_channel:
            pool.submit(work, channel)
        running = set(of_channel)
        while running:
            answer = answers.get()
            if isinstance(answer, str):
                running.discard(answer)
                continue
            job, problem = answer
            left -= {row.pk for row in job.rows}
            if problem:
                _fail(job.rows, problem, now)
            else:
                sent += 1
                _mark(job.rows, state=DeliveryState.SENT, sent_at=now, problem="", attempts=F("attempts") + 1)
    _release(left, now)
    return sent


def _mark(rows: Sequence[Notification], **fields: object) -> None:
    for row in rows:
        same = Notification.objects.filter(pk=row.pk, state=DeliveryState.SENDING, claimed_at=row.claimed_at)
        same.update(**fields)


def _release(pks: Collection[int], now: datetime) -> None:
    """Release notifications after an earlier failure of the channel, counting no attempt."""
    untried = Notification.objects.filter(pk__in=pks, state=DeliveryState.SENDING, claimed_at=now)
    untried.update(state=DeliveryState.WAITING, claimed_at=None)


def _fail(rows: Sequence[Notification], problem: str, now: datetime) -> None:
    for row in rows:
        attempt = row.attempts + 1
        is_last = attempt >= MAX_ATTEMPTS
        _mark(
            [row],
            state=DeliveryState.DEAD if is_last else DeliveryState.WAITING,
            attempts=attempt,
            claimed_at=None,
            due_at=now + timedelta(seconds=FIRST_RETRY_S * 2**row.attempts),
            problem=problem,
        )
        log.error(
            "channel %s: notification of incident %d (%s) failed, attempt %d of %d: %s; %s",
            row.channel,
            row.incident_id,
            row.change,
            attempt,
            MAX_ATTEMPTS,
            problem,
            f"no more attempts; see `{MANAGE} alerts dead-letters`" if is_last else "will be retried",
        )


def send_test_message(name: str, now: datetime) -> str:
    """Send a test message through a channel; returns the error, or an empty string.

    Raises `KeyError` if there is no channel with this name.
    """
    answers: list[SendResult] = []
    channels.send(notify_routes.channels()[name], [Composer(now).sample_message(name)], answers.append)
    return answers[0].problem


def dead_letters() -> list[Notification]:
    """Notifications without attempts left, oldest first."""
    return list(Notification.objects.filter(state=DeliveryState.DEAD).select_related("incident").order_by("pk"))


def retry(pks: Collection[int] | None, now: datetime) -> int:
    """Queue dead letters again, with all attempts; None for all. Returns how many."""
    fields = {"state": DeliveryState.WAITING, "attempts": 0, "due_at": now, "claimed_at": None}
    return _dead(pks).update(**fields)


def drop(pks: Collection[int] | None) -> int:
    """Drop dead letters for good; None for all. Returns how many."""
    return _dead(pks).update(state=DeliveryState.DROPPED)


def _dead(pks: Collection[int] | None) -> QuerySet[Notification]:
    dead = Notification.objects.filter(state=DeliveryState.DEAD)
    return dead if pks is None else dead.filter(pk__in=pks)
