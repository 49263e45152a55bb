"""Files that `monitor.mesh.document.reader` accepts and refuses. Each file in fixtures/mesh/bad breaks a rule, and its
first lines give the expected message; those of each file in fixtures/mesh/good list the resulting measurements."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.alerts.detect.rules.loss import LossRule
from monitor.alerts.detect.rules.round_trips import RoundTripRule
from monitor.mesh.document import addresses, expansion, service_levels
from monitor.mesh.document.alert_rules import Place, settings_for
from monitor.mesh.document.entries import HostEntry, SiteEntry
from monitor.mesh.document.reader import MeshError, parse, read
from monitor.mesh.document.service_levels import ServiceLevel
from monitor.mesh.kinds.ping import PingEntry
from monitor.mesh.kinds.throughput import ThroughputEntry
from tests.facts import lacks

FIXTURES = Path(__file__).parent.parent.parent / "fixtures" / "mesh"
EXAMPLE = Path(__file__).parent.parent.parent.parent / "mesh.example.toml"
BAD = sorted((FIXTURES / "bad").glob("*.toml"))
GOOD = sorted((FIXTURES / "good").glob("*.toml"))


def expected(path):
    """The comments `# expect: …` of a fixture."""
    start = "# expect: "
    return [line.removeprefix(start) for line in path.read_text().split("\n") if line.startswith(start)]


def problems_of(content, file="mesh.toml"):
    with pytest.raises(MeshError) as raised:
        parse(content.encode() if isinstance(content, str) else content, file)
    return raised.value.lines


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_a_broken_rule_is_reported_with_its_line_and_a_fix(path):
    with pytest.raises(MeshError) as raised:
        read(path)

    assert raised.value.lines == [f"{path}:{message}" for message in expected(path)]


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_measurements_follow_from_the_groups(path):
    document = read(path)

    names = {
        f"{measurement.source} -> {measurement.destination} {measurement.test}"
        for measurement in expansion.measurements(document)
    }
    assert names == set(expected(path))


def test_the_example_is_parsed_completely():
    document = read(EXAMPLE)

    assert (document.name, document.home) == ("Three laboratories", "slac")
    assert document.sites[1] == SiteEntry(
        name="cern",
        title="CERN, Geneva",
        latitude_deg=46.23,
        longitude_deg=6.05,
        country="CH",
        region="Europe",
        has_agent=True,
        hosts=(
            HostEntry(name="cern", address="198.51.100.10", family=4, kinds=("ping",)),
            HostEntry(name="cern-throughput", address="198.51.100.11", family=4, kinds=("throughput",)),
        ),
    )
    assert not document.sites[2].has_agent
    assert document.tests == (
        PingEntry("pinger", every_s=60, count=10, packet_bytes=(100, 1000), spacing_s=1.0, timeout_s=2.0),
        ThroughputEntry("tcp", every_s=3600, duration_s=10, omit_s=0, streams=1, port=5201),
    )
    assert [(group.name, group.shape, group.site_names) for group in document.groups] == [
        ("all", "mesh", ("slac", "cern", "niit")),
        ("bulk-data", "between", ("cern", "slac")),
    ]
    assert document.alerts == {"loss": {"above_ratio": 0.01, "window_s": 600}}


def alerts_of(text):
    content = EXAMPLE.read_text().split("[alerts.loss]")[0] + text
    return parse(content.encode(), "mesh.toml").alerts


def test_only_alert_settings_from_the_file_are_stored():
    assert alerts_of("") == {}
    assert alerts_of("[alerts.rtt]\nleast_rise_ms = 20\n[alerts.jitter]\nenabled = false\n") == {
        "rtt": {"least_rise_ms": 20.0},
        "jitter": {"enabled": False},
    }


def test_settings_for_a_group_or_site_follow_those_of_the_mesh():
    alerts = alerts_of(
        "[alerts.rtt]\nleast_rise_ms = 20\n"
        '[[alerts.for]]\ngroup = "bulk-data"\nrtt = { least_rise_ms = 50 }\n'
        '[[alerts.for]]\nto = "niit"\nrtt = { enabled = false }\n[alerts.for.loss]\nabove_ratio = 0.1\n'
    )
    places = {
        1: Place("slac", "cern", frozenset({"all"})),
        2: Place("cern", "slac", frozenset({"all", "bulk-data"})),
        3: Place("slac", "niit", frozenset({"all"})),
    }

    assert settings_for(alerts, "rtt", places) == {
        1: RoundTripRule(least_rise_ms=20),
        2: RoundTripRule(least_rise_ms=50),
    }
    assert settings_for(alerts, "loss", places)[1] == LossRule()
    assert settings_for(alerts, "loss", places)[3] == LossRule(above_ratio=0.1)


def test_settings_of_the_whole_mesh_are_as_those_of_each_path():
    places = {1: Place("slac", "cern"), 2: Place("cern", "slac")}
    alerts = alerts_of("[alerts.rtt]\nleast_rise_ms = 20\n")

    settings = settings_for(alerts, "rtt", places)

    rule = RoundTripRule(least_rise_ms=20)
    assert settings == {1: rule, 2: rule}
    assert (list(settings), list(settings.values()), list(settings.items())) == (
        [1, 2],
        [rule] * 2,
        [(1, rule), (2, rule)],
    )
    assert (settings.get(3), 3 in settings, rule in settings.values()) == (None, False, True)
    assert settings_for(alerts_of("[alerts.rtt]\nenabled = false\n"), "rtt", places) == {}


def test_settings_for_one_path_apply_to_that_path_only():
    """Not to the reverse direction, and not to other hosts of the same sites."""
    alerts = alerts_of('[[alerts.for]]\npath = ["slac", "cern"]\nrtt = { least_rise_ms = 50 }\n')
    places = {
        1: Place("slac", "cern", hosts=("slac", "cern")),
        2: Place("cern", "slac", hosts=("cern", "slac")),
        3: Place("slac", "cern", hosts=("slac", "cern-data")),
    }

    settings_of_path = settings_for(alerts, "rtt", places)

    assert [settings_of_path[path_id].least_rise_ms for path_id in (1, 2, 3)] == [50, 6, 6]


def test_a_missing_file_is_reported():
    with pytest.raises(MeshError) as raised:
        read("no-such-folder/mesh.toml")

    (problem,) = raised.value.lines
    assert lacks(problem, "no-such-folder/mesh.toml: ", "cannot be read", "No such file or directory", "path") == []


def test_a_file_that_is_not_utf_8_is_reported_with_the_line():
    content = '[mesh]\nname = "Genève"\n'.encode("latin-1")

    (problem,) = problems_of(content)
    assert lacks(problem, "mesh.toml:2: ", "not UTF-8", "UTF-8 text") == []


@pytest.mark.parametrize(
    ("line", "reference", "fact"),
    [
        ('home = "slac"', 'home = "SLAC"', '[mesh]: site "SLAC" is not defined (did you mean "slac"?)'),
        ('shape = "mesh" ', 'shape = "star"\ncentres = ["CERN"] ', 'site "CERN" is not defined (did you mean "cern"?)'),
        ('tests = ["tcp"]', 'tests = ["TCP"]', 'test "TCP" is not defined (did you mean "tcp"?)'),
        ("[alerts.loss]", '[[alerts.notify]]\nchannel = "a"\ngroup = "ALL"\n[alerts.loss]', '(did you mean "all"?)'),
        (
            "[alerts.loss]",
            '[[alerts.for]]\npath = ["SLAC", "cern"]\n[alerts.loss]',
            'host "SLAC" is not defined (did you',
        ),
        ('shape = "between" ', 'shape = "BETWEEN"', 'not "BETWEEN" (did you mean "between"?)'),
        ("window_s", "WINDOW_S", 'unknown key "WINDOW_S" (did you mean "window_s"?)'),
    ],
)
def test_a_name_in_the_wrong_case_has_a_suggestion(line, reference, fact):
    (problem,) = problems_of(EXAMPLE.read_text().replace(line, reference))

    assert fact in problem


def test_an_invalid_name_is_not_suggested():
    first, *others = problems_of(EXAMPLE.read_text().replace('name = "niit"', 'name = "NIIT"'))

    assert lacks(first, 'site "NIIT": name must be', 'not "NIIT"') == []
    assert others
    assert not any("did you mean" in problem for problem in others)


@pytest.mark.parametrize(
    ("code", "fact"),
    [
        ("UK", "the code of the United Kingdom is GB"),
        ("uk", "the code of the United Kingdom is GB"),
        ("EL", "the code of Greece is GR"),
        ("XX", 'write two letters, as "CH"'),
    ],
)
def test_a_code_that_is_not_of_iso_3166_has_the_right_code(code, fact):
    (problem,) = problems_of(EXAMPLE.read_text().replace('country = "CH"', f'country = "{code}"'))

    assert lacks(problem, 'site "cern"', f'country = "{code}"', "ISO 3166", fact) == []


def test_an_empty_file_is_reported():
    assert len(problems_of("")) == 4
    assert all(problem.startswith("mesh.toml:1: ") for problem in problems_of(""))


@given(st.data())
def test_any_edit_of_a_good_file_gives_a_document_or_problems(data):
    """Any edit of the file gives a document or problems with lines, never another exception."""
    content = EXAMPLE.read_text().split("\n")
    number = data.draw(st.integers(0, len(content) - 1))
    content[number] = data.draw(
        st.one_of(
            st.just(""),
            st.sampled_from(["x = 1", "name = 1", "host = []", "site = {}", "sites = [[]]", "[site]", "[[mesh]]", "]"]),
            st.builds(
                "{} = {}".format,
                st.just(content[number].split(" ")[0]),
                st.sampled_from(["0", "-1", "1.5", "nan", '""', "[]", "{}", "[{}]", "true", "1979-05-27", '["x", 1]']),
            ),
        )
    )
    text = "\n".join(content)

    try:
        parse(text.encode(), "mesh.toml")
        lines = [1]
    except MeshError as error:
        lines = [problem.line for problem in error.problems]

    assert lines
    assert all(1 <= line <= len(content) for line in lines)


@pytest.mark.parametrize(
    "address",
    [
        "10.0.0.1",
        "127.0.0.2",
        "2001:db8::1",
        "::1",
        "pinger.slac.stanford.edu",
        "localhost",
        "a_b.example.org.",
        "xn--p1ai",
    ],
)
def test_an_address_of_one_host_is_accepted(address):
    assert addresses.fault(address) is None


@pytest.mark.parametrize(
    "address",
    ["", " ", "1.2.3", "10.0.0.1 ", "http://x.org", "a b", "-x.org", "x..org", "[::1]", "1.2.3.4.5", "x.123", "é.org"],
)
def test_an_invalid_address_is_refused(address):
    assert addresses.fault(address) is not None


def test_an_address_has_a_single_canonical_spelling():
    assert addresses.canonical("2001:DB8:0:0::1") == addresses.canonical("2001:db8::1")
    assert addresses.canonical("Pinger.Example.ORG.") == addresses.canonical("pinger.example.org")


def test_a_later_service_level_overrides_key_by_key():
    text = EXAMPLE.read_text() + (
        "\n[service_level]\nloss_ratio = 0.001\nrtt_ms = 200\n"
        '\n[[service_level.for]]\nfrom = "slac"\nrtt_ms = 180\n'
        '\n[[service_level.for]]\nto = "cern"\nthroughput_bps = 1e8\nkept_ratio = 0.9\n'
    )
    levels = parse(text.encode(), "mesh.toml").service_levels

    assert service_levels.settings_for(levels, Place("cern", "slac")) == ServiceLevel(loss_ratio=0.001, rtt_ms=200)
    assert service_levels.settings_for(levels, Place("slac", "cern")) == ServiceLevel(
        loss_ratio=0.001, rtt_ms=180, throughput_bps=1e8, kept_ratio=0.9
    )
    assert service_levels.settings_for({}, Place("slac", "cern")) == ServiceLevel()


def test_own_networks_are_kept_by_their_canonical_prefix():
    text = EXAMPLE.read_text() + (
        '\n[[network]]\nprefix = "2001:DB8:0::/32"\nname = "campus"\nasn = 64496\n'
        '\n[[network]]\nprefix = "192.0.2.7"\nname = "border router"\n'
    )

    assert parse(text.encode(), "mesh.toml").networks == {
        "2001:db8::/32": {"name": "campus", "asn": 64496},
        "192.0.2.7/32": {"name": "border router", "asn": None},
    }
