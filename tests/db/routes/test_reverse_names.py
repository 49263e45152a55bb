"""Reverse names in the database: cached with negative results, resolved again when due, off where configured."""

import socket
from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from monitor.archive.upkeep.records import delete_old
from monitor.celery import app
from monitor.routes import reverse_names
from monitor.routes.models import ReverseName
from monitor.routes.places import of_addresses
from monitor.routes.reverse_names import NAMES_AT_ONCE, remember, resolve_due
from monitor.routes.tasks import note_routers, resolve_names
from probes.contract import Deadline
from probes.trace.spec import Hop
from tests.db.mesh_of_three import NOW as NOW_OF_MESH
from tests.db.mesh_of_three import batch, make_mesh
from tests.db.trace_rows import delivered, trace
from tests.deliveries import store

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
DAY = timedelta(days=1)
NAMES = {"8.8.8.8": "dns.example", "2001:4860::8": "six.example", "10.0.0.1": "lan.example"}


@pytest.fixture
def resolver(monkeypatch):
    """A resolver with `names`; addresses in `broken` get no answer. `asked` lists the queries."""

    class Resolver:
        names, broken, queries = dict(NAMES), set(), []

        def getnameinfo(self, address, flags):
            self.queries.append(address[0])
            if address[0] in self.broken:
                raise socket.gaierror(socket.EAI_AGAIN, "try again")
            if address[0] not in self.names:
                raise socket.gaierror(socket.EAI_NONAME, "no name")
            return self.names[address[0]], "0"

    fake = Resolver()
    fake.queries = []
    monkeypatch.setattr(socket, "getnameinfo", fake.getnameinfo)
    return fake


def resolve_at(now):
    return resolve_due(now, Deadline(20))


def test_names_and_their_absence_are_cached_until_they_are_due(resolver):
    remember(["8.8.8.8", "2001:4860:0::8", "9.9.9.9", "*"], NOW)

    assert resolve_at(NOW) == 3
    assert resolve_at(NOW + timedelta(hours=23)) == 0
    names = of_addresses(["8.8.8.8", "2001:4860::8", "9.9.9.9"])
    assert [name.host_name for name in names.values()] == ["dns.example", "six.example", None]
    assert sorted(resolver.queries) == ["2001:4860::8", "8.8.8.8", "9.9.9.9"]

    assert resolve_at(NOW + DAY) == 1  # the absence
    remember(["8.8.8.8"], NOW + 6 * DAY)
    resolver.names["8.8.8.8"] = "new.example"
    resolve_at(NOW + 8 * DAY)
    assert of_addresses(["8.8.8.8"])["8.8.8.8"].host_name == "new.example"


def test_a_name_stays_while_the_resolver_does_not_answer(resolver):
    remember(["8.8.8.8", "9.9.9.9"], NOW)
    resolver.broken = {"9.9.9.9"}
    assert resolve_at(NOW) == 1
    remember(["8.8.8.8"], NOW + 6 * DAY)
    resolver.broken = {"8.8.8.8"}

    assert resolve_at(NOW + 8 * DAY) == 0

    row = ReverseName.objects.get(address="8.8.8.8")
    assert (row.name, row.outcome, row.due_at) == ("dns.example", "no_answer", NOW + 8 * DAY + timedelta(hours=1))


def test_addresses_that_left_the_routes_are_not_resolved_again(resolver):
    remember(["8.8.8.8"], NOW)
    resolve_at(NOW)

    assert resolve_at(NOW + 8 * DAY) == 0
    assert resolver.queries == ["8.8.8.8"]


@pytest.mark.parametrize(
    ("setting", "expected"), [("public", ["8.8.8.8"]), ("all", ["10.0.0.1", "8.8.8.8"]), ("off", [])]
)
def test_private_addresses_are_resolved_only_if_configured(resolver, settings, setting, expected):
    settings.REVERSE_NAMES = setting

    remember(["8.8.8.8", "10.0.0.1", "8.8.8.8"], NOW)
    resolve_at(NOW)

    assert sorted(resolver.queries) == expected
    assert sorted(ReverseName.objects.values_list("address", flat=True)) == expected


def test_addresses_that_are_no_longer_permitted_do_not_hold_up_others(resolver, settings):
    settings.REVERSE_NAMES = "all"
    private = [f"10.0.{number // 256}.{number % 256}" for number in range(NAMES_AT_ONCE)]
    remember(private, NOW - timedelta(hours=1))
    settings.REVERSE_NAMES = "public"
    remember(["8.8.8.8"], NOW)

    assert resolve_at(NOW) == 0
    assert resolve_at(NOW) == 1
    assert resolver.queries == ["8.8.8.8"]


def test_routers_of_delivered_traces_are_named(resolver, monkeypatch):
    """From a delivered trace to the name of its hop; the tasks are those that beat sends."""
    monkeypatch.setattr(timezone, "now", lambda: NOW_OF_MESH)
    path = make_mesh().slac_cern
    hops = (Hop(ttl=1, address="10.0.0.1"), Hop(ttl=2), Hop(ttl=3, address="8.8.8.8"), Hop(ttl=4, address="9.9.9.9"))
    store(path.source.site_id, batch(delivered(path, trace(hops=hops), 1), number=1), NOW_OF_MESH)

    assert (note_routers(), note_routers()) == (2, 0)
    assert (resolve_names(), resolve_names()) == (2, 0)

    names = of_addresses(["10.0.0.1", "8.8.8.8", "9.9.9.9"])
    assert [name.host_name for name in names.values()] == [None, "dns.example", None]
    assert {note_routers.name, resolve_names.name} <= {entry["task"] for entry in app.conf.beat_schedule.values()}


def test_names_are_deleted_after_their_address_left_the_routes(settings):
    remember(["8.8.8.8"], NOW - 92 * DAY)
    remember(["9.9.9.9"], NOW - 89 * DAY)

    assert settings.RETENTION_DAYS["reverse_names"] == 90
    assert delete_old(NOW, Deadline(20))["reverse_name"] == 1
    assert ReverseName.objects.get().address == "9.9.9.9"


def test_a_run_resolves_a_bounded_number_of_names(resolver, monkeypatch):
    monkeypatch.setattr(reverse_names, "NAMES_AT_ONCE", 2)
    remember([f"8.8.4.{last}" for last in range(3)], NOW)

    assert [resolve_at(NOW), resolve_at(NOW), resolve_at(NOW)] == [2, 1, 0]
