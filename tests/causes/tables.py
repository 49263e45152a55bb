"""The table of `causes`, the stated causes of faults planted in a simulated mesh.

It starts a PostgreSQL of its own, or uses SOUNDINGS_DATABASE_URL (an empty database).
"""

from __future__ import annotations

import os
from collections import defaultdict
from typing import TYPE_CHECKING

import django
from django.core.management import call_command

from tests.bench.archive import database
from tests.reproduce.table import Table
from tests.scored import count_of

if TYPE_CHECKING:
    from tests.causes.scoring import Score

SEEDS = 6
RIGHT_SHARE = 0.9


def causes(share: float, only: list[str]) -> Table:
    """All kinds of faults, or only these."""
    with database():
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "monitor.settings")
        django.setup()
        call_command("migrate", verbosity=0)
        return _table(_run(only, count_of(SEEDS, share)))


def _run(kinds: list[str], seeds: int) -> list[Score]:
    from django.db import connection

    from tests.causes.faults import MAKERS, planted
    from tests.causes.runs import prepare, run
    from tests.causes.scoring import Mark, score

    unknown = set(kinds) - MAKERS.keys()
    if unknown:
        raise SystemExit(f"there is no kind {', '.join(unknown)}: write {', '.join(MAKERS)}")
    mesh = prepare()
    scores = []
    for fault in planted(seeds, kinds):
        scores.append(score(fault, run(mesh, fault)))
        newest = scores[-1]
        print(
            f"{fault.kind} {fault.seed}: {newest.mark}{'' if newest.has_right_paths else ', other paths'}", flush=True
        )
        print("".join(f"    before: {sentence}\n" for sentence in newest.wrong_before), end="", flush=True)
        if newest.mark is not Mark.RIGHT or not newest.has_right_paths or not newest.has_direction:
            print("".join(f"    {sentence}\n" for sentence in newest.sentences), end="", flush=True)
    connection.close()
    return scores


def _table(scores: list[Score]) -> Table:
    from tests.causes.scoring import Mark, totals

    columns = ("planted", "right", "cannot tell", "missed", "ever wrong", "paths right", "direction")
    table = Table(("fault, or each of these", *columns))
    of_kind: dict[str, list[Score]] = defaultdict(list)
    for score in scores:
        of_kind[score.fault.kind].append(score)
    alike: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for kind, of_same in of_kind.items():
        alike[_cells(of_same)].append(kind)
    table.rows = [("; ".join(kinds), *cells) for cells, kinds in alike.items()] + [("all", *_cells(scores))]
    marks = totals(scores)
    if marks[Mark.WRONG]:
        table.failures.append(f"{marks[Mark.WRONG]} statements are wrong and certain, should be none")
    before = sum(bool(score.wrong_before) for score in scores)
    if before:
        table.failures.append(f"{before} faults have a wrong and certain statement before the end, should be none")
    if marks[Mark.RIGHT] < RIGHT_SHARE * len(scores):
        table.failures.append(f"{marks[Mark.RIGHT]} of {len(scores)} right, should be {RIGHT_SHARE:.0%}")
    return table


def _cells(scores: list[Score]) -> tuple[str, ...]:
    from tests.causes.scoring import Mark, totals

    marks = totals(scores)
    directed = [score for score in scores if any(expected.toward for expected in score.fault.expected)]
    ways = f"{sum(score.has_direction for score in directed)} of {len(directed)}" if directed else "–"
    ever = sum(score.mark is Mark.WRONG or bool(score.wrong_before) for score in scores)
    paths = sum(score.has_right_paths for score in scores)
    return (
        str(len(scores)),
        *(str(marks[mark]) for mark in (Mark.RIGHT, Mark.UNKNOWN, Mark.MISSED)),
        *map(str, (ever, paths)),
        ways,
    )


PARTS = {"causes": causes}
OPTIONS = {"--only": {"nargs": "+", "default": [], "metavar": "KIND", "help": "kinds of faults; all by default"}}
