"""A site's limits: which measurements it permits."""

import argparse
import tomllib
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.contract import Target
from probes.packets.limits import InFlight
from probes.packets.spec import PingSpec, PingTarget
from probes.ping.kind import KIND
from probes.ping.limits import PingLimits
from probes.ping.spec import PingTask
from probes.site.limits.command import run as show_limits
from probes.site.limits.limits import Limits
from probes.site.limits.networks import Networks
from probes.site.limits.read import LimitsError, read_limits, rules
from probes.site.runner.permit import Permit
from probes.throughput.limits import ThroughputLimits
from probes.transfers.spec import ThroughputSpec
from tests.facts import lacks

ROOT = Path(__file__).parents[3]


def forbids(address, **rules):
    return Limits(networks=Networks(**rules)).forbids_address(address)


@pytest.mark.parametrize("address", ["192.0.2.1", "172.15.0.1", "172.32.0.1", "11.0.0.1", "2001:db8::1", "2600::1"])
def test_without_a_file_public_addresses_may_be_measured(address):
    assert forbids(address) is None


# RFC 1918, RFC 6598, RFC 4193, RFC 3927, RFC 4291
GUARDED = {
    "10.0.0.1": "networks.private",
    "172.16.0.1": "networks.private",
    "172.31.255.1": "networks.private",
    "192.168.1.1": "networks.private",
    "100.64.0.1": "networks.private",
    "fd00::1": "networks.private",
    "127.0.0.1": "networks.loopback",
    "::1": "networks.loopback",
    "169.254.169.254": "networks.link_local",
    "fe80::1": "networks.link_local",
    "fe80::1%eth0": "networks.link_local",
}


@pytest.mark.parametrize(("address", "rule"), GUARDED.items())
def test_site_dependent_addresses_are_measured_only_if_allowed(address, rule):
    literal = address.partition("%")[0]
    bits = 128 if ":" in literal else 32

    assert forbids(address).startswith(f"{rule}: {literal} is in ")
    assert forbids(address, allowed=("0.0.0.0/0", "::/0", "8.0.0.0/6", "fc00::/6")).startswith(rule)
    assert forbids(address, allowed=("0.0.0.0/0", "::/0", f"{literal}/{bits}")) is None
    assert forbids(address, allowed=(f"{literal}/{bits}",), forbidden=(f"{literal}/{bits}",)).startswith(
        "networks.forb"
    )


@pytest.mark.parametrize("rule", ["own", "management"])
def test_own_networks_are_measured_only_in_their_allowed_parts(rule):
    rules = {"allowed": ("0.0.0.0/0", "192.0.2.64/26"), rule: ("192.0.2.0/24",)}

    reason = forbids("192.0.2.1", **rules)
    assert reason.startswith(f"networks.{rule}: 192.0.2.1 ")
    assert lacks(reason, " in 192.0.2.0/24;", "a network inside", "networks.allowed") == []
    assert forbids("192.0.2.65", **rules) is None
    assert forbids("198.51.100.1", **rules) is None


def test_the_broadcast_address_of_an_own_network_is_forbidden():
    rules = {"allowed": ("192.0.2.0/24",), "own": ("192.0.2.0/24",)}

    assert forbids("192.0.2.254", **rules) is None
    reason = forbids("192.0.2.255", **rules)
    assert lacks(reason, "networks.broadcast: 192.0.2.255 ", "broadcast address", "192.0.2.0/24") == []


@pytest.mark.parametrize("rule", ["own", "management"])
def test_a_broadcast_address_can_be_allowed_explicitly(rule):
    link, network = ("192.0.2.128/31",), ("192.0.2.0/24",)

    assert forbids("192.0.2.129", **{"allowed": link, rule: link}) is None  # RFC 3021
    assert forbids("192.0.2.255", **{"allowed": network, rule: network}).startswith("networks.broadcast")
    assert forbids("192.0.2.255", **{"allowed": (*network, "192.0.2.255/32"), rule: network}) is None


