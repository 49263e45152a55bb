"""Run `python -m probes capacity HOST`."""

from __future__ import annotations

import argparse
import json
import sys

from rich.console import Console

from probes.capacity.probe import MAX_PACKETS, MIN_PACKET_BYTES, longest_s, measure, problems
from probes.capacity.spec import CapacityRun, CapacitySpec
from probes.commands.run_fields import run_fields
from probes.commands.subcommands import option_problem
from probes.contract import Deadline, Outcome
from probes.hosts import host_argument
from probes.quantities import with_unit


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Estimate the bottleneck capacity of a path, in either direction: "
        f"at most {MAX_PACKETS} echo requests, about 14 s."
    )
    parser.epilog = "Exit status: 0 measured (even without an estimate), 1 could not be measured, 2 usage."
    parser.add_argument("host", type=host_argument, metavar="HOST", help="host name or address")
    parser.add_argument(
        "--packet-bytes",
        type=int,
        metavar="BYTES",
        help=f"ICMP payload size, at least {MIN_PACKET_BYTES} (default: fills the path MTU, at most 1500)",
    )
    parser.add_argument("--ipv6", action="store_true", help="resolve names to IPv6 (default IPv4)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    spec = CapacitySpec(
        address=args.host, family=6 if args.ipv6 or ":" in args.host else 4, packet_bytes=args.packet_bytes
    )
    wrong = problems(spec)
    if wrong:
        for problem in wrong:
            print(f"capacity: {option_problem(problem)}", file=sys.stderr)
        return 2
    if args.json:
        result = measure(spec, Deadline(longest_s(spec)))
        print(json.dumps(run_fields(result)))
    else:
        with Console(stderr=True).status(f"measuring {args.host}, about 14 s"):
            result = measure(spec, Deadline(longest_s(spec)))
        print("\n".join(as_text(result)))
    return 0 if result.outcome is Outcome.MEASURED else 1


def as_text(result: CapacityRun) -> list[str]:
    host = result.target if result.address in (None, result.target) else f"{result.target} ({result.address})"
    if result.outcome is not Outcome.MEASURED:
        return [f"{host}: {result.outcome.value}: {result.detail}"]
    counts = f"{result.received} of {result.sent} echo requests of {result.packet_bytes} bytes answered"
    return [f"{host}: {result_text(result)}", *([result.detail] if result.detail else []), counts]


def result_text(result: CapacityRun) -> str:
    low, high = (
        None if bps is None else with_unit(bps, "bit/s") for bps in (result.capacity_low_bps, result.capacity_high_bps)
    )
    if result.capacity_bps is not None and low is not None and high is not None:
        estimate = with_unit(result.capacity_bps, "bit/s")
        return f"bottleneck capacity {estimate} ({low} to {high}, from {result.method}; either direction)"
    bound = ""
    if low is not None:
        bound = f", at least {low}" if high is None else f", {low} to {high}"
    return f"no estimate ({result.verdict}){bound}"
