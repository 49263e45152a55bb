"""The table of `causes-partial`, the names of planted faults while a part of the affected paths has alarmed.

It needs no database.
"""

from __future__ import annotations

from collections import defaultdict

from tests.causes.partial.faults import PlantedTroubles, planted
from tests.causes.partial.runs import SHARES, Names, run
from tests.causes.partial.scoring import Mark, mark, wrong_names
from tests.reproduce.table import Table
from tests.scored import count_of

SEEDS = 9
FIRST_TUNED = 100
LEAST_RIGHT = {0.3: 40 / 60, 0.5: 55 / 60}


def partial(share: float, only: list[str], tuning: bool) -> Table:
    """All kinds of faults, or only these."""
    first = FIRST_TUNED if tuning else 0
    scored = []
    for fault in planted(range(first, first + count_of(SEEDS, share))):
        if not only or fault.kind in only:
            scored.append((fault, run(fault)))
            _print(*scored[-1])
    return _table(scored)


def _print(fault: PlantedTroubles, names: Names) -> None:
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


PARTS = {"partial": partial}
OPTIONS = {
    "--only": {"nargs": "+", "default": [], "metavar": "KIND", "help": "kinds of faults; all by default"},
    "--tuning": {"action": "store_true", "help": "the faults with which the constants were set"},
}
