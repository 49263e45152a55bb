"""The whole job: the real stack over the lab, compared with the lab's impairments of the packets.

The truth is the scenario's settings and the relay's own counters; the checks use the API and the page, as a user would.
"""

from __future__ import annotations

import csv
import json
import os
import re
import urllib.request
import uuid
from datetime import UTC, datetime
from html import unescape
from pathlib import Path

import psycopg
import pytest
from scipy.stats import binom

from probes.lab.scenario import find_scenario, load_scenario
from tests.e2e.stack import running_stack, wait_for
from tests.e2e.visits import browsing
from tests.postgres import given_database_url

pytestmark = pytest.mark.timescale

PASSWORD = "long and winding"
SCENARIO = load_scenario("three-sites")
WITH_STAMP = """
[measure.stamp]
every_s = 10
spacing_s = 0.2
sites = ["bern", "rome"]
"""
PAIRS = [(a, b) for a in SCENARIO.site_names for b in SCENARIO.site_names if a != b]


@pytest.fixture(scope="module")
def stack(namespaces_required, tmp_path_factory):
    scenario = tmp_path_factory.mktemp("lab") / "three-sites.toml"
    scenario.write_text(find_scenario("three-sites").read_text() + WITH_STAMP)
    with running_stack("--lab", str(scenario)) as stack:
        yield stack


def text_of(stack, address):
    """A page of the stack as text."""
    with urllib.request.urlopen(f"http://127.0.0.1:{stack.port}{address}", timeout=30) as answer:
        return unescape(answer.read().decode())


def cells(stack, metric, size=100):
    """The API's grid, by pair of sites."""
    grid = stack.get(f"grid?metric={metric}&period=hour&size={size}")
    return {(cell["source"], cell["destination"]): cell for cell in grid["cells"]}


def measured(stack, metric, sent):
    """The grid after each path has sent at least `sent` packets."""
    return wait_for(
        lambda: (
            (cells_shown := cells(stack, metric))
            and all((cells_shown.get(pair) or {}).get("sent") or sent <= 0 for pair in PAIRS)
            and cells_shown
        ),
        120,
        f"every path has sent {sent} packets",
    )


def relay_counts(stack):
    """The relay's counters, by ordered pair."""
    status = json.loads(stack.lab("status", "--json"))
    return {(path["source"], path["destination"]): path["counts"] for path in status["paths"]}


def dropped_ratio(counts, pair):
    """The ratio of RTTs lost according to the relay's drops in both directions."""
    passed = 1.0
    for direction in (pair, pair[::-1]):
        passed *= 1 - counts[direction]["dropped_loss"] / counts[direction]["received"]
    return 1 - passed


@pytest.mark.timeout(240)
def test_rtts_are_those_of_the_scenario(stack):
    rtts = measured(stack, "rtt_median_ms", sent=20)

    for source, destination in PAIRS:
        known_ms = SCENARIO.paths[source, destination].delay_ms + SCENARIO.paths[destination, source].delay_ms
        assert rtts[source, destination]["value"] == pytest.approx(known_ms, abs=2.0)


@pytest.mark.timeout(300)
def test_loss_equals_the_relays_count(stack):
    def outside():
        """Paths whose loss is outside the 99% interval of the relay's own count."""
        counts, cells_shown = relay_counts(stack), cells(stack, "loss_ratio")
        wrong = {}
        for pair in PAIRS:
            sent, lost = cells_shown[pair]["sent"], cells_shown[pair]["sent"] - cells_shown[pair]["received"]
            low, high = binom.interval(0.99, sent, dropped_ratio(counts, pair))
            if not low <= lost <= high:
                wrong[pair] = (low, lost, high, sent)
        return wrong

    measured(stack, "loss_ratio", sent=60)

    wait_for(lambda: outside() == {}, 120, "loss of every path within the relay's interval")
    assert relay_counts(stack)["bern", "rome"]["dropped_loss"] == 0
    assert cells(stack, "loss_ratio")["bern", "rome"]["loss_ratio"] == 0
    wait_for(
        lambda: cells(stack, "loss_ratio")["bern", "oslo"]["loss_ratio"] > 0, 120, "the lossy path has lost something"
    )


