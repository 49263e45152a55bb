"""Applying documents: additions, changes and retirements, and that no data is lost."""

import io
import json
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path as FilePath

import pytest
from django.core.management import call_command
from django.db import connection, connections, transaction
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from monitor.mesh import models, queries
from monitor.mesh.apply import apply
from monitor.mesh.changes import MeshChange
from monitor.mesh.document import expansion
from monitor.mesh.document.entries import HostEntry, MeshDocument, MeshGroup, SiteEntry
from monitor.mesh.document.reader import read
from monitor.mesh.kinds.ping import PingEntry
from monitor.mesh.kinds.throughput import ThroughputEntry
from monitor.mesh.models import Group, Host, Measurement, MeasurementPeriod, Mesh, Path, Site, Slot
from monitor.mesh.schedule import slots
from monitor.mesh.schedule.slots import plan_slots
from tests.db.planned_bursts import planned_bursts
from tests.facts import lacks

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
MODELS = (Site, Host, Path, models.Test, Group, Measurement, MeasurementPeriod)
EXAMPLE = FilePath(__file__).parent.parent.parent.parent / "mesh.example.toml"
BAD = FilePath(__file__).parent.parent.parent / "fixtures" / "mesh" / "bad"


def site(name, address, *, has_agent=True):
    return SiteEntry(
        name=name,
        title=name.upper(),
        latitude_deg=1.0,
        longitude_deg=2.0,
        country="CH",
        region="Europe",
        has_agent=has_agent,
        hosts=(HostEntry(name=name, address=address),),
    )


A, B, C = (site(name, f"192.0.2.{number}") for number, name in enumerate("abc", 1))
PINGER = PingEntry("pinger", every_s=60)
TCP = ThroughputEntry("tcp", every_s=600)


def mesh(*sites, tests=(PINGER, TCP), home=None, alerts=None):
    names = tuple(site.name for site in sites)
    group = MeshGroup(name="all", sites=names, tests=tuple(test.name for test in tests))
    return MeshDocument("Mesh", home, tuple(sites), tuple(tests), (group,), alerts or {})


def in_use():
    """The measurements in the database, in the terms of the file."""
    return {
        "mesh": list(Mesh.objects.values_list("name", "home_site", "alerts")),
        "sites": {
            (s.name, s.title, s.latitude_deg, s.longitude_deg, s.country, s.region, s.has_agent)
            for s in Site.objects.in_use()
        },
        "hosts": {
            (h.name, h.site.name, h.address, h.family, h.for_ping, h.for_throughput)
            for h in Host.objects.in_use().select_related("site")
        },
        "tests": {
            (t.name, t.kind, t.every_s, json.dumps(t.parameters, sort_keys=True)) for t in models.Test.objects.in_use()
        },
        "groups": {(g.name, g.shape, *sorted(s.name for s in g.sites.all())) for g in Group.objects.in_use()},
        "paths": {(p.source.name, p.destination.name, p.family) for p in Path.objects.in_use()},
        "measurements": {
            (m.path.source.name, m.path.destination.name, m.test.name)
            for m in Measurement.objects.in_use().with_hosts()
        },
        "periods": {
            (p.measurement_id, p.every_s, tuple(p.packet_bytes))
            for p in MeasurementPeriod.objects.filter(ended_at=None)
        },
    }


def ids():
    return {model: set(model.objects.values_list("pk", flat=True)) for model in MODELS}


def test_a_new_mesh_is_added_and_reported():
    changes = apply(mesh(A, B, home="a", alerts={"loss": {"above_ratio": 0.01, "window_s": 600}}), NOW)

    assert changes.counts("added") == {
        "site": 2, "host": 2, "test": 2, "group": 1, "path": 2, "measurement": 4, "mesh": 1,
    }  # fmt: skip
    assert changes.select("changed") == changes.select("retired") == []
    assert [str(change) for change in changes.select("added", "measurement")] == [
        "added measurement a → b, pinger",
        "added measurement a → b, tcp",
        "added measurement b → a, pinger",
        "added measurement b → a, tcp",
    ]
    row = Mesh.objects.get()
    assert (row.name, row.home_site, row.applied_at) == ("Mesh", "a", NOW)
    assert row.alerts == {"loss": {"above_ratio": 0.01, "window_s": 600}}
    assert queries.alerts() == row.alerts


def test_applying_the_same_mesh_again_changes_nothing():
    apply(mesh(A, B, C), NOW)
    before = (in_use(), ids(), Mesh.objects.get().applied_at)

    changes = apply(mesh(A, B, C), NOW + timedelta(hours=1))

    assert changes.is_empty
    assert (in_use(), ids(), Mesh.objects.get().applied_at) == before


