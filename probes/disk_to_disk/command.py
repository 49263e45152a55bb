"""Run `python -m probes disk-to-disk send|receive|disk`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import get_args

from rich.console import Console

from probes.commands.run_fields import run_fields
from probes.commands.subcommands import add_subcommand
from probes.contract import Deadline, Outcome
from probes.disk_to_disk.disk import drop_page_cache, measure_read, measure_write
from probes.disk_to_disk.probe import measure, receive
from probes.disk_to_disk.scratch import scratch_file
from probes.disk_to_disk.spec import DiskToDiskRun, DiskToDiskSpec, PermittedSpec, Tool, slot_length_s
from probes.quantities import with_unit
from probes.transfers.two_ends import RECEIVED_TEXT, WAIT_S, UsageProblem, add_end, key_of, run_end

EXIT_STATUS = "0 measured, 1 could not be measured, 2 usage"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    ends = parser.add_subparsers(dest="end", metavar="END", required=True)
    default = DiskToDiskSpec(address="", source="")
    for name, other, text in (
        ("send", "RECEIVER", "send a file to a host that runs `receive`, and print the result"),
        ("receive", "SENDER", "receive the file from a host that runs `send` with the same options"),
    ):
        end = add_end(ends, name, other, text, exit_status=EXIT_STATUS)
        end.add_argument(
            "--tool", choices=get_args(Tool), default=default.tool,
            help=f"fetch compares checksums, iperf3 does not (default {default.tool})",
        )  # fmt: skip
        end.add_argument(
            "--streams", type=int, metavar="N", help=f"parallel TCP streams (default {default.streams}, iperf3: 1)"
        )
        end.add_argument("--port", type=int, default=default.port, help=f"TCP port (default {default.port})")
        end.add_argument(
            "--duration-s", type=int, default=default.duration_s, metavar="SECONDS",
            help=f"maximum duration of each of the two transfers (default {default.duration_s})",
        )  # fmt: skip
        _add_file(end)
    text = "measure the local write and read rate of a folder's disk"
    disk = add_subcommand(ends, "disk", text, exit_status=EXIT_STATUS)
    disk.add_argument("--json", action="store_true", help="print a JSON object")
    _add_file(disk)


def _add_file(parser: argparse.ArgumentParser) -> None:
    default = DiskToDiskSpec(address="", source="").file_bytes
    parser.add_argument("--folder", required=True, metavar="DIR", help="folder of the temporary test file")
    parser.add_argument(
        "--file-bytes", type=int, default=default, metavar="BYTES", help=f"size of the test file (default {default:,})"
    )


def run(args: argparse.Namespace) -> int:
    ends: dict[str, Callable[[argparse.Namespace], int]] = {"send": _send, "receive": _receive, "disk": _disk}
    return run_end("disk-to-disk", ends[args.end], args)


def _send(args: argparse.Namespace) -> int:
    permitted = _permitted_spec(args, args.here, args.host)
    result = measure(permitted, _deadline(args))
    print(json.dumps(run_fields(result)) if args.json else "\n".join(as_text(result)))
    return 0 if result.outcome is Outcome.MEASURED else 1


def _receive(args: argparse.Namespace) -> int:
    permitted = _permitted_spec(args, args.host, args.here)
    with Console(stderr=True).status(f"receiving from {args.host}"):
        receive(permitted, _deadline(args))
    print(json.dumps({"received": True}) if args.json else RECEIVED_TEXT)
    return 0


def _disk(args: argparse.Namespace) -> int:
    _check_size(args.file_bytes)
    deadline = Deadline(3600.0)
    with scratch_file(args.folder) as file:
        written = measure_write(file, args.file_bytes, deadline)
        drop_page_cache(file)
        read, cached = measure_read(file, deadline)
    rates = {"write_bps": written.rate_bps, "read_bps": read.rate_bps, "read_cached_ratio": cached}
    print(json.dumps(rates) if args.json else "\n".join(_disk_lines(**rates)))
    return 0


def _permitted_spec(args: argparse.Namespace, source: str, address: str) -> PermittedSpec:
    streams = args.streams if args.streams is not None else 1 if args.tool == "iperf3" else 4
    if not 1 <= streams <= (1 if args.tool == "iperf3" else 128):
        raise UsageProblem("--streams: iperf3 takes 1, fetch 1 to 128")
    if args.duration_s < 1 or not 1 <= args.port <= 65_535:
        raise UsageProblem("--duration-s must be 1 or more, --port from 1 to 65535")
    _check_size(args.file_bytes)
    return PermittedSpec(
        folder=args.folder,
        spec=DiskToDiskSpec(
            address=address,
            source=source,
            family=6 if args.ipv6 or ":" in address else 4,
            port=args.port,
            tool=args.tool,
            file_bytes=args.file_bytes,
            duration_s=args.duration_s,
            streams=streams,
            one_time_key=key_of(args.key),
        ),
    )


def _check_size(file_bytes: int) -> None:
    if file_bytes < 1_000_000:
        raise UsageProblem("--file-bytes must be 1000000 or more: a smaller file does not measure a disk")


def _deadline(args: argparse.Namespace) -> Deadline:
    return Deadline(slot_length_s(args.duration_s) + WAIT_S)


def as_text(result: DiskToDiskRun) -> list[str]:
    if result.disk_to_disk_bps is None:
        return [f"{result.target}: {result.outcome.value}: {result.detail}"]
    streams = f"{result.streams} stream{'s' if result.streams > 1 else ''}, {result.tool}"
    checked = ", checksum OK" if result.is_verified else ""
    moved = f"{result.moved_bytes:,} of {result.file_bytes:,} bytes by {streams}{checked}"
    return [
        f"disk to disk      {_rate(result.disk_to_disk_bps)} ({moved})",
        f"                  {result.moving_s:.2f} s transfer, {result.syncing_s:.2f} s fsync",
        f"memory to memory  {_rate(result.memory_to_memory_bps)}",
        *_disk_lines(result.write_bps, result.read_bps, result.read_cached_ratio),
    ]


def _disk_lines(write_bps: float | None, read_bps: float | None, read_cached_ratio: float | None) -> list[str]:
    note = f" ({read_cached_ratio:.0%} from the page cache)" if read_cached_ratio else ""
    return [f"local disk read   {_rate(read_bps)}{note}", f"local disk write  {_rate(write_bps)}"]


def _rate(bps: float | None) -> str:
    return "unknown" if bps is None else with_unit(bps, "bit/s")
