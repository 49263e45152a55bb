"""What a site lets itself be used for."""

import pytest

from probes.ping.spec import PingSpec, PingTarget
from probes.site.limits import InFlight, Limits, LimitsError, Networks, PingLimits, ThroughputLimits, read_limits
from probes.throughput.spec import ThroughputSpec


def forbids(address, **rules):
    return Limits(networks=Networks(**rules)).forbids_address(address)


@pytest.mark.parametrize("address", ["192.0.2.1", "10.0.0.1", "127.0.0.1", "2001:db8::1", "::1"])
def test_without_a_file_every_unicast_address_may_be_measured(address):
    assert forbids(address) is None


@pytest.mark.parametrize("address", ["224.0.0.1", "239.1.2.3", "255.255.255.255", "0.0.0.0", "ff02::1", "::"])
def test_multicast_broadcast_and_unspecified_are_never_measured(address):
    assert address in forbids(address, allowed=("0.0.0.0/0", "::/0"))


def test_a_forbidden_network_is_taken_from_the_allowed_ones():
    rules = {"allowed": ("10.0.0.0/8",), "forbidden": ("10.1.0.0/16",)}

    assert forbids("10.2.0.1", **rules) is None
    assert forbids("10.1.0.1", **rules) == "networks.forbidden: 10.1.0.1 is in 10.1.0.0/16"
    assert forbids("192.0.2.1", **rules) == "networks.allowed: 192.0.2.1 is in none of them"
    assert forbids("2001:db8::1", **rules) is not None


def test_an_ipv4_address_in_ipv6_clothes_does_not_slip_through():
    assert forbids("::ffff:10.1.0.1", forbidden=("10.1.0.0/16",)) is not None
    assert forbids("::ffff:224.0.0.1") is not None


def ping(*addresses, spacing_s=1.0):
    return PingSpec(targets=tuple(PingTarget(address=address) for address in addresses), spacing_s=spacing_s)


def verdicts(limits, spec, *in_flight):
    cycles = {f"other {number}": cycle for number, cycle in enumerate(in_flight)}
    return limits.forbids_targets(spec, [target.address for target in spec.targets], cycles)


def test_the_first_targets_get_what_packets_there_are():
    limits = Limits(ping=PingLimits(max_packets_per_s=3))
    spec = ping("192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4")

    assert [rule is None for rule in verdicts(limits, spec)] == [True, True, True, False]
    two_more = InFlight(1.0, frozenset({"192.0.2.8", "192.0.2.9"}))
    assert [rule is None for rule in verdicts(limits, spec, two_more)] == [True, False, False, False]
    assert verdicts(limits, spec)[3] == "ping.max_packets_per_s: 4 wanted, 3 allowed"


def test_a_forbidden_target_uses_up_nothing():
    limits = Limits(networks=Networks(forbidden=("192.0.2.1/32",)), ping=PingLimits(max_packets_per_s=1))

    assert [rule is None for rule in verdicts(limits, ping("192.0.2.1", "192.0.2.2"))] == [False, True]


def test_packets_to_one_address_keep_their_distance_also_between_cycles():
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
def test_no_spacing_at_all_is_forbidden(spacing_s):
    assert verdicts(Limits(), ping("192.0.2.1", spacing_s=spacing_s))[0] is not None


def test_the_default_spacing_allows_exactly_its_own_value():
    assert verdicts(Limits(), ping("192.0.2.1", spacing_s=0.1)) == [None]


def test_a_test_is_as_long_as_its_omitted_start_too():
    limits = Limits(throughput=ThroughputLimits(max_duration_s=20))

    assert limits.forbids_length(ThroughputSpec(address="192.0.2.1", duration_s=15, omit_s=5)) is None
    assert limits.forbids_length(ThroughputSpec(address="192.0.2.1", duration_s=16, omit_s=5)) == (
        "throughput.max_duration_s: 21 s wanted, 20 s allowed"
    )


def test_a_file_may_set_any_part(tmp_path):
    file = tmp_path / "limits.toml"
    file.write_text('[networks]\nforbidden = ["10.0.0.0/8"]\n[throughput]\nmax_duration_s = 5\n')

    limits = read_limits(file)

    assert limits.networks.forbidden == ("10.0.0.0/8",)
    assert limits.throughput.max_duration_s == 5
    assert limits.ping == PingLimits()
    assert read_limits(None) == Limits()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[network]\n", "unknown field `network`"),
        ("[ping]\nmin_spacing = 1\n", "unknown field `min_spacing`"),
        ('[ping]\nmin_spacing_s = "1"\n', "Expected `float`, got `str`"),
        ("[ping]\nmin_spacing_s = -1\n", "ping.min_spacing_s: -1 is not a number from 0 up"),
        ("[ping]\nmax_packets_per_s = nan\n", "ping.max_packets_per_s: nan is not"),
        ('[networks]\nallowed = ["10.0.0.1/8"]\n', "networks.allowed: 10.0.0.1/8 has host bits set; write a network"),
        ("networks = [\n", "limits.toml: "),
    ],
)
def test_a_mistake_in_the_file_is_named(tmp_path, text, message):
    file = tmp_path / "limits.toml"
    file.write_text(text)

    with pytest.raises(LimitsError) as error:
        read_limits(file)
    assert message in str(error.value)
    assert str(file) in str(error.value)


def test_a_limits_file_that_is_not_there_is_not_no_limits(tmp_path):
    with pytest.raises(LimitsError, match="No such file"):
        read_limits(tmp_path / "limits.toml")
