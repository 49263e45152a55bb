"""The mesh.toml generated from a scenario, parsed by an independent TOML reader."""

from __future__ import annotations

import ipaddress
import tomllib
from pathlib import Path

import pytest

from probes.lab.mesh import limits_toml, loopback_addresses, mesh_toml, namespace_addresses
from probes.lab.scenario import load_scenario, shipped_scenarios
from probes.site.limits.read import read_limits
from tests.scenario_text import scenario_of


def test_three_sites_give_the_expected_mesh() -> None:
    scenario = load_scenario("three-sites")

    mesh = tomllib.loads(mesh_toml(scenario, namespace_addresses(scenario)))

    assert mesh["mesh"] == {"name": "Three test sites", "home": "bern"}
    assert mesh["site"][1] == {
        "name": "rome",
        "title": "Rome",
        "latitude_deg": 41.90,
        "longitude_deg": 12.50,
        "country": "IT",
        "region": "Europe",
        "host": [{"address": "10.77.2.1"}],
    }
    assert mesh["test"] == [
        {
            "name": "ping",
            "kind": "ping",
            "every_s": 10,
            "count": 10,
            "packet_bytes": [100, 1000],
            "spacing_s": 0.2,
            "timeout_s": 1.0,
        },
        {"name": "tcp", "kind": "throughput", "every_s": 120, "duration_s": 3, "omit_s": 0, "streams": 1, "port": 5201},
    ]
    assert mesh["group"] == [
        {"name": "all", "shape": "mesh", "sites": ["bern", "rome", "oslo"], "tests": ["ping", "tcp"]}
    ]
    assert mesh["alerts"] == {"loss": {"above_ratio": 0.1, "window_s": 60}}


def test_loopback_addresses_are_loopback_and_differ() -> None:
    addresses = loopback_addresses(load_scenario())

    flat = [address for site in addresses.values() for address in site]
    assert flat[0] == "127.77.1.1"
    assert all(ipaddress.ip_address(address).is_loopback for address in flat)
    assert len(set(flat)) == 5


@pytest.mark.parametrize("ipv6", [False, True])
def test_the_labs_limits_allow_only_its_own_addresses(tmp_path: Path, ipv6: bool) -> None:
    addresses = namespace_addresses(load_scenario(), (4, 6) if ipv6 else (4,))
    file = tmp_path / "limits.toml"
    file.write_text(limits_toml(addresses))

    limits = read_limits(file)

    for site in addresses.values():
        assert [limits.forbids_address(address) for address in site] == [None] * len(site)
    assert limits.forbids_address("10.77.1.2") is not None
    assert limits.forbids_address("192.0.2.1") is not None


def test_ipv6_hosts_are_added_for_ping_with_names_of_their_own() -> None:
    scenario = load_scenario()

    mesh = tomllib.loads(mesh_toml(scenario, namespace_addresses(scenario, (4, 6))))

    assert mesh["site"][4]["host"] == [
        {"address": "10.77.5.1"},
        {"address": "fd77:0:0:5::1", "name": "in2p3-ipv6", "measures": ["ping"]},
    ]


def test_a_scenario_without_measurements_has_no_tests() -> None:
    sites = "".join(
        f'[[site]]\nname = "{name}"\ntitle = "T"\nregion = "R"\ncountry = "XX"\nlatitude_deg = 0\nlongitude_deg = 1\n'
        for name in ("a", "b")
    )
    scenario = scenario_of('title = "A \\"bare\\" één"\n' + sites)

    mesh = tomllib.loads(mesh_toml(scenario, namespace_addresses(scenario)))

    assert mesh["mesh"]["name"] == 'A "bare" één'
    assert set(mesh) == {"mesh", "site"}


def test_stamp_runs_beside_pings_between_some_sites() -> None:
    scenario = load_scenario("five-sites")

    mesh = tomllib.loads(mesh_toml(scenario, namespace_addresses(scenario)))

    [stamp] = [test for test in mesh["test"] if test["kind"] == "stamp"]
    [group] = [group for group in mesh["group"] if stamp["name"] in group["tests"]]
    assert (stamp["every_s"], stamp["count"]) == (10, 10)
    assert group["sites"] == ["slac", "nersc", "ornl"]
    assert stamp["count"] * stamp["spacing_s"] + stamp["timeout_s"] <= stamp["every_s"]


def test_on_loopback_no_stamp_runs_since_reflectors_share_a_port() -> None:
    scenario = load_scenario("five-sites")

    mesh = tomllib.loads(mesh_toml(scenario, loopback_addresses(scenario)))

    assert {test["kind"] for test in mesh["test"]} == {"ping", "throughput"}
    assert [group["name"] for group in mesh["group"]] == ["all"]


@pytest.mark.parametrize("name", shipped_scenarios())
def test_a_cycle_of_pings_ends_before_the_next_begins(name: str) -> None:
    ping = load_scenario(name).measure.ping

    assert ping is not None
    spacing_s = 0.0 if ping.pattern == "even" else ping.spacing_s
    assert spacing_s is not None
    assert len(ping.packet_bytes) * ping.count * spacing_s + ping.timeout_s <= ping.every_s


def test_the_mesh_names_the_networks_of_the_routers() -> None:
    scenario = load_scenario("four-sites-routed")

    mesh = tomllib.loads(mesh_toml(scenario, namespace_addresses(scenario, (4, 6))))

    networks = {network["prefix"]: (network["name"], network["asn"]) for network in mesh["network"]}
    assert networks["203.0.113.1/32"] == ("GEANT", 20965)
    assert networks["2001:db8:125::4/128"] == ("ESnet", 293)
    # CERN's site is linked to its own router only.
    assert networks["10.77.3.1/32"] == ("CERN", 513)
    assert len(networks) == 2 * 13 + 2 * 4


def test_the_scenario_with_routers_traces_all_paths() -> None:
    scenario = load_scenario("four-sites-routed")

    mesh = tomllib.loads(mesh_toml(scenario, namespace_addresses(scenario)))

    [trace] = [test for test in mesh["test"] if test["kind"] == "trace"]
    assert trace["every_s"] == 120
    assert trace["name"] in mesh["group"][0]["tests"]
    assert mesh["group"][0]["sites"] == ["slac", "ornl", "cern", "in2p3"]
