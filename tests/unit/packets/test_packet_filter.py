import struct

import pytest

from probes.packets.icmp.packet_filter import Instruction, program

IDENTIFIER = 0xBEEF
OTHER = 0xBEEE


def passes(instructions: list[Instruction], packet: bytes) -> bool:
    """Run classic BPF on a packet (bpf(4), as in McCanne and Jacobson 1993): a load beyond the packet's end drops
    it."""
    at = accumulator = index = 0
    while True:
        code, if_true, if_false, operand = instructions[at]
        at += 1
        if code == 0x06:
            return operand > 0
        try:
            if code == 0xB1:
                index = 4 * (packet[operand] & 0xF)
            elif code in (0x28, 0x48):
                start = operand + (index if code == 0x48 else 0)
                (accumulator,) = struct.unpack(">H", packet[start : start + 2])
            elif code in (0x30, 0x50):
                accumulator = packet[operand + (index if code == 0x50 else 0)]
            elif code == 0x15:
                at += if_true if accumulator == operand else if_false
            elif code == 0x54:
                accumulator &= operand
            elif code == 0x64:
                accumulator <<= operand
            elif code == 0x0C:
                accumulator += index
            else:
                assert code == 0x07
                index = accumulator
        except (IndexError, struct.error):
            return False


def ip(words: int = 5, protocol: int = 1) -> bytes:
    return bytes([0x40 + words, *bytes(8), protocol]) + bytes(4 * words - 10)


def ip6(next_header: int = 58) -> bytes:
    return bytes([0x60, *bytes(5), next_header]) + bytes(33)


def icmp(kind: int, identifier: int = 0, code: int = 0) -> bytes:
    return struct.pack(">BBHHH", kind, code, 0, identifier, 1)


@pytest.mark.parametrize("words", [5, 6, 15])
def test_replies_pass_only_with_our_identifier(words):
    assert passes(program(4, IDENTIFIER), ip(words) + icmp(0, IDENTIFIER))
    assert not passes(program(4, IDENTIFIER), ip(words) + icmp(0, OTHER))
    assert passes(program(6, IDENTIFIER), icmp(129, IDENTIFIER))
    assert not passes(program(6, IDENTIFIER), icmp(129, OTHER))


@pytest.mark.parametrize("outer", [5, 15])
@pytest.mark.parametrize("inner", [5, 7, 15])
@pytest.mark.parametrize("kind", [3, 11, 12])
def test_errors_pass_only_if_they_quote_our_request(outer, inner, kind):
    def error(quoted: bytes, protocol: int = 1) -> bytes:
        return ip(outer) + icmp(kind) + ip(inner, protocol) + quoted

    assert passes(program(4, IDENTIFIER), error(icmp(8, IDENTIFIER)))
    assert not passes(program(4, IDENTIFIER), error(icmp(8, OTHER)))
    assert not passes(program(4, IDENTIFIER), error(icmp(0, IDENTIFIER)))
    assert not passes(program(4, IDENTIFIER), error(icmp(8, IDENTIFIER), protocol=17))
    assert not passes(program(4, IDENTIFIER), error(icmp(8, IDENTIFIER)[:5]))


@pytest.mark.parametrize("kind", [1, 2, 3, 4])
def test_errors_over_ipv6_pass_only_if_they_quote_our_request(kind):
    assert passes(program(6, IDENTIFIER), icmp(kind) + ip6() + icmp(128, IDENTIFIER))
    assert not passes(program(6, IDENTIFIER), icmp(kind) + ip6() + icmp(128, OTHER))
    assert not passes(program(6, IDENTIFIER), icmp(kind) + ip6() + icmp(129, IDENTIFIER))
    assert not passes(program(6, IDENTIFIER), icmp(kind) + ip6(17) + icmp(128, IDENTIFIER))


def test_errors_about_a_fragmented_request_pass():
    cut = bytes([58, 0, 0, 1]) + bytes(4)

    assert passes(program(6, IDENTIFIER), icmp(1) + ip6(44) + cut + icmp(128, IDENTIFIER))
    assert not passes(program(6, IDENTIFIER), icmp(1) + ip6(44) + cut + icmp(128, OTHER))
    assert not passes(program(6, IDENTIFIER), icmp(1) + ip6(44) + b"\x11" + cut[1:] + icmp(128, IDENTIFIER))


@pytest.mark.parametrize("kind", [4, 5, 8, 13, 14])
def test_other_messages_never_pass(kind):
    assert not passes(program(4, IDENTIFIER), ip() + icmp(kind, IDENTIFIER) + ip() + icmp(8, IDENTIFIER))


@pytest.mark.parametrize("packet", [b"", b"\x45", ip(), ip() + b"\0", ip() + icmp(3), icmp(1)])
def test_truncated_packets_never_pass(packet):
    assert not passes(program(4, IDENTIFIER), packet)
    assert not passes(program(6, IDENTIFIER), packet)
