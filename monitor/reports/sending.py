"""Mail due reports to their recipients through SOUNDINGS_SMTP_URL, each at most once.

Rejections are retried ten times over a day and a half; a mail that the server may have accepted is not.
"""

from __future__ import annotations

import logging
import smtplib
from collections.abc import Iterable
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from django.core.mail import EmailMultiAlternatives, get_connection
from django.db.models import F, QuerySet

from monitor.reports import subscribers
from monitor.reports.contents.collect import UnknownScope
from monitor.reports.contents.compose import report_of
from monitor.reports.contents.report import Report, ReportScope
from monitor.reports.files import no_data_words, precedes_data
from monitor.reports.formats.mail import message
from monitor.reports.models import Delivery, Subscriber
from monitor.reports.numbers import Numbers
from monitor.reports.periods import Period, Week

MOST_WEEKS_BACK = 5
MAX_ATTEMPTS = 10
FIRST_RETRY_S = 120
MAILS_PER_RUN = 50

log = logging.getLogger("monitor.reports")

# Reports of this run: many recipients get the same.
Reports = dict[tuple[ReportScope, Period, str], Report]


class MailRejected(Exception):
    """The server rejected a mail; the message has the reason."""


class MailServerUnreachable(MailRejected):
    """The server cannot be reached, or rejects the login."""


class MailUnconfirmed(Exception):
    """The server may have accepted a mail; the text describes the error."""


def send_due(now: datetime) -> int:
    """Queue due reports and send them, at most `MAILS_PER_RUN`. Returns the number of accepted mails."""
    for subscriber in subscribers.active():
        enqueue(subscriber, _due_periods(subscriber, now), now)
    return deliver(_due(now)[:MAILS_PER_RUN], now)


def enqueue(subscriber: Subscriber, periods: Iterable[Period], now: datetime) -> None:
    """Queue the reports of these periods; idempotent."""
    rows = [Delivery(subscriber=subscriber, period=str(period), due_at=now) for period in periods]
    Delivery.objects.bulk_create(rows, ignore_conflicts=True)


def send_now(period: Period, scope: ReportScope, now: datetime) -> tuple[int, int]:
    """Send a report to all subscribers of its scope who lack it; returns accepted mails and recipients."""
    rows = list(subscribers.subscribers_of(scope))
    for subscriber in rows:
        enqueue(subscriber, [period], now)
    waiting = _open().filter(subscriber__in=rows, period=str(period))
    waiting.update(due_at=now)
    return deliver(waiting, now), len(rows)


def send_at(subscriber: Subscriber, week: Week) -> datetime:
    """When a subscriber gets a week's report: the first such weekday and hour after it."""
    following = Period.of_week(week, ZoneInfo(subscriber.zone)).last + timedelta(days=1 + subscriber.weekday)
    return datetime.combine(following, time(subscriber.hour), ZoneInfo(subscriber.zone))


def deliver(due: Iterable[Delivery], now: datetime) -> int:
    """Send these, and stop if the server cannot be reached; returns the number of accepted mails."""
    made: Reports = {}
    sent = 0
    for delivery in list(due):
        if not _claim(delivery, now):
            continue
        try:
            _send(delivery, made, now)
        except MailRejected as error:
            _note_failure(delivery, str(error))
            if isinstance(error, MailServerUnreachable):
                break
        except MailUnconfirmed as error:
            _note_doubt(delivery, str(error))
        else:
            Delivery.objects.filter(pk=delivery.pk).update(sent_at=now, problem="")
            sent += 1
    return sent


def _due_periods(subscriber: Subscriber, now: datetime) -> list[Period]:
    zone = ZoneInfo(subscriber.zone)
    week = Week.containing(now, zone).before
    periods = []
    for _ in range(MOST_WEEKS_BACK):
        if subscriber.subscribed_at < send_at(subscriber, week) <= now:
            periods.append(Period.of_week(week, zone))
        week = week.before
    return periods[::-1]


def _open() -> QuerySet[Delivery]:
    return Delivery.objects.filter(handed_at=None, attempts__lt=MAX_ATTEMPTS, subscriber__ended_at=None).select_related(
        "subscriber"
    )


def _due(now: datetime) -> QuerySet[Delivery]:
    return _open().filter(due_at__lte=now).order_by("due_at", "pk")


def _claim(delivery: Delivery, now: datetime) -> bool:
    """Claim this attempt until `due_at`; false if another worker has it."""
    retry_at = now + timedelta(seconds=FIRST_RETRY_S * 2**delivery.attempts)
    claimed = Delivery.objects.filter(
        pk=delivery.pk, handed_at=None, attempts=delivery.attempts, due_at__lte=now
    ).update(attempts=F("attempts") + 1, due_at=retry_at)
    return claimed == 1


def _send(delivery: Delivery, made: Reports, now: datetime) -> None:
    """Send a mail. Raises `MailRejected` and `MailUnconfirmed`."""
    mail = _message(delivery, made, now)
    mail.connection = connection = get_connection()
    try:
        connection.open()
    except (OSError, smtplib.SMTPException) as error:
        raise MailServerUnreachable(f"mail server unavailable: {error}") from error
    try:
        _hand_over(delivery, mail, now)
    finally:
        connection.close()


def _hand_over(delivery: Delivery, mail: EmailMultiAlternatives, now: datetime) -> None:
    if not Delivery.objects.filter(pk=delivery.pk, handed_at=None).update(handed_at=now):
        raise MailUnconfirmed("another worker has sent it")
    try:
        mail.send()
    except (smtplib.SMTPResponseException, smtplib.SMTPRecipientsRefused, smtplib.SMTPNotSupportedError) as error:
        raise MailRejected(f"the mail server rejected the mail: {error}") from error
    except (OSError, smtplib.SMTPException) as error:
        raise MailUnconfirmed(f"connection to the mail server lost while sending: {error}") from error


def _message(delivery: Delivery, made: Reports, now: datetime) -> EmailMultiAlternatives:
    subscriber = delivery.subscriber
    scope = ReportScope(subscriber.scope, subscriber.name)
    period = Period.named(delivery.period, ZoneInfo(subscriber.zone))
    key = (scope, period, subscriber.numbers)
    numbers = Numbers(subscriber.numbers)
    if key not in made:
        try:
            made[key] = report_of(scope, period, now, numbers)
        except UnknownScope as error:
            raise MailRejected(str(error)) from error
    if precedes_data(made[key]):
        raise MailRejected(no_data_words(period, made[key].data_since))
    return message(
        made[key],
        numbers,
        to=subscriber.recipient,
        format_="pdf" if subscriber.format == "pdf" else "html",
        unsubscribe=subscribers.link(subscriber),
    )


def _note_failure(delivery: Delivery, problem: str) -> None:
    Delivery.objects.filter(pk=delivery.pk, sent_at=None).update(handed_at=None, problem=problem)
    attempt = delivery.attempts + 1
    next_step = "no more attempts" if attempt == MAX_ATTEMPTS else "will be retried"
    log.error(
        "report %s was not sent to %s (attempt %d of %d): %s; %s",
        delivery.period,
        delivery.subscriber.recipient,
        attempt,
        MAX_ATTEMPTS,
        problem,
        next_step,
    )


def _note_doubt(delivery: Delivery, problem: str) -> None:
    Delivery.objects.filter(pk=delivery.pk).update(problem=problem)
    log.error(
        "report %s may have been sent to %s: %s; not retried, so that it is not sent twice",
        delivery.period,
        delivery.subscriber.recipient,
        problem,
    )
