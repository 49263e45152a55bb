"""`python -m probes capacity HOST`: estimate the narrowest link of the path to a host that answers pings.

Exit status: 0 measured (also where the replies do not tell a capacity), 1 could not be measured, 2 usage.
"""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC
from typing import Any

import msgspec
from rich.console import Console

from probes.capacity.probe import MAX_PACKETS, MIN_PACKET_BYTES, longest_s, measure, problems
from probes.capacity.spec import CapacityRun, CapacitySpec
from probes.contract import Deadline, Outcome


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `capacity`."""
    parser.description = (
        f"Estimate the narrowest link of a path, there or back, with at most {MAX_PACKETS} echo requests in about 14 s."
    )
    parser.add_argument("host", metavar="HOST", help="name or address")
    parser.add_argument(
        "--packet-bytes",
        type=int,
        metavar="BYTES",
        help=f"bytes of ICMP payload, at least {MIN_PACKET_BYTES} (default: what fills the path's MTU, up to 1500)",
    )
    parser.add_argument(
        "--ipv6", action="store_true", help="resolve names to IPv6 (default IPv4); an address says its own family"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run(args: argparse.Namespace) -> int:
    """Measure and print. Returns the exit status."""
    spec = CapacitySpec(
        address=args.host, family=6 if args.ipv6 or ":" in args.host else 4, packet_bytes=args.packet_bytes
    )
    wrong = problems(spec)
    if wrong:
        for problem in wrong:
            print(f"capacity: {problem}", file=sys.stderr)
        return 2
    if args.json:
        found = measure(spec, Deadline(longest_s(spec)))
        print(json.dumps(as_json(found)))
    else:
        with Console(stderr=True).status(f"measuring {args.host} for about 14 s"):
            found = measure(spec, Deadline(longest_s(spec)))
        print("\n".join(as_text(found)))
    return 0 if found.outcome is Outcome.MEASURED else 1


def as_json(found: CapacityRun) -> dict[str, Any]:
    """The run as `--json` prints it."""
    fields: dict[str, Any] = msgspec.to_builtins(found, builtin_types=())
    del fields["kind"]
    return fields | {"started_at": found.started_at.astimezone(UTC).isoformat().replace("+00:00", "Z")}


def as_text(found: CapacityRun) -> list[str]:
    """The run in words, one line each."""
    host = found.target if found.address in (None, found.target) else f"{found.target} ({found.address})"
    if found.outcome is not Outcome.MEASURED:
        return [f"{host}: {found.outcome.value}: {found.detail}"]
    counts = f"{found.received} of {found.sent} echo requests of {found.packet_bytes} bytes answered"
    return [f"{host}: {finding(found)}", *([found.detail] if found.detail else []), counts]


def finding(found: CapacityRun) -> str:
    """What was found, in one phrase."""
    low_bps, high_bps = found.capacity_low_bps, found.capacity_high_bps
    if found.capacity_bps is not None and low_bps is not None and high_bps is not None:
        return (
            f"narrowest link, there or back, {rate(found.capacity_bps)} "
            f"({rate(low_bps)} to {rate(high_bps)}, from {found.method})"
        )
    bound = ""
    if low_bps is not None:
        bound = f", but at least {rate(low_bps)}" if high_bps is None else f", {rate(low_bps)} to {rate(high_bps)}"
    return f"cannot tell ({found.verdict}){bound}"


def rate(bps: float) -> str:
    """A rate with three figures and its unit."""
    for unit, size in (("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)):
        if bps >= size:
            return f"{bps / size:.3g} {unit}"
    return f"{bps:.0f} bit/s"
