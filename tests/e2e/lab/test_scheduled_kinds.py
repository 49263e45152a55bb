"""Policer, request-response and aggregate tests from mesh.toml, and an aggregate test on demand, through the whole
stack: agents measure the lab's planted rates and delays, and API and pages have the figures.

The expectations come from the scenario: 20 ms and 20 Mbit/s between bern and rome, 10 Mbit/s from oslo to rome, and a
policer from rome to bern that the test plants.
"""

from __future__ import annotations

import json
import re
import urllib.request
from datetime import UTC, datetime

import pytest

from tests.e2e import faults
from tests.e2e.stack import RunningStack, wait_for

SINCE = "since=2026-01-01T00:00:00Z"
AWAITED_S = 600
"""For a test of each kind; those that a busy machine disturbed are repeated after their period."""

RTT_MS = 20.0
LINK_BPS = 20e6
SLOWEST_BPS = 10e6
POLICER_MBPS, POLICER_BYTES = 4.0, 100_000
REQUEST_BYTES, RESPONSE_BYTES = 100, 8_000
"""A response of six segments, within the initial window: each takes a single round trip."""
SEGMENT_BYTES, HEADER_BYTES = 1448, 52
OFFERED_BPS = 12e6
"""Of each member of the aggregate test: less than the link of bern carries, more than that of oslo."""
DATAGRAM_BYTES, IP_UDP_BYTES = 1400, 28

TESTS = f"""
[[test]]
name = "limits"
kind = "policer"
every_s = 60
peak_mbps = 16
train_bytes = 600_000

[[test]]
name = "blocks"
kind = "request-response"
every_s = 60
request_bytes = {REQUEST_BYTES}
response_bytes = {RESPONSE_BYTES}
count = 20

[[test]]
name = "in"
kind = "aggregate"
shape = "many-to-one"
senders = ["bern", "oslo"]
receivers = ["rome"]
every_s = 60
duration_s = 5
protocol = "udp"
block_bytes = {DATAGRAM_BYTES}
rate_mbps = {OFFERED_BPS / 1e6:g}

[[group]]
name = "back"
shape = "between"
from = ["rome"]
to = ["bern"]
tests = ["limits", "blocks"]
"""


@pytest.fixture
def policed(lab: RunningStack, tmp_path):
    """The lab's mesh with a test of each kind in place of the throughput tests, and a policer from rome to bern."""
    original = lab.data / "lab" / "mesh.toml"
    text = re.sub(r'\[\[test\]\]\nname = "tcp"\n.*?\n\n', "", original.read_text(), flags=re.DOTALL)
    file = tmp_path / "kinds.toml"
    file.write_text(text.replace('"ping", "tcp"', '"ping"') + TESTS)
    lab.lab("set", "rome", "bern", "--policer-mbps", str(POLICER_MBPS), "--policer-bytes", str(POLICER_BYTES))
    try:
        lab.manage("mesh", "apply", str(file))
        yield lab
    finally:
        lab.lab("undo", "rome", "bern")
        lab.manage("mesh", "apply", str(original))
    applied = datetime.now(UTC)
    wait_for(lambda: faults.measured_since(lab, applied), 120, "every agent measures the mesh as it was")
    lab.measuring_since = datetime.now(UTC)


def page(stack: RunningStack, address: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{stack.port}/{address}", timeout=30) as answer:
        body: str = answer.read().decode()
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body)).replace("\u202f", " ").replace("\u00a0", " ")


def run_now(stack: RunningStack):
    """An on-demand run of the aggregate test that all members measured; None if a busy machine disturbed it."""
    requested = json.loads(stack.manage("throughput", "aggregate", "in", "--json"))

    def over():
        state = stack.get(f"on-demand-aggregates/{requested['id']}")
        return state if state["state"] == "ended" else None

    ended = wait_for(over, AWAITED_S, "an aggregate test on demand")
    return ended if ended["result"]["state"] == "complete" else None


@pytest.mark.timeout(900)
def test_each_scheduled_kind_measures_what_the_lab_planted(policed):
    ends = {(path["source"]["site"], path["destination"]["site"]): path["id"] for path in policed.get("paths")}
    back = ends["rome", "bern"]

    def newest(address, is_measured):
        """The newest result there that was measured; a busy machine may disturb others, which say so."""
        return next((run for run in policed.get(f"{address}?{SINCE}") if is_measured(run)), None)

    run = wait_for(
        lambda: newest(f"paths/{back}/request-response", lambda run: run["outcome"] == "measured"),
        AWAITED_S, "blocks are measured",
    )  # fmt: skip
    limit = wait_for(
        lambda: newest(f"paths/{back}/policer", lambda run: run["verdict"] not in (None, "undetermined")),
        AWAITED_S, "the policer is measured",
    )  # fmt: skip
    total = wait_for(
        lambda: newest("aggregates", lambda run: run["state"] == "complete"), AWAITED_S, "all members measured"
    )
    ended = wait_for(lambda: run_now(policed), AWAITED_S, "all members measured on demand")
    path_page, aggregate_page = page(policed, f"paths/{back}/?tab=tests"), page(policed, f"aggregates/{total['id']}/")

    segments = -(-RESPONSE_BYTES // SEGMENT_BYTES)
    least_ms = RTT_MS + (RESPONSE_BYTES + segments * HEADER_BYTES) * 8 / LINK_BPS * 1e3
    assert (run["transactions"], run["errors"]) == (20, 0)
    assert run["request_bytes"] == REQUEST_BYTES
    assert run["response_bytes"] == RESPONSE_BYTES
    assert run["minimum_ms"] == pytest.approx(least_ms, rel=0.25)
    assert run["median_ms"] > 0.98 * least_ms
    assert run["transactions_per_s"] == pytest.approx(1000 / run["median_ms"], rel=0.5)
    assert f"{RESPONSE_BYTES:,}".replace(",", " ") in path_page or "8,000" in path_page
    assert "Request and response" in path_page
    assert "blocks" in path_page

    assert limit["verdict"] == "policer"
    assert limit["sustained_bps"] == pytest.approx(POLICER_MBPS * 1e6, rel=0.1)
    assert limit["burst_bytes"] == pytest.approx(POLICER_BYTES, rel=0.1)
    assert limit["sentence"] in path_page

    payload = DATAGRAM_BYTES / (DATAGRAM_BYTES + IP_UDP_BYTES)
    assert (total["test"], ended["result"]["test"]) == ("in", "on-demand-aggregate")
    for result in (total, ended["result"]):
        rates = {member["source"]: member["common_bps"] for member in result["members"]}
        squares = sum(rate**2 for rate in rates.values())
        assert rates["bern"] == pytest.approx(OFFERED_BPS, rel=0.1)
        assert rates["oslo"] == pytest.approx(SLOWEST_BPS * payload, rel=0.1)
        assert result["sum_bps"] == pytest.approx(sum(rates.values()))
        assert result["fairness"] == pytest.approx(sum(rates.values()) ** 2 / (2 * squares))
    assert total["sentence"] in aggregate_page
