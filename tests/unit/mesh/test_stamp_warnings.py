"""Warnings of STAMP tests that need something outside mesh.toml: a reflector without an agent, or lower limits."""

from __future__ import annotations

from monitor.mesh.document.reader import parse
from monitor.mesh.document.stamp_rules import stamp_warnings
from tests.facts import lacks
from tests.unit.mesh.test_notify_routes import MESH

STAMP = '\n[[test]]\nname = "oneway"\nkind = "stamp"\nevery_s = 60\n'


def warnings(test: str = "", site: str = "") -> list[str]:
    mesh = MESH.replace('tests = ["pinger"]', 'tests = ["pinger", "oneway"]').replace('country = "US"', site)
    return stamp_warnings(parse((mesh + STAMP + test).encode(), "mesh.toml"))


def test_a_site_without_an_agent_needs_a_reflector_of_its_own() -> None:
    assert warnings(site='country = "US"') == []

    (warning,) = warnings("port = 8620", site='country = "US"\nagent = false')

    assert lacks(warning, 'test "oneway"', "1 site without an agent (slac)", "STAMP", "UDP port 8620", "pings") == []


def test_a_spacing_below_the_default_limit_is_named() -> None:
    assert warnings("spacing_s = 0.1", site='country = "US"') == []

    (warning,) = warnings("spacing_s = 0.05", site='country = "US"')

    assert lacks(warning, 'test "oneway"', "spacing_s = 0.05", "not_permitted", "min_spacing_s", "[stamp]", "0.1") == []
