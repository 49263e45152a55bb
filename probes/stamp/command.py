"""Run `python -m probes stamp HOST…`."""

from __future__ import annotations

import argparse
import json
import sys
import threading
from pathlib import Path

from probes.commands.egress_options import add_egress_options, egress_of, egress_problems, target_fields
from probes.commands.subcommands import option_problem
from probes.contract import Deadline, Outcome, ProbeError
from probes.hosts import host_argument
from probes.limit_keys import network_fault
from probes.packets.resolve import RESOLVE_S
from probes.peers import Peers, read_key
from probes.stamp.clocks import own_clock
from probes.stamp.kind import longest_s
from probes.stamp.limits import StampLimits
from probes.stamp.probe import measure_each, problems
from probes.stamp.reflector.reflector import Reflector
from probes.stamp.reflector.service import MS_PER_S, open_channels, reply_maker
from probes.stamp.spec import STAMP_PORT, StampSpec, StampTarget
from probes.stamp.table import DirectionsTable, as_json

USAGE = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    defaults = StampSpec(targets=())
    parser.epilog = "Exit status: 0 measured (total loss included), 1 a host could not be measured, 2 usage."
    parser.add_argument("host", nargs="*", type=host_argument, metavar="HOST", help="reflector: host name or address")
    parser.add_argument("-c", "--count", type=int, default=10, metavar="N", help="packets per host (default 10)")
    parser.add_argument("--port", type=int, default=STAMP_PORT, metavar="P", help=f"UDP port (default {STAMP_PORT})")
    parser.add_argument(
        "--size",
        type=int,
        default=defaults.packet_bytes,
        metavar="BYTES",
        help=f"UDP payload; from 76 on with extensions (default {defaults.packet_bytes})",
    )
    parser.add_argument(
        "--spacing-s", type=float, default=1.0, metavar="S", help="interval between packets to a host, s (default 1)"
    )
    parser.add_argument(
        "--timeout-s", type=float, default=2.0, metavar="S", help="reply timeout, s; later replies are lost (default 2)"
    )
    parser.add_argument("--dscp", type=int, default=0, metavar="N", help="DSCP of the packets, 0 to 63 (default 0)")
    add_egress_options(parser, has_dscp=False)
    parser.add_argument(
        "--key-file", type=Path, metavar="FILE", help="shared key in base64, at least 16 bytes: authenticated packets"
    )
    parser.add_argument("--ipv6", action="store_true", help="resolve names to IPv6 (default IPv4)")
    parser.add_argument("--json", action="store_true", help="print JSON lines, an object per host")
    parser.add_argument("--reflect", action="store_true", help="answer the packets of --peer until interrupted")
    parser.add_argument(
        "--peer",
        action="append",
        default=[],
        metavar="NETWORK",
        help="with --reflect: address or network that is answered; repeat for several",
    )


def run(args: argparse.Namespace) -> int:
    try:
        key = None if args.key_file is None else read_key(args.key_file)
    except ValueError as error:
        return _usage(str(error))
    if args.reflect:
        return _reflect(args, key)
    if not args.host:
        return _usage("give a host, or --reflect")
    if args.peer:
        return _usage("--peer is for --reflect")
    return _measure(args, key)


def _usage(problem: str) -> int:
    print(f"stamp: {problem}", file=sys.stderr)
    return USAGE


def _measure(args: argparse.Namespace, key: str | None) -> int:
    spec = StampSpec(
        targets=tuple(StampTarget(**target_fields(args, host), port=args.port, key=key) for host in args.host),
        packet_bytes=args.size,
        count=args.count,
        spacing_s=args.spacing_s,
        timeout_s=args.timeout_s,
        dscp=args.dscp,
    )
    wrong = [*problems(spec), *egress_problems(args, {target.family for target in spec.targets})]
    if wrong:
        for problem in wrong:
            _usage(option_problem(problem, packet_bytes="--size"))
        return USAGE
    if not args.json:
        hosts = " ".join(args.host)
        length = f"{spec.count} packets, {spec.spacing_s:g} s apart; takes about {spec.duration_s:.0f} s"
        print(f"stamp to {hosts}, UDP port {args.port}: {length}", file=sys.stderr, flush=True)
    table = None if args.json else DirectionsTable(args.host)
    is_measured = True
    for burst in measure_each(spec, Deadline(longest_s(spec) + RESOLVE_S)):
        for line in [json.dumps(as_json(burst))] if table is None else table.lines(burst):
            print(line)
        sys.stdout.flush()
        is_measured &= burst.outcome is Outcome.MEASURED
    return 0 if is_measured else 1


def _reflect(args: argparse.Namespace, key: str | None) -> int:
    if args.host:
        return _usage("--reflect takes no host: it answers those of --peer")
    if not args.peer:
        return _usage("--reflect needs --peer ADDRESS: a reflector answers only hosts that it knows")
    for peer in args.peer:
        fault = network_fault(peer)
        if fault is not None:
            return _usage(f"--peer {peer}: {fault}")
    if args.source is not None:
        return _usage("--source is for measuring: --reflect answers from the address that a packet was sent to")
    maker = reply_maker(Peers({}, args.peer, key), StampLimits())
    clock = own_clock()
    maker.error_s = None if clock is None or clock.error_ms is None else clock.error_ms / MS_PER_S
    try:
        reflector = Reflector(open_channels(args.port, egress_of(args)), maker)
    except ProbeError as error:
        print(f"stamp: {error}", file=sys.stderr)
        return 1
    print(
        f"stamp: answering {', '.join(args.peer)} on UDP port {args.port}; end with Ctrl-C", file=sys.stderr, flush=True
    )
    try:
        reflector.run(threading.Event())
    except KeyboardInterrupt:
        counts = ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in maker.counts.items() if count)
        print(f"stamp: {counts or 'no packets came'}", file=sys.stderr)
    finally:
        reflector.close()
    return 0
