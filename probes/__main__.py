"""Run `python -m probes …`.

Exit status: 0 done (total loss included), 1 failed, 2 usage.
"""

from __future__ import annotations

import argparse
import sys

try:
    from probes.commands.catalogue import add_commands
    from probes.commands.ending import without_traceback
except ModuleNotFoundError as error:
    if str(error.name).partition(".")[0] == "probes":
        raise
    raise SystemExit(
        f"probes: {error.name} is not installed for {sys.executable}; run `make setup`, then "
        "`.venv/bin/python -m probes …`"
    ) from error

USAGE = 2


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(
        prog="python -m probes",
        description="Measure network paths, run the agent of a site, or emulate paths.",
        allow_abbrev=False,
    )
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    add_commands(subparsers, arguments[:1])
    if not arguments:
        parser.print_help(sys.stderr)
        return USAGE
    with without_traceback("probes", arguments):
        parsed = parser.parse_args(arguments)
    with without_traceback(parsed.command, arguments):
        status: int = parsed.run(parsed)
    return status


if __name__ == "__main__":
    sys.exit(main())
