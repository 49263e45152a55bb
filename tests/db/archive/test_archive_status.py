"""`manage.py archive status`: sizes, backlog, missing results and problems, as text and JSON."""

import json
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection
from django.db.models import F
from django.utils import timezone

from monitor.agents.models import AgentHealth
from monitor.archive.models import TableSize
from monitor.archive.retention_bounds import BOUNDS
from monitor.archive.rollup.recompute import roll_up
from monitor.archive.upkeep import growth, trouble
from monitor.archive.upkeep.server import Disk
from tests.db.archive.test_archive_hypertables import CHUNKS_OF, has_timescaledb
from tests.db.mesh_of_three import HOUR, NOW, batch, burst, delivered, make_mesh
from tests.deliveries import store
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.timescale]


@pytest.fixture(autouse=True)
def own_data_folder(settings, tmp_path):
    settings.DATA_DIR = tmp_path


@pytest.fixture
def lines(capsys):
    """The lines of its output."""

    def ask(*options):
        call_command("archive", "status", *options)
        return capsys.readouterr().out.splitlines()

    return ask


@pytest.fixture
def answer(capsys):
    """Its JSON output."""

    def ask():
        call_command("archive", "status", "--json")
        return json.loads(capsys.readouterr().out)

    return ask


def place_of(output_lines, *facts):
    """Number of the only line with these facts."""
    [place] = [number for number, line in enumerate(output_lines) if lacks(line, *facts) == []]
    return place


def a_lossy_delivery(now):
    """Three hours of a path, two numbers between them that never arrived, and a result of an unknown path."""
    mesh = make_mesh()
    results = [delivered(mesh.slac_cern, burst(1.0, at=HOUR - timedelta(hours=n)), 3 * n + 1) for n in range(3)]
    store(mesh.slac.pk, batch(*results, delivered(99999, burst(1.0, at=HOUR), 8)), now)
    return mesh


def test_an_empty_archive_is_reported_as_empty(lines):
    output_lines = lines("--all")

    for line in ("bursts from - to -", "no pending hour rollups", "no results rejected"):
        assert line in output_lines
    assert {line.split()[0] for line in output_lines[1 : output_lines.index("")]} == BOUNDS.keys()


def test_the_verdict_fits_a_small_screen_with_the_figures(lines, monkeypatch):
    monkeypatch.setattr(timezone, "now", lambda: NOW)
    monkeypatch.setattr("monitor.archive.upkeep.status.disk", lambda of: None)
    a_lossy_delivery(NOW)

    output_lines = lines()

    assert output_lines[0] == "archive: healthy"
    assert len(output_lines) <= 23
    assert max(map(len, output_lines)) <= 80


def test_problems_are_counted_in_the_first_line(lines, monkeypatch):
    monkeypatch.setattr("monitor.archive.upkeep.system_checks.CONNECTIONS_NEEDED", 10_000)
    monkeypatch.setattr("monitor.archive.upkeep.status.disk", lambda of: None)
    trouble.record_trouble(trouble.TroubleKind.DISK_FULL)

    output_lines = lines()

    assert output_lines[0] == "archive: 2 problems"
    assert output_lines[1].startswith("nothing can be stored")
    assert output_lines[2].startswith("warning archive.W007")


def test_sites_with_missing_results_are_first(lines, monkeypatch):
    monkeypatch.setattr(timezone, "now", lambda: NOW)
    mesh = a_lossy_delivery(NOW)
    store(mesh.cern.pk, batch(delivered(mesh.cern_slac, burst(1.0, at=HOUR), 1)), NOW)

    output_lines = lines()

    none_missing = (" 1 result ", " 7 days", " none missing", "(100.00% complete)")
    place = place_of(output_lines, "slac: 4 results", " 7 days", " 4 missing", "(50.00% complete)")
    assert lacks(output_lines[place + 1], "other sites (1):", *none_missing) == []
    assert place_of(lines("--all"), "cern:", *none_missing)


def test_sizes_and_backlog_are_reported(lines):
    a_lossy_delivery(timezone.now() - timedelta(seconds=9000))
    before = lines()
    roll_up(timezone.now())
    after = lines()

    assert place_of(before, "bursts", "from 2026-03-14 10:00:00 UTC", "to 2026-03-14 12:00:00 UTC")
    [waiting] = [line for line in before if line.startswith("pending ")]
    assert lacks(waiting, "pending hour rollups: 3,", "oldest", " 90") == []
    assert "no pending hour rollups" in after
    [waiting] = [line for line in after if line.startswith("pending ")]
    assert lacks(waiting, "pending day rollups: 1,", "oldest") == []


def test_a_backlog_that_arrives_meanwhile_has_no_negative_age(lines, monkeypatch):
    a_lossy_delivery(NOW)
    monkeypatch.setattr(timezone, "now", lambda: NOW - timedelta(seconds=0.4))

    [waiting] = [line for line in lines() if line.startswith("pending ")]

    assert waiting.endswith(", the oldest for 0 s")


