"""Parsing shared by all commands: subcommands, numbers, ratios, and options for a spec's problems."""

from __future__ import annotations

import argparse
import difflib
import functools
import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

Parser = TypeVar("Parser", bound=argparse.ArgumentParser)

# More than any figure here; a double and a column of 8 bytes hold it exactly.
LARGEST_NUMBER = 10**15
LONGEST_QUOTED = 40


def add_subcommand(
    subparsers: argparse._SubParsersAction[Parser],
    name: str,
    summary: str,
    *,
    exit_status: str | None = None,
    **options: Any,
) -> Parser:
    """Add a subcommand; `summary` is an imperative phrase. Abbreviated options are errors."""
    parser = subparsers.add_parser(
        name,
        help=summary,
        description=f"{summary[:1].upper()}{summary[1:]}.",
        epilog=None if exit_status is None else f"Exit status: {exit_status}.",
        # A script with `--no-r` would change its meaning with a later option.
        allow_abbrev=False,
        **options,
    )
    # A subclass would not do: the parsers of Django's commands have a class of their own.
    bound_numbers(parser)
    parser.parse_known_args = functools.partial(_parse_all, parser, parser.parse_known_args)  # type: ignore[assignment, method-assign]
    return parser


def bound_numbers(parser: argparse.ArgumentParser) -> None:
    """Refuse numbers of `type=int` and `type=float` arguments that would overflow later."""
    parser.register("type", int, _whole_number)
    parser.register("type", float, _finite_number)


def _whole_number(text: str) -> int:
    try:
        # Thousands of digits are a ValueError too.
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{_cut(text)} is not a whole number") from None
    if abs(number) > LARGEST_NUMBER:
        raise argparse.ArgumentTypeError(f"{_cut(text)} is too large; write a whole number up to {LARGEST_NUMBER}")
    return number


def _finite_number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{_cut(text)} is not a number") from None
    if not abs(number) <= LARGEST_NUMBER:
        raise argparse.ArgumentTypeError(f"{_cut(text)} is no number up to {LARGEST_NUMBER}")
    return number


def positive(most: int) -> Callable[[str], int]:
    """A reader of whole numbers from 1 to `most`, for argparse."""

    def read(text: str) -> int:
        is_number = text.isdecimal() and len(text) <= len(str(most))
        if not is_number or not 1 <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{_cut(text)}: write a whole number from 1 to {most}")
        return int(text)

    return read


def _cut(text: str) -> str:
    return repr(text if len(text) <= LONGEST_QUOTED else f"{text[:LONGEST_QUOTED]}…")


def _parse_all(
    parser: argparse.ArgumentParser, parse: Any, arguments: Sequence[str], namespace: Any = None
) -> tuple[argparse.Namespace, list[str]]:
    # Parse everything: argparse would report the rest with the outermost usage.
    parsed, unknown = parse(arguments, namespace)
    if unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{_suggestion(parser, unknown)}")
    return parsed, []


def _suggestion(parser: argparse.ArgumentParser, unknown: Sequence[str]) -> str:
    options = [option for action in parser._actions for option in action.option_strings if option.startswith("--")]
    for argument in unknown:
        close = difflib.get_close_matches(argument.partition("=")[0], options, n=1)
        if close:
            return f" (did you mean {close[0]}?)"
    return ""


def option_problem(problem: str, **options: str) -> str:
    """Replace the field in a spec's problem by its option; `options` has exceptions."""
    field, space, rest = problem.partition(" ")
    if not field.isidentifier():
        return problem
    return f"{options.get(field, '--' + field.replace('_', '-'))}{space}{rest}"


def ratio(text: str) -> float:
    """Parse a ratio from 0 to 1, such as 0.2, or a percentage, such as 20%."""
    is_percentage = text.endswith("%")
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        number = math.nan
    if math.isfinite(number) and 0 <= number <= (100 if is_percentage else 1):
        return number / 100 if is_percentage else number
    example = f": {number / 100:g} or {number:g}%" if 1 < number <= 100 else ", such as 0.2 or 20%"
    raise argparse.ArgumentTypeError(f'"{text}": write a ratio from 0 to 1, or a percentage{example}')


def moment(text: str) -> datetime:
    """Parse an ISO 8601 date or time; default time zone UTC."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f'"{text}" is not a time; write it as in 2026-03-14 or 2026-03-14T12:00'
        ) from None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at
