"""Run `python -m probes trace HOST…`."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import msgspec
from rich.console import Console
from rich.live import Live

from probes.commands.run_fields import run_fields
from probes.commands.subcommands import option_problem
from probes.contract import Deadline, Outcome
from probes.hosts import host_argument
from probes.packets.resolve import RESOLVE_S
from probes.trace.kind import longest_s
from probes.trace.probe import TRACE, problems
from probes.trace.spec import TraceReason, TraceRun, TraceSpec, TraceTarget
from probes.trace.table import tables

PIPE_COLUMNS = 200
REFRESH_PER_S = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    defaults = TraceSpec(targets=())
    parser.epilog = (
        "Exit status: 0 traced (even if a destination was not reached), 1 a host could not be traced, 2 usage."
    )
    parser.add_argument("host", nargs="+", type=host_argument, metavar="HOST", help="host name or address")
    parser.add_argument(
        "-c",
        "--attempts",
        type=int,
        default=defaults.attempts,
        metavar="N",
        help=f"probes to each hop, 1 s apart (default {defaults.attempts})",
    )
    parser.add_argument(
        "--udp", action="store_true", help="send UDP datagrams between two constant ports (default ICMP echo requests)"
    )
    parser.add_argument(
        "--flows",
        type=int,
        default=1,
        metavar="N",
        help="probe each hop with up to N flows, to find all routers among which load is balanced (default 1)",
    )
    parser.add_argument(
        "--max-hops",
        type=int,
        default=defaults.max_hops,
        metavar="N",
        help=f"highest TTL (default {defaults.max_hops})",
    )
    parser.add_argument(
        "--timeout-s",
        type=float,
        default=defaults.timeout_s,
        metavar="S",
        help=f"reply timeout, s (default {defaults.timeout_s:g})",
    )
    family = parser.add_mutually_exclusive_group()
    family.add_argument("-4", "--ipv4", dest="family", action="store_const", const=4, help="resolve names to IPv4")
    family.add_argument("-6", "--ipv6", dest="family", action="store_const", const=6, help="resolve names to IPv6")
    parser.add_argument("--json", action="store_true", help="print JSON lines, an object per host")


def run(args: argparse.Namespace) -> int:
    spec = TraceSpec(
        targets=tuple(TraceTarget(address=host, family=args.family or (6 if ":" in host else 4)) for host in args.host),
        protocol="udp" if args.udp else "icmp",
        max_hops=args.max_hops,
        attempts=args.attempts,
        timeout_s=args.timeout_s,
        flows=args.flows,
        shares_near_hops=False,
    )
    wrong = problems(spec)
    if wrong:
        for problem in wrong:
            print(f"trace: {option_problem(problem)}", file=sys.stderr)
        return 2
    deadline = Deadline(longest_s(spec) + RESOLVE_S)
    if args.json:
        runs = TRACE.run(spec, deadline)
        for traced in runs:
            print(json.dumps(as_json(traced)))
    else:
        runs = _show(spec, deadline)
    return 0 if all(traced.outcome is Outcome.MEASURED for traced in runs) else 1


def _show(spec: TraceSpec, deadline: Deadline) -> tuple[TraceRun, ...]:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else PIPE_COLUMNS)
    if not console.is_terminal:
        runs = TRACE.run(spec, deadline)
        console.print(tables(runs))
        return runs
    with Live(console=console, refresh_per_second=REFRESH_PER_S, vertical_overflow="visible") as live:
        runs = TRACE.run(spec, deadline, lambda so_far: live.update(tables(so_far)))
        live.update(tables(runs))
    return runs


def as_json(traced: TraceRun) -> dict[str, Any]:
    fields = run_fields(traced)
    if traced.reason is TraceReason.SCHEDULED:
        fields["reason"] = TraceReason.ON_DEMAND.value
    hops = [
        {
            "ttl": hop.ttl,
            "address": hop.address,
            "rtts_ms": [None if rtt is None else round(rtt, 6) for rtt in hop.rtts_ms],
            "mpls": msgspec.to_builtins(hop.mpls),
            "error": hop.error,
            "others": list(hop.others),
        }
        for hop in traced.hops
    ]
    return fields | {"hops": hops}