def test_missing_and_refused_results_are_reported_by_site(lines, monkeypatch):
    monkeypatch.setattr(timezone, "now", lambda: NOW)
    a_lossy_delivery(NOW)

    output_lines = lines()

    # Of the numbers 1 to 8, 1, 4, 7 and 8 arrived.
    assert place_of(output_lines, "slac: 4 results", " 7 days", " 4 missing", "(50.00% complete)")
    place = place_of(output_lines, "slac: 1 result rejected", "last", " 2026-03-14 12:30:00 UTC:")
    assert output_lines[place + 1] == "    path 99999 is unknown"


def test_results_that_an_agent_dropped_are_in_its_line(lines, answer, monkeypatch):
    monkeypatch.setattr(timezone, "now", lambda: NOW)
    mesh = make_mesh()
    store(mesh.slac.pk, batch(delivered(mesh.slac_cern, burst(1.0, at=HOUR), 1)), NOW)
    store(mesh.cern.pk, batch(delivered(mesh.cern_slac, burst(1.0, at=HOUR), 1)), NOW)
    AgentHealth.objects.create(site=mesh.cern, accepted_at=NOW, agent_version="1", queued=0, dropped=34)

    output_lines = lines()

    dropped = place_of(output_lines, "cern: 1 result ", " none missing", " 34 dropped")
    assert lacks(output_lines[dropped + 1], "other sites (1):", "(100.00% complete)") == []
    assert "%" not in output_lines[dropped]
    assert {site["site"]: site["dropped"] for site in answer()["completeness"]} == {"cern": 34, "slac": 0}


def test_a_site_without_recent_deliveries_is_not_called_complete(lines, monkeypatch):
    a_lossy_delivery(NOW)
    monkeypatch.setattr(timezone, "now", lambda: NOW + timedelta(days=7))

    assert not any("complete" in line for line in lines())


def test_the_reason_why_nothing_can_be_stored_is_reported(lines, answer):
    trouble.record_trouble(trouble.TroubleKind.DISK_FULL)

    [reason] = [line for line in lines() if line.startswith("nothing can be stored")]

    assert lacks(reason, "nothing can be stored", "disk of the database is full", "last seen", " 20") == []
    assert [problem["kind"] for problem in answer()["troubles"]] == [trouble.TroubleKind.DISK_FULL]


def test_json_has_the_same_figures(answer, monkeypatch):
    monkeypatch.setattr(timezone, "now", lambda: NOW)
    mesh = a_lossy_delivery(NOW)
    store(mesh.cern.pk, batch(delivered(mesh.cern_slac, burst(1.0, at=HOUR), 1)), NOW)
    store(mesh.slac.pk, batch(delivered(99998, burst(1.0, at=HOUR), 9), number=2), NOW)

    status = answer()

    assert {table["name"] for table in status["tables"]} == BOUNDS.keys()
    assert status["at"] == "2026-03-14T12:30:00Z"
    assert status["span"] == {"oldest_at": "2026-03-14T10:00:00Z", "newest_at": "2026-03-14T12:00:00Z"}
    assert status["waiting"] == [{"tier": "hour", "summaries": 4, "since": "2026-03-14T12:30:00Z"}]
    assert status["completeness"] == [
        {"site": "cern", "delivered": 1, "missing": 0, "dropped": 0},
        {"site": "slac", "delivered": 5, "missing": 4, "dropped": 0},
    ]
    [refused] = status["refused"]
    assert (refused["site"], refused["refused"], refused["newest_reason"]) == ("slac", 2, "path 99998 is unknown")
    assert status["troubles"] == []
    assert status["server"]["session_time_zone"] == "UTC"


def test_the_server_and_its_disk_are_reported(lines, answer):
    server, disk = answer()["server"], answer()["disk"]
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_database_size(current_database())")
        [(size,)] = cursor.fetchall()

    assert server["database_bytes"] == pytest.approx(size, rel=0.2)
    assert any(line.startswith(f"PostgreSQL {connection.pg_version // 10_000}.") for line in lines())
    if has_timescaledb():
        assert disk is None  # in another root
        assert place_of(lines(), "its disk", "on another machine")
        assert any("with TimescaleDB" in line and "licence apache" in line for line in lines())
    else:
        assert 0 < disk["free_bytes"] <= disk["total_bytes"]
        assert any("without TimescaleDB" in line for line in lines())


def test_chunks_are_reported_where_there_are_any(lines, answer):
    spans = {table["name"]: table["chunk_interval"] for table in answer()["hypertables"]}
    [of_bursts] = [line for line in lines("--all") if line.startswith("burst ")]

    if has_timescaledb():
        assert spans.keys() == CHUNKS_OF.keys()
        assert "0, next spans 24 h" in of_bursts
    else:
        assert spans == {}
        assert " - " in of_bursts


def test_problems_of_the_server_are_reported_with_a_fix(lines, answer, monkeypatch):
    monkeypatch.setattr("monitor.archive.upkeep.system_checks.CONNECTIONS_NEEDED", 10_000)

    [problem] = [problem for problem in answer()["problems"] if problem["id"] == "archive.W007"]

    assert problem["level"] == "warning"
    place = lines().index(f"warning archive.W007: {problem['message']}")
    assert lines()[place + 1] == f"    {problem['hint']}"


