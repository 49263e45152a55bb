"""The sites page: each agent with its state, in words and by sign, its figures, and clock errors."""

import json
import os
import re
import stat
from datetime import timedelta

import msgspec
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from monitor.accounts.models import token_digest
from monitor.agents.health import record
from monitor.agents.models import AgentToken, issue_token
from monitor.archive.models import AgentGap
from monitor.mesh.models import Site, Test
from probes.site.health import ClockOff, Dropped, Health, InterfaceDrops, KernelClock
from tests.db.mesh_of_three import batch
from tests.db.pages_mesh import NOW
from tests.deliveries import arrival_of
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon", "paths")]
SITES_QUERIES = 14
WELL = Health(
    clock_offset_s=-0.0042,
    clock_uncertainty_s=0.001,
    kernel_clock=KernelClock(
        state="ok", is_synchronised=True, offset_s=0, frequency_ppm=0, max_error_s=0.01, estimated_error_s=0
    ),
    load_1min=0.5,
    cpus=4,
    stamp="kernel",
    drops=(InterfaceDrops(interface="eth0", received=12, sent=0),),
)


def deliver(name, health, ago=timedelta(seconds=7), **fields):
    site = Site.objects.get(name=name)
    record(site.pk, arrival_of(batch(health=health, **{"agent_version": "99.0", **fields})), NOW - ago)


@pytest.fixture
def page(client):
    def get():
        answer = client.get("/sites/", headers={"host": "localhost"})
        assert answer.status_code == 200, answer.content
        return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", answer.content.decode()))

    return get


def card(text, name, following):
    return text[text.index(f" {name} {name.upper()} ") : text.index(following)]


def test_the_figures_of_a_silent_agent_have_their_time(page):
    deliver("slac", msgspec.structs.replace(WELL, load_1min=9.9), ago=timedelta(minutes=4))

    site_card = card(page(), "slac", "Clock errors")

    assert lacks(site_card, "load 9.9 on 4 CPUs (above 2 per CPU) at its last report, 4 min ago") == []
    assert lacks(site_card, "As of the last report, 4 min ago:", "load 9.90 on 4 CPUs") == []


def test_an_agent_whose_next_report_is_overdue_is_not_ok(page):
    """Its most frequent test is every 10 s: three cycles and the delivery are 45 s."""
    Test.objects.update(every_s=10)
    deliver("slac", WELL, ago=timedelta(seconds=90))

    site_card = card(page(), "slac", "Clock errors")

    assert "its next report is overdue, the last was 90 s ago" in site_card
    assert "✓&nbsp; OK" not in site_card


def test_a_healthy_site_shows_its_figures(page):
    deliver("slac", WELL, queued=3)

    site_card = card(page(), "slac", "Clock errors")

    assert "✓&nbsp; OK" in site_card
    for figure in (
        "last report 7 s ago",
        "backlog 3",
        "dropped (total) 0",
        "version 99.0",
        "clock 0.004 s behind",
        "load 0.50 on 4 CPUs",
        "timestamps kernel",
        "not running (24 h) none",
        "missed cycles since it started 0",
        "quarantined 0",
        "NIC drops eth0: 12 in, 0 out",
    ):
        assert figure in site_card


def test_the_time_in_which_no_agent_ran_a_cycle_is_shown(page):
    """Frozen for eight minutes and restarted: its own count begins with the start."""
    deliver("slac", WELL)
    gap = {"site": Site.objects.get(name="slac"), "reason": "agent_offline"}
    AgentGap.objects.create(since=NOW - timedelta(minutes=10), until=NOW - timedelta(minutes=2), **gap)
    AgentGap.objects.create(since=NOW - timedelta(hours=25), until=NOW - timedelta(minutes=24 * 60 - 1), **gap)
    AgentGap.objects.create(
        since=NOW - timedelta(minutes=10), until=NOW, test="pinger", every_s=60, **(gap | {"reason": "late"})
    )

    site_card = card(page(), "slac", "Clock errors")

    assert lacks(site_card, "not running (24 h) 9 min", "missed cycles since it started 0") == []


def test_problems_are_shown_and_the_worst_site_is_first(page):
    deliver("slac", WELL, ago=timedelta(minutes=12))
    bad = Health(
        clock_offset_s=3600.0,
        clock_uncertainty_s=0.01,
        stamp="user",
        lost_ticks=2,
        set_aside=4,
        dropped=(Dropped(kind="ping", reason="disk_full", count=1200),),
    )
    deliver("cern", bad, agent_version="0.0.1", queued=5000)

    text = page()

    assert text.index(" slac SLAC ") < text.index(" cern CERN ") < text.index(" uct UCT ")
    assert lacks(card(text, "slac", " cern CERN "), "▲&nbsp; late", "no report", " 12 min") == []
    site_card = card(text, "cern", " uct UCT ")
    assert lacks(site_card, "▲&nbsp; in trouble", "clock is 60 min ahead", "kept and flagged") == []
    for finding in (
        ["backlog of 5,000 results"],
        ["version 0.0.1", "older than the centre"],
        ["dropped 1,200 results", "ping: disk full"],
        ["4 results quarantined"],
        ["2 missed cycles"],
        ["timestamps of the program"],
    ):
        assert lacks(site_card, *finding) == []
    assert "1 ▲ late 1 ▲ in trouble 1 ○ never reported" in text


