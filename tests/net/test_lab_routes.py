"""The lab's routers, seen by traceroute, mtr, scamper, dublin-traceroute, ping and the kernel's error queue."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from monitor.analysis.routes.compare import trimmed
from monitor.analysis.routes.timeline import Flow, RouteTrace, Timeline, find_routes
from probes.lab.scenario import load_scenario
from probes.trace.spec import TraceRun
from tests.lab import RunningLab

SCENARIO = load_scenario("four-sites-routed")
ROUTERS = {router.name: router for router in SCENARIO.topology.routers}
COGENT = "slac-gw,cogent-sjc,cogent-par,cern-gw"

ERROR_QUEUE_SCRIPT = """
import select, socket, struct, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
level, recverr, ttl = (41, 25, 16) if family == socket.AF_INET6 else (0, 11, 2)
s = socket.socket(family, socket.SOCK_DGRAM, socket.IPPROTO_ICMPV6 if level else socket.IPPROTO_ICMP)
s.setsockopt(level, recverr, 1)
s.setsockopt(level, ttl, int(sys.argv[2]))
sent = struct.pack("!BBHHH", 128 if level else 8, 0, 0, 0, 7) + b"soundings of the lab"
s.sendto(sent, (sys.argv[1], 0))
poll = select.poll()
poll.register(s, 0)
assert poll.poll(5000)
data, control, _, _ = s.recvmsg(2048, 512, socket.MSG_ERRQUEUE)
error = next(value for at, kind, value in control if (at, kind) == (level, recverr))
offender = error[16 + 8:16 + 24] if level else error[16 + 4:16 + 8]
print(socket.inet_ntop(family, offender), error[5], error[6], data[8:] == sent[8:])
"""


@pytest.fixture(scope="module")
def lab(namespaces_required: None) -> Iterator[RunningLab]:
    """The scenario `four-sites-routed`, shared: each test restores its changes."""
    with RunningLab("four-sites-routed", "--seed", "1") as running:
        yield running


def needs(tool: str) -> str:
    """The path of a tool; without it, skip the test, or fail it in CI."""
    path = shutil.which(tool, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if path is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"needs {tool}")
    return str(path)


def address(lab: RunningLab, site: str, family: int) -> str:
    return lab.status().lab.sites[site].addresses[0 if family == 4 else 1]


def planted(lab: RunningLab, source: str, destination: str, family: int = 4) -> list[set[str | None]]:
    """The addresses that may be seen at each TTL; None where a router is silent, or may be limited."""
    routes = SCENARIO.topology.routes[source, destination]
    hops: list[set[str | None]] = []
    for names in zip(*routes, strict=True):
        routers = [ROUTERS[name] for name in names]
        hops.append({None if r.is_silent else r.address if family == 4 else r.address6 for r in routers})
        if any(router.icmp_per_s is not None for router in routers):
            hops[-1].add(None)
    return [*hops, {address(lab, destination, family)}]


def traceroute(lab: RunningLab, source: str, target: str, *options: str) -> list[tuple[str | None, list[int]]]:
    """Address and MPLS labels of every hop."""
    argv = [needs("traceroute"), "-n", "-e", "-I", "-q", "1", "-w", "1", *options, target]
    done = lab.exec(source, *argv)
    assert done.returncode == 0, done.stderr
    hops: list[tuple[str | None, list[int]]] = []
    for line in done.stdout.splitlines()[1:]:
        found = line.split()[1]
        hops.append((None if found == "*" else found, [int(label) for label in re.findall(r"L=(\d+)", line)]))
    return hops


def scamper(lab: RunningLab, source: str, target: str, *options: str) -> list[dict[str, Any]]:
    """The hops of an ICMP-Paris trace by scamper."""
    trace = " ".join(["trace -P icmp-paris -q 1 -w 1", *options])
    done = lab.exec(source, needs("scamper"), "-p", "200", "-O", "json", "-c", trace, "-i", target)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    hops: list[dict[str, Any]] = next(line for line in lines if line["type"] == "trace")["hops"]
    return hops


def without_dns(tmp_path: Path, *argv: str) -> list[str]:
    """The command, with a name server that refuses at once: these tools wait for names."""
    resolver = tmp_path / "resolv.conf"
    resolver.write_text("nameserver 127.0.0.1\n")
    script = f'mount --bind {resolver} /etc/resolv.conf && cd {tmp_path} && exec "$@"'
    return ["unshare", "--mount", "sh", "-c", script, "sh", *argv]


def expired_replies(lab: RunningLab, ttl: int, count: int) -> int:
    """Number of Time Exceeded messages for `count` quick pings from SLAC to CERN with this TTL."""
    target = address(lab, "cern", 4)
    output = lab.exec("slac", "ping", "-n", "-c", str(count), "-i", "0.02", "-W", "1", "-t", str(ttl), target).stdout
    return output.count("Time to live exceeded")


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("pair", [("slac", "cern"), ("cern", "slac")])
def test_traceroute_finds_the_planted_hops_and_labels(lab: RunningLab, pair: tuple[str, str], family: int) -> None:
    hops = traceroute(lab, pair[0], address(lab, pair[1], family))

    routers = planted(lab, *pair, family)
    assert len(hops) == len(routers)
    assert all(hop in allowed for (hop, _), allowed in zip(hops, routers, strict=True)), hops
    labels = {router.address: router.mpls for router in ROUTERS.values()}
    labels |= {router.address6: router.mpls for router in ROUTERS.values()}
    assert all(tuple(stack) == labels.get(hop, ()) for hop, stack in hops if hop is not None)


def test_mtr_finds_the_planted_hops(lab: RunningLab, tmp_path: Path) -> None:
    argv = [needs("mtr"), "-n", "--json", "-c", "1", "-G", "1", address(lab, "in2p3", 4)]

    hubs = json.loads(lab.exec("slac", *without_dns(tmp_path, *argv)).stdout)["report"]["hubs"]

    # SLAC to IN2P3 passes the silent router in Paris, and none that is limited.
    hops = [None if hub["host"] == "???" else hub["host"] for hub in hubs]
    assert [{hop} for hop in hops] == planted(lab, "slac", "in2p3")


def test_mtr_decodes_the_labels(lab: RunningLab) -> None:
    needs("mtr-packet")
    probes = [
        f"{ttl} send-probe ip-{family} {address(lab, 'cern', family)} ttl {ttl} timeout 2"
        for ttl, family in ((5, 4), (6, 6))
    ]

    output = lab.exec("slac", "sh", "-c", """(printf '%s\\n' "$@"; sleep 1) | mtr-packet""", "sh", *probes).stdout

    assert re.search(r"^5 ttl-expired ip-4 203\.0\.113\.1 .* mpls 24001,0,1,1$", output, re.MULTILINE)
    assert re.search(r"^6 ttl-expired ip-6 2001:db8:51e5::2 .* mpls 24017,0,0,1,16004,0,1,1$", output, re.MULTILINE)


def test_scamper_sees_paris_flows_routes_and_reply_ttls(lab: RunningLab) -> None:
    hops = {hop["probe_ttl"]: hop for hop in scamper(lab, "slac", address(lab, "cern", 4))}
    flows = [
        {hop["addr"] for _ in range(2) for hop in scamper(lab, "slac", address(lab, "cern", 4), f"-d {n} -f 3 -m 3")}
        for n in range(1, 5)
    ]

    # The last two routers are on the way back by Paris: they send through its seven routers, less those before them.
    assert {ttl: hops[ttl]["reply_ttl"] for ttl in (1, 2, 4, 6)} == {1: 255, 2: 254, 4: 252, 6: 250}
    assert all(hop["icmp_q_ttl"] == 1 for ttl, hop in hops.items() if ttl < 8)
    assert [label["mpls_label"] for label in hops[6]["icmpext"][0]["mpls_labels"]] == [24017, 16004]
    # A constant flow sees a single route; different ones see both.
    assert all(len(flow) == 1 for flow in flows)
    assert set.union(*flows) == {ROUTERS["esnet-den"].address, ROUTERS["esnet-hou"].address}


def test_dublin_traceroute_finds_both_routes(lab: RunningLab, tmp_path: Path) -> None:
    # It finds its interface by the default route only.
    assert lab.exec("slac", "ip", "route", "replace", "default", "dev", "wan0").returncode == 0
    argv = [needs("dublin-traceroute"), "-n", "4", "-T", "4", "-D", "1", address(lab, "cern", 4)]
    try:
        lab.exec("slac", *without_dns(tmp_path, *argv))
    finally:
        lab.exec("slac", "ip", "route", "del", "default")

    flows = json.loads((tmp_path / "trace.json").read_text())["flows"]
    third = [hop["received"]["ip"]["src"] for hops in flows.values() for hop in hops if hop["sent"]["ip"]["ttl"] == 3]
    assert set(third) == {ROUTERS["esnet-den"].address, ROUTERS["esnet-hou"].address}
    assert len(third) == 4


@pytest.mark.parametrize("family", [4, 6])
def test_our_trace_finds_the_same_hops(lab: RunningLab, family: int) -> None:
    argv = [sys.executable, "-m", "probes", "trace", "--json", "-c", "1", address(lab, "cern", family)]

    run = json.loads(lab.exec("slac", *argv).stdout)

    hops = [hop.get("address") for hop in run["hops"]]
    routers = planted(lab, "slac", "cern", family)
    assert len(hops) == len(routers)
    assert all(hop in allowed for hop, allowed in zip(hops, routers, strict=True)), hops
    assert [label["label"] for label in run["hops"][5]["mpls"]] == [24017, 16004]


@pytest.mark.parametrize(("family", "error"), [(4, "11 0"), (6, "3 0")])
def test_the_kernel_hands_errors_to_a_datagram_socket(lab: RunningLab, family: int, error: str) -> None:
    target = address(lab, "cern", family)

    output = lab.exec("slac", sys.executable, "-c", ERROR_QUEUE_SCRIPT, target, "4").stdout

    router = ROUTERS["esnet-nyc"]
    assert output.strip() == f"{router.address if family == 4 else router.address6} {error} True"


def test_a_limited_router_drops_replies_and_no_packets(lab: RunningLab) -> None:
    limited = expired_replies(lab, 7, 20)

    # 20 probes in 0.4 s: a token from before, and perhaps a new one on the busiest machine.
    assert 1 <= limited <= 3
    assert expired_replies(lab, 2, 20) == 20
    output = lab.exec("slac", "ping", "-n", "-q", "-c", "20", "-i", "0.02", address(lab, "cern", 4)).stdout
    assert " 0% packet loss" in output
    counts = {router.settings.name: router.counts for router in lab.status().routers}
    assert counts["cern-gw"].icmp_limited >= 17


def test_a_lossy_link_loses_from_there_on(lab: RunningLab) -> None:
    lab.set("--link", "esnet-nyc-geant-lon", "--loss", "50%")
    try:
        before, behind = expired_replies(lab, 4, 100), expired_replies(lab, 5, 100)
        links = {(link.source, link.destination): link for link in lab.status().links}
    finally:
        assert "50% loss" in lab.command("undo").stdout

    lossy = links["esnet-nyc", "geant-lon"]
    # A busy machine may lose a reply; the link before the lossy one loses none by itself.
    assert before >= 95
    # 100 draws with a chance of 0.5: 4.5 standard deviations.
    assert 28 <= behind <= 72
    assert lossy.counts.dropped_loss == lossy.counts.received - lossy.counts.forwarded - lossy.held > 0
    assert links["geant-lon", "esnet-nyc"].settings.loss_ratio == 0.0
    assert expired_replies(lab, 5, 20) >= 18


def our_trace(lab: RunningLab, source: str, target: str) -> RouteTrace:
    """A trace by `python -m probes trace`, as the archive follows it."""
    argv = [sys.executable, "-m", "probes", "trace", "--json", "-c", "1", target]
    run = msgspec.json.decode(lab.exec(source, *argv).stdout, type=TraceRun)
    hops = trimmed([hop.address for hop in run.hops], reached=run.reached)
    return RouteTrace(Flow(run.protocol, run.flow or 0), run.started_at, hops)


def test_a_route_changes_one_way_and_back(lab: RunningLab) -> None:
    target = address(lab, "cern", 4)
    traces = [our_trace(lab, "slac", target)]
    cogent = [ROUTERS[name].address for name in COGENT.split(",")]

    changed = lab.command("route", "slac-cern", "via", COGENT, "--one-way")
    shown = lab.command("status").stdout
    there = [hop for hop, _ in traceroute(lab, "slac", target)]
    traces.append(our_trace(lab, "slac", target))
    back = [hop for hop, _ in traceroute(lab, "cern", address(lab, "slac", 4))]
    refused = lab.command("route", "slac", "cern", "via", "slac-gw,cogent-par,cern-gw")
    restored = lab.command("route", "slac-cern", "--original")

    assert changed.returncode == 0, changed.stderr
    assert re.search(rf"^slac → cern: via {COGENT}  \(changed [\d:]+ UTC\)$", shown, re.MULTILINE)
    assert there[1:3] == cogent[1:3]
    assert len(there) == len(cogent) + 1
    assert all(hop in allowed for hop, allowed in zip(back, planted(lab, "cern", "slac"), strict=True))
    assert refused.returncode == 1
    assert "no link from slac-gw to cogent-par" in refused.stderr
    assert "changed" not in restored.stdout
    traces.append(our_trace(lab, "slac", target))
    # Back is the route of before, not a third.
    periods = Timeline().follow(traces)
    find_routes((), [period for period in periods if period])
    assert [period and period.route and period.route.number for period in periods] == [1, 2, 1]
    assert len(traceroute(lab, "slac", target)) == 8


def test_every_packet_of_a_path_is_accounted_for(lab: RunningLab) -> None:
    lab.set("--link", "slac-gw:esnet-svl", "--loss", "0.2", "--duplicate", "0.2")
    try:
        lab.exec("slac", "ping", "-n", "-q", "-c", "200", "-i", "0.01", "-W", "1", address(lab, "cern", 4))
        expired_replies(lab, 3, 50)
        path = lab.path("slac", "cern")
    finally:
        lab.command("undo", "--link", "slac-gw-esnet-svl")

    counts = path.counts
    dropped = counts.dropped_loss + counts.dropped_queue + counts.dropped_policer + counts.dropped_links
    assert counts.dropped_links > 0
    assert counts.duplicated > 0
    arrived = counts.forwarded + counts.expired + counts.failed + path.held
    assert counts.received + counts.duplicated == arrived + dropped
