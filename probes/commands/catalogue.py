"""Module and summary of each command of `python -m probes` and `soundings-agent`. A module is loaded only where its
options are needed."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Collection

from probes.commands.subcommands import add_subcommand
from probes.kinds import KINDS

COMMANDS = {
    **{kind.name: (kind.command.module, kind.command.summary) for kind in KINDS.values() if kind.command is not None},
    "site": ("probes.site.command", "run the agent of a monitoring site"),
    "lab": ("probes.lab.command", "emulate wide-area paths between network namespaces"),
    "completion": ("probes.commands.completion", "print a script for tab completion"),
}


def add_commands(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser],
    complete: Collection[str],
    without: Collection[str] = (),
) -> None:
    """Add all commands except `without`. Only the commands in `complete` get their options."""
    for name, (module_name, summary) in COMMANDS.items():
        if name in without:
            continue
        subparser = add_subcommand(subparsers, name, summary)
        if name in complete:
            module = importlib.import_module(module_name)
            module.add_arguments(subparser)
            subparser.set_defaults(run=module.run)


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Build all parsers, which loads all commands."""
    subparsers = argparse.ArgumentParser(prog="python -m probes").add_subparsers()
    add_commands(subparsers, COMMANDS)
    return dict(subparsers.choices)
