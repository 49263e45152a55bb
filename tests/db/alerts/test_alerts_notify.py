"""Each change reaches each channel once, over real servers; a channel that fails or hangs delays the others only
briefly."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path

import pytest
from django.conf import settings as project
from django.core.management import CommandError, call_command
from django.db import connection
from psycopg.conninfo import make_conninfo

from monitor.alerts.detect.rules.finding import RuleFinding
from monitor.alerts.evidence import titles
from monitor.alerts.incidents import lifecycle, queries
from monitor.alerts.models import DeliveryState, Incident, Notification
from monitor.alerts.notify import channels
from monitor.alerts.notify.channels import Message
from monitor.alerts.notify.deliver import LEASE_S, NO_CHANNEL, Composer, deliver
from monitor.alerts.notify.sender import scrubbed
from monitor.mesh.document import notify_routes
from monitor.mesh.models import Mesh
from tests.db.alert_rows import at_once, make_mesh
from tests.db.notify_servers import http_server, mail_server
from tests.db.scratch import own_dsn
from tests.facts import lacks

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 21, 10, 5, tzinfo=UTC)
FIGURES = {"sent": 1140, "lost": 24}
SENTENCE = "loss 2.1% (24 of 1,140 packets in 10 min)"


@pytest.fixture(autouse=True)
def project_settings(settings):
    settings.PUBLIC_URL = "https://soundings.example.org"


@pytest.fixture
def paths():
    return make_mesh(["slac", "cern", "niit"], NOW - timedelta(days=1))


@pytest.fixture
def webhook(settings):
    with http_server() as server:
        settings.NOTIFY_URLS = [f"ops=webhook+http://{server.address}/hook"]
        yield server


def finding(path, rule="loss", severity="warning"):
    return RuleFinding(rule, path.pk, str(path), SENTENCE, NOW - timedelta(minutes=10), FIGURES, severity)


def opened(*findings, cause="cern ↔ slac", at=NOW) -> Incident:
    """An incident with a pending notification."""
    lifecycle.add_findings(cause, findings, at - timedelta(seconds=20))
    incident = Incident.objects.get(cause=cause, closed_at=None)
    lifecycle.open_if_confirmed(incident.pk, at)
    lifecycle.queue_notifications(incident.pk, at)
    Incident.objects.filter(pk=incident.pk).update(began_at=findings[0].since)
    return titled(incident.pk, at)


def titled(pk, at) -> Incident:
    """The incident, with its title as an evaluation stores it."""
    incident = queries.incident_with_paths(pk)
    titles.update_titles([incident], at)
    return incident


def close(incident, at):
    keys = set(incident.paths.values_list("path_id", "rule"))
    assert lifecycle.close(incident.pk, keys, "slac → cern: loss < 0.26%", at)
    titled(incident.pk, at)


def route(**table):
    mesh = Mesh.objects.get()
    mesh.alerts["notify"] = [*mesh.alerts.get("notify", ()), table]
    mesh.save()


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def states() -> list[str]:
    return list(Notification.objects.order_by("pk").values_list("state", flat=True))


# --- content


def test_the_default_channel_is_the_log(settings, caplog, paths):
    assert settings.NOTIFY_URLS == ["log://"]
    incident = opened(finding(paths["slac → cern"]))

    with caplog.at_level(logging.INFO, logger="monitor.alerts"):
        assert deliver(NOW) == 1

    (record,) = [record for record in caplog.records if record.name == "monitor.alerts"]
    assert record.levelname == "WARNING"
    facts = ("cern ↔ slac", "loss 2.1%", "since 2026-11-21 09:55 UTC", f"Incident {incident.pk},")
    assert lacks(record.getMessage(), "OPEN warning", *facts) == []


def test_a_mail_has_severity_place_figures_time_and_a_link(settings, paths):
    with mail_server() as server:
        settings.NOTIFY_URLS = [f"mail=mailto://{server.address}/?from=soundings@example.org&to=ops@example.org"]
        incident = opened(finding(paths["slac → cern"]), finding(paths["cern → slac"]))
        assert deliver(NOW) == 1
        close(incident, after(1500))
        assert deliver(after(1500)) == 1

    opening, closing = server.mails
    facts = ("cern ↔ slac", "loss 2.1%")
    assert lacks(opening["subject"], "OPEN warning", *facts, "since 2026-11-21 09:55 UTC") == []
    assert opening["to"] == "ops@example.org"
    text = opening.get_body(("plain",)).get_content()
    assert "Likely cause: " in text
    assert f"slac → cern: {SENTENCE}" in text
    assert f"https://soundings.example.org/incidents/{incident.pk}/" in text
    assert lacks(closing["subject"], "RESOLVED", " 35 min", *facts) == []
    assert lacks(closing.get_body(("plain",)).get_content(), "Resolved", "slac → cern: loss < 0.26%") == []


def test_a_refusal_by_the_mail_server_is_quoted(settings, paths):
    with mail_server() as server:
        server.refusal = "552 mailbox of the on-call is full"
        settings.NOTIFY_URLS = [f"mail=mailto://{server.address}/?from=soundings@example.org&to=ops@example.org"]
        opened(finding(paths["slac → cern"]))

        assert deliver(NOW) == 0

    assert "mailbox of the on-call is full" in Notification.objects.get().problem


# --- the webhook


def test_a_webhook_gets_the_documented_body(webhook, paths):
    incident = opened(finding(paths["slac → cern"]))

    assert deliver(NOW) == 1

    (body,) = webhook.bodies
    page = Path(project.BASE_DIR, "docs", "alert-rules.md").read_text()
    documented = page.partition("```json\n")[2].partition("```")[0]
    assert shape(body) == shape(json.loads(documented))
    assert (body["schema"], body["version"], body["event"]) == ("soundings.incident", 2, "opened")
    assert body["id"] == webhook.headers[0]["Idempotency-Key"] == f"{incident.pk}-opened-0"
    assert body["incident"]["findings"][0]["figures"] == FIGURES
    assert body["incident"]["state"] == "open"
    assert webhook.headers[0][":path"] == "/hook"


def shape(value):
    """The keys of JSON, and the types of their values; null is of every type."""
    if isinstance(value, dict):
        return {
            key: None if key == "figures" else shape(entry) for key, entry in value.items() if shape(entry) is not None
        }
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return None if value is None else type(value).__name__


@pytest.mark.parametrize(
    ("userinfo", "header"),
    [("user:pass%40word@", "Basic dXNlcjpwYXNzQHdvcmQ="), (":to%2Fken@", "Bearer to/ken"), ("", None)],
)
def test_a_webhook_is_sent_its_password_or_token(settings, paths, userinfo, header):
    with http_server() as server:
        settings.NOTIFY_URLS = [f"ops=webhook+http://{userinfo}{server.address}/hook"]
        opened(finding(paths["slac → cern"]))

        assert deliver(NOW) == 1

    assert server.headers[0].get("Authorization") == header


@pytest.mark.parametrize("status", [301, 403, 500])
def test_an_unsuccessful_status_is_a_failure(webhook, paths, status):
    webhook.status = status
    opened(finding(paths["slac → cern"]))

    assert deliver(NOW) == 0

    assert Notification.objects.get().problem.startswith(f"the server answered {status}")
    assert len(webhook.bodies) == 1, "a redirect is not followed"


# --- in order and once


def test_opening_and_closing_arrive_once_and_in_order(webhook, paths):
    incident = opened(finding(paths["slac → cern"]))
    close(incident, after(10))

    sent = [deliver(after(seconds)) for seconds in (10, 20, 30)]

    assert sent == [1, 1, 0]
    assert webhook.ids == [f"{incident.pk}-opened-0", f"{incident.pk}-closed-0"]
    assert states() == [DeliveryState.SENT, DeliveryState.SENT]


@pytest.mark.django_db(transaction=True)
def test_concurrent_deliverers_send_once(webhook, paths):
    opened(finding(paths["slac → cern"]))

    assert sum(at_once(4, lambda number: deliver(NOW))) == 1

    assert len(webhook.bodies) == 1
    assert Notification.objects.get().attempts == 1


def test_an_unsent_end_before_a_reopening_is_dropped(webhook, paths):
    incident = opened(finding(paths["slac → cern"]))
    close(incident, after(10))
    Incident.objects.update(closed_at=None)
    deliver(after(10))

    deliver(after(20))

    assert webhook.ids == [f"{incident.pk}-opened-0"]
    assert states() == [DeliveryState.SENT, DeliveryState.DROPPED]


def test_a_voiding_correction_is_notified_once(webhook, paths):
    incident = opened(finding(paths["slac → cern"]))
    deliver(NOW)

    lifecycle.correct(incident.pk, "loss 0.2%, which would not have opened it", after(300), is_void=True)
    lifecycle.correct(incident.pk, "loss 0.1%, which would not have opened it", after(600), is_void=True)
    deliver(after(600))

    assert webhook.ids == [f"{incident.pk}-opened-0", f"{incident.pk}-corrected-0"]
    assert webhook.bodies[1]["incident"]["correction"] == "loss 0.1%, which would not have opened it"


# --- routes


def test_each_channel_gets_the_messages_of_its_route(settings, paths):
    with http_server() as oncall, http_server() as hep:
        settings.NOTIFY_URLS = [
            f"oncall=webhook+http://{oncall.address}/", f"hep=webhook+http://{hep.address}/", "log://",
        ]  # fmt: skip
        route(channel="oncall", severity="critical")
        route(channel="hep", to="niit")
        opened(finding(paths["slac → cern"], severity="warning"))
        opened(finding(paths["slac → niit"], severity="notice"), cause="niit inbound")

        deliver(NOW)

        assert (oncall.bodies, [body["incident"]["cause"] for body in hep.bodies]) == ([], ["niit inbound"])


def test_a_critical_only_route_is_notified_on_escalation(settings, paths):
    with http_server() as oncall, http_server() as mail:
        settings.NOTIFY_URLS = [f"oncall=webhook+http://{oncall.address}/", f"mail=webhook+http://{mail.address}/"]
        route(channel="oncall", severity="critical")
        route(channel="mail")
        incident = opened(finding(paths["slac → cern"]))
        deliver(NOW)
        lifecycle.add_findings(incident.cause, [finding(paths["slac → cern"], "unreachable", "critical")], after(60))
        assert lifecycle.queue_notifications(incident.pk, after(60))
        assert not lifecycle.queue_notifications(incident.pk, after(60))
        deliver(after(60))
        close(incident, after(120))
        deliver(after(120))

        assert [body["event"] for body in mail.bodies] == ["opened", "worsened", "closed"]
        assert [body["event"] for body in oncall.bodies] == ["reopened", "closed"] or [
            body["event"] for body in oncall.bodies
        ] == ["opened", "closed"]
        assert oncall.bodies[0]["incident"]["severity"] == "critical"


def test_a_digest_lists_each_incident_of_its_day_once(webhook, paths):
    route(channel="ops", digest="07:00", zone="Europe/Zurich")
    first = opened(finding(paths["slac → cern"]))
    opened(finding(paths["slac → niit"]), cause="niit inbound", at=after(60))
    close(first, after(600))
    morning = datetime(2026, 11, 22, 6, tzinfo=UTC)

    assert deliver(morning - timedelta(seconds=1)) == 0
    assert deliver(morning) == 1
    assert deliver(morning + timedelta(days=1)) == 0

    (body,) = webhook.bodies
    assert body["event"] == "digest"
    assert [(incident["cause"], incident["state"]) for incident in body["incidents"]] == [
        ("cern ↔ slac", "resolved"), ("niit inbound", "open"),
    ]  # fmt: skip
    assert set(states()) == {DeliveryState.SENT}


def test_a_digest_in_text_has_its_figures_and_times(settings, caplog, paths):
    route(channel="ops", digest="11:00")
    settings.NOTIFY_URLS = ["ops=log://"]
    close(opened(finding(paths["slac → cern"])), after(600))

    with caplog.at_level(logging.INFO, logger="monitor.alerts"):
        deliver(after(3600))

    (record,) = [record for record in caplog.records if record.name == "monitor.alerts"]
    counts = ("Digest 2026-11-21 11:05 UTC", " 1 incident,", " 0 still open")
    begun = ("warning", "cern ↔ slac", "loss 2.1%", "from 2026-11-21 09:55 to 10:15 UTC")
    assert lacks(record.getMessage(), *counts, *begun, "resolved at 2026-11-21 10:15 UTC", "lasted 20 min") == []


@pytest.mark.parametrize(("incidents", "events"), [(20, ["opened"] * 20), (21, ["digest"]), (60, ["digest"])])
def test_many_messages_due_at_once_become_one(webhook, incidents, events):
    """Of 60 incidents the last two are critical. The next change is told by itself."""
    paths = list(make_mesh([f"s{number}" for number in range(9)], NOW - timedelta(days=1)).values())[:incidents]
    for number, path in enumerate(paths):
        opened(finding(path, severity="critical" if number >= 58 else "warning"), cause=str(path))

    runs = [deliver(after(10 * run)) for run in range(4)]

    assert sum(runs) == len(events)
    assert [body["event"] for body in webhook.bodies] == events
    assert set(states()) == {DeliveryState.SENT}
    if events == ["digest"]:
        (body,) = webhook.bodies
        told = [incident["cause"] for incident in body["incidents"]]
        assert (len(told), body["more"]) == (min(incidents, 50), max(incidents - 50, 0))
        assert {str(path) for path in paths[58:]} <= set(told)
    close(Incident.objects.get(cause=str(paths[0])), after(60))
    deliver(after(60))
    assert webhook.bodies[-1]["event"] == "closed"


def test_a_route_to_an_unknown_channel_is_reported(settings, paths):
    route(channel="pager")
    settings.NOTIFY_URLS = ["log://"]
    opened(finding(paths["slac → cern"]))

    deliver(NOW)

    assert (Notification.objects.get().problem, states()) == (NO_CHANNEL, [DeliveryState.WAITING])


# --- failures


def test_a_broken_channel_is_logged_and_retried(webhook, paths, caplog):
    opened(finding(paths["slac → cern"]))
    webhook.status = 500

    assert deliver(NOW) == 0
    webhook.status = 200
    assert deliver(after(29)) == 0
    assert deliver(after(30)) == 1

    assert lacks(caplog.text, "failed", "attempt 1 of 10", "500 Internal Server Error", "will be retried") == []
    assert (Notification.objects.get().attempts, Notification.objects.get().problem) == (2, "")


def test_a_channel_that_is_down_gets_ten_attempts_in_four_hours(settings, paths, monkeypatch, caplog):
    settings.NOTIFY_URLS = ["ops=webhook+http://127.0.0.1:1/"]
    monkeypatch.setattr(
        channels, "send", lambda url, messages, note, limit_s: note(channels.SendResult(messages[0].key, "away"))
    )
    opened(finding(paths["slac → cern"]))

    tried = []
    for half_minute in range(5 * 120):
        before = Notification.objects.get().attempts
        deliver(after(30 * half_minute))
        tried += [30 * half_minute] * (Notification.objects.get().attempts - before)

    assert tried == [30 * (2**number - 1) for number in range(10)]
    assert tried[-1] == pytest.approx(4.25 * 3600, rel=0.01)
    assert states() == [DeliveryState.DEAD]
    assert "no more attempts" in caplog.text


def test_an_unreachable_server_is_reported_as_such(settings, paths):
    settings.NOTIFY_URLS = ["ops=webhook+http://127.0.0.1:1/secret-path"]
    opened(finding(paths["slac → cern"]))

    deliver(NOW)

    assert "Connection refused" in Notification.objects.get().problem


def test_a_hanging_channel_is_stopped_and_delays_others_no_more(settings, paths, monkeypatch):
    monkeypatch.setattr(channels, "SEND_LIMIT_S", 6.0)
    with http_server() as hanging, http_server() as well:
        hanging.drips = True
        settings.NOTIFY_URLS = [f"a=webhook+http://{hanging.address}/", f"b=webhook+http://{well.address}/"]
        opened(finding(paths["slac → cern"]))
        started = time.monotonic()

        assert deliver(NOW) == 1

        assert time.monotonic() - started < 60
        assert len(well.bodies) == 1
    problem = Notification.objects.get(channel="a").problem
    assert lacks(problem, "timed out", " 6 s", "may have arrived") == []


def test_a_failing_channel_is_tried_once_per_run(webhook, paths):
    for number in range(3):
        opened(finding(list(paths.values())[number]), cause=str(number))
    webhook.status = 500

    deliver(NOW)

    assert len(webhook.bodies) == 1
    assert sorted(Notification.objects.values_list("attempts", flat=True)) == [0, 0, 1]
    assert set(states()) == {DeliveryState.WAITING}
    webhook.status = 200
    assert deliver(after(30)) == 3


def test_a_message_of_a_dead_worker_is_sent_after_its_lease(webhook, paths):
    opened(finding(paths["slac → cern"]))
    Notification.objects.update(state=DeliveryState.SENDING, claimed_at=NOW)

    assert deliver(after(LEASE_S)) == 0
    assert deliver(after(LEASE_S + 1)) == 1

    assert Notification.objects.get().attempts == 2


def test_a_message_that_kills_every_sender_is_given_up(webhook, paths):
    opened(finding(paths["slac → cern"]))
    Notification.objects.update(state=DeliveryState.SENDING, claimed_at=NOW, attempts=9)

    assert deliver(after(LEASE_S + 1)) == 0

    assert states() == [DeliveryState.DEAD]


KILLED = """
import os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "monitor.settings"
import django
django.setup()
from datetime import datetime
from monitor.alerts.notify import deliver
whole = deliver._mark
def stop(*args, **kwargs):
    print("sent", flush=True)
    sys.stdin.read()
