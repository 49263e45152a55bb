"""Run `python -m probes policer send|receive`."""

from __future__ import annotations

import argparse
import json

import msgspec
from rich.console import Console

from probes.commands.run_fields import run_fields
from probes.contract import Deadline, Outcome
from probes.policer.probe import TrainsEnd, measure
from probes.policer.spec import PolicerSpec, slot_length_s
from probes.policer.wording import as_text
from probes.transfers.two_ends import RECEIVED_TEXT, WAIT_S, UsageProblem, add_end, key_of, run_end

EXIT_STATUS = "0 measured (even if it cannot tell), 1 could not be measured, 2 usage"
LEAST_PEAK_BPS, MOST_PEAK_BPS = 100_000, 1_000_000_000
LEAST_TRAIN_BYTES, MOST_TRAIN_BYTES = 50_000, 100_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    ends = parser.add_subparsers(dest="end", metavar="END", required=True)
    default = PolicerSpec(address="")
    for name, other, text in (
        ("send", "RECEIVER", "send trains to a host that runs `receive`, and print what limits them"),
        ("receive", "SENDER", "receive the trains of a host that runs `send` with the same key"),
    ):
        end = add_end(ends, name, other, text, exit_status=EXIT_STATUS)
        end.add_argument("--port", type=int, default=default.port, help=f"TCP and UDP port (default {default.port})")
        if name == "send":
            end.add_argument(
                "--peak-mbps", type=float, default=default.peak_bps / 1e6, metavar="MBPS",
                help=f"rate of the trains, twice the expected limit or more (default {default.peak_bps / 1e6:g})",
            )  # fmt: skip
            end.add_argument(
                "--train-bytes", type=int, default=default.train_bytes, metavar="BYTES",
                help=f"maximum size of a train, four times the expected burst (default {default.train_bytes:,})",
            )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    return run_end("policer", _send if args.end == "send" else _receive, args)


def _send(args: argparse.Namespace) -> int:
    spec = _spec(args, source=args.here, address=args.host)
    spec = msgspec.structs.replace(spec, peak_bps=_peak_bps(args.peak_mbps), train_bytes=_train_bytes(args.train_bytes))
    with Console(stderr=True).status(f"measuring to {args.host}, up to {slot_length_s()} s"):
        result = measure(spec, Deadline(slot_length_s() + WAIT_S))
    print(json.dumps(run_fields(result)) if args.json else "\n".join(as_text(result)))
    return 0 if result.outcome is Outcome.MEASURED else 1


def _receive(args: argparse.Namespace) -> int:
    spec = _spec(args, source=args.host, address=args.here)
    with Console(stderr=True).status(f"receiving from {args.host}"):
        TrainsEnd().serve(spec, Deadline(slot_length_s() + WAIT_S))
    print(json.dumps({"received": True}) if args.json else RECEIVED_TEXT)
    return 0


def _spec(args: argparse.Namespace, source: str, address: str) -> PolicerSpec:
    if not 1 <= args.port <= 65_535:
        raise UsageProblem("--port must be from 1 to 65535")
    return PolicerSpec(
        address=address,
        source=source,
        family=6 if args.ipv6 or ":" in address else 4,
        port=args.port,
        one_time_key=key_of(args.key),
    )


def _peak_bps(mbps: float) -> int:
    if not LEAST_PEAK_BPS <= mbps * 1e6 <= MOST_PEAK_BPS:
        raise UsageProblem(f"--peak-mbps must be from {LEAST_PEAK_BPS / 1e6:g} to {MOST_PEAK_BPS / 1e6:g}")
    return round(mbps * 1e6)


def _train_bytes(train_bytes: int) -> int:
    if not LEAST_TRAIN_BYTES <= train_bytes <= MOST_TRAIN_BYTES:
        raise UsageProblem(f"--train-bytes must be from {LEAST_TRAIN_BYTES:,} to {MOST_TRAIN_BYTES:,}")
    return train_bytes
