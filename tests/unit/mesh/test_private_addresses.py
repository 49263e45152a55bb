"""Warnings of hosts that others could not reach: private addresses in a mesh with public ones."""

from __future__ import annotations

import re

import pytest

from monitor.mesh.document import addresses
from monitor.mesh.document.reader import parse
from monitor.mesh.document.rules import private_address_warnings, refused_address_warnings
from probes.site.limits.networks import Networks, forbids_address
from tests.facts import lacks
from tests.unit.mesh.test_notify_routes import MESH

SLAC = 'address = "192.0.2.2"'


def warnings(*keys: str) -> list[str]:
    assert SLAC in MESH
    return private_address_warnings(parse(MESH.replace(SLAC, ", ".join(keys)).encode(), "mesh.toml"))


def test_a_private_address_among_public_ones_is_named() -> None:
    assert warnings(SLAC) == []

    (warning,) = warnings('address = "10.1.0.7"')

    facts = ('host "slac"', "10.1.0.7", "private", "cern", "100% loss", "public address", "behind_nat = true")
    assert lacks(warning, *facts) == []


def test_a_host_behind_nat_needs_the_address_of_its_router() -> None:
    assert warnings(SLAC, "behind_nat = true") == []

    (warning,) = warnings('address = "10.1.0.7"', "behind_nat = true")

    assert lacks(warning, 'host "slac"', "10.1.0.7", "public address") == []


def test_an_address_for_the_public_sites_is_enough() -> None:
    peer = 'peer = [{ sites = ["cern"], address = "192.0.2.10" }]'

    assert warnings('address = "10.1.0.7"', peer) == []


@pytest.mark.parametrize(
    ("address", "network"),
    [("10.1.0.7", "10.1.0.7/32"), ("192.168.7.7", "192.168.7.7/32"), ("100.64.3.4", "100.64.3.4/32")],
)
def test_addresses_that_agents_refuse_are_named(address: str, network: str) -> None:
    mesh = MESH.replace("192.0.2.", "203.0.113.").replace("203.0.113.2", address)

    (warning,) = refused_address_warnings(parse(mesh.encode(), "mesh.toml"))

    assert lacks(warning, address, "limits.toml", "allowed", "nothing is measured") == []
    assert network in warning


def test_a_loopback_address_is_no_public_one() -> None:
    mesh = re.sub(r"192\.0\.2\.(\d)", r"127.0.0.\1", MESH.replace(SLAC, 'address = "10.1.0.7"'))

    assert private_address_warnings(parse(mesh.encode(), "mesh.toml")) == []


def test_one_warning_allows_all_refused_addresses() -> None:
    mesh = MESH.replace("192.0.2.", "10.1.0.")

    (warning,) = refused_address_warnings(parse(mesh.encode(), "mesh.toml"))

    (allowed,) = re.findall(r'allowed = \["0.0.0.0/0", "::/0", "([0-9./]+)"\]', warning)
    limits = Networks(allowed=("0.0.0.0/0", "::/0", allowed))
    assert [forbids_address(limits, address) for address in re.findall(r"10\.1\.0\.\d+", mesh)] != []
    assert {forbids_address(limits, address) for address in re.findall(r"10\.1\.0\.\d+", mesh)} == {None}


def test_public_addresses_are_not_refused() -> None:
    assert refused_address_warnings(parse(MESH.encode(), "mesh.toml")) == []


@pytest.mark.parametrize(
    ("address", "is_private"),
    [
        ("10.0.0.1", True), ("172.31.0.1", True), ("192.168.1.1", True), ("100.64.0.1", True), ("fd00::1", True),
        ("172.32.0.1", False), ("192.0.2.1", False), ("2001:db8::1", False), ("router.example.org", False),
    ],
)  # fmt: skip
def test_private_addresses_are_those_of_rfc_1918_6598_and_4193(address: str, is_private: bool) -> None:
    assert addresses.is_private(address) is is_private
