"""Reports by mail through a real SMTP server on loopback: their time, that none is sent twice, and failures."""

from __future__ import annotations

import asyncio
import socket
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, policy
from io import StringIO

import pytest
from aiosmtpd.controller import Controller
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction
from django.test import Client

from monitor.alerts.models import Incident
from monitor.archive.models import BurstDay, BurstHour
from monitor.environment import mail_server
from monitor.reports import sending, subscribers
from monitor.reports.contents.report import ReportScope
from monitor.reports.models import Delivery, Subscriber, WeeklyReport
from monitor.reports.periods import Week
from monitor.reports.sending import FIRST_RETRY_S, MAX_ATTEMPTS, send_due
from monitor.reports.subscribers import Subscription, SubscriptionError, subscribe
from tests.db.alert_rows import at_once, make_mesh
from tests.db.merging import merge_hours
from tests.db.report_rows import NOW, WEEK, make_hours
from tests.facts import lacks

MONDAY_7 = WEEK.until + timedelta(hours=7)
BEFORE_IT = WEEK.since + timedelta(days=1)
DATA_SINCE = WEEK.since - timedelta(days=70)


class Inbox:
    """The mails received by a server. `answers` are its answers to mails, in turn; None closes the connection
    instead."""

    def __init__(self) -> None:
        self.raw: list[bytes] = []
        self.answers: list[str | None] = []

    async def handle_DATA(self, server, session, envelope):  # noqa: N802 - as aiosmtpd calls it
        answer = self.answers.pop(0) if self.answers else "250 taken"
        if answer is None:
            self.raw.append(envelope.content)
            server.transport.abort()
            await asyncio.sleep(0)
            return "421 gone"
        if answer.startswith("250"):
            self.raw.append(envelope.content)
        return answer

    @property
    def mails(self):
        return [message_from_bytes(raw, policy=policy.default) for raw in self.raw]


@pytest.fixture
def inbox(settings):
    """A running server, configured in Django."""
    inbox_server = Inbox()
    controller = Controller(inbox_server, hostname="127.0.0.1", port=free_port())
    controller.start()
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", controller.port
    settings.DEFAULT_FROM_EMAIL = "soundings@example.org"
    settings.PUBLIC_URL = "https://soundings.example.org"
    yield inbox_server
    controller.stop()


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


@pytest.fixture
def mesh(db):
    return make_data()


def make_data():
    paths = make_mesh(["slac", "cern"], WEEK.since - timedelta(days=100))
    make_hours(paths["slac → cern"], DATA_SINCE, hours=1)
    make_hours(paths["slac → cern"], WEEK.since, hours=48, lost=100)
    merge_hours(NOW)
    return paths


def subscription(**changes):
    defaults = {
        "recipient": "lead@example.org",
        "scope": ReportScope(),
        "format": "html",
        "numbers": "en",
        "zone": "UTC",
        "weekday": 0,
        "hour": 7,
    }
    return Subscription(**{**defaults, **changes})


def test_a_report_is_sent_at_its_hour_and_only_once(mesh, inbox):
    subscribe(subscription(), BEFORE_IT)

    sent = [send_due(at) for at in (MONDAY_7 - timedelta(minutes=1), MONDAY_7, MONDAY_7 + timedelta(hours=1))]

    assert sent == [0, 1, 0]
    (mail,) = inbox.mails
    assert (mail["Subject"], mail["To"]) == ("Laboratories, week 2026-W47", "lead@example.org")
    assert mail["From"] == "soundings@example.org"


def test_the_hour_is_that_of_the_readers_time_zone(mesh, inbox):
    """07:00 in Zurich is 06:00 UTC in winter; the week is that of Zurich too."""
    subscribe(subscription(zone="Europe/Zurich"), BEFORE_IT)

    assert [send_due(MONDAY_7 - timedelta(minutes=minutes)) for minutes in (61, 60)] == [0, 1]
    assert "Europe/Zurich" in body(inbox.mails[0], "html")


