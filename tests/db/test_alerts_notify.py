"""Each change reaches each channel once; a channel that fails is tried again and holds nobody up."""

from __future__ import annotations

import logging
import threading
from datetime import UTC, datetime, timedelta

import apprise
import pytest
from apprise.decorators import notify as apprise_notify

from monitor.alerts import notify
from monitor.alerts.models import Change, Incident, Notification
from tests.db.alert_rows import at_once

NOW = datetime(2026, 11, 21, 10, 5, tzinfo=UTC)
SUMMARY = "slac → cern: loss 2.1% (24 of 1,140 packets in 10 min)"

received: list[tuple[str, str, str]] = []
broken = threading.Event()


@apprise_notify(on="soundingstest")
def take(body, title, notify_type, *args, **kwargs):
    """A channel that keeps what it gets, and refuses while `broken` is set."""
    if broken.is_set():
        return False
    received.append((title, body, notify_type))
    return True


@apprise_notify(on="soundingsbug")
def fail(body, title, notify_type, *args, **kwargs):
    raise RuntimeError("secret-token in a plugin's message")


@pytest.fixture(autouse=True)
def empty_channels():
    received.clear()
    broken.clear()


def make_incident(**fields) -> Incident:
    return Incident.objects.create(rule="loss", cause="cern ↔ slac", opened_at=NOW, summary=SUMMARY, **fields)


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


@pytest.mark.django_db
def test_the_default_channel_is_the_log(settings, caplog):
    assert settings.NOTIFY_URLS == ["log://"]
    notify.enqueue(make_incident().pk, Change.OPENED, NOW)

    with caplog.at_level(logging.INFO, logger="monitor.alerts"):
        assert notify.deliver(NOW) == 1

    (record,) = [record for record in caplog.records if record.name == "monitor.alerts"]
    assert record.levelname == "WARNING"
    assert record.getMessage().endswith(f"opened: loss on cern ↔ slac. {SUMMARY}. Opened 2026-11-21 10:05:00 UTC.")


@pytest.mark.django_db
def test_an_opening_and_its_closing_arrive_once_and_in_order(settings):
    settings.NOTIFY_URLS = ["soundingstest://"]
    incident = make_incident(closed_at=after(1500), closing="slac → cern: loss < 0.26%")
    notify.enqueue(incident.pk, Change.OPENED, NOW)
    notify.enqueue(incident.pk, Change.CLOSED, after(1500))

    sent = [notify.deliver(after(seconds)) for seconds in (1500, 1510, 1520)]

    assert sent == [1, 1, 0]
    (opening, closing) = received
    assert opening == (
        f"Incident {incident.pk} opened: loss on cern ↔ slac",
        f"{SUMMARY}.\nOpened 2026-11-21 10:05:00 UTC.",
        "warning",
    )
    assert closing[0] == f"Incident {incident.pk} closed: loss on cern ↔ slac"
    assert "loss < 0.26%.\nOpen from 2026-11-21 10:05:00 to 2026-11-21 10:30:00 UTC (25 min)." in closing[1]
    assert closing[2] == "success"


@pytest.mark.django_db
def test_a_broken_channel_is_logged_and_tried_again_later(settings, caplog):
    settings.NOTIFY_URLS = ["soundingstest://"]
    notify.enqueue(make_incident().pk, Change.OPENED, NOW)
    broken.set()

    assert notify.deliver(NOW) == 0
    broken.clear()
    assert notify.deliver(after(29)) == 0
    assert notify.deliver(after(30)) == 1

    assert len(received) == 1
    assert "did not take the notification" in caplog.text
    assert "attempt 1 of 10" in caplog.text
    assert (Notification.objects.get().attempts, Notification.objects.get().problem) == (2, "")