@pytest.mark.timeout(400)
def test_throughput_stays_within_the_rate_of_the_scenario(stack):
    def some_path():
        return [cell for cell in cells(stack, "throughput_median_bps").values() if cell["value"] is not None]

    tested = wait_for(some_path, 300, "a throughput test has measured")

    for cell in tested:
        rate_bps = SCENARIO.paths[cell["source"], cell["destination"]].rate_mbps * 1e6
        assert 0 < cell["value"] <= rate_bps * 1.02
    path_id = tested[0]["path_id"]
    tests = stack.get(f"paths/{path_id}/throughput")
    assert all((test["throughput_bps"] is None) == (test["outcome"] != "measured") for test in tests)


@pytest.mark.timeout(120)
def test_the_estimate_is_shown_beside_its_loss(stack):
    measured(stack, "loss_ratio", sent=20)
    path_id = cells(stack, "loss_ratio")["bern", "oslo"]["path_id"]

    def lossy_points():
        points = stack.get(f"paths/{path_id}/series?size=100")["points"]
        return [point for point in points if 0 < point["received"] < point["sent"]]

    for point in wait_for(lossy_points, 90, "a step in which something was lost"):
        assert point["estimate_is_floor"] is False
        loss_ratio = 1 - point["received"] / point["sent"]
        slowest_bps = 1460 * 8 / (point["rtt_max_ms"] / 1e3 * loss_ratio**0.5)
        fastest_bps = 1460 * 8 / (point["rtt_min_ms"] / 1e3 * loss_ratio**0.5)
        assert slowest_bps * 0.999 <= point["estimate_bps"] <= fastest_bps * 1.001


def lost_since(stack, pair, since):
    """Packets lost forward and reverse on a path by its STAMP cycles since a time; None before four of them."""
    path_id = cells(stack, "loss_ratio")[pair]["path_id"]
    rows = csv.DictReader(text_of(stack, f"/paths/{path_id}/stamp.csv?period=hour").splitlines())
    cycles = [row for row in rows if datetime.fromisoformat(row["at"]) > since and row["forward_lost"]]
    if len(cycles) < 4:
        return None
    return tuple(sum(int(row[f"{way}_lost"]) for row in cycles) for way in ("forward", "reverse"))


def assert_the_one_way_is_named(stack, incident, since):
    """A loss from bern to rome has its direction in the incident, the grid and on the pages of both paths."""
    there = wait_for(lambda: lost_since(stack, ("bern", "rome"), since), 120, "STAMP has measured bern to rome")
    back = wait_for(lambda: lost_since(stack, ("rome", "bern"), since), 120, "STAMP has measured rome to bern")
    # A starved reflector drops packets in its socket, which looks like loss on the way to it.
    assert (there[0] > 2 * there[1], back[1] > 2 * back[0]) == (True, True), (there, back)
    wait_for(
        lambda: "bern → rome" in stack.get(f"incidents/{incident['id']}")["title"],
        120,
        "the incident names the one way",
    )
    grid = text_of(stack, "/")
    assert re.search(r"bern to rome: [^\"]* forward [1-9]\d* of \d+ lost, reverse [^\"]*, by STAMP", grid)
    assert re.search(r"rome to bern: [^\"]* reverse [1-9]\d* of \d+ lost, (the direction [^\"]*, )?by STAMP", grid)
    for pair, way in ((("bern", "rome"), "forward"), (("rome", "bern"), "reverse")):
        path_id = cells(stack, "loss_ratio")[pair]["path_id"]
        page = text_of(stack, f"/paths/{path_id}/?period=hour&tab=directions")
        assert f'class="{way}-bar"' in page, pair
        assert f"Loss by direction of {pair[0]} to {pair[1]}" in page


@pytest.mark.timeout(400)
def test_a_loss_regression_opens_one_incident_that_closes(stack):
    measured(stack, "loss_ratio", sent=20)
    stack.lab("set", "bern-rome", "--loss", "0.5")
    planted_at = datetime.now(UTC)
    try:
        opened = wait_for(
            lambda: [incident for incident in stack.get("incidents?state=open") if incident["rule"] == "loss"],
            150,
            "an incident is open",
        )
        assert_the_one_way_is_named(stack, opened[0], planted_at)
    finally:
        stack.lab("set", "bern-rome", "--loss", "0")

    assert len(opened) == 1
    assert "bern" in opened[0]["summary"]
    assert "rome" in opened[0]["summary"]
    closed = wait_for(
        lambda: [incident for incident in stack.get("incidents?state=all") if incident["closed_at"] is not None],
        180,
        "the incident is closed",
    )
    assert [incident["id"] for incident in closed] == [opened[0]["id"]]
    assert stack.get("incidents?state=open") == []
    assert "bern" in (stack.data / "log" / "worker.log").read_text()