def test_allowing_addresses_that_are_never_measured_is_an_error(tmp_path):
    file = tmp_path / "limits.toml"
    file.write_text('[networks]\nallowed = ["0.0.0.0/0", "239.1.0.0/16"]\n')

    with pytest.raises(LimitsError) as error:
        read_limits(file)

    assert str(error.value).startswith(f'{file}:2: [networks]: allowed: "239.1.0.0/16" (networks.multicast)')
    assert lacks(str(error.value), "no host's address", "no rule opens it") == []


def test_the_agents_own_addresses_are_forbidden_unless_allowed(monkeypatch):
    monkeypatch.setattr(
        "probes.site.limits.networks.is_own", lambda address, family: address[0] in ("192.0.2.9", "2001:db8::9")
    )

    for address in ("192.0.2.9", "2001:db8::9"):
        assert forbids(address).startswith(f"networks.management: {address} ")
        assert lacks(forbids(address), "this agent's own") == []
    assert forbids("192.0.2.8") is None
    assert forbids("192.0.2.9", allowed=("0.0.0.0/0", "192.0.2.9/32")) is None


@pytest.mark.parametrize(
    ("address", "rule"),
    [
        ("224.0.0.1", "networks.multicast"),
        ("239.1.2.3", "networks.multicast"),
        ("ff02::1", "networks.multicast"),
        ("255.255.255.255", "networks.broadcast"),
        ("0.0.0.0", "networks.unspecified"),
        ("::", "networks.unspecified"),
    ],
)
def test_an_address_that_is_no_hosts_is_never_measured(address, rule):
    assert forbids(address, allowed=("0.0.0.0/0", "::/0", address)).startswith(f"{rule}: {address}")


def test_a_forbidden_network_takes_precedence_over_allowed_ones():
    rules = {"allowed": ("10.0.0.0/8",), "forbidden": ("10.1.0.0/16",)}  # the whole of 10/8 lies inside 10/8

    assert forbids("10.2.0.1", **rules) is None
    assert forbids("10.1.0.1", **rules) == "networks.forbidden: 10.1.0.1 is in 10.1.0.0/16"
    assert lacks(forbids("192.0.2.1", **rules), "networks.allowed: 192.0.2.1 ", "in none") == []
    assert forbids("2001:db8::1", **rules) is not None


@pytest.mark.parametrize(
    "dressed",
    [
        "::ffff:{a}",  # RFC 4291, 2.5.5.2
        "64:ff9b::{a}",  # RFC 6052, 2.1
        "2002:{hex}::1",  # RFC 3056, 2
    ],
)
def test_an_ipv4_address_embedded_in_ipv6_is_checked_as_ipv4(dressed):
    def embedded(address):
        a, b, c, d = (int(part) for part in address.split("."))
        return dressed.format(a=address, hex=f"{a:02x}{b:02x}:{c:02x}{d:02x}")

    assert forbids(embedded("10.1.0.1")).startswith("networks.private: 10.1.0.1")
    assert forbids(embedded("224.0.0.1")).startswith("networks.multicast: 224.0.0.1")
    assert forbids(embedded("192.0.2.1"), forbidden=("192.0.2.0/24",)).startswith("networks.forbidden: 192.0.2.1")


def ping(*addresses, spacing_s=1.0):
    return PingSpec(targets=tuple(PingTarget(address=address) for address in addresses), spacing_s=spacing_s)


def verdicts(limits, spec, *in_flight):
    """The rule that forbids each target, or None, while other cycles run."""
    permit = Permit(limits)
    with ExitStack() as stack:
        for number, cycle in enumerate(in_flight):
            other = PingTask(test=f"other {number}", every_s=60, spec=ping(*cycle.addresses, spacing_s=cycle.spacing_s))
            stack.enter_context(permit.targets(KIND, other, KIND.targets(other)))
        task = PingTask(test="pinger", every_s=60, spec=spec)
        answers = stack.enter_context(permit.targets(KIND, task, KIND.targets(task)))
    return [None if isinstance(verdict, Target) else str(verdict) for verdict in answers]


