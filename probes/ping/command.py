"""Run `python -m probes ping HOST…`."""

from __future__ import annotations

import argparse
import json
import sys

from probes.commands.egress_options import add_egress_options, egress_problems, target_fields
from probes.commands.subcommands import option_problem
from probes.contract import Deadline, Outcome
from probes.hosts import host_argument
from probes.packets.burst import measure_each, problems
from probes.packets.rate_limit import longest_s
from probes.packets.resolve import RESOLVE_S
from probes.packets.spec import PingSpec, PingTarget
from probes.packets.table import PingTable, as_json, width
from probes.quantities import counted

# Margin beyond the planned duration, for a busy host.
SPARE_S = 5.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "Exit status: 0 measured (total loss included), 1 a host could not be measured, 2 usage."
    parser.add_argument("host", nargs="+", type=host_argument, metavar="HOST", help="host name or address")
    parser.add_argument(
        "-c", "--count", type=int, default=10, metavar="N", help="echo requests per host and size (default 10)"
    )
    parser.add_argument(
        "--sizes", type=_sizes, default=(100, 1000), metavar="BYTES,…", help="ICMP payload sizes (default 100,1000)"
    )
    parser.add_argument(
        "--spacing-s", type=float, default=1.0, metavar="S", help="interval between requests to a host, s (default 1)"
    )
    parser.add_argument(
        "--timeout-s", type=float, default=2.0, metavar="S", help="reply timeout, s; later replies are lost (default 2)"
    )
    parser.add_argument(
        "--late-s",
        type=float,
        default=1.0,
        metavar="S",
        help="count late replies for this long after the timeout, s (default 1)",
    )
    parser.add_argument("--no-priming", action="store_true", help="do not send an uncounted first request")
    parser.add_argument("--dont-fragment", action="store_true", help="do not fragment requests; report the path MTU")
    parser.add_argument(
        "--no-rate-check", action="store_true", help="do not check hosts with partial loss for ICMP rate limiting"
    )
    add_egress_options(parser)
    parser.add_argument("--ipv6", action="store_true", help="resolve names to IPv6 (default IPv4)")
    parser.add_argument("--json", action="store_true", help="print JSON lines, an object per host and size")


def run(args: argparse.Namespace) -> int:
    spec = PingSpec(
        targets=tuple(PingTarget(**target_fields(args, host, dscp=args.dscp)) for host in args.host),
        packet_bytes=args.sizes,
        count=args.count,
        spacing_s=args.spacing_s,
        timeout_s=args.timeout_s,
        late_s=args.late_s,
        priming_bytes=None if args.no_priming else PingSpec(targets=()).priming_bytes,
        dont_fragment=args.dont_fragment,
        check_rate_limit=not args.no_rate_check,
    )
    wrong = [*problems(spec), *egress_problems(args, {target.family for target in spec.targets}, dscp=args.dscp)]
    if wrong:
        for problem in wrong:
            print(f"ping: {option_problem(problem, packet_bytes='--sizes')}", file=sys.stderr)
        return 2
    deadline = Deadline(spec.duration_s + RESOLVE_S + longest_s(spec.spacing_s, spec.timeout_s) + SPARE_S)
    if not args.json:
        # Printed where there is no terminal too: the first host follows only after its last reply.
        print(_announcement(spec), file=sys.stderr, flush=True)
    table = None if args.json else PingTable(args.host, width())
    is_measured = True
    for bursts in measure_each(spec, deadline):
        for line in map(json.dumps, map(as_json, bursts)) if table is None else table.lines(bursts):
            print(line)
        sys.stdout.flush()
        is_measured &= all(burst.outcome is Outcome.MEASURED for burst in bursts)
    return 0 if is_measured else 1


def _announcement(spec: PingSpec) -> str:
    hosts = " ".join(target.address for target in spec.targets)
    sizes = " and ".join(map(str, spec.packet_bytes))
    requests = f"{counted(spec.count, 'request')}{' each' if len(spec.packet_bytes) > 1 else ''} of {sizes} bytes"
    return f"pinging {hosts}: {requests}, {spec.spacing_s:g} s apart; takes about {spec.duration_s:.0f} s"


def _sizes(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(size) for size in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: write whole numbers of bytes, as in 100,1000") from None