@pytest.mark.timeout(120)
def test_the_page_shows_the_figures_of_the_api(stack):
    measured(stack, "rtt_median_ms", sent=20)
    with browsing() as browser:
        page = browser.new_page()
        problems = []
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(f"http://127.0.0.1:{stack.port}/?metric=rtt&period=hour&size=100")
        for source, destination in PAIRS:
            label = page.get_by_role("link", name=f"{source} to {destination}:").get_attribute("aria-label")
            shown_ms = float(re.search(r"median RTT ([0-9.]+) ms", label)[1])
            assert shown_ms == pytest.approx(cells(stack, "rtt_median_ms")[source, destination]["value"], abs=1.0)
        page.get_by_role("link", name="bern to rome:").click()
        # The first of them may be hidden already, behind the interactive chart that took its place.
        page.locator("svg:visible, canvas:visible").first.wait_for()
        assert "Mathis" in page.content()

    assert problems == []


@pytest.mark.timeout(200)
def test_a_path_is_pinged_on_demand_in_both_directions(stack):
    before = measured(stack, "loss_ratio", sent=20)["bern", "rome"]
    user = f"les-{uuid.uuid4().hex[:8]}"  # a given database has the accounts of a run before
    stack.manage("user", "add", user, "--role", "operator", typed=PASSWORD)
    token = stack.manage("user", "token", user, "--operate").strip()
    request = urllib.request.Request(
        f"http://127.0.0.1:{stack.port}/api/v1/paths/{before['path_id']}/on-demand-pings",
        method="POST",
        headers={"Authorization": f"Bearer {token}"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        asked = json.load(answer)
    seen = {run["source"]: set() for run in asked["runs"]}

    def ended():
        runs = stack.get(f"on-demand-pings/{asked['id']}")["runs"]
        for run in runs:
            seen[run["source"]].add(run["sent"])
        return all(run["state"] == "ended" for run in runs) and runs

    runs = wait_for(ended, 90, "both directions have ended")

    known_ms = SCENARIO.paths["bern", "rome"].delay_ms + SCENARIO.paths["rome", "bern"].delay_ms
    assert [(run["source"], run["outcome"], run["sent"]) for run in runs] == [
        ("bern", "measured", 20),
        ("rome", "measured", 20),
    ]
    for run in runs:
        # The relay adds no delay of its own to the quickest of 20; to the others it may on a busy machine.
        assert run["rtt_min_ms"] == pytest.approx(known_ms, abs=2.0)
        assert run["rtt_min_ms"] <= run["rtt_median_ms"] <= run["rtt_max_ms"]
        assert seen[run["source"]] - {0, 20}, "replies are reported while they arrive"
    ledger = stack.get(f"paths/{before['path_id']}/ledger")
    assert sum(line["count"] for line in ledger["lines"]) == ledger["planned"], "they are in no count of the schedule"


@pytest.mark.timeout(60)
def test_a_report_of_this_week_is_written(stack):
    output = stack.manage("report", "weekly", "--week", f"{datetime.now(UTC):%G-W%V}")
    written = {Path(word).suffix: Path(word) for word in output.split()}

    assert "<html" in written[".html"].read_text()
    assert written[".pdf"].read_bytes().startswith(b"%PDF")


@pytest.mark.timeout(60)
def test_raw_results_are_in_hypertables_with_timescaledb(stack):
    with psycopg.connect(stack.database_url) as connection:
        has_timescaledb = connection.execute(
            "SELECT count(*) FROM pg_available_extensions WHERE name = 'timescaledb'"
        ).fetchone() == (1,)
        hypertables = "SELECT hypertable_name FROM timescaledb_information.hypertables WHERE num_chunks > 0"
        hypertables_there = {name for (name,) in connection.execute(hypertables)} if has_timescaledb else set()

    assert has_timescaledb == ("SOUNDINGS_EXPECT_TIMESCALE" in os.environ) or given_database_url is None
    assert hypertables_there == (
        {"burst", "burst_hour", "direction_burst", "throughput_test"} if has_timescaledb else set()
    )


@pytest.mark.timeout(240)
def test_ctrl_c_leaves_no_process_and_no_namespace(stack):
    stack.stop()

    assert stack.process.returncode == 0
    assert stack.processes() == []
