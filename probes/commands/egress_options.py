"""Options for where packets leave this host, of commands that measure, as fields of a
`probes.packets.egress.PacketTarget`; and their problems."""

from __future__ import annotations

import argparse
import errno
import socket
from collections.abc import Collection
from typing import Any

from probes.contract import ProbeError
from probes.hosts import fault, literal
from probes.packets.addresses import FAMILY
from probes.packets.egress import LARGEST_DSCP, Egress, open_within


def add_egress_options(parser: argparse.ArgumentParser, *, has_dscp: bool = True) -> None:
    """Add the options; `has_dscp` unless the command has a `--dscp` of its own."""
    parser.add_argument(
        "--source", metavar="ADDRESS", help="address of this host to send from (default: the routes choose)"
    )
    parser.add_argument("--interface", metavar="NAME", help="interface or VRF (default: the routes choose); as root")
    parser.add_argument(
        "--namespace", metavar="NAME", help="network namespace, as of `ip netns` (default: that of this shell); as root"
    )
    if has_dscp:
        parser.add_argument(
            "--dscp", type=int, default=0, metavar="N", help=f"DSCP of the packets, 0 to {LARGEST_DSCP} (default 0)"
        )


def egress_of(args: argparse.Namespace, *, dscp: int = 0) -> Egress:
    return Egress(interface=args.interface, namespace=args.namespace, dscp=dscp)


def target_fields(args: argparse.Namespace, host: str, *, dscp: int = 0) -> dict[str, Any]:
    """Address, family, source and egress of a target; `args.ipv6` is the family of names."""
    family = 6 if args.ipv6 or ":" in host else 4
    return {"address": host, "family": family, "source": args.source, "egress": egress_of(args, dscp=dscp)}


def egress_problems(args: argparse.Namespace, families: Collection[int], *, dscp: int = 0) -> list[str]:
    """Why these families' packets cannot be sent; missing interfaces are outcomes instead."""
    reasons = []
    if not 0 <= dscp <= LARGEST_DSCP:
        reasons.append(f"--dscp {dscp}: must be from 0 to {LARGEST_DSCP}")
    if args.source is not None:
        reasons += _source_problems(args.source, families, Egress(namespace=args.namespace))
    return reasons


def _source_problems(source: str, families: Collection[int], egress: Egress) -> list[str]:
    address = literal(source)
    if address is None:
        return [f"--source {source}: {fault(source) or 'is no IP address'}"]
    if set(families) != {address.version}:
        return [f"--source {source}: is IPv{address.version}, and a host is measured over IPv{10 - address.version}"]

    def bind() -> str | None:
        with socket.socket(FAMILY[address.version], socket.SOCK_STREAM) as probe:
            try:
                probe.bind((source, 0))
            except OSError as error:
                return "is no address of this host" if error.errno == errno.EADDRNOTAVAIL else error.strerror
        return None

    try:
        why = open_within(egress, bind)
    except ProbeError:
        # No such namespace: the measurement says so.
        return []
    return [] if why is None else [f"--source {source}: {why}"]