def test_a_silent_site_with_a_token_need_not_enrol(page):
    assert "site enrol uct" in page()

    issue_token(Site.objects.get(name="uct").pk, NOW)

    assert "site enrol uct" not in page()
    assert "check that its agent runs" in page()


def test_a_second_agent_is_shown_with_its_address_and_a_fix(page):
    deliver("slac", WELL)
    site = Site.objects.get(name="slac")
    token = issue_token(site.pk, NOW)
    AgentToken.objects.filter(digest=token_digest(token)).update(
        refused_at=NOW - timedelta(seconds=9), refused_from="192.0.2.77"
    )

    site_card = card(page(), "slac", "Clock errors")

    assert (
        lacks(site_card, "▲&nbsp; in trouble", "second agent at 192.0.2.77", "token", "refused", "last 9 s ago") == []
    )
    assert lacks(site_card, "last 9 s ago", "stop one of the two", "manage.py site rotate slac") == []


def test_an_unsynchronised_clock_is_a_problem_once_it_drifts(page):
    def unsynchronised(offset_s):
        clock = KernelClock(
            state="error", is_synchronised=False, offset_s=0, frequency_ppm=0, max_error_s=16, estimated_error_s=16
        )
        return Health(clock_offset_s=offset_s, clock_uncertainty_s=0.001, kernel_clock=clock)

    deliver("slac", unsynchronised(-0.01))
    deliver("cern", unsynchronised(0.3))

    text = page()

    assert "clock 0.010 s behind, no NTP" in card(text, "slac", "Clock errors")
    assert lacks(text, "●&nbsp; needs attention", "clock is 0.300 s ahead", "not synchronised by NTP") == []
    assert "✓&nbsp; OK" in card(text, "slac", "Clock errors")


def test_a_site_that_never_delivered_shows_how_to_join(page):
    assert "manage.py site enrol slac" in page()


def test_an_agent_without_health_has_no_invented_figures(page):
    deliver("slac", None)

    site_card = card(page(), "slac", "Clock errors")

    assert "last report 7 s ago" in site_card
    assert "clock" not in site_card
    assert "load" not in site_card


def test_periods_with_a_wrong_clock_are_listed_newest_first(page):
    for days, offset_s in ((2, -5.0), (1, 7200.0)):
        since = NOW - timedelta(days=days)
        deliver("uct", Health(clock_off=ClockOff(since=since, until=since + timedelta(hours=1), offset_s=offset_s)))

    table = page().split("Clock errors")[1]

    assert re.findall(r"[0-9.]+ (?:s|h|min) (?:ahead|behind)", table) == ["2 h ahead", "5.000 s behind"]


def test_the_page_has_a_fixed_query_count_for_any_sites(page, django_assert_num_queries):
    for name in ("slac", "cern", "uct"):
        deliver(name, WELL)

    with django_assert_num_queries(SITES_QUERIES):
        page()


def listed(capsys, *options):
    call_command("site", "list", *options)
    return capsys.readouterr().out


def test_the_terminal_lists_sites_as_the_page_does(page, capsys):
    deliver("slac", WELL, queued=3)
    deliver("cern", WELL, ago=timedelta(hours=1), agent_version="0.0.9")

    rows = {row["site"]: row for row in json.loads(listed(capsys, "--json"))}

    assert {name: row["state"] for name, row in rows.items()} == {"cern": "late", "slac": "OK", "uct": "never reported"}
    assert (rows["slac"]["last_report_ago_s"], rows["slac"]["version"], rows["slac"]["backlog"]) == (7.0, "99.0", 3)
    assert rows["slac"]["last_report_at"] == "2026-11-21T12:29:53Z"
    assert (rows["uct"]["last_report_at"], rows["uct"]["version"]) == (None, None)


@pytest.mark.parametrize("kind", ["device", "fifo", "folder", "link to a device"])
def test_a_token_is_written_to_regular_files_only(tmp_path, kind):
    name = tmp_path / "token"
    if kind == "device":
        try:
            os.mknod(name, stat.S_IFCHR | 0o600, os.makedev(1, 3))
        except PermissionError:
            pytest.skip("needs root to make a device")
    elif kind == "fifo":
        os.mkfifo(name)
    elif kind == "folder":
        name.mkdir()
    else:
        name.symlink_to("/dev/null")
    before = name.lstat()

    with pytest.raises(CommandError, match="not a regular file"):
        call_command("site", "token", "slac", "--out", str(name))

    assert (name.lstat().st_mode, name.lstat().st_ino) == (before.st_mode, before.st_ino)
    assert not AgentToken.objects.exists()


def test_the_list_of_sites_is_a_table_worst_first(page, capsys):
    Site.objects.filter(name="uct").update(has_agent=False)
    deliver("slac", WELL)
    deliver("cern", WELL, ago=timedelta(hours=1))

    lines = listed(capsys).splitlines()

    assert lacks(lines[0], "site", "state", "last report", "version") == []
    assert [line.split()[0] for line in lines[1:]] == ["cern", "slac", "uct"]
    assert lacks(lines[1], "late", "60 min ago", "99.0", "no report for") == []
    assert lacks(lines[2], "OK", "7 s ago") == []
    assert "no agent" in lines[3]
