"""Adds a subcommand whose `--help` begins with a sentence and, where needed, ends with the exit status."""

from __future__ import annotations

import argparse
from typing import Any, TypeVar

Parser = TypeVar("Parser", bound=argparse.ArgumentParser)


def add_subcommand(
    subparsers: argparse._SubParsersAction[Parser],
    name: str,
    summary: str,
    *,
    exit_status: str | None = None,
    **options: Any,
) -> Parser:
    """Add a subcommand.

    `summary` is an imperative phrase, such as "stop the lab": the list of subcommands shows it, and the help of the
    subcommand begins with it as a sentence.
    """
    return subparsers.add_parser(
        name,
        help=summary,
        description=f"{summary[:1].upper()}{summary[1:]}.",
        epilog=None if exit_status is None else f"Exit status: {exit_status}.",
        **options,
    )