def test_the_statements_of_an_apply_do_not_grow_with_the_mesh():
    counts = []
    for first, last in ((1, 3), (11, 41)):
        sites = [site(f"s{number}", f"192.0.2.{number}") for number in range(first, last)]
        with CaptureQueriesContext(connection) as queries_of_all:
            apply(mesh(*sites), NOW)
        counts.append(len(queries_of_all))

    assert Path.objects.in_use().count() == 30 * 29
    # Those of the sites that the first has no sites to retire for.
    assert counts[1] - counts[0] < 10


def test_a_document_is_expanded_once():
    document = mesh(A, B)

    assert expansion.measurements(document) is expansion.measurements(document)
    assert len(expansion.measurements(replace(document, tests=(PINGER,)))) == 2
    assert len(expansion.measurements(document)) == 4


def test_applied_measurements_are_those_of_the_file():
    document = read(EXAMPLE)

    apply(document, NOW)

    expected = expansion.measurements(document)
    assert in_use()["measurements"] == {
        (measurement.source, measurement.destination, measurement.test) for measurement in expected
    }
    assert models.Test.objects.get(name="pinger").parameters == {
        "packet_bytes": [100, 1000], "count": 10, "spacing_s": 1.0, "timeout_s": 2.0, "priming_bytes": 56,
        "dont_fragment": False,
    }  # fmt: skip
    assert models.Test.objects.get(name="tcp").parameters == {"duration_s": 10, "omit_s": 0, "streams": 1, "port": 5201}


def test_a_removed_site_is_retired_with_its_paths_and_kept():
    apply(mesh(A, B, C), NOW)
    before = ids()

    changes = apply(mesh(A, B), NOW + timedelta(hours=1))

    assert changes.counts("retired") == {"site": 1, "host": 1, "path": 4, "measurement": 8}
    assert Site.objects.get(name="c").retired_at == NOW + timedelta(hours=1)
    assert changes.select("changed") == [MeshChange("changed", "group", "all", "sites a, b, c → a, b")]
    assert all(before[model] == after for model, after in ids().items())


def test_a_site_that_returns_has_the_same_row():
    apply(mesh(A, B, C), NOW)
    before = ids()
    apply(mesh(A, B), NOW + timedelta(hours=1))

    changes = apply(mesh(A, B, C), NOW + timedelta(hours=2))

    [back] = changes.select("added", "site")
    assert lacks(str(back), "added site c", "in use again", "history") == []
    assert "→" not in str(back)
    for model in MODELS:
        if model is not MeasurementPeriod:
            assert ids()[model] == before[model]
    assert not Path.objects.exclude(retired_at=None).exists()
    assert set(Measurement.objects.values_list("started_at", flat=True)) == {NOW}


def test_changes_are_reported_field_by_field():
    apply(mesh(A, B, alerts={"loss": {"above_ratio": 0.01, "window_s": 600}}), NOW)
    moved = replace(A, title="Geneva", hosts=(replace(A.hosts[0], address="192.0.2.9"),))
    slower = replace(PINGER, every_s=300, count=20)

    changes = apply(
        mesh(moved, B, tests=(slower, TCP), alerts={"loss": {"above_ratio": 0.02, "window_s": 600}}),
        NOW + timedelta(hours=1),
    )

    assert [str(change) for change in changes.items] == [
        "changed site a: title A → Geneva",
        "changed host a: address 192.0.2.1 → 192.0.2.9",
        "changed test pinger: every_s 60 → 300, count 10 → 20",
        'changed mesh "Mesh": loss.above_ratio 0.01 → 0.02',
    ]


def test_a_removed_agent_ends_its_measurements():
    apply(mesh(A, B), NOW)

    changes = apply(mesh(A, replace(B, has_agent=False)), NOW)

    assert changes.counts("retired") == {"path": 1, "measurement": 3}
    assert in_use()["measurements"] == {("a", "b", "pinger")}


def test_slots_that_have_not_begun_are_deleted_with_their_path():
    apply(mesh(A, B, C), NOW)
    plan_slots(NOW)
    later = NOW + timedelta(minutes=20)
    begun = set(Slot.objects.filter(starts_at__lte=later).values_list("pk", flat=True))
    kept_ids = set(Slot.objects.exclude(measurement__path__source__name="c").exclude(
        measurement__path__destination__name="c").values_list("pk", flat=True))  # fmt: skip

    changes = apply(mesh(A, B), later)

    remaining_ids = set(Slot.objects.values_list("pk", flat=True))
    assert begun
    assert changes.slots_deleted > 0
    assert remaining_ids >= begun | kept_ids
    assert not (remaining_ids - kept_ids) & set(
        Slot.objects.filter(starts_at__gt=later + timedelta(seconds=slots.IN_HAND_S)).values_list("pk", flat=True)
    )


