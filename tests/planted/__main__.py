"""Plant faults and count which the rules detect: `python -m tests.planted [NAME…] [--write]`.

The tables go to docs/method/planted.md.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.planted import (
    detectors,
    drops,
    lab,
    loss_times,
    one_way,
    one_way_delay,
    recurrent,
    responses,
    shared,
    simulated,
    slow_rises,
)
from tests.planted.simulated import Sizes
from tests.reproduce.table import Table, placed

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "method" / "planted.md"
TABLES: dict[str, Callable[[Sizes], Table]] = {
    "loss": simulated.loss_regression,
    "detectors": detectors.table,
    "shared": shared.table,
    "shared-elsewhere": shared.elsewhere,
    "shared-quiet": shared.quiet,
    "one-way": one_way.table,
    "one-way-quiet": one_way.quiet,
    "one-way-delay": one_way_delay.table,
    "one-way-delay-quiet": one_way_delay.quiet,
    "threshold": simulated.loss_above,
    "loss-times": loss_times.table,
    "round-trips": simulated.round_trips,
    "slow-rises": slow_rises.table,
    "throughput": simulated.throughput_falls,
    "drops": drops.table,
    "responses": responses.table,
    "causes": simulated.causes,
    "blips": simulated.blips,
    "recurrent": recurrent.table,
    "quiet": simulated.quiet,
    "lab": lambda sizes: lab.table(),
}


def main() -> int:
    """Exit status 0 if every result is as expected, 1 if not, 2 usage."""
    parser = argparse.ArgumentParser(prog="python -m tests.planted", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(TABLES)}; all by default")
    parser.add_argument("--write", action="store_true", help=f"put the tables into docs/{DOCUMENT.name}")
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in TABLES:
            parser.error(f"there is no table {name}: write {', '.join(TABLES)}")
    return max([_table(name, arguments.write) for name in arguments.names or TABLES])


def _table(name: str, write: bool) -> int:
    began_s = time.monotonic()
    table = TABLES[name](Sizes())
    print(f"\n{name}, {time.monotonic() - began_s:.0f} s\n\n{table.markdown()}", flush=True)
    if write:
        DOCUMENT.write_text(placed(DOCUMENT.read_text(), name, table.markdown()))
    for failure in table.failures:
        print(f"{name}: {failure}", file=sys.stderr)
    return 1 if table.failures else 0


if __name__ == "__main__":
    sys.exit(main())
