"""What a mesh.toml says that its throughput tests cost, by hand."""

from __future__ import annotations

import pytest

from monitor.mesh.document.reader import parse
from monitor.mesh.kinds.costs import cost_warnings, costs_of
from tests.facts import lacks

SITE = """
[[site]]
name = "{0}"
latitude_deg = 1
longitude_deg = 1
country = "CH"
[[site.host]]
address = "192.0.2.{1}"
"""


def mesh(every_s, shape='shape = "mesh"\nsites = ["a", "b", "c"]', kind="throughput"):
    sites = "".join(SITE.format(name, number) for number, name in enumerate("abc", 1))
    group = f'[[group]]\nname = "all"\n{shape}\ntests = ["tcp"]\n'
    test = f'[[test]]\nname = "tcp"\nkind = "{kind}"\nevery_s = {every_s}\n'
    return parse(f'[mesh]\nname = "m"\n{sites}{test}{group}'.encode(), "mesh.toml")


def test_tests_between_three_hosts_are_counted_at_both_ends():
    """Six pairs, each 144 times a day for 10 s; a host is in four of the pairs."""
    costs = costs_of(mesh(600))

    assert costs.tests_per_day == 6 * 144
    assert {load.host for load in costs.hosts} == {"a", "b", "c"}
    assert {load.tests_per_day for load in costs.hosts} == {4 * 144}
    assert {load.loaded_s_per_day for load in costs.hosts} == {4 * 144 * 10}
    # 5,760 s at 1 Gbit/s are 720 GB.
    assert lacks(costs.text, "864 tests a day", "a 6.7% of the time (576 tests, 720 GB a day at 1 Gbit/s)") == []
    assert cost_warnings(costs) == []


def test_the_centre_of_a_star_is_named_first_and_warned_of():
    """Four pairs every 300 s, all with `b`: 1,152 tests of 10 s are 13.3% of a day; `a` has half of them."""
    costs = costs_of(mesh(300, 'shape = "star"\ncentres = ["b"]\nsites = ["a", "c"]'))

    assert [load.host for load in costs.hosts] == ["b", "a", "c"]
    assert costs.hosts[0].ratio == pytest.approx(1152 * 10 / 86_400)
    (warning,) = cost_warnings(costs)
    assert lacks(warning, "1 host for more than 10% of the time", '"b" for 13.3%', "longer every_s") == []


def test_a_mesh_without_such_tests_costs_nothing():
    assert costs_of(mesh(60, kind="ping")) is None
    assert cost_warnings(None) == []