deliver._mark = stop
deliver.deliver(datetime.fromisoformat(sys.argv[1]))
"""


@pytest.mark.django_db(transaction=True)
def test_a_worker_killed_before_recording_sends_twice_at_most(webhook, settings, paths):
    incident = opened(finding(paths["slac → cern"]))
    worker = subprocess.Popen(
        [sys.executable, "-c", KILLED, NOW.isoformat()],
        env={**os.environ, "SOUNDINGS_DATABASE_URL": _url(), "SOUNDINGS_NOTIFY_URLS": settings.NOTIFY_URLS[0]},
        cwd=project.BASE_DIR, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert worker.stdout.readline().strip() == "sent"
        assert deliver(after(1)) == 0, "the other worker has the lock"
        worker.send_signal(signal.SIGKILL)
        worker.wait(timeout=30)
    finally:
        worker.kill()
        worker.wait()
        worker.stdin.close()
        worker.stdout.close()

    deadline = time.monotonic() + 60
    while deliver(after(LEASE_S + 1)) == 0 and time.monotonic() < deadline:
        time.sleep(0.2)  # until PostgreSQL notices that its client is gone
    deliver(after(10_000))

    assert webhook.ids == [f"{incident.pk}-opened-0"] * 2, (
        "sent twice with the same id, so that the receiver can discard it"
    )
    assert states() == [DeliveryState.SENT]


def _url() -> str:
    return make_conninfo(own_dsn(), password=connection.settings_dict["PASSWORD"])


def test_a_message_that_cannot_be_composed_does_not_stop_others(webhook, paths, monkeypatch, caplog):
    bad, good = opened(finding(paths["slac → cern"])), opened(finding(paths["niit → cern"]), cause="cern ↔ niit")
    change_message = Composer.change_message

    def fail(self, row):
        if row.incident_id == bad.pk:
            raise KeyError("figure")
        return change_message(self, row)

    monkeypatch.setattr(Composer, "change_message", fail)

    assert deliver(NOW) == 1

    assert webhook.ids == [f"{good.pk}-opened-0"]
    assert "composing the message failed" in Notification.objects.get(incident=bad).problem


def test_a_channel_unknown_to_apprise_is_reported_as_such(settings, paths):
    settings.NOTIFY_URLS = ["ops=nosuchservice://token"]
    opened(finding(paths["slac → cern"]))

    deliver(NOW)

    assert lacks(Notification.objects.get().problem, "Apprise", "does not support", "URL") == []


# --- secrets


@pytest.mark.parametrize(
    "url",
    [
        "nosuchservice://user:hunter2@host/hunter2token",
        "webhook+http://user:hunter2@127.0.0.1:1/hunter2token?key=hunter2key",
        "json://user:hunter2@127.0.0.1:1/hunter2token",
        "slack://hunter2aaa/hunter2bbb/hunter2ccc",
    ],
)
def test_a_secret_of_a_channel_is_neither_stored_nor_logged(settings, paths, caplog, url):
    settings.NOTIFY_URLS = [url]
    opened(finding(paths["slac → cern"]))

    with caplog.at_level(logging.DEBUG):
        deliver(NOW)

    assert Notification.objects.get().problem
    assert "hunter2" not in caplog.text
    assert "hunter2" not in str(list(Notification.objects.values()))


def test_secrets_quoted_by_a_service_are_removed():
    text = "POST http://ops.example.org:8080/services/T0000/XXXX?key=sesame%21 with sesame! failed for joe:sesame"

    assert scrubbed(text, "webhook+https://joe:sesame@ops.example.org:8080/services/T0000/XXXX?key=sesame%21") == (
        "POST http://ops.example.org:8080…?… with … failed for joe:…"
    )


def test_a_channel_is_called_by_its_name_or_a_digest_of_its_url(settings):
    settings.NOTIFY_URLS = ["ops=json://host/?a=b", "json://host/?a=b"]

    (first, second) = notify_routes.channels().items()

    assert first == ("ops", "json://host/?a=b")
    assert second[1] == "json://host/?a=b"
    assert second[0].startswith("json:")
    assert "host" not in second[0]


# --- by command


def command(*arguments) -> str:
    out = StringIO()
    call_command("alerts", *arguments, stdout=out)
    return out.getvalue().strip()


def dead(paths) -> Notification:
    opened(finding(paths["slac → cern"]))
    Notification.objects.update(state=DeliveryState.DEAD, attempts=10, problem="the server answered 500 Oops")
    return Notification.objects.get()


def test_dead_letters_are_listed_and_retried(webhook, paths):
    letter = dead(paths)

    listed, total = command("dead-letters").splitlines()
    assert listed.startswith(f"{letter.pk}:")
    message = (f"incident {letter.incident_id} opened", "cern ↔ slac", "channel ops")
    assert lacks(listed, *message, " 10 attempts", "500 Oops") == []
    assert total == "1 dead letter"
    assert json.loads(command("dead-letters", "list", "--json"))[0]["number"] == letter.pk
    retried = command("dead-letters", "retry", str(letter.pk))
    assert retried.startswith("1 dead letter ")
    assert "queued" in retried
    assert deliver(datetime.now(UTC)) == 1
    assert len(webhook.bodies) == 1


def test_dead_letters_are_dropped(paths):
    dead(paths)

    assert command("dead-letters", "drop", "--all") == "1 dead letter dropped"

    assert states() == [DeliveryState.DROPPED]


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (["retry"], ["numbers", "`dead-letters list`", "or --all"]),
        (["drop", "999999"], ["no dead letter", " 999999;", "nothing changed"]),
    ],
)
def test_invalid_commands_for_dead_letters_are_reported(paths, arguments, facts):
    dead(paths)

    with pytest.raises(CommandError) as error:
        command("dead-letters", *arguments)

    assert lacks(str(error.value), *facts) == []
    assert states() == [DeliveryState.DEAD]


def test_a_test_message_is_marked_as_a_test(webhook):
    assert command("test-notification", "ops") == "channel ops: test message sent"

    assert webhook.bodies[0]["event"] == "test"
    assert "incident" not in webhook.bodies[0]
    assert not Notification.objects.exists()


def test_a_failed_test_message_has_the_reason(webhook):
    webhook.status = 404

    with pytest.raises(CommandError) as error:
        command("test-notification", "ops")

    assert lacks(str(error.value), "channel ops rejected", "404 Not Found") == []


def test_a_misspelt_channel_lists_the_existing_channels(webhook):
    with pytest.raises(CommandError) as error:
        command("test-notification", "opps")

    assert lacks(str(error.value), "SOUNDINGS_NOTIFY_URLS", 'no channel "opps"', 'did you mean "ops"') == []
    assert error.value.returncode == 2


def test_a_test_mail_is_marked_as_a_test(settings):
    with mail_server() as server:
        settings.NOTIFY_URLS = [f"mail=mailto://{server.address}/?from=soundings@example.org&to=ops@example.org"]
        command("test-notification", "mail")

    assert server.mails[0]["subject"] == "TEST from Soundings: no incident"


def test_the_sender_reports_the_result_of_each_message():
    answers = []
    messages = [Message(str(number), "title", "body", "notice", {"id": str(number)}) for number in range(3)]
    with http_server() as server:
        channels.send(f"webhook+http://{server.address}/", messages, answers.append)

    assert [(answer.key, answer.problem) for answer in answers] == [("0", ""), ("1", ""), ("2", "")]
