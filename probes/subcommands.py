"""Shared by all commands: `add_subcommand`, whose `--help` begins with a sentence and, where needed, ends with the exit
status, and the reader of ratios."""

from __future__ import annotations

import argparse
import math
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
    subcommand begins with it as a sentence. Abbreviated options are errors: a script with `--no-r` would change its
    meaning with the next option that begins so.
    """
    return subparsers.add_parser(
        name,
        help=summary,
        description=f"{summary[:1].upper()}{summary[1:]}.",
        epilog=None if exit_status is None else f"Exit status: {exit_status}.",
        allow_abbrev=False,
        **options,
    )


def ratio(text: str) -> float:
    """Parse a ratio from 0 to 1, such as 0.2, or a percentage with its sign, such as 20%, for argparse."""
    is_percentage = text.endswith("%")
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        number = math.nan
    if math.isfinite(number) and 0 <= number <= (100 if is_percentage else 1):
        return number / 100 if is_percentage else number
    example = f"; {number / 100:g} is {number:g}%" if 1 < number <= 100 else ", such as 0.2 or 20%"
    raise argparse.ArgumentTypeError(f'"{text}": write a ratio from 0 to 1{example}')
