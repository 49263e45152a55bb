"""Run `python -m probes tcp-ping HOST… --port N`."""

from __future__ import annotations

import argparse
import json
import sys

from probes.commands.egress_options import add_egress_options, egress_problems, target_fields
from probes.commands.subcommands import option_problem
from probes.contract import Deadline, Outcome
from probes.hosts import host_argument
from probes.packets.resolve import RESOLVE_S
from probes.packets.table import PingTable, as_json, width
from probes.quantities import counted
from probes.tcp_ping.probe import TcpPingProbe, problems
from probes.tcp_ping.spec import LONGEST_TIMEOUT_S, TcpPingSpec, TcpPingTarget, measured_by

# Margin beyond the planned duration, for a busy host.
SPARE_S = 5.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "Exit status: 0 measured (total loss included), 1 a host could not be measured, 2 usage."
    parser.add_argument("host", nargs="+", type=host_argument, metavar="HOST", help="host name or address")
    parser.add_argument("--port", type=int, required=True, metavar="N", help="TCP port; it may be closed")
    parser.add_argument("-c", "--count", type=int, default=10, metavar="N", help="handshakes per host (default 10)")
    parser.add_argument(
        "--spacing-s", type=float, default=1.0, metavar="S", help="interval between handshakes, s (default 1)"
    )
    parser.add_argument(
        "--timeout-s",
        type=float,
        default=LONGEST_TIMEOUT_S,
        metavar="S",
        help=f"later replies are lost, s (default and maximum {LONGEST_TIMEOUT_S})",
    )
    add_egress_options(parser)
    parser.add_argument("--ipv6", action="store_true", help="resolve names to IPv6 (default IPv4)")
    parser.add_argument("--json", action="store_true", help="print JSON lines, an object per host")


def run(args: argparse.Namespace) -> int:
    spec = TcpPingSpec(
        targets=tuple(TcpPingTarget(**target_fields(args, host, dscp=args.dscp)) for host in args.host),
        port=args.port,
        count=args.count,
        spacing_s=args.spacing_s,
        timeout_s=args.timeout_s,
    )
    wrong = [*problems(spec), *egress_problems(args, {target.family for target in spec.targets}, dscp=args.dscp)]
    if wrong:
        for problem in wrong:
            print(f"tcp-ping: {option_problem(problem)}", file=sys.stderr)
        return 2
    if not args.json:
        handshakes = counted(spec.count, "handshake")
        print(
            f"{measured_by(spec.port)} of {' '.join(args.host)}: {handshakes}, {spec.spacing_s:g} s apart; takes about "
            f"{spec.duration_s:.0f} s",
            file=sys.stderr,
            flush=True,
        )
    bursts = TcpPingProbe().run(spec, Deadline(spec.duration_s + RESOLVE_S + SPARE_S))
    table = PingTable(args.host, width())
    for line in (json.dumps(as_json(burst)) for burst in bursts) if args.json else table.lines(bursts):
        print(line)
    return 0 if all(burst.outcome is Outcome.MEASURED for burst in bursts) else 1
