"""`manage.py throughput packets FILE`: analyse TCP transfers in a capture."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
from django.core.management.base import BaseCommand, CommandError, CommandParser

from monitor.analysis.packets import (
    CaptureError,
    TcpConnection,
    Unread,
    connections_of,
    figures_of,
    no_data_reason,
    read_capture,
    unread_sentences,
)
from monitor.analysis.packets.wording import capture_rows

SUMMARY = "retransmissions, SACK, RTT, windows, bursts and pauses of the TCP transfers in a capture (pcap, pcapng)"
EXIT_STATUS = "0 shown, 1 the file cannot be read or has no TCP packets, 2 usage"
MOST_SHOWN = 20


def add_arguments(parser: CommandParser) -> None:
    parser.add_argument("file", type=Path, help="capture, e.g. of: tcpdump -s 128 -w FILE tcp port 5201")
    parser.add_argument(
        "--most",
        type=_number,
        default=MOST_SHOWN,
        help=f"show so many connections, those with the most data (default {MOST_SHOWN})",
    )
    parser.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object for each connection")


def run(command: BaseCommand, options: dict[str, Any]) -> None:
    """Raises `CommandError`."""
    unread: Counter[Unread] = Counter()
    connections = _connections(options["file"], unread)
    for connection in connections[: options["most"]]:
        figures = figures_of(connection)
        if options["as_json"]:
            command.stdout.write(json.dumps(msgspec.to_builtins(figures)))
            continue
        for label, text in capture_rows(figures):
            command.stdout.write(f"{label:>17}  {text}")
        command.stdout.write("")
    if not options["as_json"] and len(connections) > options["most"]:
        command.stdout.write(f"{len(connections) - options['most']} more connections, with less data: --most")
    # A program that reads the objects of --json reads no sentences between them.
    output = command.stderr if options["as_json"] else command.stdout
    for sentence in unread_sentences(unread):
        output.write(sentence)


def _connections(path: Path, unread: Counter[Unread]) -> list[TcpConnection]:
    try:
        connections = connections_of(read_capture(path.read_bytes(), unread), unread)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from error
    except CaptureError as error:
        raise CommandError(f"{path}: {error}") from error
    connections = [connection for connection in connections if connection.sender.payload_bytes]
    if not connections:
        raise CommandError(f"{path}: {no_data_reason(unread)}")
    return sorted(connections, key=lambda connection: -connection.sender.payload_bytes)


def _number(text: str) -> int:
    if not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return int(text)