def test_the_first_targets_get_the_available_packets():
    limits = Limits(ping=PingLimits(max_packets_per_s=3))
    spec = ping("192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4")

    assert [rule is None for rule in verdicts(limits, spec)] == [True, True, True, False]
    two_more = InFlight(1.0, frozenset({"192.0.2.8", "192.0.2.9"}))
    assert [rule is None for rule in verdicts(limits, spec, two_more)] == [True, False, False, False]
    assert verdicts(limits, spec)[3] == "ping.max_packets_per_s: 4 wanted, 3 allowed"


def test_a_forbidden_target_uses_no_packets():
    limits = Limits(networks=Networks(forbidden=("192.0.2.1/32",)), ping=PingLimits(max_packets_per_s=1))

    assert [rule is None for rule in verdicts(limits, ping("192.0.2.1", "192.0.2.2"))] == [False, True]


def test_packets_to_an_address_keep_their_spacing_across_cycles():
    limits = Limits(ping=PingLimits(min_spacing_s=0.5))
    busy = InFlight(1.0, frozenset({"192.0.2.1"}))
    busier = InFlight(1.0, frozenset({"192.0.2.1", "192.0.2.3"}))

    assert verdicts(limits, ping("192.0.2.1", spacing_s=0.2))[0].startswith("ping.min_spacing_s: 0.2 s between")
    assert verdicts(limits, ping("192.0.2.1", "192.0.2.2"), busy) == [None, None]
    third = verdicts(limits, ping("192.0.2.1", "192.0.2.2", "192.0.2.3"), busy, busier)
    assert [rule is None for rule in third] == [False, True, True]


def test_targets_with_the_same_address_share_its_packets():
    limits = Limits(ping=PingLimits(min_spacing_s=0.5, max_packets_per_s=2))

    assert verdicts(limits, ping("192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.2")) == [None] * 4


@pytest.mark.parametrize("spacing_s", [0.0, -1.0])
def test_a_spacing_of_zero_is_forbidden(spacing_s):
    assert verdicts(Limits(), ping("192.0.2.1", spacing_s=spacing_s))[0] is not None


def test_the_default_spacing_allows_exactly_its_own_value():
    assert verdicts(Limits(), ping("192.0.2.1", spacing_s=0.1)) == [None]


def test_the_length_of_a_test_includes_its_omitted_start():
    limits = Limits(throughput=ThroughputLimits(max_duration_s=20))

    assert limits.forbids_length(ThroughputSpec(address="192.0.2.1", duration_s=15, omit_s=5)) is None
    reason = limits.forbids_length(ThroughputSpec(address="192.0.2.1", duration_s=16, omit_s=5))
    assert lacks(reason, "throughput.max_duration_s: 21 s wanted", " 20 s allowed") == []


