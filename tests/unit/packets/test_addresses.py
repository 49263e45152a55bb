import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.packets.addresses import refusal_reason


def network_order(address: str) -> bytes:
    return ipaddress.ip_address(address).packed


@pytest.mark.parametrize(
    ("address", "scope", "says"),
    [
        ("224.0.0.1", 0, "multicast"),
        ("ff02::1", 0, "multicast"),
        ("0.0.0.0", 0, "unspecified"),
        ("::", 0, "unspecified"),
        ("255.255.255.255", 0, "broadcast"),
        ("::ffff:192.0.2.1", 0, "give 192.0.2.1 and IPv4"),
        ("fe80::1", 0, "give fe80::1%INTERFACE"),
    ],
)
def test_multicast_and_unusable_addresses_are_refused(address, scope, says):
    assert says in (refusal_reason(network_order(address), scope) or "")


@pytest.mark.parametrize(
    ("address", "scope"), [("192.0.2.1", 0), ("2001:db8::1", 0), ("fe80::1", 2), ("223.255.0.1", 0)]
)
def test_unicast_addresses_are_accepted(address, scope):
    assert refusal_reason(network_order(address), scope) is None


@given(st.integers(0, 2**32 - 1))
def test_refused_ipv4_addresses_are_those_of_the_registry(number):
    address = ipaddress.IPv4Address(number)

    refused = refusal_reason(address.packed) is not None

    assert refused == (address.is_multicast or address.is_unspecified or number == 2**32 - 1)


@given(st.integers(0, 2**128 - 1) | st.integers(0, 2**34) | st.integers(0xFE80 << 112, 0xFEFF << 112))
def test_refused_ipv6_addresses_are_those_of_the_registry(number):
    address = ipaddress.IPv6Address(number)

    refused = refusal_reason(address.packed) is not None

    mapped = address.ipv4_mapped is not None
    assert refused == (address.is_multicast or address.is_unspecified or mapped or address.is_link_local)
