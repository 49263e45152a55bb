"""Notification routes of mesh.toml: which incidents each takes, and when a digest is due."""

from __future__ import annotations

from datetime import UTC, datetime, time

import pytest

from monitor.mesh.document import alert_rules
from monitor.mesh.document.alert_rules import Place
from monitor.mesh.document.notify_routes import NotifyRoute, chosen, routes
from monitor.mesh.document.reader import MeshError, parse
from tests.facts import lacks

CERN_OUT = Place("cern", "slac", frozenset({"hep"}))
MESH = """
[mesh]
name = "Laboratories"

[[site]]
name = "cern"
latitude_deg = 46.2
longitude_deg = 6.1
country = "CH"
host = [{ address = "192.0.2.1" }]

[[site]]
name = "slac"
latitude_deg = 37.4
longitude_deg = -122.2
country = "US"
host = [{ address = "192.0.2.2" }]

[[test]]
name = "pinger"
kind = "ping"
every_s = 60

[[group]]
name = "hep"
shape = "mesh"
sites = ["cern", "slac"]
tests = ["pinger"]

"""


def alerts(text):
    return parse((MESH + text).encode(), "mesh.toml").alerts


def problems(text):
    with pytest.raises(MeshError) as error:
        parse((MESH + text).encode(), "mesh.toml")
    return [line.partition(": ")[2] for line in error.value.lines]


def test_without_routes_every_channel_gets_everything_at_once():
    assert routes({}, ["mail", "oncall"]) == [NotifyRoute("mail"), NotifyRoute("oncall")]


def test_routes_are_read_from_mesh_toml():
    routes_read = routes(
        alerts(
            '[[alerts.notify]]\nchannel = "oncall"\nseverity = "critical"\n'
            '[[alerts.notify]]\nchannel = "mail"\ngroup = "hep"\ndigest = "07:30"\nzone = "Europe/Zurich"\n'
        ),
        ["ignored"],
    )

    assert routes_read == [
        NotifyRoute("oncall", "critical"),
        NotifyRoute("mail", "notice", time(7, 30), "Europe/Zurich", {"group": "hep"}),
    ]


@pytest.mark.parametrize(
    ("severity", "channels"),
    [("notice", {"all"}), ("warning", {"all", "some"}), ("critical", {"all", "some", "oncall"})],
)
def test_a_route_takes_its_severity_and_higher_ones(severity, channels):
    of = [NotifyRoute("oncall", "critical"), NotifyRoute("some", "warning"), NotifyRoute("all")]

    assert set(chosen(of, severity, [CERN_OUT])) == channels


@pytest.mark.parametrize(
    ("selector", "takes"),
    [({"group": "hep"}, True), ({"group": "tier2"}, False), ({"from": "cern"}, True), ({"to": "cern"}, False)],
)
def test_a_route_of_a_site_takes_incidents_with_any_path_there(selector, takes):
    elsewhere = Place("niit", "ictp")

    assert NotifyRoute("mail", selector=selector).takes("warning", [elsewhere, CERN_OUT]) is takes
    assert NotifyRoute("mail", selector=selector).takes("warning", [elsewhere]) is False


def test_a_digest_omits_notifications_that_were_sent_at_once():
    of = [NotifyRoute("mail", digest=time(7)), NotifyRoute("mail", "critical")]

    assert chosen(of, "critical", [CERN_OUT])["mail"].digest is None
    assert chosen(of, "warning", [CERN_OUT])["mail"].digest == time(7)


@pytest.mark.parametrize(
    ("at", "due_at"),
    [
        (
            datetime(2026, 11, 21, 5, 59, tzinfo=UTC),
            datetime(2026, 11, 21, 6, tzinfo=UTC),
        ),  # 07:00 in Zurich is 06:00 UTC
        (datetime(2026, 11, 21, 6, tzinfo=UTC), datetime(2026, 11, 22, 6, tzinfo=UTC)),
        (datetime(2026, 11, 21, 23, 30, tzinfo=UTC), datetime(2026, 11, 22, 6, tzinfo=UTC)),
        (datetime(2026, 7, 1, 12, tzinfo=UTC), datetime(2026, 7, 2, 5, tzinfo=UTC)),  # 05:00 UTC in summer
    ],
)
def test_a_digest_is_due_at_its_time_of_day_in_its_time_zone(at, due_at):
    assert NotifyRoute("mail", digest=time(7), zone="Europe/Zurich").due_at(at) == due_at


def test_a_rules_severity_is_its_default_or_that_of_mesh_toml():
    places = {1: CERN_OUT}
    settings = alerts(
        '[alerts.loss]\nseverity = "critical"\n[[alerts.for]]\nfrom = "cern"\nrtt = { severity = "notice" }\n'
    )

    def severity(name):
        return alert_rules.settings_for(settings, name, places)[1].severity

    assert [severity(name) for name in ("loss", "rtt", "unreachable", "jitter", "no_data")] == [
        "critical", "notice", "critical", "notice", "warning",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ('severity = "notice"', ("channel is missing", 'write channel = "…"', "SOUNDINGS_NOTIFY_URLS")),
        (
            'channel = "slack://token@host"',
            ("channel must be", "name", "SOUNDINGS_NOTIFY_URLS", '"oncall"', "URL stays there"),
        ),
        ('channel = "a"\nseverity = "bad"', ("severity must be", '"notice"', '"warning"', '"critical"', 'not "bad"')),
        ('channel = "a"\ndigest = "7am"', ("digest must be", "time of day", '"07:00"', 'not "7am"')),
        ('channel = "a"\ndigest = "07:00"\nzone = "Mars"', ('zone = "Mars"', "not known", '"Europe/Zurich"')),
        ('channel = "a"\nzone = "UTC"', ("zone is", "for a digest", 'add digest = "07:00"', "leave the line out")),
        ('channel = "a"\ngroup = "hap"', ('group "hap"', "not defined", 'did you mean "hep"?')),
        ('channel = "a"\nseverty = "notice"', ('unknown key "severty"', 'did you mean "severity"?')),
    ],
)
def test_errors_in_a_route_are_reported_with_a_fix(text, facts):
    (problem,) = problems("[[alerts.notify]]\n" + text + "\n")

    assert problem.startswith(f"[[alerts.notify]]: {facts[0]}")
    assert lacks(problem, *facts) == []


def test_a_route_without_channel_is_told_the_channels(settings):
    settings.NOTIFY_URLS = ["oncall=slack://s3cret", "log://", "mail=mailto://s3cret"]

    unknown, missing = problems('[[alerts.notify]]\nwebhook = "https://example.org"\n')

    assert lacks(unknown, 'unknown key "webhook"', "it takes channel, ") == []
    assert lacks(missing, "[[alerts.notify]]: channel is missing", 'channel = "oncall" or "mail"', "NOTIFY_URLS") == []
    assert "s3cret" not in missing


def test_a_route_without_channel_is_told_how_to_name_the_first(settings):
    settings.NOTIFY_URLS = ["log://"]

    (missing,) = problems('[[alerts.notify]]\nseverity = "critical"\n')

    assert lacks(missing, "channel is missing", "SOUNDINGS_NOTIFY_URLS", "none", "add oncall=URL") == []
