"""The commands that measure between two hosts, each end started by hand."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from probes.commands.subcommands import add_subcommand
from probes.contract import ProbeError
from probes.hosts import host_argument

# Time to start the other end by hand.
WAIT_S = 60.0
RECEIVED_TEXT = "received; the sender prints the result"
MIN_KEY_CHARS = 8


class UsageProblem(Exception):
    """An invalid option; the message says how to correct it."""


def add_end(ends: Any, name: str, other: str, summary: str, *, exit_status: str) -> argparse.ArgumentParser:
    """Add the subcommand of an end, with the options of every end; `other` is the role of the other."""
    end: argparse.ArgumentParser = add_subcommand(ends, name, summary, exit_status=exit_status)
    end.add_argument("host", type=host_argument, metavar=other, help="name or address of the other end")
    end.add_argument(
        "--here",
        type=host_argument,
        metavar="ADDRESS",
        required=True,
        help="this host's address, as seen from the other end",
    )
    end.add_argument("--key", type=Path, required=True, metavar="FILE", help="file with the shared key; - for stdin")
    end.add_argument("--ipv6", action="store_true", help="resolve names to IPv6 (default IPv4)")
    end.add_argument("--json", action="store_true", help="print a JSON object")
    return end


def run_end(command: str, end: Callable[[argparse.Namespace], int], args: argparse.Namespace) -> int:
    """Run an end and return its exit status; problems go to stderr."""
    try:
        return end(args)
    except UsageProblem as error:
        print(f"{command}: {error}", file=sys.stderr)
        return 2
    except ProbeError as error:
        print(f"{command}: {error.outcome.value}: {error}", file=sys.stderr)
        return 1


def key_of(file: Path) -> str:
    """Read the shared key. Raises `UsageProblem`."""
    try:
        key = (sys.stdin.readline() if str(file) == "-" else file.read_text()).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageProblem(f"--key {file}: {error}") from error
    if len(key) < MIN_KEY_CHARS:
        raise UsageProblem(
            f"--key {file}: the key has fewer than {MIN_KEY_CHARS} characters; create a key: openssl rand -hex 32"
        )
    return key