def test_each_table_has_its_rows_and_size():
    mesh = make_mesh()
    store(
        mesh.slac.pk,
        batch(*(delivered(mesh.slac_cern, burst(1.0, at=HOUR + timedelta(seconds=n)), n) for n in range(70))),
        NOW,
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE burst")

    sizes = {table.name: table for table in growth.table_sizes(NOW)}

    assert set(sizes) == BOUNDS.keys()
    assert sizes["burst"].row_estimate == 70
    assert sizes["burst"].total_bytes > 70 * 100


GROWN = [growth.TableGrowth("burst", 0, 0, 0, 10.0, 3e6), growth.TableGrowth("slot", 0, 0, 0, 1.0, 1e6)]


def test_growth_is_reported_by_table_over_the_last_week(answer, lines, monkeypatch):
    now = timezone.now()
    for days, size in ((9, 0), (6, 1_000_000), (1, 5_000_000)):
        TableSize.objects.create(
            name="burst", at=now - timedelta(days=days), row_estimate=size // 100, total_bytes=size
        )

    [burst] = [table for table in answer()["tables"] if table["name"] == "burst"]

    assert burst["bytes_per_day"] == pytest.approx((burst["total_bytes"] - 1_000_000) / 6, rel=0.01)
    assert burst["rows_per_day"] == pytest.approx((burst["row_estimate"] - 10_000) / 6, rel=0.01)
    [line] = [line for line in lines("--all") if line.startswith("burst ")]
    assert f"{burst['rows_per_day']:+,.0f}" in line


def test_sizes_of_all_tables_are_recorded(monkeypatch):
    assert growth.note_sizes(NOW) == len(BOUNDS)

    assert set(TableSize.objects.values_list("name", flat=True)) == BOUNDS.keys()
    before = {table.bytes_per_day for table in growth.table_sizes(NOW + timedelta(minutes=59))}
    after = {table.bytes_per_day for table in growth.table_sizes(NOW + timedelta(minutes=61))}
    assert before == {None}
    assert None not in after


@pytest.mark.parametrize(
    ("tables", "free_bytes", "per_day", "lasts_days"),
    [
        (GROWN, 8_000_000, 4e6, 2.0),
        (GROWN, 0, 4e6, 0.0),
        (GROWN, None, 4e6, None),
        ([growth.TableGrowth("burst", 0, 0, 0, -1.0, -5.0)], 8_000_000, -5.0, None),
        ([growth.TableGrowth("burst", 0, 0, 0, None, None)], 8_000_000, None, None),
    ],
    ids=["room", "full", "elsewhere", "shrinks", "unknown"],
)
def test_the_disk_lasts_for_its_free_space_at_this_growth(tables, free_bytes, per_day, lasts_days):
    space = None if free_bytes is None else Disk(total_bytes=10**9, free_bytes=free_bytes)

    assert growth.growth(tables, space) == growth.Growth(per_day, lasts_days)


def test_the_time_until_the_disk_is_full_is_reported(lines, answer, monkeypatch):
    assert any(line.startswith("growth unknown yet") for line in lines())

    growth.note_sizes(timezone.now() - timedelta(days=2))
    TableSize.objects.filter(name="burst").update(total_bytes=F("total_bytes") - 10_000_000)
    monkeypatch.setattr("monitor.archive.upkeep.status.disk", lambda of: Disk(total_bytes=10**12, free_bytes=10**10))
    growth_now = answer()["growth"]
    assert growth_now["disk_lasts_days"] == pytest.approx(10**10 / growth_now["bytes_per_day"])
    assert any(line.endswith(f"full in {growth_now['disk_lasts_days']:,.0f} days") for line in lines())

    monkeypatch.setattr("monitor.archive.upkeep.status.disk", lambda of: None)
    assert answer()["growth"]["disk_lasts_days"] is None
    assert any(line.endswith("time until disk full unknown") for line in lines())


def test_each_table_has_its_retention(lines, answer, settings):
    settings.RETENTION_DAYS = {**settings.RETENTION_DAYS, "incidents": 0}

    bounds = answer()["bounds"]
    of_table = {line.split()[0]: line for line in lines("--all") if line}

    assert bounds["slot"]["key"] == "slots"
    assert of_table["slot"].endswith(f"730 days: {bounds['slot']['text']}")
    assert of_table["incident"].endswith("kept forever (SOUNDINGS_RETENTION_INCIDENTS_DAYS=0)")
    assert of_table["site"].endswith(f"bounded by {bounds['site']['text']}")


def test_a_lost_database_is_reported_with_the_earlier_problem(monkeypatch, capsys):
    trouble.record_trouble(trouble.TroubleKind.DISK_FULL)

    def away(now):
        raise OperationalError("connection failed: no such host\nIs the server running?")

    monkeypatch.setattr("monitor.archive.management.commands.archive.status", away)

    with pytest.raises(CommandError) as error:
        call_command("archive", "status")

    assert lacks(str(error.value), "cannot be used: connection failed: no such host;", "start it with ") == []
    printed = capsys.readouterr().out
    assert lacks(printed, "nothing can be stored", "disk of the database is full", "last seen") == []
