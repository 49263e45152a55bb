"""Routers, links and routes in scenario files, and the error messages for invalid ones."""

from __future__ import annotations

import ipaddress

import pytest

from probes.lab.routing.topology import resolve_link
from probes.lab.scenario import ScenarioError, load_scenario
from probes.lab.settings import LabError, PathSettings
from tests.facts import lacks
from tests.scenario_text import scenario_of

SITES = "".join(
    f"""[[site]]
name = "{name}"
title = "Site"
latitude_deg = 46
longitude_deg = {longitude}
country = "CH"
region = "Europe"
"""
    for name, longitude in (("slac", 1), ("cern", 2))
)
ROUTERS = """[[router]]
name = "gw"
address = "192.0.2.1"
[[router]]
name = "core-a"
address = "192.0.2.2"
address6 = "2001:db8::2"
asn = 293
as_name = "ESnet"
icmp_per_s = 0.5
is_silent = true
mpls = [24001, 16004]
[[router]]
name = "core-b"
address = "192.0.2.3"
"""
LINKS = """[[link]]
between = ["slac", "gw"]
delay_ms = 1
[[link]]
between = ["gw", "core-a"]
delay_ms = 10
rate_mbps = 100
[[link]]
between = ["core-a", "cern"]
delay_ms = 2
[[link]]
between = ["gw", "core-b"]
delay_ms = 20
[[link]]
between = ["core-b", "cern"]
delay_ms = 2
"""
PATH = """[[path]]
between = ["slac", "cern"]
"""
TEXT = 'title = "Test"\n' + SITES + ROUTERS + LINKS


def test_a_route_goes_backwards_for_the_return() -> None:
    scenario = scenario_of(TEXT + PATH + 'route = ["gw", "core-a"]')

    assert scenario.topology.routes == {("slac", "cern"): (("gw", "core-a"),), ("cern", "slac"): (("core-a", "gw"),)}
    assert scenario.paths["slac", "cern"] == PathSettings(delay_ms=0.0)


def test_a_direction_may_have_its_own_route() -> None:
    own = '[[path]]\nfrom = "cern"\nto = "slac"\nroute = ["core-b", "gw"]\n'

    for text in (TEXT + own + PATH + 'route = ["gw", "core-a"]\n', TEXT + PATH + 'route = ["gw", "core-a"]\n' + own):
        routes = scenario_of(text).topology.routes
        assert routes == {("slac", "cern"): (("gw", "core-a"),), ("cern", "slac"): (("core-b", "gw"),)}


def test_several_routes_share_the_flows() -> None:
    routes = scenario_of(TEXT + PATH + 'routes = [["gw", "core-a"], ["gw", "core-b"]]').topology.routes

    assert routes["slac", "cern"] == (("gw", "core-a"), ("gw", "core-b"))
    assert routes["cern", "slac"] == (("core-a", "gw"), ("core-b", "gw"))


def test_a_link_is_set_for_both_directions_or_for_one() -> None:
    links = scenario_of(TEXT + '[[link]]\nfrom = "core-a"\nto = "gw"\nloss_ratio = 0.02').topology.links

    assert links["gw", "core-a"] == PathSettings(delay_ms=10.0, rate_mbps=100.0)
    assert links["core-a", "gw"] == PathSettings(delay_ms=10.0, rate_mbps=100.0, loss_ratio=0.02)


