"""`manage.py report`: `weekly` writes or mails a report; `subscribe`, `unsubscribe` and `subscribers` keep the list."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from monitor.overview.moments import day_in_bounds
from monitor.progress import progress
from monitor.reports.contents.collect import UnknownScope, first_data
from monitor.reports.contents.report import ReportScope
from monitor.reports.files import SUFFIXES, make_report, no_data_words, precedes_data, report_path, write_report
from monitor.reports.models import Delivery, Subscriber
from monitor.reports.numbers import MARKS, Numbers
from monitor.reports.periods import Period, Week, zone_named
from monitor.reports.sending import send_at, send_now
from monitor.reports.subscribers import (
    WEEKDAYS,
    Subscription,
    SubscriptionError,
    active,
    subscribe,
    subscribers_of,
    unsubscribe,
)
from probes.commands.own_command import MANAGE
from probes.commands.subcommands import add_subcommand
from probes.quantities import counted

T = TypeVar("T")


def _argument_reader(read: Callable[[str], T]) -> Callable[[str], T]:
    """A reader for argparse, which shows only the text of its own error."""

    def reader(text: str) -> T:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return reader


def _day(text: str) -> date:
    try:
        day = date.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f'"{text}" is not a day; write it as 2026-11-16') from error
    return day_in_bounds(day)


def _file(text: str) -> Path:
    path = Path(text)
    if path.suffix not in SUFFIXES:
        raise ValueError(f'"{text}" ends neither in .html nor in .pdf, so its format is unknown')
    return path


class Command(BaseCommand):
    help = "Write and mail reports, and keep the list of subscribers."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        reports = parser.add_subparsers(dest="report", required=True, metavar="REPORT")
        weekly = add_subcommand(reports, "weekly", "write the report of an ISO week, or of any days")
        _add_scope(weekly)
        weekly.add_argument(
            "--week",
            type=_argument_reader(Week.parse),
            help="the ISO week, e.g. 2026-W47; default: last week",
        )
        weekly.add_argument(
            "--from", dest="first", type=_argument_reader(_day), metavar="DAY", help="first day, e.g. 2026-11-16"
        )
        weekly.add_argument("--to", dest="last", type=_argument_reader(_day), metavar="DAY", help="last day, inclusive")
        weekly.add_argument(
            "--zone",
            type=_argument_reader(zone_named),
            default=ZoneInfo("UTC"),
            help="time zone of the days, e.g. Europe/Zurich; default UTC",
        )
        weekly.add_argument("--numbers", choices=list(MARKS), default="en", help="number format; default en")
        weekly.add_argument(
            "--out",
            type=_argument_reader(_file),
            metavar="FILE",
            help="output file, HTML or PDF by its suffix; default: both, on the pages and in DATA/reports/WEEK",
        )
        weekly.add_argument("--mail", action="store_true", help="mail it to its subscribers instead of writing a file")
        self._add_subscriptions(reports)

    @staticmethod
    def _add_subscriptions(reports: Any) -> None:
        subscribe = add_subcommand(reports, "subscribe", "mail the report to an address each week")
        subscribe.add_argument("recipient", metavar="ADDRESS", help="mail address of the reader")
        _add_scope(subscribe)
        subscribe.add_argument(
            "--format", choices=["html", "pdf"], default="html", help="html, or pdf as an attachment; default html"
        )
        subscribe.add_argument(
            "--weekday", choices=WEEKDAYS, default="monday", help="weekday of delivery; default monday"
        )
        subscribe.add_argument(
            "--hour", type=int, choices=range(24), default=7, metavar="HOUR", help="hour of delivery, default 7"
        )
        subscribe.add_argument(
            "--zone",
            type=_argument_reader(zone_named),
            default=ZoneInfo("UTC"),
            help="time zone of the reader; default UTC",
        )
        subscribe.add_argument("--numbers", choices=list(MARKS), default="en", help="number format; default en")
        unsubscribe = add_subcommand(reports, "unsubscribe", "end a subscription")
        unsubscribe.add_argument("recipient", metavar="ADDRESS", help="mail address of the reader")
        _add_scope(unsubscribe)
        listing = add_subcommand(reports, "subscribers", "list subscriptions with the status of the last report")
        listing.add_argument("--json", action="store_true", dest="as_json", help="print a JSON list")

    def handle(self, *args: Any, report: str, **options: Any) -> None:
        now = timezone.now()
        if report == "subscribers":
            self._subscribers(as_json=options["as_json"])
            return
        scope = _scope(options["site"], options["group"])
        try:
            {"weekly": self._weekly, "subscribe": self._subscribe, "unsubscribe": self._unsubscribe}[report](
                now, scope, options
            )
        except (UnknownScope, SubscriptionError) as error:
            raise CommandError(str(error)) from error

    def _weekly(self, now: datetime, scope: ReportScope, options: dict[str, Any]) -> None:
        period = _period(now, **{name: options[name] for name in ("week", "first", "last", "zone")})
        if options["mail"]:
            self._mail(now, scope, period)
            return
        out = options["out"]
        try:
            with progress(f"{period}: loading measurements") as show:
                numbers = Numbers(options["numbers"])
                report = make_report(scope, period, now, numbers, show)
                is_told = out is not None or not precedes_data(report)
                written = write_report(report, now, numbers, out, show) if is_told else []
        except OSError as error:
            target = report_path(period, scope) if out is None else out
            raise CommandError(
                f"cannot write {target}: {error.strerror} ({error.filename}); choose another file with --out"
            ) from error
        if not written:
            raise CommandError(f"{_empty(period, report.data_since)}; nothing written")
        for path in written:
            self.stdout.write(str(path))
        if report.is_empty:
            self.stderr.write(_empty(period, report.data_since))

    def _mail(self, now: datetime, scope: ReportScope, period: Period) -> None:
        data_since = first_data(scope)
        if period.precedes(data_since):
            raise CommandError(f"{_empty(period, data_since)}; nothing mailed")
        with progress(f"{period}: computing and mailing the report"):
            sent, recipients = send_now(period, scope, now)
        if not recipients:
            raise CommandError(f"the report of {scope} has no subscribers; add them with {MANAGE} report subscribe")
        self.stdout.write(f"{sent} of {counted(recipients, 'mail')} sent")
        failed = Delivery.objects.filter(period=str(period), subscriber__in=subscribers_of(scope), sent_at=None)
        problems = [
            f"{delivery.subscriber.recipient}: {delivery.problem}" for delivery in failed.select_related("subscriber")
        ]
        if problems:
            raise CommandError("\n".join(problems))

    def _subscribe(self, now: datetime, scope: ReportScope, options: dict[str, Any]) -> None:
        made = subscribe(
            Subscription(
                recipient=options["recipient"],
                scope=scope,
                format=options["format"],
                numbers=options["numbers"],
                zone=options["zone"].key,
                weekday=WEEKDAYS.index(options["weekday"]),
                hour=options["hour"],
            ),
            now,
        )
        first = send_at(made, Week.containing(now, ZoneInfo(made.zone)).before)
        while first <= now:
            first += timedelta(days=7)
        self.stdout.write(f"{made.recipient} gets the report of {scope} from {first:%A %Y-%m-%d %H:%M} {made.zone} on")

    def _unsubscribe(self, now: datetime, scope: ReportScope, options: dict[str, Any]) -> None:
        recipient = options["recipient"]
        if not unsubscribe(recipient, scope, now):
            raise CommandError(f"{recipient} does not get the report of {scope}; see {MANAGE} report subscribers")
        self.stdout.write(f"{recipient} gets no more reports of {scope}")

    def _subscribers(self, *, as_json: bool) -> None:
        rows = [_subscription_row(subscriber) for subscriber in active().prefetch_related("deliveries")]
        if as_json:
            self.stdout.write(json.dumps(rows))
            return
        for row in rows:
            self.stdout.write(
                f"{row['recipient']}: {row['scope']}, {row['format']}, {row['when']} {row['zone']}, "
                f"numbers {row['numbers']}; {row['last']}"
            )
        if not rows:
            self.stdout.write(f"no subscribers; add them with {MANAGE} report subscribe")


def _empty(period: Period, data_since: datetime | None) -> str:
    words = no_data_words(period, data_since)
    return words if data_since is None else f"{words}: use --week {Week.containing(data_since, period.zone)}"


def _add_scope(parser: Any) -> None:
    about = parser.add_mutually_exclusive_group()
    about.add_argument("--site", metavar="NAME", help="only the paths from and to this site")
    about.add_argument("--group", metavar="NAME", help="only the paths within this group")


def _scope(site: str | None, group: str | None) -> ReportScope:
    return ReportScope("site", site) if site else ReportScope("group", group) if group else ReportScope()


def _subscription_row(subscriber: Subscriber) -> dict[str, str]:
    return {
        "recipient": subscriber.recipient,
        "scope": str(ReportScope(subscriber.scope, subscriber.name)),
        "format": subscriber.format,
        "when": f"{WEEKDAYS[subscriber.weekday]} {subscriber.hour:02d}:00",
        "zone": subscriber.zone,
        "numbers": subscriber.numbers,
        "last": _last(max(subscriber.deliveries.all(), key=lambda delivery: delivery.pk, default=None)),
    }


def _last(delivery: Delivery | None) -> str:
    if delivery is None:
        return "none sent yet"
    if delivery.sent_at is not None:
        return f"{delivery.period} sent {delivery.sent_at:%Y-%m-%d %H:%M} UTC"
    if delivery.handed_at is not None:
        return f"{delivery.period} may have been sent: {delivery.problem or 'the sender stopped while sending'}"
    return f"{delivery.period} not sent after {counted(delivery.attempts, 'attempt')}: {delivery.problem or 'pending'}"


def _period(now: datetime, *, week: Week | None, first: date | None, last: date | None, zone: ZoneInfo) -> Period:
    if (first is None) != (last is None):
        raise CommandError("give both --from and --to, the first day and the last", returncode=2)
    if first is not None and last is not None:
        if week is not None:
            raise CommandError("give either --week or --from and --to", returncode=2)
        try:
            period = Period.between(first, last, zone)
        except ValueError as error:
            raise CommandError(str(error), returncode=2) from error
    else:
        period = Period.of_week(Week.containing(now, zone).before if week is None else week, zone)
    if period.since > now:
        raise CommandError(f"{period.words} begins {period.first} in {zone.key}; choose a period that has begun")
    return period