def test_a_subscription_begins_at_the_next_sending_hour(mesh, inbox):
    subscribe(subscription(), MONDAY_7 + timedelta(minutes=1))

    assert send_due(MONDAY_7 + timedelta(days=6)) == 0
    assert send_due(MONDAY_7 + timedelta(days=7)) == 1


def test_reports_delayed_by_an_outage_are_sent_once_each(mesh, inbox):
    """The sender is down for three Mondays."""
    subscribe(subscription(), WEEK.since - timedelta(days=8))

    assert [send_due(MONDAY_7 + timedelta(hours=hours)) for hours in (0, 1)] == [3, 0]
    assert [mail["Subject"][-8:] for mail in inbox.mails] == ["2026-W45", "2026-W46", "2026-W47"]


def test_after_a_long_outage_the_last_five_weeks_are_sent(mesh, inbox):
    subscribe(subscription(), WEEK.since - timedelta(days=80))

    assert send_due(MONDAY_7) == sending.MOST_WEEKS_BACK == 5


@pytest.mark.django_db(transaction=True)
def test_many_concurrent_workers_send_once(inbox):
    make_data()
    subscribe(subscription(), BEFORE_IT)

    sent = at_once(4, lambda _: send_due(MONDAY_7))

    assert sum(sent) == len(inbox.raw) == 1


def test_a_week_is_delivered_once_by_the_database_itself(mesh):
    subscriber = subscribe(subscription(), BEFORE_IT)
    Delivery.objects.create(subscriber=subscriber, period="2026-W47", due_at=NOW)

    with pytest.raises(IntegrityError), transaction.atomic():
        Delivery.objects.create(subscriber=subscriber, period="2026-W47", due_at=NOW)


def test_a_server_that_refuses_is_retried_with_backoff(mesh, inbox):
    inbox.answers = ["451 try later", "552 full"]
    subscribe(subscription(), BEFORE_IT)

    first = MONDAY_7
    second = first + timedelta(seconds=FIRST_RETRY_S)
    third = second + timedelta(seconds=2 * FIRST_RETRY_S)
    early = [send_due(at) for at in (first, first + timedelta(seconds=1))]
    problem = Delivery.objects.get().problem
    later = [send_due(at) for at in (second, third - timedelta(seconds=1), third)]

    assert (early, later) == ([0, 0], [0, 0, 1])
    assert lacks(problem, "rejected", "451") == []
    assert len(inbox.raw) == 1
    delivery = Delivery.objects.get()
    assert (delivery.attempts, delivery.sent_at, delivery.problem) == (3, third, "")


def test_an_unreachable_server_loses_nothing(mesh, inbox, settings):
    port, settings.EMAIL_PORT = settings.EMAIL_PORT, free_port()
    for recipient in ("a@example.org", "b@example.org"):
        subscribe(subscription(recipient=recipient), BEFORE_IT)

    sent = send_due(MONDAY_7)
    problems = list(Delivery.objects.order_by("pk").values_list("problem", "attempts"))
    settings.EMAIL_PORT = port

    assert sent == 0
    assert problems[0][0].startswith("mail server unavailable: ")
    assert problems[1] == ("", 0)  # not tried: it would only wait for the same server
    assert send_due(MONDAY_7 + timedelta(hours=1)) == 2
    assert {mail["To"] for mail in inbox.mails} == {"a@example.org", "b@example.org"}


def test_a_mail_cut_off_in_transfer_is_not_sent_again(mesh, inbox):
    inbox.answers = [None]
    subscribe(subscription(), BEFORE_IT)

    sent = [send_due(MONDAY_7 + timedelta(hours=hours)) for hours in (0, 1, 30)]

    assert sent == [0, 0, 0]
    assert len(inbox.raw) == 1
    assert lacks(Delivery.objects.get().problem, "connection", "lost while sending") == []
    assert "2026-W47 may have been sent" in subscriber_list()