def test_a_router_has_the_settings_of_its_table() -> None:
    router = scenario_of(TEXT).topology.routers[1]

    assert (router.address, router.address6, router.asn, router.as_name) == ("192.0.2.2", "2001:db8::2", 293, "ESnet")
    assert (router.icmp_per_s, router.is_silent, router.mpls) == (0.5, True, (24001, 16004))


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        (
            PATH + 'route = ["gw", "core"]',
            (f"test.toml:{TEXT.count(chr(10)) + 3}: ", 'router "core"', 'did you mean "core-'),
        ),
        (PATH + 'route = ["core-a"]', ("no link from slac to core-a", "add a [[link]]")),
        (PATH + 'route = ["slac", "gw", "core-a"]', ('"slac" is an end of the path',)),
        (PATH + 'route = ["gw", "core-a", "gw", "core-b"]', ('"gw" is on the route 2 times', "loop")),
        (PATH + "route = []", ("at least one router",)),
        (PATH + "route = [3]", ("route", "the name of a router", "not 3")),
        (PATH + 'routes = ["gw"]', ("routes", "a route", '[["gw", "a"], ["gw", "b"]]', '"gw"')),
        (
            PATH + 'route = ["gw", "core-a"]\nrtt_ms = 20',
            ("the delay of a route is that of its links", "remove rtt_ms"),
        ),
        (PATH + 'route = ["gw", "core-a"]\nroutes = [["gw"]]', ("both `route` and `routes`",)),
        (
            '[[path]]\nfrom = "slac"\nto = "cern"\nroute = ["gw", "core-a"]',
            ("cern-slac has no route", "give it one too", "`between`"),
        ),
        (
            '[[link]]\nbetween = ["gw", "core-c"]\ndelay_ms = 1',
            ('"core-c" is neither a router nor a site', "did you mean"),
        ),
        ('[[link]]\nbetween = ["gw", "gw"]\ndelay_ms = 1', ("to itself",)),
        ('[[link]]\nbetween = ["slac", "cern"]\ndelay_ms = 1', ("are sites", "a router at one end")),
        ('[[link]]\nbetween = ["gw", "slac"]\ndelay_ms = 1', ("two such tables", "remove one")),
        ('[[link]]\nfrom = "core-a"\nto = "core-b"', ("delay_ms is missing", "delay_ms = 10")),
        ('[[link]]\nfrom = "core-a"', ("`from` and `to`", "a single direction")),
        ('[[link]]\nbetween = ["gw", "slac"]\nfrom = "gw"', ("both `between` and `from`/`to`",)),
        ('[[link]]\nbetween = ["gw", "slac"]\nrtt_ms = 1', ('unknown key "rtt_ms"',)),
        ('[[router]]\nname = "r"\naddress = "2001:db8::9"', ('"2001:db8::9"', "is not an IPv4 address")),
        ('[[router]]\nname = "r"\naddress = "192.0.2.2"', ("address is that of router", '"core-a"')),
        (
            '[[router]]\nname = "r"\naddress = "192.0.2.9"\naddress6 = "2001:db8:0::2"',
            ("address6 is that of router", '"core-a"'),
        ),
        ('[[router]]\nname = "r"\naddress = "10.77.1.1"', ("the sites' addresses",)),
        ('[[router]]\nname = "r"\naddress = "224.0.0.1"', ("cannot be a router's address", "unicast")),
        ('[[router]]\nname = "gw"\naddress = "192.0.2.9"', ('router "gw": is defined twice',)),
        ('[[router]]\nname = "slac"\naddress = "192.0.2.9"', ('"slac" is a site',)),
        (
            '[[router]]\nname = "r"\naddress = "192.0.2.9"\nmpls = [1048576]',
            ("mpls", "from 0 to 1048575", "not 1048576"),
        ),
        ('[[router]]\nname = "r"\naddress = "192.0.2.9"\nicmp_per_s = 0', ("icmp_per_s must be", "more than 0")),
    ],
)
def test_errors_name_the_line_and_the_fix(text: str, facts: tuple[str, ...]) -> None:
    with pytest.raises(ScenarioError) as raised:
        scenario_of(TEXT + text)

    message = str(raised.value)
    assert "/test.toml:" in message
    assert int(message.split(":")[1]) > TEXT.count("\n")
    assert lacks(message, *facts) == []


def test_a_route_without_a_way_back_is_refused() -> None:
    there = "".join(
        f'[[link]]\nfrom = "{a}"\nto = "{b}"\ndelay_ms = 1\n'
        for a, b in (("slac", "gw"), ("gw", "cern"), ("cern", "core-b"), ("core-b", "slac"))
    )
    paths = "".join(
        f'[[path]]\nfrom = "{a}"\nto = "{b}"\nroute = ["{router}"]\n'
        for a, router, b in (("slac", "gw", "cern"), ("cern", "core-b", "slac"))
    )

    with pytest.raises(ScenarioError) as raised:
        scenario_of('title = "Test"\n' + SITES + ROUTERS + there + paths)

    assert lacks(str(raised.value), "gw has no way back to slac", "add the links back") == []


def test_a_link_is_written_with_its_two_ends() -> None:
    links = [("gw", "core-a"), ("core-a", "gw"), ("a", "b-c"), ("a-b", "c")]

    assert resolve_link("gw-core-a", links) == ("gw", "core-a")
    assert resolve_link("core-a:gw", links) == ("core-a", "gw")
    assert resolve_link("a:b-c", links) == ("a", "b-c")
    with pytest.raises(LabError, match="2 ways: write a:b-c or a-b:c"):
        resolve_link("a-b-c", links)
    with pytest.raises(LabError, match='did you mean "gw-core-a"'):
        resolve_link("gw-core", links)
    with pytest.raises(LabError, match="four-sites-routed"):
        resolve_link("a-b", [])


def test_the_routed_scenario_has_all_that_traces_must_cope_with() -> None:
    scenario = load_scenario("four-sites-routed")
    topology = scenario.topology
    on_routes = {router for routes in topology.routes.values() for route in routes for router in route}
    routers = {router.name: router for router in topology.routers if router.name in on_routes}

    assert len(scenario.sites) == 4
    assert set(topology.routes) == set(scenario.paths)
    assert len(routers) >= 8
    assert len({router.asn for router in routers.values()}) >= 3
    assert any(len(routes) > 1 for routes in topology.routes.values())
    assert any(router.mpls for router in routers.values())
    assert any(router.is_silent for router in routers.values())
    assert any(router.icmp_per_s is not None for router in routers.values())
    assert topology.routes["cern", "slac"][0][::-1] not in topology.routes["slac", "cern"]
    assert all(router.address6 is not None for router in routers.values())
    assert all(ipaddress.ip_address(router.address).is_private for router in routers.values())
