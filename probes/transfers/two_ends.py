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
from probes.transfers.shared_key import UsageProblem

# Time to start the other end by hand.
WAIT_S = 60.0
RECEIVED_TEXT = "received; the sender prints the result"


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