def test_a_mail_of_a_dead_sender_is_not_sent_again(mesh, inbox):
    subscriber = subscribe(subscription(), BEFORE_IT)
    Delivery.objects.create(subscriber=subscriber, period="2026-W47", due_at=MONDAY_7, attempts=1, handed_at=MONDAY_7)

    assert send_due(MONDAY_7 + timedelta(days=2)) == 0
    assert inbox.raw == []


def test_a_mail_is_sent_if_its_sender_died_before_sending(mesh, inbox):
    """It had claimed the attempt and rendered the report, but not begun to send it."""
    subscriber = subscribe(subscription(), BEFORE_IT)
    retry_at = MONDAY_7 + timedelta(seconds=FIRST_RETRY_S)
    Delivery.objects.create(subscriber=subscriber, period="2026-W47", due_at=retry_at, attempts=1)

    assert [send_due(at) for at in (MONDAY_7, retry_at)] == [0, 1]


def test_attempts_are_limited(mesh, inbox):
    inbox.answers = ["550 no"] * 50
    subscribe(subscription(), BEFORE_IT)

    for hours in range(0, 24 * 6, 2):
        send_due(MONDAY_7 + timedelta(hours=hours))

    assert Delivery.objects.get().attempts == MAX_ATTEMPTS == 50 - len(inbox.answers)


def body(mail, subtype):
    return mail.get_body((subtype,)).get_content()


def test_the_mail_is_complete_without_pictures_and_styles(mesh, inbox):
    subscribe(subscription(), BEFORE_IT)
    send_due(MONDAY_7)
    (mail,) = inbox.mails
    html = body(mail, "html")

    assert not any(f"<{tag}" in html for tag in ("img", "svg", "style", "script", "link", "iframe"))
    assert "class=" not in html
    assert "slac → cern" in html
    assert "100 of" not in html  # the counts are on the page
    assert len(html.encode()) < 200_000
    assert lacks(body(mail, "plain"), "No data for 1 path: cern → slac.", "loss of all packets: 0.35%") == []


@pytest.mark.parametrize("has_address", [True, False])
def test_a_mail_links_to_the_page_and_its_incidents(mesh, inbox, settings, has_address):
    if not has_address:
        settings.PUBLIC_URL = "http://127.0.0.1:8000"
    WeeklyReport.objects.create(week="2026-W47", written_at=NOW)
    at = WEEK.since + timedelta(days=2)
    incident = Incident.objects.create(
        rule="loss", cause="slac", severity="warning", opened_at=at, closed_at=at, summary="", title="slac lost 2%"
    )
    subscribe(subscription(), BEFORE_IT)
    send_due(MONDAY_7)
    (mail,) = inbox.mails

    for path in ("/reports/2026-W47", f"/incidents/{incident.pk}/"):
        url = f"{settings.PUBLIC_URL}{path}"
        assert (f'href="{url}"' in body(mail, "html")) == has_address
        assert (url in body(mail, "plain").split()) == has_address


@pytest.mark.parametrize("scope", [ReportScope(), ReportScope("site", "cern")])
def test_a_mail_has_no_link_to_a_report_that_is_not_stored(mesh, inbox, scope):
    if scope.kind == "site":
        WeeklyReport.objects.create(week="2026-W47", written_at=NOW)
    subscribe(subscription(scope=scope), BEFORE_IT)
    send_due(MONDAY_7)

    assert "/reports/" not in body(inbox.mails[0], "html") + body(inbox.mails[0], "plain")


def test_a_pdf_is_attached_for_subscribers_of_pdf(mesh, inbox):
    subscribe(subscription(format="pdf"), BEFORE_IT)
    send_due(MONDAY_7)
    (attached,) = inbox.mails[0].iter_attachments()

    assert (attached.get_filename(), attached.get_content_type()) == ("2026-W47.pdf", "application/pdf")
    assert attached.get_content()[:5] == b"%PDF-"


def test_number_format_and_scope_are_the_subscribers(mesh, inbox):
    subscribe(subscription(scope=ReportScope("site", "cern"), numbers="de"), BEFORE_IT)
    send_due(MONDAY_7)

    assert inbox.mails[0]["Subject"] == "Laboratories: site cern, week 2026-W47"
    assert "159,9 ms" in body(inbox.mails[0], "html")


