"""`soundings-agent`: the installed program of a site.

Exit status: 0 done (total loss included), 1 failed, 2 usage.
"""

from __future__ import annotations

import argparse
import sys

import probes
from probes.commands.catalogue import COMMANDS, add_commands
from probes.commands.ending import without_traceback
from probes.commands.own_command import INSTALLED_AS
from probes.commands.subcommands import add_subcommand
from probes.site import command as site

USAGE = 2


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(
        prog=INSTALLED_AS, description="Run the agent of a site, or measure network paths.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"{INSTALLED_AS} {probes.__version__}")
    _add_commands(parser, arguments[:1])
    if not arguments:
        parser.print_help(sys.stderr)
        return USAGE
    parsed = parser.parse_args(arguments)
    with without_traceback(parsed.command):
        status: int = parsed.run(parsed)
    return status


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Build all parsers, which loads all commands."""
    parser = argparse.ArgumentParser(prog=INSTALLED_AS)
    return dict(_add_commands(parser, list(COMMANDS)).choices)


def _add_commands(
    parser: argparse.ArgumentParser, complete: list[str]
) -> argparse._SubParsersAction[argparse.ArgumentParser]:
    # Measurements get options only if in `complete`, since each loads its module.
    parser.set_defaults(data=site.DATA, centre=None, token_file=None, limits=None, allow_plain_http=False)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    run = add_subcommand(commands, "run", "run the agent until it is told to stop")
    site.add_run_arguments(run)
    run.set_defaults(run=site.run)
    site.add_verbs(commands)
    add_commands(commands, complete, without=("site",))
    return commands
