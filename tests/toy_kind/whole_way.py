"""The toy kind end to end: mesh.toml, plan, agent with limits, spool, delivery over HTTP, ingest, row, completeness.

Run by tests/db/test_kinds.py in a separate process, with `-p tests.toy_kind.registered`.
"""

import time
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.utils import timezone

from monitor.archive.queries.operation.completeness import by_site_and_day
from monitor.archive.queries.operation.ledger import ledger_of_paths
from monitor.archive.queries.paths import newest_measurement_at
from monitor.archive.upkeep.chunks import planned_bytes
from monitor.archive.upkeep.retention import delete_old
from monitor.mesh.models import Path, Site
from probes.contract import Deadline, Outcome
from probes.site.doctor.run import check_kinds
from probes.site.doctor.site_setup import SiteSetup
from probes.site.limits.read import read_limits
from probes.site.metrics import families
from probes.site.status import read_status
from tests.mesh_agents import agent_of_site, apply_file
from tests.spools import count_queued
from tests.toy_kind.centre import LookupResult
from tests.toy_kind.kind import KIND

MESH = """
[mesh]
name = "toy"
[[site]]
name = "here"
latitude_deg = 0
longitude_deg = 0
country = "CH"
[[site.host]]
address = "127.0.0.1"
[[site]]
name = "near"
latitude_deg = 0
longitude_deg = 0
country = "CH"
agent = false
[[site.host]]
address = "127.0.0.2"
[[site]]
name = "far"
latitude_deg = 0
longitude_deg = 0
country = "CH"
agent = false
[[site.host]]
address = "127.0.0.3"
[[site]]
name = "off"
latitude_deg = 0
longitude_deg = 0
country = "CH"
agent = false
[[site.host]]
address = "127.0.0.4"
[[test]]
name = "names"
kind = "lookup"
every_s = 1
times = 3
[[group]]
name = "all"
shape = "between"
from = ["here"]
to = ["near", "far", "off"]
tests = ["names"]
"""
LIMITS = """
[networks]
allowed = ["127.0.0.0/24"]
forbidden = ["127.0.0.4/32"]
[lookup]
max_targets = 1
"""


@pytest.fixture
def table(transactional_db):
    with connection.schema_editor() as editor:
        editor.create_model(LookupResult)
    yield
    with connection.schema_editor() as editor:
        editor.delete_model(LookupResult)


def rows():
    with connection.cursor() as cursor:
        cursor.execute("SELECT path_id, outcome, lookup_ms, detail FROM lookup_result ORDER BY path_id")
        return cursor.fetchall()


def apply_mesh(tmp_path):
    apply_file(tmp_path, MESH)
    return timezone.now()


def make_agent(tmp_path, url):
    return agent_of_site(tmp_path, url, LIMITS)


def test_a_toy_kind_runs_from_mesh_toml_to_its_row(table, live_server, tmp_path):
    applied_at = apply_mesh(tmp_path)
    agent = make_agent(tmp_path, live_server.url)
    agent.begin()
    assert agent.puller.run()
    (task,) = agent.plans.current().of(KIND)
    assert (task.test, task.every_s, task.times, len(task.targets)) == ("names", 1, 3, 3)

    while datetime.now(UTC) < applied_at + timedelta(seconds=1.2):  # the first cycle that was planned completely
        time.sleep(0.05)
    agent.cycle(KIND, "names")
    assert count_queued(agent.spool) == 3
    agent.delivery.run()

    assert count_queued(agent.spool) == 0
    of = {path.destination.name: path.pk for path in Path.objects.in_use()}
    stored = {path_id: (outcome, lookup_ms, detail) for path_id, outcome, lookup_ms, detail in rows()}
    assert stored.keys() == set(of.values())
    assert stored[of["off"]] == (
        "not_permitted", None, "networks.forbidden: 127.0.0.4 is in 127.0.0.4/32"
    )  # fmt: skip
    by_outcome = sorted(stored[of[name]][0] for name in ("near", "far"))
    assert by_outcome == ["measured", "not_permitted"]
    (measured,) = (row for row in stored.values() if row[0] == "measured")
    assert 0 <= measured[1] < 10_000
    assert "lookup.max_targets: 1 allowed" in {row[2] for row in stored.values()}


