"""Add an nftables rule that drops ICMP above a rate, in the current network namespace:

    python tests/net/icmp_limit.py PACKETS_PER_S BURST

As `nft add rule ip capacity input meta l4proto icmp limit rate over R/second burst B packets drop`, but over netlink,
since not every machine has the tool `nft`. Numbers from linux/netfilter/nf_tables.h.
"""

from __future__ import annotations

import socket
import struct
import sys

NETLINK_NETFILTER = 12
NLM_F_REQUEST, NLM_F_ACK, NLM_F_CREATE, NLM_F_APPEND = 0x1, 0x4, 0x400, 0x800
NLMSG_ERROR = 2
BATCH_BEGIN, BATCH_END = 0x10, 0x11
NFNL_SUBSYS_NFTABLES = 10
NEW_TABLE, NEW_CHAIN, NEW_RULE = 0, 3, 6
NFPROTO_IPV4 = 2
NESTED = 0x8000
NF_INET_LOCAL_IN = 1
NF_DROP = 0
META_L4PROTO = 16
REGISTER = 1
OVER = 1


def attribute(kind: int, value: bytes | int | str | list[bytes]) -> bytes:
    """A netlink attribute: bytes unchanged, numbers as 32 bits in network order, text, or nested attributes."""
    if isinstance(value, list):
        kind, value = kind | NESTED, b"".join(value)
    elif isinstance(value, int):
        value = struct.pack(">I", value)
    elif isinstance(value, str):
        value = value.encode() + b"\0"
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def expression(name: str, *fields: bytes) -> bytes:
    return attribute(1, [attribute(1, name), attribute(2, list(fields))])


def message(number: int, kind: int, flags: int, *fields: bytes, family: int = NFPROTO_IPV4, resource: int = 0) -> bytes:
    body = struct.pack(">BBH", family, 0, resource) + b"".join(fields)
    return struct.pack("=IHHII", 16 + len(body), kind, NLM_F_REQUEST | flags, number, 0) + body


def transaction(packets_per_s: int, burst: int) -> bytes:
    """A table with a chain for input, and a single rule."""
    subsystem = NFNL_SUBSYS_NFTABLES << 8
    create = NLM_F_CREATE | NLM_F_ACK
    is_icmp = [
        expression("meta", attribute(1, REGISTER), attribute(2, META_L4PROTO)),
        expression(
            "cmp", attribute(1, REGISTER), attribute(2, 0), attribute(3, [attribute(1, bytes([socket.IPPROTO_ICMP]))])
        ),
    ]
    over = expression(
        "limit",
        attribute(1, struct.pack(">Q", packets_per_s)),
        attribute(2, struct.pack(">Q", 1)),
        attribute(3, burst),
        attribute(4, 0),
        attribute(5, OVER),
    )
    drop = expression("immediate", attribute(1, 0), attribute(2, [attribute(2, [attribute(1, NF_DROP)])]))
    hook = attribute(4, [attribute(1, NF_INET_LOCAL_IN), attribute(2, 0)])
    table, chain = attribute(1, "capacity"), "input"
    return b"".join(
        (
            message(0, BATCH_BEGIN, 0, family=0, resource=NFNL_SUBSYS_NFTABLES),
            message(1, subsystem | NEW_TABLE, create, table),
            message(2, subsystem | NEW_CHAIN, create, table, attribute(3, chain), hook, attribute(7, "filter")),
            message(
                3,
                subsystem | NEW_RULE,
                create | NLM_F_APPEND,
                table,
                attribute(2, chain),
                attribute(4, [*is_icmp, over, drop]),
            ),
            message(4, BATCH_END, 0, family=0, resource=NFNL_SUBSYS_NFTABLES),
        )
    )


def main() -> None:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER) as kernel:
        kernel.settimeout(5)
        kernel.bind((0, 0))
        kernel.send(transaction(int(sys.argv[1]), int(sys.argv[2])))
        acknowledged: set[int] = set()
        while acknowledged != {1, 2, 3}:
            answers = kernel.recv(65536)
            while answers:
                length, kind, _, number, _ = struct.unpack_from("=IHHII", answers)
                error = struct.unpack_from("=i", answers, 16)[0] if kind == NLMSG_ERROR else 0
                if error:
                    sys.exit(f"nftables: message {number} was refused: errno {-error}")
                acknowledged.add(number)
                answers = answers[(length + 3) & ~3 :]


if __name__ == "__main__":
    main()
