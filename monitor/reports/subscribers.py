"""Subscriptions to reports: subscribe, list, unsubscribe."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.urls import reverse

from monitor.reports.contents.collect import check_scope
from monitor.reports.contents.report import ReportScope
from monitor.reports.formats.mail import Format
from monitor.reports.models import Subscriber

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
TOKEN_BYTES = 24


class SubscriptionError(Exception):
    """The subscription is invalid; the message has the reason and a fix."""


@dataclass(frozen=True, slots=True)
class Subscription:
    recipient: str
    scope: ReportScope
    format: Format
    numbers: str
    zone: str
    weekday: int  # 0 is Monday
    hour: int  # in `zone`


def subscribe(subscription: Subscription, now: datetime) -> Subscriber:
    """Create a subscription. Raises `SubscriptionError`, and `monitor.reports.contents.collect.UnknownScope`."""
    try:
        validate_email(subscription.recipient)
    except ValidationError as error:
        raise SubscriptionError(
            f'"{subscription.recipient}" is not a mail address; write it as name@example.org'
        ) from error
    check_scope(subscription.scope)
    try:
        with transaction.atomic():
            return Subscriber.objects.create(
                recipient=subscription.recipient,
                scope=subscription.scope.kind,
                name=subscription.scope.name,
                format=subscription.format,
                numbers=subscription.numbers,
                zone=subscription.zone,
                weekday=subscription.weekday,
                hour=subscription.hour,
                token=secrets.token_urlsafe(TOKEN_BYTES),
                subscribed_at=now,
            )
    except IntegrityError as error:
        raise SubscriptionError(
            f"{subscription.recipient} is already subscribed to the report of {subscription.scope}; to change the "
            "subscription, unsubscribe first"
        ) from error


def active() -> QuerySet[Subscriber]:
    return Subscriber.objects.filter(ended_at=None)


def subscribers_of(scope: ReportScope) -> QuerySet[Subscriber]:
    return active().filter(scope=scope.kind, name=scope.name)


def unsubscribe(recipient: str, scope: ReportScope, now: datetime) -> bool:
    """End a subscription; false if there is none."""
    return _end(subscribers_of(scope).filter(recipient=recipient), now)


def unsubscribe_by_token(token: str, now: datetime) -> bool:
    """End the subscription of an unsubscribe link; false if it has ended or never existed."""
    return _end(active().filter(token=token), now)


def link(subscriber: Subscriber) -> str:
    return f"{settings.PUBLIC_URL}{reverse('unsubscribe', args=[subscriber.token])}"


def _end(rows: QuerySet[Subscriber], now: datetime) -> bool:
    return rows.update(ended_at=now) > 0
