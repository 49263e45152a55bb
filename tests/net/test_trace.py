"""Traces over real Linux routers, compared with mtr and scamper."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.net.routers import FAR, ROUTE, Routers, host, routers

LABEL_SWITCH = Path(__file__).with_name("label_switch.py")
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all")
REPOSITORY = Path(__file__).parents[2]
LABELS = (16001, 299776)


@pytest.fixture(scope="module")
def path(namespaces_required: None, root_required: None) -> Iterator[Routers]:
    with routers() as built:
        yield built


def trace(
    path: Routers, *arguments: str, user: tuple[str, ...] = (), families: tuple[int, ...] = (4, 6)
) -> dict[int, Any]:
    """The traces to far, by family."""
    hosts = [FAR[family] for family in families]
    command = path.command("near", *user, sys.executable, "-m", "probes", "trace", *hosts, "--json", *arguments)
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=REPOSITORY, timeout=120)
    assert done.stdout, done.stderr
    return {traced["family"]: traced for traced in map(json.loads, done.stdout.splitlines())}


def addresses(traced: dict[str, Any]) -> list[str | None]:
    return [hop["address"] for hop in traced["hops"]]


def tool(path: Routers, *command: str) -> str:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    return path.at("near", "timeout", "60", *command)


def test_the_route_is_that_of_the_routers_with_rtts_at_each_hop(path):
    for family, traced in trace(path).items():
        assert traced["reached"]
        assert addresses(traced) == ROUTE[family]
        assert all(len(hop["rtts_ms"]) == 3 and None not in hop["rtts_ms"] for hop in traced["hops"])
        assert all(0 < rtt < 1000 for hop in traced["hops"] for rtt in hop["rtts_ms"])


@pytest.mark.parametrize("family", [4, 6])
def test_mtr_sees_the_same_hops(path, family):
    report = json.loads(tool(path, "mtr", "--json", "-n", "-c", "1", "-i", "0.2", FAR[family]))["report"]

    assert [hub["host"] for hub in report["hubs"]] == addresses(trace(path, "-c", "1", families=(family,))[family])


@pytest.mark.parametrize("family", [4, 6])
def test_scamper_sees_the_same_hops(path, family):
    lines = tool(path, "scamper", "-O", "json", "-I", f"trace -P icmp-paris {FAR[family]}").splitlines()
    [theirs] = [line for line in map(json.loads, lines) if line["type"] == "trace"]

    assert [hop["addr"] for hop in theirs["hops"]] == addresses(trace(path, "-c", "1", families=(family,))[family])


@pytest.mark.parametrize("protocol", [(), ("--udp",)], ids=["icmp", "udp"])
def test_traces_need_no_root(path, protocol):
    path.set("near", ipv4__ping_group_range="0 2147483647")
    try:
        traces = trace(path, *protocol, "-c", "1", user=NOBODY)
    finally:
        path.set("near", ipv4__ping_group_range="1 0")

    assert {family: addresses(traced) for family, traced in traces.items()} == ROUTE
    assert all(traced["reached"] for traced in traces.values())


def test_a_missing_permission_is_told_with_its_setting(path):
    path.set("near", ipv4__ping_group_range="1 0")
    for traced in trace(path, user=NOBODY).values():
        assert traced["outcome"] == "not_permitted"
        assert "net.ipv4.ping_group_range" in traced["detail"]


def test_a_silent_router_is_unknown(path):
    with path.silent("a"):
        traces = trace(path, "-c", "2", "--timeout-s", "1")

    for family, traced in traces.items():
        assert addresses(traced) == [*ROUTE[family][:2], None, *ROUTE[family][3:]]
        assert traced["hops"][2]["rtts_ms"] == [None, None]


def test_routers_may_reply_from_another_interface(path):
    """Linux replies over IPv4 from the interface towards the source; over IPv6 from that of the probe."""
    for family in (4, 6):
        path.route("r4", family, 6, towards="near")
    try:
        traces = trace(path, "-c", "1")
    finally:
        for family in (4, 6):
            path.route("r4", family, 5, towards="near")

    assert addresses(traces[4]) == [*ROUTE[4][:3], host(4, 6, 2), ROUTE[4][4]]
    assert addresses(traces[6]) == ROUTE[6]


@pytest.mark.parametrize("family", [4, 6])
def test_flows_find_all_routers_among_which_load_is_balanced(path, family):
    """Six flows that meet the same router end the search (MDA, 95%): with two routers one trace in 32 does, all of five
    in one of 30 million runs."""
    routers: set[str] = set()
    with path.balanced(family):
        for _ in range(5):
            traced = trace(path, "--udp", "--flows", "16", "-c", "1", families=(family,))[family]
            hop = traced["hops"][2]
            routers = {hop["address"], *hop["others"]}
            assert routers <= {host(family, 3, 2), host(family, 4, 2)}
            assert traced["hops"][0]["others"] == traced["hops"][4]["others"] == []
            if len(routers) == 2:
                break

    assert routers == {host(family, 3, 2), host(family, 4, 2)}


def test_all_probes_of_a_flow_take_one_way(path):
    with path.balanced(4):
        hops = [trace(path, "--udp", families=(4,))[4]["hops"] for _ in range(2)]

    assert all(hop["others"] == [] for traced in hops for hop in traced)


def test_the_rate_limit_of_a_linux_router_is_not_reached(path):
    """By default Linux replies to a host once a second (net.ipv4.icmp_ratelimit), besides a reserve of six replies that
    the tests before have used up, and the first reply with it."""
    path.set("r2", ipv4__icmp_ratelimit=1000, ipv6__icmp__ratelimit=1000)
    try:
        traces = trace(path, "-c", "9")
    finally:
        path.set("r2", ipv4__icmp_ratelimit=0, ipv6__icmp__ratelimit=0)

    assert {
        family: [hop["rtts_ms"][1:].count(None) for hop in traced["hops"]] for family, traced in traces.items()
    } == {
        4: [0] * 5,
        6: [0] * 5,
    }


@contextmanager
def labels_at_a(path: Routers) -> Iterator[None]:
    rules = (
        "table inet switch { chain output { type filter hook output priority 0;"
        " meta mark != 7 icmp type time-exceeded drop; meta mark != 7 icmpv6 type time-exceeded drop; }; }"
    )
    path.at("a", "nft", rules)
    command = path.command(
        "a", sys.executable, str(LABEL_SWITCH), "l3", host(4, 3, 2), host(6, 3, 2), *map(str, LABELS)
    )
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield
    finally:
        process.kill()
        process.communicate()
        path.at("a", "nft", "delete table inet switch")


@pytest.mark.parametrize("user", [(), NOBODY], ids=["raw", "datagram"])
@pytest.mark.parametrize("protocol", [(), ("--udp",)], ids=["icmp", "udp"])
def test_mpls_labels_are_shown(path, user, protocol):
    path.set("near", ipv4__ping_group_range="0 2147483647")
    try:
        with labels_at_a(path):
            traces = trace(path, *protocol, "-c", "1", user=user)
    finally:
        path.set("near", ipv4__ping_group_range="1 0")

    for family, traced in traces.items():
        assert addresses(traced) == ROUTE[family]
        assert [len(hop["mpls"]) for hop in traced["hops"]] == [0, 0, 2, 0, 0]
        assert traced["hops"][2]["mpls"] == [{"label": label, "traffic_class": 5, "ttl": 1} for label in LABELS]