def test_slots_of_a_changed_test_are_planned_again():
    apply(mesh(A, B), NOW)
    plan_slots(NOW)

    changes = apply(mesh(A, B, tests=(PINGER, replace(TCP, duration_s=30))), NOW)
    plan_slots(NOW)

    assert changes.slots_deleted > 0
    lengths = {
        slot.ends_at - slot.starts_at
        for slot in Slot.objects.filter(starts_at__gt=NOW + timedelta(seconds=slots.IN_HAND_S))
    }
    assert lengths == {timedelta(seconds=35)}


SITES = [A, B, C, replace(C, has_agent=False), site("d", "192.0.2.4"), replace(A, title="moved", latitude_deg=5.0)]
TESTS = [
    PINGER,
    replace(PINGER, packet_bytes=(56,)),
    PingEntry("often", every_s=10, count=2),
    TCP,
    replace(TCP, every_s=900),
]


@st.composite
def meshes(draw):
    sites = draw(st.lists(st.sampled_from(SITES), min_size=2, max_size=4, unique_by=lambda entry: entry.name))
    tests = draw(st.lists(st.sampled_from(TESTS), min_size=1, max_size=3, unique_by=lambda entry: entry.name))
    return mesh(*sites, tests=tuple(tests), home=draw(st.sampled_from([None, "a"])))


@given(meshes(), meshes())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_applying_and_reverting_a_change_deletes_nothing(first, second):
    with transaction.atomic():
        apply(first, NOW)
        expected, rows = in_use(), ids()

        apply(second, NOW + timedelta(hours=1))
        other, between = in_use(), ids()
        changes = apply(first, NOW + timedelta(hours=2))

        assert in_use() == expected
        assert all(rows[model] <= between[model] <= ids()[model] for model in MODELS)
        assert apply(first, NOW + timedelta(hours=3)).is_empty
        assert changes.is_empty == (other == expected)
        transaction.set_rollback(True)  # hypothesis runs all examples in the single transaction of the test


def test_planned_bursts_follow_the_times_in_use():
    apply(mesh(A, B, tests=(PINGER,)), NOW)
    apply(mesh(A, B, tests=(replace(PINGER, every_s=300),)), NOW + timedelta(minutes=30))
    apply(mesh(B, C, tests=(PINGER,)), NOW + timedelta(minutes=50))
    apply(mesh(A, B, tests=(PINGER,)), NOW + timedelta(minutes=55))
    path = Path.objects.get(source__name="a")

    planned = planned_bursts(NOW - timedelta(hours=1), NOW + timedelta(hours=1), path_ids=[path.pk])

    # 30 minutes every minute, 20 minutes every 5, 5 minutes not at all, 5 minutes every minute.
    assert planned == {(path.pk, 100): 30 + 4 + 5, (path.pk, 1000): 30 + 4 + 5}


@pytest.mark.parametrize(
    ("since_s", "until_s", "cycles"),
    [(0, 60, 1), (0, 61, 2), (1, 60, 0), (1, 61, 1), (0, 0, 0), (-3600, 0, 0), (0, 3600, 60), (0.5, 59.5, 0)],
)
def test_cycles_are_counted_at_their_start(since_s, until_s, cycles):
    apply(mesh(A, B, tests=(replace(PINGER, packet_bytes=(100,)),)), NOW)

    planned = planned_bursts(NOW + timedelta(seconds=since_s), NOW + timedelta(seconds=until_s))

    assert sum(planned.values()) == 2 * cycles


def test_paths_in_use_are_read_with_their_sites_in_one_query(django_assert_num_queries):
    apply(mesh(A, B, C), NOW)

    with django_assert_num_queries(1):
        sites = {(path.source.site.title, path.destination.site.title) for path in Path.objects.in_use()}

    assert len(sites) == 6


@pytest.mark.django_db(transaction=True)
def test_concurrent_applies_wait_for_each_other():
    ready, errors = threading.Barrier(4), []

    def run(document):
        try:
            ready.wait(timeout=30)
            apply(document, NOW)
        except Exception as error:  # noqa: BLE001 - whatever it was, the test must see it
            errors.append(error)
        finally:
            connections.close_all()

    documents = [mesh(A, B, C), mesh(A, B, C), mesh(A, B), mesh(B, C)]
    threads = [threading.Thread(target=run, args=[document]) for document in documents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)

    assert errors == []
    assert any(apply(document, NOW).is_empty for document in [*documents])


def command(*args):
    out, err = io.StringIO(), io.StringIO()
    try:
        call_command("mesh", *args, stdout=out, stderr=err)
        code = 0
    except SystemExit as exit_:
        code = exit_.code
    return code, out.getvalue(), err.getvalue()