def test_the_link_confirms_and_a_single_post_unsubscribes(mesh, inbox):
    subscribe(subscription(), BEFORE_IT)
    send_due(MONDAY_7)
    link = inbox.mails[0]["List-Unsubscribe"].strip(" <>")
    address = link.removeprefix("https://soundings.example.org")
    stranger = Client(enforce_csrf_checks=True, REMOTE_ADDR="198.51.100.7")

    response = stranger.get(address, secure=True)
    still = subscribers.active().count()
    done = stranger.post(address, {"List-Unsubscribe": "One-Click"}, secure=True)

    assert link in body(inbox.mails[0], "html")
    assert inbox.mails[0]["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    assert (response.status_code, still) == (200, 1)
    assert "Unsubscribe" in response.content.decode()
    assert "lead@example.org is unsubscribed" in done.content.decode()
    assert send_due(MONDAY_7 + timedelta(days=7)) == 0
    assert stranger.post(address, secure=True).status_code == 200
    assert stranger.get("/unsubscribe/guessed/", secure=True).status_code == 404


def subscriber_list():
    out = StringIO()
    call_command("report", "subscribers", stdout=out)
    return out.getvalue()


def test_the_commands_manage_the_list(mesh, inbox, monkeypatch):
    monkeypatch.setattr("django.utils.timezone.now", lambda: BEFORE_IT)
    out = StringIO()

    call_command(
        "report",
        "subscribe",
        "lead@example.org",
        "--site=cern",
        "--weekday=tuesday",
        "--hour=9",
        "--zone=Europe/Zurich",
        stdout=out,
    )
    listed = subscriber_list()
    call_command("report", "unsubscribe", "lead@example.org", "--site=cern", stdout=out)

    subscribed, unsubscribed = out.getvalue().splitlines()
    [row] = listed.splitlines()
    assert lacks(subscribed, "lead@example.org", "site cern", "from Tuesday 2026-11-17 09:00 Europe/Zurich") == []
    assert lacks(unsubscribed, "lead@example.org", "no more", "site cern") == []
    settings = ("site cern", "html", "tuesday 09:00 Europe/Zurich", "numbers en")
    assert lacks(row, "lead@example.org:", *settings, "none sent") == []
    assert lacks(subscriber_list(), "no subscribers", "manage.py report subscribe\n") == []


def test_invalid_commands_are_reported(mesh, inbox):
    subscribe(subscription(), BEFORE_IT)

    for arguments, complaint in (
        (["subscribe", "lead"], '"lead" is not a mail address.* name@example.org'),
        (["subscribe", "lead@example.org"], "lead@example.org is already subscribed .*mesh"),
        (["subscribe", "a@example.org", "--group=x"], 'group "x" is not known'),
        (["unsubscribe", "b@example.org"], "b@example.org .*not .*report of mesh"),
    ):
        with pytest.raises(CommandError, match=complaint):
            call_command("report", *arguments)


def test_mailing_by_command_sends_only_to_those_still_missing(mesh, inbox, monkeypatch):
    monkeypatch.setattr("django.utils.timezone.now", lambda: NOW)
    subscribe(subscription(recipient="a@example.org"), BEFORE_IT)
    subscribe(subscription(recipient="b@example.org", scope=ReportScope("site", "cern")), BEFORE_IT)
    out = StringIO()

    for _ in range(2):
        call_command("report", "weekly", "--week=2026-W47", "--mail", stdout=out)

    assert out.getvalue().splitlines() == ["1 of 1 mail sent", "0 of 1 mail sent"]
    assert [mail["To"] for mail in inbox.mails] == ["a@example.org"]
    with pytest.raises(CommandError, match=r"site slac .*no subscribers"):
        call_command("report", "weekly", "--mail", "--site=slac", stdout=out)


def test_a_week_before_the_first_data_is_not_mailed_by_command(mesh, inbox, monkeypatch):
    monkeypatch.setattr("django.utils.timezone.now", lambda: NOW)
    subscribe(subscription(), BEFORE_IT)

    with pytest.raises(CommandError) as refused:
        call_command("report", "weekly", "--week=2026-W30", "--mail", stdout=StringIO())

    facts = ("no data", "2026-W30", "2026-09-07 00:00 UTC", "--week 2026-W37", "nothing mailed")
    assert lacks(str(refused.value), *facts) == []
    assert (inbox.raw, Delivery.objects.count()) == ([], 0)


def test_a_subscription_waits_for_the_first_data(mesh, inbox):
    """A week whose results come late is sent at a later attempt."""
    subscribe(subscription(), BEFORE_IT)
    BurstHour.objects.all().delete()
    BurstDay.objects.all().delete()

    sent = send_due(MONDAY_7)
    problem = Delivery.objects.get().problem
    make_hours(mesh["slac → cern"], WEEK.since, hours=48)

    assert (sent, inbox.raw) == (0, [])
    assert lacks(problem, "no data", "2026-W47") == []
    assert send_due(MONDAY_7 + timedelta(hours=1)) == 1


def test_mailing_by_command_reports_failures(mesh, inbox, monkeypatch):
    monkeypatch.setattr("django.utils.timezone.now", lambda: NOW)
    inbox.answers = ["550 no such user"]
    subscribe(subscription(), BEFORE_IT)

    with pytest.raises(CommandError, match=r"lead@example\.org: .*rejected .*no such user"):
        call_command("report", "weekly", "--mail", stdout=StringIO())


def test_an_ended_subscription_can_be_renewed(mesh):
    first = subscribe(subscription(), BEFORE_IT)
    with pytest.raises(SubscriptionError, match="already"):
        subscribe(subscription(), BEFORE_IT)
    subscribers.unsubscribe("lead@example.org", ReportScope(), NOW)
    second = subscribe(subscription(), NOW)

    assert first.token != second.token
    assert Subscriber.objects.count() == 2


def test_the_due_time_of_a_week_is_in_the_readers_zone():
    """Tuesday 9:00 in New York after week 47 is 24 November 14:00 UTC."""
    subscriber = Subscriber(zone="America/New_York", weekday=1, hour=9)

    assert sending.send_at(subscriber, Week(2026, 47)) == datetime(2026, 11, 24, 14, tzinfo=UTC)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("smtp://mail.example.org", ("mail.example.org", 25, "", "", False, False)),
        ("smtp+tls://me:p%40ss@mail.example.org", ("mail.example.org", 587, "me", "p@ss", False, True)),
        ("smtps://mail.example.org:4650", ("mail.example.org", 4650, "", "", True, False)),
    ],
)
def test_the_server_is_configured_by_a_single_url(monkeypatch, url, expected):
    monkeypatch.setenv("SOUNDINGS_SMTP_URL", url)
    mails = mail_server("SOUNDINGS_SMTP_URL")

    assert (mails.host, mails.port, mails.user, mails.password, mails.is_tls, mails.starts_tls) == expected


@pytest.mark.parametrize("url", ["mail.example.org", "http://mail", "smtp://", "smtp://host:port", "smtp://host/x"])
def test_an_invalid_address_is_reported_without_its_password(monkeypatch, url):
    monkeypatch.setenv("SOUNDINGS_SMTP_URL", url)

    with pytest.raises(
        Exception, match=r"SOUNDINGS_SMTP_URL: write smtp://host:25, smtp\+tls://user:password@host:587"
    ):
        mail_server("SOUNDINGS_SMTP_URL")


def test_a_password_that_smtp_cannot_send_is_reported_at_start(monkeypatch):
    """Python's smtplib encodes logins as ASCII and raises for other characters."""
    monkeypatch.setenv("SOUNDINGS_SMTP_URL", "smtps://me:w%C3%B6rd@mail.example.org")

    with pytest.raises(Exception, match=r"SOUNDINGS_SMTP_URL: user and password .*ASCII"):
        mail_server("SOUNDINGS_SMTP_URL")
