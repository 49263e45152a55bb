"""Addresses of the lab's sites, in namespaces or on loopback, and their mesh.toml. Configures nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from probes.lab.scenario import LabSite, Scenario
from probes.transfers.spec import MOST_CAPTURED_PACKETS


def namespace_addresses(scenario: Scenario, families: Sequence[int] = (4,)) -> dict[str, tuple[str, ...]]:
    """Addresses of each site on its `wan0`, of these families in their order."""
    return {
        site.name: tuple(_address(family, number) for family in families)
        for number, site in enumerate(scenario.sites, start=1)
    }


def _address(family: int, number: int) -> str:
    return f"10.77.{number}.1" if family == 4 else f"fd77:0:0:{number:x}::1"


def loopback_addresses(scenario: Scenario) -> dict[str, tuple[str, ...]]:
    """Addresses on the loopback interface, without emulated paths."""
    return {site.name: (f"127.77.{number}.1",) for number, site in enumerate(scenario.sites, start=1)}


def limits_toml(addresses: Mapping[str, Sequence[str]]) -> str:
    """The limits.toml of every lab site: allows only lab addresses, and captures."""
    inside = [f"{address}/{128 if ':' in address else 32}" for site in addresses.values() for address in site]
    captures = _block("[throughput]", {"max_capture_packets": MOST_CAPTURED_PACKETS})
    return "\n".join([_block("[networks]", {"allowed": inside}), captures])


def mesh_toml(scenario: Scenario, addresses: Mapping[str, Sequence[str]]) -> str:
    """The mesh.toml: a full mesh; STAMP needs namespaces, as loopback sites would share a port."""
    tests = _tests(scenario)
    stamp = None if _is_loopback(addresses) else scenario.measure.stamp
    blocks = [_block("[mesh]", {"name": scenario.title, "home": scenario.sites[0].name})]
    for site in scenario.sites:
        blocks += [_block("[[site]]", _site_values(site)), *_hosts(site, addresses[site.name])]
    blocks += [_block("[[test]]", values) for values in tests]
    if tests:
        names = [values["name"] for values in tests]
        group = {"name": "all", "shape": "mesh", "sites": list(scenario.site_names), "tests": names}
        blocks.append(_block("[[group]]", group))
    if stamp is not None:
        keys = msgspec.structs.asdict(stamp)
        sites = list(keys.pop("sites") or scenario.site_names)
        blocks.append(_block("[[test]]", {"name": "oneway", "kind": "stamp", **keys}))
        blocks.append(_block("[[group]]", {"name": "directions", "shape": "mesh", "sites": sites, "tests": ["oneway"]}))
    blocks += [_block("[[network]]", values) for values in _networks(scenario, addresses)]
    if scenario.alerts.loss is not None:
        blocks.append(_block("[alerts.loss]", msgspec.structs.asdict(scenario.alerts.loss)))
    return "\n".join(blocks)


def _is_loopback(addresses: Mapping[str, Sequence[str]]) -> bool:
    return all(address.startswith("127.") for site in addresses.values() for address in site)


def _site_values(site: LabSite) -> dict[str, Any]:
    return msgspec.structs.asdict(site)


def _hosts(site: LabSite, addresses: Sequence[str]) -> list[str]:
    blocks = [_block("[[site.host]]", {"address": addresses[0]})]
    for number, address in enumerate(addresses[1:], start=2):
        name = f"{site.name}-ipv6" if ":" in address else f"{site.name}-{number}"
        blocks.append(_block("[[site.host]]", {"address": address, "name": name, "measures": ["ping"]}))
    return blocks


def _tests(scenario: Scenario) -> list[dict[str, Any]]:
    measure = scenario.measure
    tests: list[dict[str, Any]] = []
    if measure.ping is not None:
        set_keys = {key: value for key, value in msgspec.structs.asdict(measure.ping).items() if value is not None}
        tests.append({"name": "ping", "kind": "ping", **set_keys})
    if measure.throughput is not None:
        tests.append({"name": "tcp", "kind": "throughput", **msgspec.structs.asdict(measure.throughput)})
    if measure.trace is not None:
        tests.append({"name": "routes", "kind": "trace", **msgspec.structs.asdict(measure.trace)})
    return tests


def _networks(scenario: Scenario, addresses: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    routers = {router.name: router for router in scenario.topology.routers}
    hops = [(router, address) for router in routers.values() for address in router.addresses]
    for site, others in addresses.items():
        neighbours = [routers[b] for a, b in scenario.topology.links if a == site]
        if len({router.asn for router in neighbours}) == 1:
            hops += [(neighbours[0], address) for address in others]
    return [
        {
            "prefix": f"{address}/{128 if ':' in address else 32}",
            "name": router.as_name or router.name,
            "asn": router.asn,
        }
        for router, address in hops
        if router.asn is not None
    ]


def _block(header: str, values: Mapping[str, Any]) -> str:
    return "\n".join([header, *(f"{key} = {_toml(value)}" for key, value in values.items())]) + "\n"


def _toml(value: str | int | float | Sequence[str | int]) -> str:
    """JSON strings are TOML basic strings, except that TOML escapes DEL."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, (int, float)):
        return repr(value)
    return f"[{', '.join(_toml(item) for item in value)}]"
