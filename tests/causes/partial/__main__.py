"""Plant faults in simulated meshes and score their names while a part of the affected paths has alarmed: `python -m
tests.causes.partial [--tuning] [--write]`.

The table goes to docs/method/causes.md. No database.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING

import django

from tests.causes.__main__ import DOCUMENT
from tests.reproduce.table import Table, placed

if TYPE_CHECKING:
    from tests.causes.partial.faults import PlantedTroubles
    from tests.causes.partial.runs import Names

REPORTED = range(9)
TUNED = range(100, 109)
LEAST_RIGHT = {0.3: 40 / 60, 0.5: 55 / 60}


def main() -> int:
    """Exit status 0 if enough names are right and none is wrong, 1 otherwise, 2 usage."""
    parser = argparse.ArgumentParser(prog="python -m tests.causes.partial", description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help="kinds of faults; all without any")
    parser.add_argument("--tuning", action="store_true", help="the faults with which the constants were set")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--write", action="store_true", help=f"put the table into docs/method/{DOCUMENT.name}")
    arguments = parser.parse_args()
    _set_up()
    from tests.causes.partial.faults import planted

    faults = [
        fault
        for fault in planted(TUNED if arguments.tuning else REPORTED)
        if not arguments.kinds or fault.kind in arguments.kinds
    ]
    with ProcessPoolExecutor(arguments.processes, initializer=_set_up) as processes:
        scored = []
        for fault, names in zip(faults, processes.map(_run, faults), strict=True):
            scored.append((fault, names))
            _print(fault, names)
    table = _table(scored)
    print(f"\n{table.markdown()}")
    if arguments.write:
        DOCUMENT.write_text(placed(DOCUMENT.read_text(), "partial", table.markdown()))
    for failure in table.failures:
        print(failure, file=sys.stderr)
    return 1 if table.failures else 0


def _set_up() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "monitor.settings")
    django.setup()


def _run(fault: PlantedTroubles) -> Names:
    from tests.causes.partial.runs import run

    return run(fault)


def _print(fault: PlantedTroubles, names: Names) -> None:
    from tests.causes.partial.scoring import mark, wrong_names

    marks = {share: mark(fault, of_share) for share, of_share in names.at_share.items()}
    sizes = " ".join(f"{t.loss_ratio:.1%}/{t.step_ms:.0f}+{t.queue_ms:.0f}ms" for t in fault.troubles)
    print(f"{fault.kind} {fault.seed} ({len(fault.mesh.regions)} sites, {sizes}):",
          ", ".join(f"{share:.0%} {mark_}" for share, mark_ in marks.items()),
          "| wrong at some time:", wrong_names(fault, names.ever) or "none",
          "| last:", len(names.last), names.last[:3], flush=True)  # fmt: skip
    for share, of_share in names.at_share.items():
        if wrong_names(fault, of_share):
            print(f"    {share:.0%}: {wrong_names(fault, of_share)}, should be {[t.name for t in fault.troubles]}")


def _table(scored: list[tuple[PlantedTroubles, Names]]) -> Table:
    from tests.causes.partial.runs import SHARES
    from tests.causes.partial.scoring import Mark, mark, wrong_names

    table = Table(
        (
            "fault",
            "planted",
            *(f"right at {share:.0%}" for share in SHARES),
            "wrong",
            "incident ever wrong",
            "right at the end",
        )
    )
    of_kind: dict[str, list[tuple[PlantedTroubles, Names]]] = defaultdict(list)
    for fault, names in scored:
        of_kind[fault.kind].append((fault, names))
    faults = [entry for entry in scored if not entry[0].is_control]
    for kind, of_same in [*of_kind.items(), ("all faults in one place", faults), ("all", scored)]:
        marks = {
            share: [mark(fault, names.at_share[share]) for fault, names in of_same if share in names.at_share]
            for share in SHARES
        }
        right = {share: sum(mark_ is Mark.RIGHT for mark_ in of_share) for share, of_share in marks.items()}
        wrong = sum(any(wrong_names(fault, of) for of in names.at_share.values()) for fault, names in of_same)
        ever = sum(bool(wrong_names(fault, names.ever)) for fault, names in of_same)
        last = sum({t.name for t in fault.troubles} == set(names.last) for fault, names in of_same)
        cells = (
            f"{right[share]}" if right[share] == len(of_same) else f"{right[share]} of {len(marks[share])}"
            for share in SHARES
        )
        table.rows.append((kind, str(len(of_same)), *cells, str(wrong), str(ever), str(last)))
        if kind == "all faults in one place" and of_same:
            for share, least in LEAST_RIGHT.items():
                if right[share] < least * len(of_same):
                    table.failures.append(
                        f"at {share:.0%}: {right[share]} of {len(of_same)} right, should be {least:.0%}"
                    )
        if kind == "all" and wrong + ever:
            table.failures.append(f"{wrong} of {len(of_same)} have a wrong name, and {ever} a wrong incident")
    return table


if __name__ == "__main__":
    sys.exit(main())
