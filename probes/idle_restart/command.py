"""Run `python -m probes idle-restart HOST --port N`."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from probes.contract import Deadline, ProbeError
from probes.hosts import host_argument
from probes.idle_restart.result import IdleRestart, sentence
from probes.idle_restart.spec import LONGEST_PAUSE_S, LONGEST_S, IdleRestartSpec
from probes.idle_restart.transfer import measure, serve
from probes.quantities import with_unit


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "Exit status: 0 measured, 1 not possible, 2 usage."
    parser.add_argument(
        "host", nargs="?", type=host_argument, metavar="HOST", help="host on which --listen runs; it gets the data"
    )
    parser.add_argument("--port", type=int, default=5202, metavar="N", help="TCP port of the far end (default 5202)")
    parser.add_argument(
        "--duration-s", type=float, default=5.0, metavar="S", help="length of each transfer, s (default 5, at most 60)"
    )
    parser.add_argument(
        "--pause-s", type=float, default=5.0, metavar="S", help="pause between them, s (default 5, at most 600)"
    )
    parser.add_argument("--listen", action="store_true", help="be the far end of a single test")
    parser.add_argument(
        "--bind", type=host_argument, metavar="ADDRESS", help="with --listen: own address (default: all IPv4)"
    )
    parser.add_argument(
        "--from", dest="peer", type=host_argument, metavar="ADDRESS", help="with --listen: accept a test from here only"
    )
    parser.add_argument("--wait-s", type=float, default=600.0, metavar="S", help="with --listen: wait, s (default 600)")
    parser.add_argument("--json", action="store_true", help="print a JSON object")


def run(args: argparse.Namespace) -> int:
    problem = _problem(args)
    if problem is not None:
        print(f"idle-restart: {problem}", file=sys.stderr)
        return 2
    try:
        if args.listen:
            received = serve(args.port, Deadline(args.wait_s), address=args.bind or "", peer=args.peer)
            print(f"received {with_unit(received, 'B')}")
            return 0
        spec = IdleRestartSpec(address=args.host, port=args.port, duration_s=args.duration_s, pause_s=args.pause_s)
        result = measure(spec)
    except (ProbeError, OSError) as error:
        print(f"idle-restart: {error}", file=sys.stderr)
        return 1
    print(json.dumps(as_json(result)) if args.json else "\n".join(lines(result)))
    return 0


def as_json(result: IdleRestart) -> dict[str, object]:
    return {**asdict(result), "restarted": result.restarted, "sentence": sentence(result)}


def lines(result: IdleRestart) -> list[str]:
    return [
        f"before the pause  {with_unit(result.before_bps, 'bit/s')}, window {result.cwnd_before} segments,"
        f" RTT {result.rtt_ms:.1f} ms, reached after {_seconds(result.rise_s)}",
        f"after the pause   window {result.cwnd_after} segments, rate back after {_seconds(result.back_s)}",
        f"{sentence(result)}.",
    ]


def _seconds(value_s: float | None) -> str:
    return "–" if value_s is None else f"{value_s:.2f} s"


def _problem(args: argparse.Namespace) -> str | None:
    if args.listen == (args.host is not None):
        return "give a host, or --listen"
    if not 1 <= args.port <= 65_535:
        return "--port: write 1 to 65535"
    if not 0.5 <= args.duration_s <= LONGEST_S:
        return f"--duration-s: write 0.5 to {LONGEST_S:g}"
    if not 0.1 <= args.pause_s <= LONGEST_PAUSE_S:
        return f"--pause-s: write 0.1 to {LONGEST_PAUSE_S:g}"
    return None