def test_the_command_prints_its_changes_and_the_total():
    code, out, _ = command("apply", str(EXAMPLE))

    lines = out.splitlines()
    assert code == 0
    assert lines[0] == "added site slac"
    assert "added measurement cern → niit, pinger" in lines
    assert lines[-1] == (
        "added 3 sites, 4 hosts, 2 tests, 2 groups, 5 paths, 5 measurements, 1 mesh; changed nothing; retired nothing"
    )
    assert not Slot.objects.exists()  # the agents of both ends have to contact the centre first
    assert command("apply", str(EXAMPLE))[1] == "no changes\n"


def test_the_command_prints_json():
    _, out, _ = command("apply", str(EXAMPLE), "--json")

    report = json.loads(out)
    assert {"kind": "site", "name": "niit", "detail": ""} in report["added"]
    assert (report["changed"], report["retired"], report["slots_deleted"]) == ([], [], 0)


def test_a_file_with_an_error_is_not_applied_at_all():
    code, out, err = command("apply", str(BAD / "many_problems.toml"))

    assert (code, out) == (1, "")
    assert len(err.splitlines()) == 7
    assert not Site.objects.exists()
    assert not Mesh.objects.exists()


def test_checking_writes_nothing(django_assert_num_queries):
    with django_assert_num_queries(0):
        code, out, _ = command("check", str(EXAMPLE))

    assert code == 0
    counts, costs = out.splitlines()
    assert counts == f"{EXAMPLE}: OK: 3 sites, 4 hosts, 2 tests, 2 groups, 5 paths, 5 measurements"
    # One path with an hourly test of 10 s.
    assert lacks(costs, "24 tests a day", "0.28% of the time (24 tests, 30 GB a day at 1 Gbit/s)") == []


def test_checking_prints_errors_as_json():
    path = BAD / "undefined_site.toml"

    code, out, _ = command("check", str(path), "--json")

    assert code == 1
    report = json.loads(out)
    [problem] = report["problems"]
    message = problem["message"]
    assert report == {"problems": [{"file": str(path), "line": 37, "message": message}]}
    assert lacks(message, 'group "all"', 'site "cren"', "not defined", 'did you mean "cern"') == []


def notifying(tmp_path, *channels):
    file = tmp_path / "mesh.toml"
    routes = (f'\n[[alerts.notify]]\nchannel = "{channel}"\n' for channel in channels)
    file.write_text(EXAMPLE.read_text() + "".join(routes))
    return str(file)


@pytest.mark.parametrize("action", ["check", "apply"])
def test_a_channel_missing_in_the_environment_is_a_warning(tmp_path, settings, action):
    settings.NOTIFY_URLS = ["oncall=log://", "mail=log://"]
    file = notifying(tmp_path, "oncal", "mail", "oncal")

    code, out, err = command(action, file)

    assert code == 0
    assert out
    facts = (
        "[[alerts.notify]]",
        "SOUNDINGS_NOTIFY_URLS",
        'no channel "oncal"',
        'did you mean "oncall"',
        "dead letters",
    )
    assert lacks(err, f"{file}: warning: ", *facts) == []
    assert err.count("\n") == 1
    (warning,) = json.loads(command(action, file, "--json")[1])["warnings"]
    assert err == f"{file}: warning: {warning}\n"
    assert Mesh.objects.exists() is (action == "apply")


def test_existing_channels_or_no_channels_give_no_warning(tmp_path, settings):
    settings.NOTIFY_URLS = ["oncall=log://"]

    assert command("check", notifying(tmp_path, "oncall"))[2] == ""
    assert command("check", str(EXAMPLE))[2] == ""


def test_own_networks_are_stored_and_their_changes_printed():
    document = replace(mesh(A, B), networks={"192.0.2.0/24": {"name": "campus", "asn": None}})
    apply(document, NOW)
    assert Mesh.objects.get().networks == {"192.0.2.0/24": {"name": "campus", "asn": None}}
    assert apply(document, NOW).is_empty

    changes = apply(replace(document, networks={"192.0.2.0/24": {"name": "campus", "asn": 64496}}), NOW)

    assert changes.items == [MeshChange("changed", "mesh", '"Mesh"', "192.0.2.0/24.asn none → 64496")]
    assert Mesh.objects.get().networks["192.0.2.0/24"]["asn"] == 64496


def test_the_planner_knows_the_size_of_a_large_mesh_at_once(monkeypatch):
    def estimated_paths():
        with connection.cursor() as cursor:
            cursor.execute("SELECT reltuples FROM pg_class WHERE oid = 'path'::regclass")
            return cursor.fetchone()[0]

    before = estimated_paths()
    apply(mesh(A, B), NOW)
    small = estimated_paths()
    monkeypatch.setattr("monitor.mesh.apply.MANY_ROWS", 1)
    apply(mesh(A, B, C), NOW)

    assert small == before
    assert estimated_paths() == Path.objects.count() == 6
