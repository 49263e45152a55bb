"""Every page says what is happening while there is nothing to show: without a mesh, with one just applied whose agents
never delivered, and with agents that do; and says no more of it once there are results."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape

import pytest

from monitor.agents.models import issue_token
from monitor.archive.models import ReceivedBatch
from monitor.mesh.models import Measurement, Mesh, Path, Site, Slot
from tests.db.pages_mesh import HOUR, MINUTE, NOW, burst, hour, throughput
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]

PAGES = ("/", "/map/", "/incidents/", "/table/", "/compare/", "/sites/", "/completeness/")
TEST_PAGES = ("/throughput/", "/records/")


@pytest.fixture
def text(client):
    """What a page says to its reader."""

    def fetch(address):
        answer = client.get(address, headers={"host": "localhost"})
        assert answer.status_code == 200, answer.content
        body = re.sub(r"<(script|style)\b.*?</\1>", "", answer.content.decode(), flags=re.DOTALL)
        return " ".join(unescape(re.sub(r"<[^>]+>", " ", body)).split())

    return fetch


def heard(site, at):
    ReceivedBatch.objects.create(
        site=site,
        spool="a",
        number=1,
        received_at=at,
        sent_at=at,
        agent_version="1",
        accepted=0,
        refused=0,
        queued=0,
        dropped=0,
    )


@pytest.mark.parametrize("address", [*PAGES, *TEST_PAGES])
def test_without_a_mesh_a_page_says_what_to_do(text, address):
    assert "manage.py mesh apply mesh.toml" in text(address)


@pytest.mark.parametrize("address", [*PAGES, "/sites/slac/"])
def test_after_applying_a_mesh_a_page_says_when_results_are_due(text, paths, address):
    Mesh.objects.update(applied_at=NOW - timedelta(seconds=30))

    said = text(address)

    assert lacks(said, "No report", "cern, slac, uct") == []
    assert "manage.py site enrol NAME" in said
    # As on the grid: 21 s of packets, 3 s of waiting, 20 s of delivery and roll-up from 12:30:00 on.
    assert lacks(said, "first result is due", "12:30:44 UTC", "in 44 s") == []


def test_an_agent_with_a_token_is_not_to_be_enrolled_again(text, paths):
    for site in Site.objects.all():
        issue_token(site.pk, NOW)

    said = text("/")

    assert lacks(said, "No report", "cern, slac, uct") == []
    assert "site enrol" not in said
    assert "python -m probes site status" in said


def test_only_sites_without_a_token_are_to_be_enrolled(text, paths):
    issue_token(Site.objects.get(name="slac").pk, NOW)

    said = text("/")

    assert "enrols an agent (cern, uct)" in said
    assert "slac has a token" in said


@pytest.mark.parametrize("address", [*PAGES, "/sites/slac/"])
def test_once_there_are_results_a_page_says_no_more_of_it(text, paths, address):
    burst(paths["slac", "cern"], HOUR, 10.0)
    hour(paths["slac", "cern"], 10, 10, 10.0)

    said = text(address)

    assert "due at" not in said
    assert "No report" not in said


@pytest.mark.parametrize("address", TEST_PAGES)
class TestOfThroughput:
    def test_a_mesh_without_such_a_test_is_told(self, text, paths, address):
        Measurement.objects.filter(test__kind="throughput").update(retired_at=NOW)

        assert lacks(text(address), "kind throughput", "mesh.toml") == []

    def test_what_has_no_time_yet_is_told(self, text, paths, address):
        for site in Site.objects.all():
            heard(site, NOW)

        said = text(address)

        assert "Not scheduled yet" in said
        assert "No report yet" not in said

    def test_the_next_one_is_told(self, text, paths, address):
        row = Measurement.objects.get(path=paths["slac", "cern"], test__kind="throughput")
        for minutes in (-30, 10, 70):
            at = NOW + minutes * MINUTE
            Slot.objects.create(measurement=row, starts_at=at, ends_at=at + MINUTE)

        said = text(address)

        assert lacks(said, "No report", "cern, slac, uct") == []
        assert lacks(said, "next", "slac → cern", "12:40:00 UTC", "in 10 min.") == []

    def test_one_that_was_measured_is_shown_instead(self, text, paths, address):
        throughput(paths["slac", "cern"], HOUR, 94e6)

        said = text(address)

        assert "94 Mbit/s" in said
        assert "Not scheduled yet" not in said


class TestOfAPath:
    @pytest.fixture
    def said(self, text, paths):
        return lambda query="": text(f"/paths/{paths['slac', 'cern'].pk}/{query}")

    def test_the_first_result_is_due(self, said):
        Measurement.objects.update(started_at=NOW - timedelta(seconds=30))

        words = said()

        assert "No report yet from: slac." in words
        assert lacks(words, "first result is due", "12:30:44 UTC", "in 44 s") == []

    def test_an_agent_that_delivers_without_it_is_named(self, said):
        Measurement.objects.update(started_at=NOW - timedelta(days=3))
        heard(Site.objects.get(name="slac"), NOW - MINUTE)

        words = said("?period=hour")

        assert lacks(words, "agent of slac", "delivered 60 s ago", "due since 2026-11-21 11:30 UTC") == []

    def test_a_size_that_no_test_sends_is_not_said_to_be_due(self, said):
        Measurement.objects.update(started_at=NOW - timedelta(days=3))
        heard(Site.objects.get(name="slac"), NOW - MINUTE)

        words = said("?period=hour&size=56")

        assert lacks(words, "mesh.toml", " 100 and 1000 bytes", "not of 56") == []
        assert "due since" not in words

    def test_a_retired_path_is_said_to_be_one(self, said):
        Path.objects.update(retired_at=HOUR)

        assert lacks(said(), "retired since 2026-11-21 12:00 UTC", "nothing measures") == []

    def test_a_path_without_pings_is_told(self, said):
        Measurement.objects.filter(test__name="pinger").update(retired_at=HOUR)

        assert lacks(said(), "No ping test", "mesh.toml") == []

    def test_of_a_time_that_is_over_only_the_gap_is_told(self, said):
        words = said("?since=2026-11-20T00:00&until=2026-11-20T01:00")

        assert re.search(r"No data [^.]*2026-11-20 00:00 to 01:00 UTC", words)
        assert "due" not in words
