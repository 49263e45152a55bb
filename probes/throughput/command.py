"""Run `python -m probes throughput HOST`."""

from __future__ import annotations

import argparse
import json
import sys
import zlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from probes.commands.run_fields import run_fields
from probes.contract import Deadline, Outcome, ProbeError
from probes.hosts import host_argument
from probes.quantities import with_unit
from probes.throughput.probe import Iperf3Probe
from probes.transfers.spec import (
    MAX_STREAMS,
    MOST_CAPTURED_PACKETS,
    CapturedHeaders,
    ThroughputRun,
    ThroughputSpec,
    not_measured,
)

SET_UP_S = 10.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Measure TCP throughput to an iperf3 server (iperf3 -s), which need not be a site of a mesh."
    parser.epilog = "Exit status: 0 measured, 1 could not be measured or captured, 2 usage."
    parser.add_argument("host", type=host_argument, metavar="HOST", help="host name or address of the server")
    parser.add_argument("--port", type=int, default=5201, help="port of the server (default 5201)")
    parser.add_argument("--duration-s", type=int, default=10, metavar="S", help="length of the test, s (default 10)")
    parser.add_argument("--streams", type=int, default=1, metavar="N", help="parallel streams (default 1)")
    parser.add_argument("--reverse", action="store_true", help="the server sends")
    parser.add_argument("--ipv6", action="store_true", help="resolve names to IPv6 (default IPv4)")
    parser.add_argument(
        "--capture", type=Path, metavar="FILE.pcap", help="write the headers of the test's packets (needs CAP_NET_RAW)"
    )
    parser.add_argument(
        "--capture-packets",
        type=int,
        default=MOST_CAPTURED_PACKETS,
        metavar="N",
        help=f"at most so many packets, the first ones (default and maximum {MOST_CAPTURED_PACKETS})",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    problem = _problem(args)
    if problem is not None:
        print(f"throughput: {problem}", file=sys.stderr)
        return 2
    spec = ThroughputSpec(
        address=args.host,
        family=6 if args.ipv6 or ":" in args.host else 4,
        port=args.port,
        duration_s=args.duration_s,
        streams=args.streams,
        reverse=args.reverse,
        capture_packets=msgspec.UNSET if args.capture is None else args.capture_packets,
    )
    with Console(stderr=True).status(f"measuring {args.host}, {args.duration_s} s"):
        result = _measured(spec)
    print(json.dumps(as_json(result)) if args.json else "\n".join(as_text(result)))
    is_captured = args.capture is None or (result.outcome is Outcome.MEASURED and _write(result.capture, args.capture))
    return 0 if result.outcome is Outcome.MEASURED and is_captured else 1


def as_json(result: ThroughputRun) -> dict[str, Any]:
    fields = run_fields(result)
    fields.get("capture", {}).pop("pcap_zlib", None)
    return fields


def as_text(result: ThroughputRun) -> list[str]:
    host = result.target if result.address in (None, result.target) else f"{result.target} ({result.address})"
    if result.throughput_bps is None:
        return [f"{host}: {result.outcome.value}: {result.detail}"]
    direction = "from" if result.reverse else "to"
    resent = "" if result.retransmits is None else f", {result.retransmits:,} retransmits"
    return [f"{direction} {host}: {with_unit(result.throughput_bps, 'bit/s')} over {result.duration_s:.1f} s{resent}"]


def _problem(args: argparse.Namespace) -> str | None:
    for name, most in (("port", 65_535), ("duration_s", 3600), ("streams", MAX_STREAMS)):
        if not 1 <= getattr(args, name) <= most:
            return f"--{name.replace('_', '-')}: must be 1 to {most}"
    if not 1 <= args.capture_packets <= MOST_CAPTURED_PACKETS:
        return f"--capture-packets: must be 1 to {MOST_CAPTURED_PACKETS}"
    if args.capture is not None and not args.capture.absolute().parent.is_dir():
        return f"--capture {args.capture}: its folder does not exist"
    return None


def _measured(spec: ThroughputSpec) -> ThroughputRun:
    started_at = datetime.now(UTC)
    try:
        return Iperf3Probe().run(spec, Deadline(spec.length_s + SET_UP_S))
    except ProbeError as error:
        return not_measured(spec, started_at, error.outcome, str(error))


def _write(capture: CapturedHeaders | msgspec.UnsetType, path: Path) -> bool:
    if isinstance(capture, msgspec.UnsetType) or not capture.packets:
        reason = "no packets" if isinstance(capture, msgspec.UnsetType) else capture.reason
        print(f"throughput: no capture: {reason}", file=sys.stderr)
        return False
    try:
        path.write_bytes(zlib.decompress(capture.pcap_zlib))
    except OSError as error:
        print(f"throughput: {path}: {error.strerror}", file=sys.stderr)
        return False
    left_out = f"; {capture.left_out_packets:,} more were not kept" if capture.left_out_packets else ""
    print(f"{path}: the headers of {capture.packets:,} packets{left_out}", file=sys.stderr)
    return True