def test_a_file_may_set_any_part(tmp_path):
    file = tmp_path / "limits.toml"
    file.write_text('[networks]\nforbidden = ["10.0.0.0/8"]\n[throughput]\nmax_duration_s = 5\n')

    limits = read_limits(file)

    assert limits.networks.forbidden == ("10.0.0.0/8",)
    assert limits.throughput.max_duration_s == 5
    assert limits.ping == PingLimits()
    assert read_limits(None) == Limits()


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("\n[network]\n", (":2: unknown table [network]", 'did you mean "networks"?', "it takes networks, ping, ")),
        (
            "[ping]\nmin_spacing = 1\n",
            (':2: [ping]: unknown key "min_spacing"', 'did you mean "min_spacing_s"?', "it takes "),
        ),
        (
            '[ping]\nmin_spacing_s = "1"\n',
            (":2: [ping]: min_spacing_s ", "a number", "at least 0 ", "less than 1e+18", 'not the string "1"'),
        ),
        (
            "[ping]\nmin_spacing_s = -1\n",
            (":2: [ping]: min_spacing_s ", "a number", "at least 0 ", "less than 1e+18", "not -1"),
        ),
        (
            "[ping]\nmax_packets_per_s = nan\n",
            (":2: [ping]: max_packets_per_s ", "a number", "at least 0 ", "less than"),
        ),
        (
            "[ping]\nmax_packets_per_s = inf\n",
            (":2: [ping]: max_packets_per_s ", "a number", "at least 0 ", "less than"),
        ),
        ("ping = 3\n", (":1: ping ", "a table", "[ping]", "not 3")),
        (
            '[networks]\nallowed = ["0.0.0.0/0",\n"10.0.0.1/8"]\n',
            (':3: [networks]: allowed: "10.0.0.1/8" ', "host bits", 'write "10.0.0.0/8"'),
        ),
        ('[throughput]\npeers = ["cern.ch"]\n', (':2: [throughput]: peers: "cern.ch" ', "not a network", '"10')),
        ("[throughput]\npeers = [3]\n", (":2: [throughput]: peers: ", "a string", "not 3")),
        ('[ping]\n\nhours = ["8-10"]\n', (":3: [ping]: hours: ", "HH:MM-HH:MM", "UTC", '"20:00-06:00"', 'not "8-10"')),
        (
            "[capacity]\nmax_packets_per_hour = 1.5\n",
            (":2: [capacity]: max_packets_per_hour ", "an integer", "at least"),
        ),
        ("networks = [\n", ("not valid TOML", "at ")),
    ],
)
def test_an_error_in_the_file_is_reported_with_line_and_fix(tmp_path, text, facts):
    file = tmp_path / "limits.toml"
    file.write_text(text)

    with pytest.raises(LimitsError) as error:
        read_limits(file)
    assert str(error.value).startswith(f"{file}:")
    assert lacks(str(error.value), *facts) == []


def test_all_errors_are_reported_together(tmp_path):
    file = tmp_path / "limits.toml"
    file.write_text("[pign]\n[ping]\nhours = 3\nspacing = 1\n")

    with pytest.raises(LimitsError) as error:
        read_limits(file)

    assert [line.split(":")[1] for line in str(error.value).splitlines()] == ["1", "3", "4"]


def test_a_missing_limits_file_is_an_error(tmp_path):
    with pytest.raises(LimitsError, match="No such file"):
        read_limits(tmp_path / "limits.toml")


AT = datetime(2026, 11, 21, tzinfo=UTC)


@pytest.mark.parametrize(
    ("hours", "begins", "length_s", "is_open"),
    [
        (("00:00-24:00",), "23:59", 3600, True),
        (("08:00-10:00",), "08:00", 7200, True),
        (("08:00-10:00",), "08:00", 7201, False),
        (("08:00-10:00",), "07:59", 120, False),
        (("08:00-10:00",), "10:00", 1, False),
        (("20:00-06:00",), "23:30", 3600, True),
        (("20:00-06:00",), "05:00", 3600, True),
        (("20:00-06:00",), "05:00", 3601, False),
        (("20:00-06:00",), "12:00", 10, False),
        (("08:00-09:00", "09:00-10:00"), "08:30", 3600, True),
        (("08:00-09:00", "09:01-10:00"), "08:30", 3600, False),
        ((), "08:30", 1, False),
    ],
)
def test_a_measurement_must_lie_entirely_within_the_hours(hours, begins, length_s, is_open):
    begins_at = AT + timedelta(hours=int(begins[:2]), minutes=int(begins[3:]))
    rule = Limits(throughput=ThroughputLimits(hours=hours)).forbids_time("throughput", begins_at, length_s)

    assert (rule is None) == is_open
    assert is_open or rule.startswith("throughput.hours: ")
    assert is_open or lacks(rule, f" {begins} UTC", f" {length_s} s ", "not within", ", ".join(hours)) == []


