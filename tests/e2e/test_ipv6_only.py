"""The whole job over IPv6 alone: a centre that listens on IPv6 only, a lab of sites that have no IPv4 address."""

import json
import os
import subprocess
import urllib.request

import pytest

from tests.e2e.stack import TOP, running_stack, wait_for

SCENARIO = """
title = "Two sites with IPv6 alone"
seed = 5

[[site]]
name = "bern"
title = "Bern"
latitude_deg = 46.95
longitude_deg = 7.45
country = "CH"
region = "Europe"

[[site]]
name = "rome"
title = "Rome"
latitude_deg = 41.90
longitude_deg = 12.50
country = "IT"
region = "Europe"

[[path]]
between = ["bern", "rome"]
rtt_ms = 20
rate_mbps = 20

[measure.ping]
every_s = 10
count = 5
spacing_s = 0.2
timeout_s = 1.0
packet_bytes = [100]

[measure.throughput]
every_s = 60
duration_s = 2

[measure.trace]
every_s = 60
"""
PAIRS = {("bern", "rome"), ("rome", "bern")}


@pytest.fixture(scope="module")
def stack(namespaces_required, tmp_path_factory):
    scenario = tmp_path_factory.mktemp("lab") / "ipv6.toml"
    scenario.write_text(SCENARIO)
    with running_stack("--lab", str(scenario), "--ipv6-only") as stack:
        yield stack


def read(stack, address):
    with urllib.request.urlopen(f"http://[::1]:{stack.port}{address}", timeout=30) as answer:
        return answer.read().decode()


def cells(stack, metric):
    grid = json.loads(read(stack, f"/api/v1/grid?metric={metric}&period=hour&size=100"))
    return {(cell["source"], cell["destination"]): cell for cell in grid["cells"] if cell["value"] is not None}


def at_site(stack, site, *command):
    done = subprocess.run(
        [*stack.probes_program, "lab", "exec", "--run-dir", str(stack.data / "lab"), site, *command],
        cwd=TOP, capture_output=True, text=True, check=False, env=os.environ,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.mark.timeout(600)
def test_pings_throughput_and_traces_arrive_over_ipv6_alone(stack):
    rtts = wait_for(
        lambda: cells(stack, "rtt_median_ms").keys() == PAIRS and cells(stack, "rtt_median_ms"), 180, "RTTs"
    )
    throughput = wait_for(lambda: cells(stack, "throughput_median_bps"), 300, "a throughput test has measured")
    path_id = rtts["bern", "rome"]["path_id"]
    routes = wait_for(
        lambda: (routes := json.loads(read(stack, f"/api/v1/paths/{path_id}/traces"))) and routes, 180, "a trace"
    )

    assert [cell["value"] for cell in rtts.values()] == pytest.approx([20.0, 20.0], abs=2.0)
    assert all(0 < cell["value"] <= 20e6 * 1.02 for cell in throughput.values())
    assert "fd77:0:0:2::1" in json.dumps(routes)
    assert at_site(stack, "bern", "ip", "-4", "-o", "addr", "show", "dev", "wan0")[1] == ""


@pytest.mark.timeout(240)
def test_pages_and_agents_work_over_ipv6_alone(stack):
    rtts = wait_for(lambda: cells(stack, "rtt_median_ms"), 180, "RTTs")
    path_id = min(cell["path_id"] for cell in rtts.values())

    for page in ("/", "/sites/", "/sites/bern/", f"/paths/{path_id}/", "/routes/", "/map/", "/incidents/"):
        assert "<main" in read(stack, page), page
    status, output, errors = at_site(
        stack, "bern", *stack.probes_program, "site", "status", "--data", str(stack.data / "sites" / "bern")
    )
    assert (status, errors) == (0, ""), output
    assert f"http://[::1]:{stack.port}" in output


@pytest.mark.timeout(240)
def test_nothing_listens_on_ipv4(stack):
    listening = subprocess.run(["ss", "-Hltn4"], capture_output=True, text=True, check=True).stdout

    assert f":{stack.port} " not in listening