def test_the_api_answers_with_the_results_of_a_toy_kind(table, tmp_path, client, settings):
    settings.LOCAL_READ = settings.ALLOW_PLAIN_HTTP = True
    now = apply_mesh(tmp_path)
    path_id = Path.objects.in_use().first().pk
    LookupResult.objects.create(
        path_id=path_id, measured_at=now - timedelta(hours=1), test="names", outcome="measured", lookup_ms=0.5
    )

    (answered,) = client.get(f"/api/v1/paths/{path_id}/lookup", headers={"host": "localhost"}).json()

    assert list(answered) == ["at", "test", "outcome", "lookup_ms", "detail"]
    assert (answered["test"], answered["lookup_ms"], answered["detail"]) == ("names", 0.5, None)


def test_the_archive_plans_and_deletes_rows_of_a_toy_kind(table, tmp_path, settings):
    now = apply_mesh(tmp_path)
    settings.RETENTION_DAYS = settings.RETENTION_DAYS | {"capacity": 30}
    assert planned_bytes() == {"lookup_result": 3 * 86_400 * (100 + 3)}
    assert newest_measurement_at() is None
    ages = [timedelta(days=days) for days in (40, 20, 1)]
    with connection.cursor() as cursor:
        for age in ages:
            cursor.execute(
                "INSERT INTO lookup_result (path_id, measured_at, test, outcome) VALUES (1, %s, 'names', 'measured')",
                [now - age],
            )

    assert newest_measurement_at() == now - ages[-1]
    assert delete_old(now, Deadline(60))["lookup_result"] == 1
    assert len(rows()) == 2


def test_the_doctor_and_the_metrics_show_a_toy_kind(table, live_server, tmp_path):
    apply_mesh(tmp_path)
    agent = make_agent(tmp_path, live_server.url)
    agent.begin()
    agent.puller.run()
    status = read_status(tmp_path, datetime.now(UTC))
    site = SiteSetup(
        data=tmp_path,
        token_file=tmp_path / "token",
        limits_file=None,
        limits=read_limits(tmp_path / "limits.toml"),
        centre=None,
        answer=None,
        cached_plan=status.plan,
    )

    assert "3 addresses to look up" in [result.detail for result in check_kinds(site)]
    assert "1 lookup test with 3 targets" in status.plan.contents
    (targets,) = (family for family in families(status) if family.name == "soundings_site_plan_targets")
    assert [sample.value for sample in targets.samples] == [3]


def test_completeness_counts_the_cycles_of_a_toy_kind(table, live_server, tmp_path):
    applied_at = apply_mesh(tmp_path)
    agent = make_agent(tmp_path, live_server.url)
    agent.begin()
    agent.puller.run()
    while datetime.now(UTC) < applied_at + timedelta(seconds=1.2):
        time.sleep(0.05)
    agent.cycle(KIND, "names")
    agent.delivery.run()

    site = Site.objects.get(name="here")
    until = datetime.now(UTC)
    path_ids = [path.pk for path in Path.objects.in_use()]
    lines = ledger_of_paths(path_ids, applied_at - timedelta(seconds=1), until)
    counted = {line.outcome: 0 for line in lines}
    for line in lines:
        assert line.test == "names"
        counted[line.outcome] += line.count
    assert (counted[Outcome.MEASURED], counted[Outcome.NOT_PERMITTED]) == (1, 2)
    assert sum(counted.values()) % 3 == 0, "each of three paths has the same number of planned cycles"
    (day,) = by_site_and_day(until.date(), until.date() + timedelta(days=1))
    assert (day.site_id, day.delivered, day.missing) == (site.pk, 3, 0)
