"""Run `python -m probes request-response HOST…`."""

from __future__ import annotations

import argparse
import json
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec

from probes.commands.run_fields import run_fields
from probes.commands.subcommands import option_problem
from probes.contract import Deadline, Outcome, ProbeError
from probes.hosts import host_argument
from probes.limit_keys import network_fault
from probes.peers import Peers, read_key
from probes.request_response.limits import RequestResponseLimits
from probes.request_response.percentiles import latency_figures
from probes.request_response.probe import RequestResponseProbe, problems
from probes.request_response.server import BlockServer, open_listener
from probes.request_response.spec import (
    REQUEST_RESPONSE_PORT,
    RequestResponseRun,
    RequestResponseSpec,
    RequestResponseTarget,
)

USAGE = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    defaults = RequestResponseSpec(targets=())
    parser.epilog = "Exit status: 0 measured (errors included), 1 a host could not be measured, 2 usage."
    parser.add_argument(
        "host", nargs="*", type=host_argument, metavar="HOST", help="host name or address with a server"
    )
    for option, default, unit, text in (
        ("--request-bytes", defaults.request_bytes, "BYTES", "size of a request"),
        ("--response-bytes", defaults.response_bytes, "BYTES", "size of a response"),
        ("--count", defaults.count, "N", "transactions per host"),
        ("--port", REQUEST_RESPONSE_PORT, "P", "TCP port of the server"),
        ("--dscp", defaults.dscp, "N", "DSCP of the packets, 0 to 63"),
    ):
        parser.add_argument(option, type=int, default=default, metavar=unit, help=f"{text} (default {default})")
    for option, seconds, text in (
        ("--duration-s", defaults.duration_s, "maximum duration of the transactions, s"),
        ("--idle-s", defaults.idle_s, "pause before the transaction after idle, s; 0: none"),
        ("--timeout-s", defaults.timeout_s, "a later response is an error, s"),
    ):
        parser.add_argument(option, type=float, default=seconds, metavar="S", help=f"{text} (default {seconds:g})")
    parser.add_argument("--source", metavar="ADDRESS", help="local address to connect from")
    parser.add_argument("--key-file", type=Path, metavar="FILE", help="shared key in base64, at least 16 bytes")
    parser.add_argument("--ipv6", action="store_true", help="resolve names to IPv6 (default IPv4)")
    parser.add_argument("--json", action="store_true", help="print JSON lines, an object per host")
    parser.add_argument("--serve", action="store_true", help="answer the blocks of --peer until interrupted")
    parser.add_argument(
        "--peer",
        action="append",
        default=[],
        metavar="NETWORK",
        help="with --serve: address or network that is answered; repeat for several",
    )


def run(args: argparse.Namespace) -> int:
    try:
        key = None if args.key_file is None else read_key(args.key_file)
    except ValueError as error:
        return _usage(str(error))
    if args.serve:
        return _serve(args, key)
    if not args.host:
        return _usage("give a host, or --serve")
    if args.peer:
        return _usage("--peer is for --serve")
    return _measure(args, key)


def _usage(problem: str) -> int:
    print(f"request-response: {problem}", file=sys.stderr)
    return USAGE


def _measure(args: argparse.Namespace, key: str | None) -> int:
    spec = RequestResponseSpec(
        targets=tuple(
            RequestResponseTarget(
                address=host, family=6 if args.ipv6 or ":" in host else 4, source=args.source, key=key
            )
            for host in args.host
        ),
        port=args.port,
        request_bytes=args.request_bytes,
        response_bytes=args.response_bytes,
        count=args.count,
        duration_s=args.duration_s,
        idle_s=args.idle_s,
        timeout_s=args.timeout_s,
        dscp=args.dscp,
    )
    wrong = problems(spec)
    if wrong:
        for problem in wrong:
            _usage(option_problem(problem))
        return USAGE
    is_measured = True
    for measured in RequestResponseProbe().each(spec, Deadline(spec.longest_s * len(spec.targets))):
        for line in [json.dumps(as_json(measured))] if args.json else as_text(measured):
            print(line)
        sys.stdout.flush()
        is_measured &= measured.outcome is Outcome.MEASURED
    return 0 if is_measured else 1


def as_json(run: RequestResponseRun) -> dict[str, Any]:
    figures = latency_figures(run.latencies_ms, run.request_bytes + run.response_bytes)
    return run_fields(run) | (msgspec.to_builtins(figures) if figures else {"transactions": 0})


def as_text(run: RequestResponseRun) -> list[str]:
    host = run.target if run.address in (None, run.target) else f"{run.target} ({run.address})"
    if run.outcome is not Outcome.MEASURED:
        return [f"{host}: {run.outcome.value}: {run.detail}"]
    figures = latency_figures(run.latencies_ms, run.request_bytes + run.response_bytes)
    lines = [f"{host}: {run.request_bytes} bytes sent, {run.response_bytes} bytes answered, one at a time"]
    if figures is None:
        return [*lines, f"  no transaction completed: {run.detail}"]
    lines.append(
        f"  latency {figures.median_ms:.3f} ms median, {figures.p95_ms:.3f} 95th, {figures.p99_ms:.3f} 99th percentile "
        f"({figures.minimum_ms:.3f} to {figures.maximum_ms:.3f}), {figures.transactions} transactions, "
        f"{run.errors} errors"
    )
    lines.append(f"  {figures.transactions_per_s:.1f} transactions/s, {figures.payload_bytes_per_s / 1e6:.3g} MB/s")
    lines.append(
        f"  connect {_ms(run.connect_ms)}, set-up {_ms(run.setup_ms)}, first transaction {_ms(run.first_ms)}, "
        f"after idle {_ms(run.after_idle_ms)}"
    )
    lines.append(f"  retransmitted: {_count(run.retransmits)} of requests, {_count(run.far_retransmits)} of responses")
    return [*lines, *([f"  {run.detail}"] if run.detail else [])]


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f} ms"


def _count(value: int | None) -> str:
    return "–" if value is None else str(value)


def _serve(args: argparse.Namespace, key: str | None) -> int:
    if args.host:
        return _usage("--serve takes no host: it answers those of --peer")
    if not args.peer:
        return _usage("--serve needs --peer ADDRESS: a server answers only hosts that it knows")
    for peer in args.peer:
        fault = network_fault(peer)
        if fault is not None:
            return _usage(f"--peer {peer}: {fault}")
    try:
        listener = open_listener(args.port)
    except ProbeError as error:
        print(f"request-response: {error}", file=sys.stderr)
        return 1
    print(
        f"request-response: answering {', '.join(args.peer)} on TCP port {args.port}; end with Ctrl-C",
        file=sys.stderr,
        flush=True,
    )
    try:
        BlockServer(Peers({}, args.peer, key), RequestResponseLimits()).run(listener, threading.Event())
    except KeyboardInterrupt:
        print("request-response: ended", file=sys.stderr)
    return 0
