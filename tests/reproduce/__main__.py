"""Reproduce published measurements in the lab: `python -m tests.reproduce [NAME…] [--write]`."""

from __future__ import annotations

import argparse
import sys
import time

from probes.lab.namespaces import namespaces_available
from tests.lab import RunningLab
from tests.reproduce import atm, in2p3, land_speed, loss, nersc, sc2000
from tests.reproduce.computed import COMPUTED
from tests.reproduce.table import DOCUMENT, Table, placed
from tests.reproduce.transfer import LAB, TooBusy, TransferError

REPRODUCTIONS = {
    "loss": loss.reproduce,
    "in2p3": in2p3.reproduce,
    "sc2000": sc2000.reproduce,
    "nersc": nersc.reproduce,
    "atm": atm.reproduce,
    "transatlantic": land_speed.reproduce,
}


def main() -> int:
    """Exit status 0 if every result is as expected, 1 if not or if the machine was too busy, 2 usage."""
    parser = argparse.ArgumentParser(prog="python -m tests.reproduce", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"{', '.join([*REPRODUCTIONS, *COMPUTED])}; all by default"
    )
    parser.add_argument("--write", action="store_true", help=f"put the tables into docs/{DOCUMENT.name}")
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in (*REPRODUCTIONS, *COMPUTED):
            parser.error(f"there is no reproduction {name}: write {', '.join([*REPRODUCTIONS, *COMPUTED])}")
    names = arguments.names or [*COMPUTED, *REPRODUCTIONS]
    for name in [name for name in names if name in COMPUTED]:
        _compute(name, arguments.write)
    names = [name for name in names if name in REPRODUCTIONS]
    if not names:
        return 0
    reason = namespaces_available()
    if reason is not None:
        print(f"the lab cannot run here: {reason}", file=sys.stderr)
        return 1
    return max([_reproduce(name, arguments.write) for name in names])


def _compute(name: str, write: bool) -> None:
    table = COMPUTED[name]().lines()
    print(f"{name}\n{table}", flush=True)
    if write:
        DOCUMENT.write_text(placed(DOCUMENT.read_text(), name, f"{table}\n"))


def _reproduce(name: str, write: bool) -> int:
    print(f"{name} …", flush=True)
    begin_s = time.monotonic()
    try:
        with RunningLab(LAB) as lab:
            table = REPRODUCTIONS[name](lab, _say)
    except TooBusy as error:
        print(f"{name}: this machine is too busy: {error}; try again with less other work", file=sys.stderr)
        return 1
    except TransferError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    return _show(name, table, write, (time.monotonic() - begin_s) / 60)


def _show(name: str, table: Table, write: bool, minutes: float) -> int:
    print(f"\n{table.markdown()}\n{name}: {minutes:.0f} min")
    if write:
        DOCUMENT.write_text(placed(DOCUMENT.read_text(), name, table.markdown()))
    for failure in table.failures:
        print(f"{name}: {failure}", file=sys.stderr)
    return 1 if table.failures else 0


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
