"""Make the tables of a score: `python -m tests.scored NAME [PART …] [--share S] [--write]`. Without NAME it lists all.

The module of a score has `PARTS`, functions that return a table for a share of the simulations. It may have `OPTIONS`,
arguments of `add_argument`; each part gets their values by name.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.reproduce.table import placed

DOCS = Path(__file__).resolve().parents[2] / "docs"


@dataclass(frozen=True, slots=True)
class ScoreModule:
    """The module of a score, and the page in docs that has a place for each of its parts."""

    name: str
    page: str = ""
    names_machine: tuple[str, ...] = ()
    """Parts whose figures may depend on the machine, which is named below their tables."""


SCORES = {
    "causes": ScoreModule("tests.causes.tables", "method/causes.md"),
    "causes-partial": ScoreModule("tests.causes.partial.tables", "method/causes.md", names_machine=("partial",)),
    "congestion": ScoreModule("tests.congestion.tables", "method/congestion.md"),
    "delays": ScoreModule("tests.delays.tables"),
    "diagnosis": ScoreModule("tests.diagnosis.tables"),
    "link_use": ScoreModule("tests.link_use", "method/link_use.md"),
    "losses": ScoreModule("tests.losses.tables", "method/alerts.md"),
    "planted": ScoreModule("tests.planted.tables", "method/planted.md", names_machine=("lab",)),
    "policers": ScoreModule("tests.policers", "capacity.md"),
    "routes": ScoreModule("tests.routes.tables", "method/routes.md"),
}


def main(arguments: Sequence[str]) -> int:
    """Exit status 0 if every result is as expected, 1 if not, 2 usage."""
    if not arguments or arguments[0] not in SCORES:
        print("\n".join(SCORES), file=sys.stderr if arguments else sys.stdout)
        return 2 if arguments else 0
    score = SCORES[arguments[0]]
    options = parsed(arguments)
    makers, share, must_write = options.pop("parts"), options.pop("share"), options.pop("write", False)
    status = 0
    for part, make in makers.items():
        began_s = time.monotonic()
        table = make(share, **options)
        text = table.markdown() if part in score.names_machine else f"{table.lines()}\n"
        print(f"\n{part}, {time.monotonic() - began_s:.0f} s\n\n{text}", end="", flush=True)
        if must_write:
            page = DOCS / score.page
            page.write_text(placed(page.read_text(), part, text))
        for failure in table.failures:
            print(f"{part}: {failure}", file=sys.stderr)
            status = 1
    return status


def parsed(arguments: Sequence[str]) -> dict[str, Any]:
    """The options of a command by name; `parts` has the functions of the chosen parts."""
    name, *rest = arguments
    score = SCORES[name]
    module = importlib.import_module(score.name)
    parser = argparse.ArgumentParser(prog=f"python -m tests.scored {name}", description=module.__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(module.PARTS)}; all by default")
    parser.add_argument("--share", type=float, default=1.0, help="share of the simulations (1)")
    if score.page:
        parser.add_argument("--write", action="store_true", help=f"put the tables into docs/{score.page}")
    for flag, settings in getattr(module, "OPTIONS", {}).items():
        parser.add_argument(flag, **settings)
    options = vars(parser.parse_args(rest))
    for part in options["parts"]:
        if part not in module.PARTS:
            parser.error(f"there is no part {part}: write {', '.join(module.PARTS)}")
    return options | {"parts": {part: module.PARTS[part] for part in options["parts"] or module.PARTS}}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
