"""A file from the disk of a real agent to that of another: planned and stored by a real centre, shown on its page."""

from __future__ import annotations

import html
import json
import urllib.request
from contextlib import ExitStack

import pytest
from django.utils import timezone

from monitor.agents.models import issue_token
from monitor.analysis.transfer import DiskToDisk, network_or_disk
from monitor.archive.models import DiskToDiskTest
from monitor.mesh.apply import apply
from monitor.mesh.document.reader import read
from monitor.mesh.models import Site, Slot
from monitor.mesh.schedule import slots
from tests.e2e.centre import free_port, web_server
from tests.e2e.stack import wait_for
from tests.e2e.test_site_agent import Agent

pytestmark = pytest.mark.django_db(transaction=True)
ADDRESSES = {"bern": "127.77.1.1", "rome": "127.77.2.1"}
FILE_BYTES = 2_000_000
SITE = """
[[site]]
name = "{name}"
title = "{name}"
latitude_deg = 0.0
longitude_deg = 0.0
country = "CH"
region = "Europe"
[[site.host]]
address = "{address}"
"""
TESTS = """
[mesh]
name = "two disks"
home = "bern"
{sites}
[[test]]
name = "files"
kind = "disk-to-disk"
every_s = 60
file_bytes = {file_bytes}
duration_s = 1
streams = 2
port = {port}
[[group]]
name = "all"
shape = "mesh"
sites = ["bern", "rome"]
tests = ["files"]
"""
LIMITS = """
[networks]
allowed = ["127.77.0.0/16"]
[disk]
folder = "{folder}"
min_free_bytes = 0
"""


@pytest.fixture
def planned(tmp_path):
    """Files in both directions between two sites, once a minute."""
    mesh = tmp_path / "mesh.toml"
    sites = "".join(SITE.format(name=name, address=address) for name, address in ADDRESSES.items())
    mesh.write_text(TESTS.format(sites=sites, file_bytes=FILE_BYTES, port=free_port()))
    apply(read(mesh), timezone.now())
    slots.plan_slots(timezone.now())


@pytest.fixture
def centre(tmp_path, planned):
    with web_server(tmp_path, SOUNDINGS_LOCAL_READ="1", SOUNDINGS_ALLOW_PLAIN_HTTP="1") as port:
        yield port


@pytest.fixture
def agents(tmp_path, centre):
    """Of both sites, each with a folder for its files."""
    with ExitStack() as running:
        started = {}
        for site in Site.objects.all():
            home = tmp_path / site.name
            files = home / "files"
            files.mkdir(parents=True)
            token, limits = home / "its-token", home / "its-limits.toml"
            token.write_text(issue_token(site.pk, timezone.now()))
            token.chmod(0o600)
            limits.write_text(LIMITS.format(folder=files))
            agent = Agent(home / "data", centre, "--token-file", str(token), "--limits", str(limits))
            running.callback(agent.stop)
            started[site.name] = agent
        yield started


def got(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=30) as answer:
        return answer.read().decode()


def test_a_file_is_sent_from_an_agents_disk_to_anothers(centre, agents, tmp_path):
    """In whichever direction is first."""
    row = wait_for(lambda: DiskToDiskTest.objects.order_by("measured_at").first(), 150, "an agent delivers")

    assert (row.outcome, row.detail) == ("measured", None), [agent.log() for agent in agents.values()]
    assert (row.test, row.tool, row.streams) == ("files", "fetch", 2)
    assert (row.moved_bytes, row.file_bytes, row.is_verified) == (FILE_BYTES, FILE_BYTES, True)
    assert row.disk_to_disk_bps == pytest.approx(8 * FILE_BYTES / (row.moving_s + row.syncing_s))
    slot = Slot.objects.get(pk=row.slot_id)
    assert (slot.measurement.path_id, slot.outcome) == (row.path_id, "measured")
    assert slot.starts_at <= row.measured_at < slot.ends_at
    names = ("disk_to_disk_bps", "memory_to_memory_bps", "read_bps", "write_bps", "read_cached_ratio")
    memory_s = 8 * (slot.carried_bytes - row.moved_bytes) / row.memory_to_memory_bps
    file_s = row.moving_s + row.syncing_s
    verdict = network_or_disk(
        DiskToDisk(**{name: getattr(row, name) for name in names}, file_s=file_s, memory_s=memory_s)
    )
    assert (row.verdict, row.sentence) == (verdict.limit, verdict.sentence)
    assert verdict.sentence in html.unescape(got(centre, f"paths/{row.path_id}/?period=day"))
    result = json.loads(got(centre, f"api/v1/paths/{row.path_id}/disk-to-disk"))[0]
    assert (result["disk_to_disk_bps"], result["sentence"]) == (row.disk_to_disk_bps, row.sentence)
    assert [*tmp_path.glob("*/files/*")] == [], "files were left"