windows = st.lists(st.tuples(st.integers(0, 1439), st.integers(0, 1440)).filter(lambda w: w[0] != w[1]), max_size=3)


@given(windows, st.integers(0, 1439), st.integers(1, 2000))
def test_hours_agree_with_checking_every_minute(windows, begins_min, length_min):
    hours = tuple(f"{a // 60:02}:{a % 60:02}-{b // 60:02}:{b % 60:02}" for a, b in windows)
    in_hours = [any(a <= m < b if a < b else m >= a or m < b for a, b in windows) for m in range(1440)]
    expected = all(in_hours[minute % 1440] for minute in range(begins_min, begins_min + length_min))

    rule = Limits(ping=PingLimits(hours=hours)).forbids_time(
        "ping", AT + timedelta(minutes=begins_min), 60 * length_min
    )

    assert (rule is None) == expected


def test_times_of_other_zones_are_compared_in_utc():
    limits = Limits(ping=PingLimits(hours=("08:00-10:00",)))
    tokyo = timezone(timedelta(hours=9))

    assert limits.forbids_time("ping", datetime(2026, 11, 21, 17, 30, tzinfo=tokyo), 60) is None
    assert limits.forbids_time("ping", datetime(2026, 11, 21, 8, 30, tzinfo=tokyo), 60) is not None


def test_peers_default_to_the_permitted_destinations():
    explicit = Limits(
        throughput=ThroughputLimits(peers=("10.1.0.0/16",)), networks=Networks(forbidden=("10.1.9.0/24",))
    )

    assert explicit.forbids_peer("10.1.0.7") is None
    assert lacks(explicit.forbids_peer("192.0.2.1"), "throughput.peers: 192.0.2.1 ", "in none") == []
    assert explicit.forbids_peer("10.1.9.1").startswith("networks.forbidden")
    assert lacks(explicit.forbids_peer(None), "throughput.peers: ", "plan", "not", "who comes") == []
    assert Limits().forbids_peer("192.0.2.1") is None
    assert Limits().forbids_peer("10.1.0.7").startswith("networks.private")


def test_the_example_file_has_every_rule_and_the_agent_reads_it():
    text = (ROOT / "limits.example.toml").read_text()
    limits = read_limits(ROOT / "limits.example.toml")

    written = set()
    for section, table in tomllib.loads(text).items():
        for key, value in table.items():
            if isinstance(value, list) and value and isinstance(value[0], dict):
                written |= {f"{section}.{key}[{number}].{name}" for number, row in enumerate(value, 1) for name in row}
            else:
                written.add(f"{section}.{key}")
    assert written == {rule.name for rule in rules(limits)}
    assert limits.forbids_address("10.1.2.3") is None
    assert limits.forbids_address("10.1.9.3").startswith("networks.forbidden")
    assert limits.forbids_address("10.1.8.3").startswith("networks.management")
    assert limits.forbids_address("10.2.0.1").startswith("networks.private")


def test_the_command_prints_limits_and_usage(tmp_path, capsys):
    (tmp_path / "limits.toml").write_text("[ping]\nmax_packets_per_s = 50\n")
    arguments = argparse.Namespace(data=tmp_path, json=False)

    assert show_limits(arguments) == 0

    output = capsys.readouterr().out
    assert f"limits in {tmp_path / 'limits.toml'}\n" in output
    assert "\nping.max_packets_per_s            50: " in output
    assert '\nnetworks.allowed                  ["0.0.0.0/0", "::/0"] (default): ' in output
    assert "throughput.max_bits_per_day       no limit (default): " in output


def test_the_command_fails_where_the_agent_would_not_start(tmp_path, capsys):
    (tmp_path / "limits.toml").write_text("[ping]\nmax = 50\n")

    assert show_limits(argparse.Namespace(data=tmp_path, json=True)) == 1
    assert lacks(capsys.readouterr().err, 'limits.toml:2: [ping]: unknown key "max"', "it takes min_spacing_s") == []
