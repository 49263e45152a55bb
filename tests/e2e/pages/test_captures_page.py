"""Packets of a throughput test on the path page, and the page of a file that is brought, on every screen."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta

import msgspec
import pytest
from django.utils import timezone

from monitor.analysis.packets import connections_of, lost_between, read_capture
from monitor.archive.diagnosis.capture_findings import findings_of
from monitor.archive.models import StoredCapture
from tests.captures import pcap_of
from tests.db.incident_rows import watched
from tests.db.pages_mesh import burst, throughput
from tests.e2e.pages.screens import SCREENS, logged_in, shot
from tests.e2e.pages.test_every_page_fits import CUT_OFF
from tests.e2e.visits import DRAWN, too_wide, wrong_for_readers
from tests.unit.analysis.test_capture_parts import Transfer, partly

pytestmark = pytest.mark.django_db(transaction=True)
SLOT = 7


@pytest.fixture
def test_of_path():
    """The path, and the time of a test whose ends have captured."""
    path, at = watched()["slac → cern"], timezone.now().replace(microsecond=0) - timedelta(minutes=10)
    burst(path, at, 20.0, 21.0)
    throughput(path, at, 9.4e6, slot_id=SLOT)
    ends = [list(connections_of(read_capture(pcap_of(f"lossy-{role}")))) for role in ("sender", "receiver")]
    losses = msgspec.to_builtins(lost_between(*ends))
    for role, connections in zip(("sender", "receiver"), ends, strict=True):
        StoredCapture.objects.create(
            slot_id=SLOT, role=role, path_id=path.pk, captured_at=at, packets=900, left_out_packets=0,
            pcap_zlib=b"x", findings=msgspec.to_builtins(findings_of(connections)),
            losses=losses if role == "sender" else None,
        )  # fmt: skip
    return path, at


def test_the_packets_of_a_test_are_plotted_on_every_screen(browser, served, test_of_path):
    path, at = test_of_path
    told = at.isoformat().replace("+", "%2B")
    for screen in SCREENS:
        page = logged_in(browser, served, f"/paths/{path.pk}/?period=hour&tab=tests&test={told}", screen)
        page.wait_for_function(DRAWN)
        page.get_by_role("img", name="Bytes received").scroll_into_view_if_needed()
        page.wait_for_function("() => document.querySelectorAll('.time-sequence canvas').length === 2")
        shot(page, f"path-captures-{screen}")

        assert "Lost from slac to cern: about 289 packets" in page.locator("#captured-losses").inner_text(), screen
        assert page.get_by_role("link", name="pcap").count() == 2, screen
        assert too_wide(page) == [], screen
        assert wrong_for_readers(page) == [], screen
        assert page.said == [], screen


def test_a_capture_with_gaps_fits_every_screen(browser, served):
    path, at = watched()["slac → cern"], timezone.now().replace(microsecond=0) - timedelta(minutes=10)
    burst(path, at, 20.0, 21.0)
    throughput(path, at, 9.4e8, slot_id=SLOT)
    transfer = Transfer(0.002, 0.0)
    ends = {"sender": partly(transfer.near, 2000), "receiver": partly(transfer.far, 2000)}
    for role, (connection, parts) in ends.items():
        StoredCapture.objects.create(
            slot_id=SLOT, role=role, path_id=path.pk, captured_at=at, packets=9000, left_out_packets=31_234,
            pcap_zlib=b"x", parts=[asdict(part) for part in parts],
            findings=msgspec.to_builtins(findings_of([connection], parts)),
        )  # fmt: skip
    told = at.isoformat().replace("+", "%2B")
    for screen in SCREENS:
        page = logged_in(browser, served, f"/paths/{path.pk}/?period=hour&tab=tests&test={told}", screen)
        page.wait_for_function(DRAWN)
        page.get_by_role("img", name="Bytes received").scroll_into_view_if_needed()
        page.wait_for_function("() => document.querySelectorAll('.time-sequence canvas').length === 2")
        shot(page, f"path-captures-gaps-{screen}")

        assert "31,234 more were not kept" in page.locator(".capture-ends").inner_text(), screen
        assert page.evaluate(CUT_OFF) == [], screen
        assert too_wide(page) == [], screen
        assert wrong_for_readers(page) == [], screen
        assert page.said == [], screen


def test_a_file_is_evaluated_on_every_screen(browser, served, tmp_path, test_of_path):
    (tmp_path / "it.pcap").write_bytes(pcap_of("stalled-sender"))
    for screen in SCREENS:
        page = logged_in(browser, served, "/captures/", screen)
        page.locator("#file").set_input_files(tmp_path / "it.pcap")
        page.get_by_role("button", name="Evaluate").click()
        page.wait_for_selector(".time-sequence canvas")
        shot(page, f"captures-{screen}")

        assert "250,000 bytes" in page.locator("#main").inner_text(), screen
        assert too_wide(page) == [], screen
        assert wrong_for_readers(page) == [], screen
        assert page.said == [], screen