@pytest.mark.django_db
def test_a_channel_that_never_works_is_given_up(settings, caplog):
    settings.NOTIFY_URLS = ["soundingstest://"]
    notify.enqueue(make_incident().pk, Change.OPENED, NOW)
    broken.set()

    attempts = 0
    for hour in range(24):
        for half_minute in range(0, 3600, 30):
            before = Notification.objects.get().attempts
            notify.deliver(after(3600 * hour + half_minute))
            attempts += Notification.objects.get().attempts - before
        if attempts == notify.MAX_ATTEMPTS:
            break

    assert attempts == notify.MAX_ATTEMPTS
    assert hour == 4, "ten attempts that double their distance from 30 s end after 4 hours and a quarter"
    assert "no more attempts" in caplog.text


@pytest.mark.django_db
def test_a_broken_channel_holds_no_other_channel_up(settings):
    settings.NOTIFY_URLS = ["soundingsbug://", "nosuchservice://token", "soundingstest://"]
    notify.enqueue(make_incident().pk, Change.OPENED, NOW)

    assert notify.deliver(NOW) == 1

    assert len(received) == 1
    problems = dict(Notification.objects.filter(sent_at=None).values_list("channel", "problem"))
    assert sorted(channel.partition(":")[0] for channel in problems) == ["nosuchservice", "soundingsbug"]
    assert "Apprise does not understand the URL; compare it with its list of services" in problems.values()


@pytest.mark.django_db
def test_a_broken_channel_is_tried_once_in_a_run_and_its_other_messages_lose_no_attempt(settings):
    settings.NOTIFY_URLS = ["soundingstest://"]
    for number in range(3):
        notify.enqueue(make_incident(closed_at=after(number), closing="over").pk, Change.OPENED, NOW)
    broken.set()

    notify.deliver(NOW)

    assert sorted(Notification.objects.values_list("attempts", flat=True)) == [0, 0, 1]
    broken.clear()
    assert notify.deliver(after(30)) == 3


@pytest.mark.django_db
def test_a_secret_of_a_channel_is_neither_stored_nor_logged(settings, caplog):
    settings.NOTIFY_URLS = ["nosuchservice://user:hunter2@host/token"]
    notify.enqueue(make_incident().pk, Change.OPENED, NOW)

    with caplog.at_level(logging.DEBUG, logger="monitor.alerts"):
        notify.deliver(NOW)

    own = [record.getMessage() for record in caplog.records if record.name == "monitor.alerts"]
    assert own
    assert "hunter2" not in " ".join(own)
    assert "hunter2" not in str(list(Notification.objects.values()))


@pytest.mark.django_db
def test_a_channel_that_was_taken_out_of_the_settings_is_not_sent_to(settings):
    settings.NOTIFY_URLS = ["soundingstest://"]
    notify.enqueue(make_incident().pk, Change.OPENED, NOW)
    settings.NOTIFY_URLS = []

    assert notify.deliver(NOW) == 0

    assert Notification.objects.get().problem == "SOUNDINGS_NOTIFY_URLS no longer names this channel"


@pytest.mark.django_db
def test_a_plugin_that_raises_stops_nothing(settings, monkeypatch, caplog):
    settings.NOTIFY_URLS = ["log://", "soundingstest://"]
    notify.enqueue(make_incident().pk, Change.OPENED, NOW)
    whole = apprise.Apprise.notify

    def raise_for_log(self, *args, **kwargs):
        if "log" in self.urls()[0]:
            raise OSError("disk")
        return whole(self, *args, **kwargs)

    monkeypatch.setattr(apprise.Apprise, "notify", raise_for_log)

    assert notify.deliver(NOW) == 1

    assert len(received) == 1
    assert "OSError in the channel's plugin" in caplog.text


@pytest.mark.django_db(transaction=True)
def test_deliverers_at_once_send_once(settings):
    settings.NOTIFY_URLS = ["soundingstest://"]
    notify.enqueue(make_incident().pk, Change.OPENED, NOW)

    assert sorted(at_once(4, lambda number: notify.deliver(NOW))) == [0, 0, 0, 1]

    assert len(received) == 1
    assert Notification.objects.get().attempts == 1
