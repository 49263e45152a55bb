"""`python -m probes …`: measure, run a site's agent, run the lab. Each subcommand is a `command.py`.

Exit status: 0 done (total loss included), 1 failed, 2 usage.
"""

from __future__ import annotations

import argparse
import importlib
import sys

try:
    from probes.commands import completion
    from probes.commands.ending import without_traceback
    from probes.commands.subcommands import add_subcommand
    from probes.kinds import KINDS
except ModuleNotFoundError as error:
    if str(error.name).partition(".")[0] == "probes":
        raise
    raise SystemExit(
        f"probes: {error.name} is not installed for {sys.executable}; run `make setup`, then "
        "`.venv/bin/python -m probes …`"
    ) from error

COMMANDS = {
    **{kind.name: (kind.command.module, kind.command.summary) for kind in KINDS.values() if kind.command is not None},
    "site": ("probes.site.command", "run the agent of a monitoring site"),
    "lab": ("probes.lab.command", "emulate wide-area paths between network namespaces"),
    "completion": ("probes.commands.completion", completion.HELP),
}

USAGE = 2


def main(arguments: list[str] | None = None) -> int:
    """Parse the subcommand, load its module and run it."""
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(
        prog="python -m probes",
        description="Measure network paths, run the agent of a site, or emulate paths.",
        allow_abbrev=False,
    )
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, (module_name, summary) in COMMANDS.items():
        subparser = add_subcommand(subparsers, name, summary)
        if name in arguments[:1]:
            module = importlib.import_module(module_name)
            module.add_arguments(subparser)
            subparser.set_defaults(run=module.run)
    if not arguments:
        parser.print_help(sys.stderr)
        return USAGE
    with without_traceback("probes", arguments):
        parsed = parser.parse_args(arguments)
    with without_traceback(parsed.command, arguments):
        status: int = parsed.run(parsed)
    return status


def parsers() -> dict[str, argparse.ArgumentParser]:
    """The complete parser of each command. Loads the modules of all."""
    subparsers = argparse.ArgumentParser(prog="python -m probes").add_subparsers()
    commands = {}
    for name, (module_name, summary) in COMMANDS.items():
        commands[name] = add_subcommand(subparsers, name, summary)
        importlib.import_module(module_name).add_arguments(commands[name])
    return commands


if __name__ == "__main__":
    sys.exit(main())
