"""Scenario files: their meaning, and the error messages for invalid files."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.lab.scenario import (
    great_circle_km,
    load_scenario,
    read_scenario,
    resolve_path,
    shipped_scenarios,
)
from probes.lab.settings import LabError, PathSettings, ScenarioError
from tests.facts import lacks
from tests.scenario_text import scenario_of

SITES = """
title = "Test"
[[site]]
name = "slac"
title = "SLAC"
latitude_deg = 37.42
longitude_deg = -122.20
country = "US"
region = "North America"
[[site]]
name = "cern"
title = "CERN"
latitude_deg = 46.23
longitude_deg = 6.05
country = "CH"
region = "Europe"
"""


def paths_of(text: str) -> dict[tuple[str, str], PathSettings]:
    return dict(scenario_of(SITES + text).paths)


def test_each_direction_has_half_of_the_rtt() -> None:
    paths = paths_of('[[path]]\nbetween = ["slac", "cern"]\nrtt_ms = 180\nloss_ratio = 0.01')

    assert paths["slac", "cern"] == paths["cern", "slac"] == PathSettings(delay_ms=90.0, loss_ratio=0.01)


def test_one_direction_overrides_both_in_any_order() -> None:
    override = '[[path]]\nfrom = "cern"\nto = "slac"\nloss_ratio = 0.5\n'
    both = '[[path]]\nbetween = ["slac", "cern"]\nrtt_ms = 180\nrate_mbps = 10\nloss_ratio = 0.1\n'

    for text in (override + both, both + override):
        paths = paths_of(text)
        assert paths["cern", "slac"] == PathSettings(delay_ms=90.0, rate_mbps=10.0, loss_ratio=0.5)
        assert paths["slac", "cern"] == PathSettings(delay_ms=90.0, rate_mbps=10.0, loss_ratio=0.1)


def test_a_path_without_a_delay_has_that_of_the_great_circle() -> None:
    # The metre was defined so that the distance from the equator to the pole is 10,000 km, which is 100 ms at 100
    # km/ms.
    text = SITES.replace("37.42", "0").replace("-122.20", "6.05").replace("46.23", "90")
    paths = scenario_of(text + "[default]\nloss_ratio = 0.001").paths

    assert 2 * paths["slac", "cern"].delay_ms == pytest.approx(100, rel=0.002)
    assert paths["slac", "cern"].loss_ratio == 0.001


def test_the_queue_is_given_in_bytes_or_as_a_time_at_the_rate() -> None:
    assert PathSettings(delay_ms=0, rate_mbps=8, queue_ms=50).queue_limit_bytes == 50_000
    assert PathSettings(delay_ms=0, rate_mbps=8, queue_ms=50, queue_bytes=3000).queue_limit_bytes == 3000
    assert PathSettings(delay_ms=0).queue_limit_bytes == float("inf")


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("[[path]\n", ("not valid TOML",)),
        ("colour = 1", ('1: unknown key "colour"', "it takes title, ")),
        (
            '[[path]]\nbetween = ["slac", "cern"]\nloss = 0.1',
            ('[[path]]: unknown key "loss"', "it takes jitter_ms, loss_ratio, "),
        ),
        (
            '[[path]]\nbetween = ["slac", "cern"]\nloss_ratio = 2',
            ("loss_ratio must be", "a number", " from 0 to 1,", "not 2"),
        ),
        (
            '[[path]]\nbetween = ["slac", "cern"]\nrtt_ms = -1',
            ("rtt_ms must be", "a number", " from 0 to 60000,", "not -1"),
        ),
        (
            '[[path]]\nbetween = ["slac", "cern"]\nrate_mbps = "fast"',
            ("rate_mbps must be", "a number", " from 0.001 to 10000,", 'not the string "fast"'),
        ),
        (
            '[[path]]\nbetween = ["slac"]',
            ("between must be", "two sites", 'between = ["slac", "cern"]', 'not ["slac"]'),
        ),
        (
            '[[path]]\nbetween = ["slac", "cren"]',
            ("[[path]] number 1: ", 'site "cren"', "not defined", 'did you mean "cern"?'),
        ),
        (
            '[[path]]\nbetween = ["slac", "slac"]',
            ("[[path]] number 1: ", 'from "slac"', "to itself", "two sites"),
        ),
        (
            "[[path]]\nrtt_ms = 1",
            ('`between = ["a", "b"]`', "both directions", "`from` and `to`", "a single direction"),
        ),
        ('[[path]]\nfrom = "slac"', ("`from` and `to`", "a single direction")),
        ('[[path]]\nbetween = ["slac", "cern"]\nfrom = "slac"', ("has both `between` and `from`/`to`",)),
        ('[[path]]\nbetween = ["slac", "cern"]\ndelay_ms = 1', ("with `between` use `rtt_ms`",)),
        ('[[path]]\nfrom = "slac"\nto = "cern"\nrtt_ms = 1', ("with `from` and `to`", "use `delay_ms`")),
        (
            '[[path]]\nbetween = ["slac", "cern"]\n[[path]]\nbetween = ["cern", "slac"]',
            ("[[path]] number 2: ", " cern-slac ", "two `between`"),
        ),
        ("[measure.ping]\nevery_s = 0", ("[measure.ping]: every_s must be", "an integer", "at least 1,", "not 0")),
        (
            "[measure.sweep]\nevery_s = 1",
            ("[measure]: ", "unknown table [measure.sweep]", "it takes ping, throughput, trace"),
        ),
        (
            '[measure.stamp]\nevery_s = 10\nsites = ["slac", "cren"]',
            ("[measure.stamp]: ", 'site "cren"', "not defined", 'did you mean "cern"?'),
        ),
        ('[measure.stamp]\nevery_s = 10\nsites = ["slac"]', ("[measure.stamp]: sites must", 'not ["slac"]')),
        (
            "[alerts.loss]\nabove_ratio = 1.0\nwindow_s = 60",
            ("above_ratio must be", "a number", "more than 0 ", "less than 1,", "not 1"),
        ),
        ("[default]\nrtt_ms = 3", ('[default]: unknown key "rtt_ms"',)),
    ],
)
def test_errors_in_scenarios_are_reported(text: str, facts: tuple[str, ...]) -> None:
    with pytest.raises(ScenarioError) as raised:
        scenario_of(text + SITES if text.startswith("colour") else SITES + text)

    assert lacks(str(raised.value), *facts) == []


@pytest.mark.parametrize(
    ("old", "new", "facts"),
    [
        ('"cern"', '"slac"', ('[[site]] "slac"', "defined 2 times")),
        ('"cern"', '"CERN"', ('site "CERN": name must be', "small letters", "digits", '"-"')),
        ("46.23", "91.0", ("latitude_deg must be", "a number", " from -90 to 90,", "not 91")),
        ('"CH"', '"Switzerland"', ("country must be", "two capital letters", '"CH"', 'not "Switzerland"')),
        ('title = "CERN"\n', "", ('site "cern": title is missing', "write title = …")),
    ],
)
def test_invalid_sites_are_refused(old: str, new: str, facts: tuple[str, ...]) -> None:
    with pytest.raises(ScenarioError) as raised:
        scenario_of(SITES.replace(old, new))

    assert lacks(str(raised.value), *facts) == []


def test_a_lab_needs_two_sites() -> None:
    with pytest.raises(ScenarioError, match=r": 1 \[\[site\]\]") as raised:
        scenario_of(SITES[: SITES.rindex("[[site]]")])
    assert lacks(str(raised.value), " 2 to 64 sites") == []


def test_an_error_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(SITES + "[colour]")
    line = SITES.count("\n") + 1

    with pytest.raises(ScenarioError) as raised:
        read_scenario(file)

    assert str(raised.value).startswith(f"{file}:{line}: ")
    tables = "title, seed, site, default, path, measure, alerts"
    assert lacks(str(raised.value), "unknown table [colour]", f"it takes {tables}") == []


def test_an_unknown_scenario_lists_the_existing_scenarios() -> None:
    with pytest.raises(ScenarioError) as raised:
        load_scenario("six-sites")
    assert lacks(str(raised.value), 'no scenario "six-sites"', "five-sites", "three-sites", "path of a file") == []


@pytest.mark.parametrize("name", shipped_scenarios())
def test_shipped_scenarios_are_no_faster_than_light(name: str) -> None:
    scenario = load_scenario(name)
    sites = {site.name: site for site in scenario.sites}
    delays_ms = {pair: settings.delay_ms for pair, settings in scenario.paths.items()}
    for pair, routes in scenario.topology.routes.items():
        links = itertools.pairwise((pair[0], *routes[0], pair[1]))
        delays_ms[pair] += sum(scenario.topology.links[link].delay_ms for link in links)

    for source, destination in scenario.paths:
        rtt_ms = delays_ms[source, destination] + delays_ms[destination, source]
        # Light in fibre covers 200 km in a millisecond, or 100 km of distance per millisecond of RTT (PingER's alpha is
        # at most 1).
        assert great_circle_km(sites[source], sites[destination]) <= 100 * rtt_ms, (source, destination)


def test_the_default_scenario_has_the_published_rtts() -> None:
    paths = load_scenario().paths

    for source, destination, rtt_ms in (("slac", "in2p3", 175), ("ornl", "nersc", 102), ("slac", "cern", 180)):
        assert paths[source, destination].delay_ms + paths[destination, source].delay_ms == rtt_ms


NAMES = ["slac", "cern", "in2p3", "a", "a-b", "b", "b-c", "c"]


def test_paths_are_parsed_when_names_have_hyphens() -> None:
    assert resolve_path("slac-cern", NAMES) == ("slac", "cern")
    assert resolve_path("a-b-slac", NAMES) == ("a-b", "slac")
    assert resolve_path("a-b", NAMES) == ("a", "b")
    assert resolve_path("a-b:b-c", NAMES) == ("a-b", "b-c")


@pytest.mark.parametrize(
    ("written", "facts"),
    [
        ("a-b-c", ('"a-b-c"', " 2 ways", "write a:b-c or a-b:c")),
        ("slac-slac", ('"slac-slac"', "not a path", "SRC-DST", "two different sites", ", ".join(NAMES))),
        ("slac", ('"slac"', "not a path")),
        ("slac:cren", ('site "cren"', "not defined", 'did you mean "cern"?')),
    ],
)
def test_an_invalid_path_is_reported(written: str, facts: tuple[str, ...]) -> None:
    with pytest.raises(LabError) as raised:
        resolve_path(written, NAMES)

    assert lacks(str(raised.value), *facts) == []


@given(
    names=st.lists(st.from_regex(r"\A[a-z0-9]([a-z0-9-]{0,6}[a-z0-9])?\Z"), min_size=2, max_size=6, unique=True),
    data=st.data(),
)
def test_every_pair_of_sites_can_be_written(names: list[str], data: st.DataObject) -> None:
    pair = tuple(data.draw(st.permutations(names))[:2])
    written = "-".join(pair)
    readings = sum(f"{source}-{destination}" == written for source, destination in itertools.permutations(names, 2))

    assert resolve_path(":".join(pair), names) == pair
    if readings == 1:
        assert resolve_path(written, names) == pair
    else:
        with pytest.raises(LabError, match=f" {readings} ways"):
            resolve_path(written, names)


def test_a_direct_link_has_an_mtu_and_nothing_of_the_relay() -> None:
    table = '[[path]]\nbetween = ["cern", "slac"]\nlink = "direct"\n'

    assert scenario_of(SITES).direct == {}
    assert scenario_of(SITES + table).direct == {("cern", "slac"): 1500}
    assert scenario_of(f"{SITES}{table}mtu_bytes = 9000").direct == {("cern", "slac"): 9000}


@pytest.mark.parametrize(
    ("table", "facts"),
    [
        ('between = ["cern", "slac"]\nlink = "direct"\nrtt_ms = 10', ("number 1", "no delay, loss, rate or route")),
        ('between = ["cern", "slac"]\nlink = "direct"\nloss_ratio = 0.1', ("number 1", "no delay, loss")),
        ('from = "cern"\nto = "slac"\nlink = "direct"', ("number 1", "both directions", "between")),
        ('between = ["cern", "slac"]\nmtu_bytes = 9000', ("number 1", "mtu_bytes", 'link = "direct"')),
        ('between = ["cern", "slac"]\nlink = "veth"', ("link", "direct", "veth")),
    ],
)
def test_an_invalid_direct_link_is_refused(table: str, facts: tuple[str, ...]) -> None:
    with pytest.raises(ScenarioError) as failed:
        scenario_of(f"{SITES}[[path]]\n{table}\n")

    assert lacks(str(failed.value), *facts) == []
