"""The text that names a host, as commands and mesh.toml take it."""

import argparse
import ipaddress
import socket
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.mesh.document import addresses
from probes.commands.agent_program import main
from probes.contract import Deadline, NameNotResolved
from probes.hosts import fault, host_argument, literal
from probes.packets.resolve import resolve
from probes.transfers.address import resolve_address

ADDRESSES = ["192.0.2.10", "2001:db8::1", "2001:DB8:0:0::1", "fe80::1", "fe80::1%eth0", "fe80::1%2", "::1"]
NAMES = ["localhost", "pinger.slac.stanford.edu", "a_b.example.org.", "xn--p1ai", "0xfoo.example", "1.example"]
ALONE = {
    "https://host.example/": "host.example",
    "https://user:word@host.example:8443/a?b#c": "host.example",
    "host.example:443": "host.example",
    "host.example/": "host.example",
    "user@host.example": "host.example",
    "[2001:db8::1]": "2001:db8::1",
    "[2001:db8::1]:443": "2001:db8::1",
    "http://[2001:db8::1]:80/": "2001:db8::1",
    "192.0.2.10.": "192.0.2.10",
    "192.0.2.10:80": "192.0.2.10",
    "192.0.2.10/24": "192.0.2.10",
    " 192.0.2.10\n": "192.0.2.10",
    "2001:db8::/32": "2001:db8::",
    "host.example..": "host.example",
}
NUMBERS = [
    "192.0.2.010", "0xC000020A", "0XC000020A", "3221225994", "192.0.522", "192.0.2", "0300.0.2.10", "192.0.2.0xa",
    "192.0.2.256", "192.0.2.10.5", "0x", "example.0x7f", "192.0.2.010.", "192.0.2.010:80", "1", "00", "4294967296",
]  # fmt: skip
ZONES = ["2001:db8::1%eth0", "::1%lo", "::ffff:192.0.2.1%eth0", "192.0.2.10%eth0"]
OTHERS = [
    "", " ", ".", "-x.example", "x..example", "a b", "192.0.2.10 192.0.2.11", "192.0.2.10,192.0.2.11", "::1::",
    "fe80::1%",
    "fe80::1%a b", "fe80::1%a/b", "[::1", "::1]", "a" * 64, f"{'a.' * 127}example", "1\x00.example", "192.0.2.10\x00",
    "--help",
    "192.0.2.\u0661\u0660", "\u0661\u0669\u0662.0.2.10", "192\u30020\u30022\u300210", "\uff11\uff19\uff12.0.2.10",
    "b\u00fccher.example", "2001:db8::\u0661",
]  # fmt: skip


@pytest.mark.parametrize("text", [*ADDRESSES, *NAMES])
def test_an_address_or_a_name_alone_is_read(text):
    assert fault(text) is None
    assert (literal(text) is not None) == (text in ADDRESSES)


@pytest.mark.parametrize(("text", "host"), ALONE.items())
def test_more_than_a_host_is_refused_with_the_host(text, host):
    assert f'write "{host}"' in fault(text)


@pytest.mark.parametrize("text", NUMBERS)
def test_other_spellings_of_ipv4_addresses_are_refused(text):
    assert "without leading zeros" in fault(text)


@pytest.mark.parametrize("text", ZONES)
def test_a_zone_is_for_link_local_addresses_alone(text):
    assert f'write "{text.partition("%")[0]}"' in fault(text)


@pytest.mark.parametrize("text", OTHERS)
def test_text_that_names_no_host_is_refused(text):
    assert "write" in fault(text)


@pytest.mark.parametrize("text", [*ALONE, *NUMBERS, *ZONES, *OTHERS])
def test_mesh_resolver_and_commands_refuse_alike(text):
    with pytest.raises(argparse.ArgumentTypeError):
        host_argument(text)
    for family in (4, 6):
        answer = resolve([(text, family)], Deadline(1))[text, family]
        assert isinstance(answer, NameNotResolved)
        assert answer.permanent
    assert addresses.fault(text) == fault(text)
    assert addresses.family_of(text) is None


@pytest.mark.parametrize(
    "command",
    [
        "ping A", "ping 192.0.2.1 A", "tcp-ping A", "trace A", "stamp A", "throughput A", "capacity A",
        "request-response A",
        "idle-restart A", "idle-restart --listen --from A", "idle-restart --listen --bind A",
        "policer send --here ::1 A",
        "policer receive --here A 192.0.2.1", "disk-to-disk send --here 192.0.2.1 A",
        "disk-to-disk receive --here A 192.0.2.1",
    ],
)  # fmt: skip
def test_every_command_refuses_a_host_that_is_none(command, capsys):
    with pytest.raises(SystemExit) as ended:
        main(command.replace("A", "192.0.2.010").split())

    assert ended.value.code == 2
    assert "'192.0.2.010' is no IPv4 address" in capsys.readouterr().err


def test_a_zone_is_an_interface_of_this_host():
    index = socket.if_nametoindex("lo")

    read = resolve([(f"fe80::1%{zone}", 6) for zone in ("lo", index, "nosuch", 4_000_000_000, -1)], Deadline(1))

    assert read["fe80::1%lo", 6] == read[f"fe80::1%{index}", 6] == ("fe80::1", 0, 0, index)
    for zone in ("nosuch", 4_000_000_000, -1):
        assert f"no interface {zone}" in str(read[f"fe80::1%{zone}", 6])
    assert resolve_address("fe80::1%lo", 6) == "fe80::1%lo"


@given(st.text(string.hexdigits + "xX.:%[]/ -_", max_size=20) | st.text(max_size=20))
def test_a_text_that_is_read_means_one_host(text):
    if fault(text) is not None:
        assert literal(text) is None
    elif literal(text) is not None:
        assert literal(text) == ipaddress.ip_address(text)
    else:
        with pytest.raises(OSError, match="illegal"):
            socket.inet_aton(text)
