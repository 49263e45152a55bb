"""Every page explains missing data: without a mesh, with a newly applied mesh whose agents never delivered, and with
agents that deliver; the explanation disappears with the first results."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape

import pytest

from monitor.agents.models import issue_token
from monitor.mesh.kinds.stamp import StampEntry
from monitor.mesh.kinds.tcp_ping import TcpPingEntry
from monitor.mesh.models import Measurement, Mesh, Path, Site, Slot
from monitor.mesh.models import Test as MeshTest
from tests.db.batch_rows import store_batch
from tests.db.pages_mesh import HOUR, MINUTE, NOW, burst, hour, throughput
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]

PAGES = ("/", "/map/", "/incidents/", "/table/", "/compare/", "/sites/", "/completeness/")
TEST_PAGES = ("/throughput/", "/records/")


@pytest.fixture
def text(client):
    """The visible text of a page."""

    def fetch(address):
        answer = client.get(address, headers={"host": "localhost"})
        assert answer.status_code == 200, answer.content
        body = re.sub(r"<(script|style)\b.*?</\1>", "", answer.content.decode(), flags=re.DOTALL)
        return " ".join(unescape(re.sub(r"<[^>]+>", " ", body)).split())

    return fetch


@pytest.mark.parametrize("address", [*PAGES, *TEST_PAGES])
def test_without_a_mesh_a_page_gives_instructions(text, address):
    assert "manage.py mesh apply mesh.toml" in text(address)


@pytest.mark.parametrize(
    "entry", [StampEntry(name="oneway", every_s=60), TcpPingEntry(name="https", every_s=60, port=443)]
)
@pytest.mark.parametrize("is_beside_pings", [True, False])
def test_before_the_first_result_of_other_packets_pages_say_when_it_is_due(text, paths, entry, is_beside_pings):
    """Ten packets 1 s apart, with a timeout, end within 20 s of the minute."""
    path = paths["slac", "cern"]
    test = MeshTest.objects.create(name=entry.name, kind=entry.kind, every_s=60, parameters=entry.parameters)
    if not is_beside_pings:
        Measurement.objects.all().delete()
    Measurement.objects.create(path=path, test=test, started_at=NOW)
    Mesh.objects.update(applied_at=NOW)

    for address in ("/", f"/paths/{path.pk}/"):
        assert re.search(r"first result is due at 12:30:[34]\d UTC", text(address)), address


@pytest.mark.parametrize("address", [*PAGES, "/sites/slac/"])
def test_after_applying_a_mesh_a_page_says_when_results_are_due(text, paths, address):
    Mesh.objects.update(applied_at=NOW - timedelta(seconds=30))

    page_text = text(address)

    assert lacks(page_text, "No report", "cern, slac, uct") == []
    assert "manage.py site enrol NAME" in page_text
    # As on the grid: 21 s of packets, 3 s of waiting, 20 s of delivery and roll-up from 12:30:00 on.
    assert lacks(page_text, "first result is due", "12:30:44 UTC", "in 44 s") == []


@pytest.mark.parametrize(("late_s", "is_fault"), [(25, False), (90, True)])
def test_a_result_that_is_a_little_late_is_no_fault(text, paths, late_s, is_fault):
    """All cycles are planned to be on the page 44 s after the minute."""
    Mesh.objects.update(applied_at=NOW - MINUTE - timedelta(seconds=14 + late_s))

    page_text = text("/")

    assert ("Look at the logs" in page_text) == is_fault, page_text


def test_an_agent_with_a_token_need_not_be_enrolled_again(text, paths):
    for site in Site.objects.all():
        issue_token(site.pk, NOW)

    page_text = text("/")

    assert lacks(page_text, "No report", "cern, slac, uct") == []
    assert "site enrol" not in page_text
    assert "python -m probes site status" in page_text


def test_only_sites_without_a_token_need_enrolment(text, paths):
    issue_token(Site.objects.get(name="slac").pk, NOW)

    page_text = text("/")

    assert "enrols an agent (cern, uct)" in page_text
    assert "slac has a token" in page_text


@pytest.mark.parametrize("address", [*PAGES, "/sites/slac/"])
def test_with_results_the_explanation_disappears(text, paths, address):
    burst(paths["slac", "cern"], HOUR, 10.0)
    hour(paths["slac", "cern"], 10, 10, 10.0)

    page_text = text(address)

    assert "due at" not in page_text
    assert "No report" not in page_text


@pytest.mark.parametrize("address", TEST_PAGES)
class TestOfThroughput:
    def test_a_mesh_without_throughput_tests_says_so(self, text, paths, address):
        Measurement.objects.filter(test__kind="throughput").update(retired_at=NOW)

        assert lacks(text(address), "kind throughput", "mesh.toml") == []

    def test_a_test_without_a_slot_yet_is_reported(self, text, paths, address):
        for site in Site.objects.all():
            store_batch(site, NOW)

        page_text = text(address)

        assert "Not scheduled yet" in page_text
        assert "No report yet" not in page_text

    def test_the_next_test_is_announced(self, text, paths, address):
        row = Measurement.objects.get(path=paths["slac", "cern"], test__kind="throughput")
        for minutes in (-30, 10, 70):
            at = NOW + minutes * MINUTE
            Slot.objects.create(measurement=row, starts_at=at, ends_at=at + MINUTE)

        page_text = text(address)

        assert lacks(page_text, "No report", "cern, slac, uct") == []
        assert lacks(page_text, "next", "slac → cern", "12:40:00 UTC", "in 10 min.") == []

    def test_a_measured_test_replaces_the_announcement(self, text, paths, address):
        throughput(paths["slac", "cern"], HOUR, 94e6)

        page_text = text(address)

        assert "94 Mbit/s" in page_text
        assert "Not scheduled yet" not in page_text


class TestOfAPath:
    @pytest.fixture
    def page_text(self, text, paths):
        return lambda query="": text(f"/paths/{paths['slac', 'cern'].pk}/{query}")

    def test_the_first_result_is_due(self, page_text):
        Measurement.objects.update(started_at=NOW - timedelta(seconds=30))

        words = page_text()

        assert "No report yet from: slac." in words
        assert lacks(words, "first result is due", "12:30:44 UTC", "in 44 s") == []

    def test_an_agent_that_delivers_no_such_result_is_named(self, page_text):
        Measurement.objects.update(started_at=NOW - timedelta(days=3))
        store_batch(Site.objects.get(name="slac"), NOW - MINUTE)

        words = page_text("?period=hour")

        assert lacks(words, "agent of slac", "delivered 60 s ago", "due since 2026-11-21 11:30 UTC") == []

    def test_a_size_without_tests_is_not_announced(self, page_text):
        Measurement.objects.update(started_at=NOW - timedelta(days=3))
        store_batch(Site.objects.get(name="slac"), NOW - MINUTE)

        words = page_text("?period=hour&size=56")

        assert lacks(words, "mesh.toml", " 100 and 1000 bytes", "not of 56") == []
        assert "due since" not in words

    def test_a_retired_path_is_called_retired(self, page_text):
        Path.objects.update(retired_at=HOUR)

        assert lacks(page_text(), "retired since 2026-11-21 12:00 UTC", "nothing measures") == []

    def test_a_path_without_pings_says_so(self, page_text):
        Measurement.objects.filter(test__name="pinger").update(retired_at=HOUR)

        assert lacks(page_text(), "No ping", "mesh.toml") == []

    def test_a_past_period_shows_only_the_gap(self, page_text):
        words = page_text("?since=2026-11-20T00:00&until=2026-11-20T01:00")

        assert re.search(r"No data [^.]*2026-11-20 00:00 to 01:00 UTC", words)
        assert "due" not in words
