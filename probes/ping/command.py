"""`python -m probes ping HOST…`: measure loss and RTT without a centre, as a table or as JSON lines.

Exit status: 0 measured (total loss included), 1 if any target could not be measured, 2 usage.
"""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC
from typing import Any

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from probes.contract import Deadline, Outcome
from probes.ping.burst import PING, problems, summary
from probes.ping.rate_limit import longest_s
from probes.ping.resolve import RESOLVE_S
from probes.ping.spec import Burst, PingSpec, PingTarget
from probes.quantities import counted

PIPE_COLUMNS = 200

SPARE_S = 5.0
"""Margin beyond the planned duration, for a busy host."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ping` to `parser`."""
    parser.epilog = "Exit status: 0 measured (total loss included), 1 a host could not be measured, 2 usage."
    parser.add_argument("host", nargs="+", metavar="HOST", help="host name or address")
    parser.add_argument(
        "--count", type=int, default=10, metavar="N", help="echo requests per host and size (default 10)"
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
    parser.add_argument("--ipv6", action="store_true", help="resolve names to IPv6 (default IPv4)")
    parser.add_argument("--json", action="store_true", help="print JSON lines, an object per host and size")


def run(args: argparse.Namespace) -> int:
    """Measure and print. Returns the exit status."""
    spec = PingSpec(
        targets=tuple(PingTarget(address=host, family=6 if args.ipv6 or ":" in host else 4) for host in args.host),
        packet_bytes=args.sizes,
        count=args.count,
        spacing_s=args.spacing_s,
        timeout_s=args.timeout_s,
        late_s=args.late_s,
        priming_bytes=None if args.no_priming else PingSpec(targets=()).priming_bytes,
        dont_fragment=args.dont_fragment,
        check_rate_limit=not args.no_rate_check,
    )
    wrong = problems(spec)
    if wrong:
        for problem in wrong:
            print(f"ping: {problem}", file=sys.stderr)
        return 2
    deadline = Deadline(spec.duration_s + RESOLVE_S + longest_s(spec.spacing_s, spec.timeout_s) + SPARE_S)
    if args.json:
        bursts = PING.run(spec, deadline)
        for burst in bursts:
            print(json.dumps(as_json(burst)))
    else:
        # Printed where there is no terminal too: the table follows only after the last reply.
        print(_announcement(spec), file=sys.stderr, flush=True)
        with Console(stderr=True).status("waiting for replies"):
            bursts = PING.run(spec, deadline)
        _print_table(bursts)
    return 0 if all(burst.outcome is Outcome.MEASURED for burst in bursts) else 1


def _announcement(spec: PingSpec) -> str:
    """Requests to be sent, and the time that it takes."""
    hosts = " ".join(target.address for target in spec.targets)
    sizes = " and ".join(map(str, spec.packet_bytes))
    requests = f"{counted(spec.count, 'request')}{' each' if len(spec.packet_bytes) > 1 else ''} of {sizes} bytes"
    return f"pinging {hosts}: {requests}, {spec.spacing_s:g} s apart; takes about {spec.duration_s:.0f} s"


def _sizes(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(size) for size in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: write whole numbers of bytes, as in 100,1000") from None


def as_json(burst: Burst) -> dict[str, Any]:
    """The burst and its statistics, as `--json` prints them."""
    derived = summary(burst)
    return {
        "target": burst.target,
        "address": burst.address,
        "family": burst.family,
        "packet_bytes": burst.packet_bytes,
        "started_at": burst.started_at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "outcome": burst.outcome.value,
        "sent": burst.sent,
        "received": burst.received,
        "late": burst.late,
        "duplicates": burst.duplicates,
        "reordered": burst.reordered,
        "loss_ratio": derived["loss_ratio"],
        "rtts_ms": list(burst.rtts_ms),
        **{name: value for name, value in derived.items() if name != "loss_ratio"},
        "ttl": burst.ttl,
        "ttl_changes": burst.ttl_changes,
        "errors": msgspec.to_builtins(burst.errors),
        "path_mtu_bytes": burst.path_mtu_bytes,
        "rate_limited": burst.rate_limited,
        "stamp": burst.stamp,
        "stamps_lost": burst.stamps_lost,
        "clock_source": burst.clock_source,
        "waited": burst.waited,
        "detail": burst.detail,
    }


def loss_text(burst: Burst) -> str:
    """Lost of sent. With 0 of N lost, the upper bound 3/N of the loss (95% confidence)."""
    if burst.outcome is not Outcome.MEASURED:
        return "not measured"
    lost = burst.sent - burst.received
    percent = f"< {100 * min(3 / burst.sent, 1):.3g}%" if lost == 0 else f"{100 * lost / burst.sent:.3g}%"
    return f"{lost} of {burst.sent} ({percent})"


def _print_table(bursts: tuple[Burst, ...]) -> None:
    table = Table(box=None, header_style="bold", pad_edge=False, caption="RTT in ms", caption_justify="left")
    table.add_column("host")
    for name in ("bytes", "lost", "min", "median", "average", "max", "IPDV"):
        table.add_column(name, justify="right")
    for burst in bursts:
        table.add_row(*_row(burst))
    # A pipe has no width: do not wrap there.
    console = Console(width=None if sys.stdout.isatty() else PIPE_COLUMNS, highlight=False)
    console.print(table)
    for note in _notes(bursts):
        console.print(note, markup=False, soft_wrap=True)


def _row(burst: Burst) -> list[str]:
    host = burst.target if burst.address in (None, burst.target) else f"{burst.target} ({burst.address})"
    derived = summary(burst)
    names = ("rtt_min_ms", "rtt_median_ms", "rtt_avg_ms", "rtt_max_ms", "ipdv_ms")
    return [escape(host), str(burst.packet_bytes), loss_text(burst), *(_ms(derived[name]) for name in names)]


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _notes(bursts: tuple[Burst, ...]) -> list[str]:
    """Remarks by host, a line each, with the packet sizes they apply to unless they apply to all."""
    sizes = dict.fromkeys(burst.packet_bytes for burst in bursts)
    about: dict[tuple[str, str], dict[int, None]] = {}
    for burst in bursts:
        for remark in _remarks(burst):
            about.setdefault((burst.target, remark), {})[burst.packet_bytes] = None
    return [
        f"{target}: {remark}" if of_sizes == sizes else f"{target}, {' and '.join(map(str, of_sizes))} bytes: {remark}"
        for (target, remark), of_sizes in about.items()
    ]


def _remarks(burst: Burst) -> list[str]:
    """Remarks on a burst that its table row does not show."""
    if burst.outcome is not Outcome.MEASURED:
        return [f"{burst.outcome.value}: {burst.detail}"]
    counted = {
        "late (reply after the timeout)": burst.late,
        "duplicated": burst.duplicates,
        "out of order": burst.reordered,
        "TTL changes": burst.ttl_changes,
        "delayed by a full send buffer": burst.waited,
    }
    remarks = [f"{count} {event}" for event, count in counted.items() if count]
    remarks += [f"{error.count} × {error.name} from {error.router}" for error in burst.errors]
    if burst.path_mtu_bytes is not None:
        remarks.append(f"path MTU {burst.path_mtu_bytes} bytes")
    if burst.rate_limited:
        remarks.append("loss grows with our request rate: ICMP is rate-limited; not a measure of path loss")
    if burst.stamps_lost:
        remarks.append(f"{burst.stamps_lost} kernel timestamps missing")
    if burst.detail is not None:
        remarks.append(burst.detail)
    return remarks
