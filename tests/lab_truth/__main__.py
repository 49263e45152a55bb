"""Plant twelve faults in a running lab and score the statements about the present: `python -m tests.lab_truth`.

Starts a lab of five sites as `make run` does, in a folder of its own, waits for a baseline, plants each fault, and
polls the state, the grid, the incidents and the pages each five seconds until nothing is told any more. Needs root or
user namespaces. All twelve take about two hours.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.lab_truth.faults import BY_NAME, FAULTS
from tests.lab_truth.marks import Mark
from tests.lab_truth.scoring import PollScore, changes_a_minute, score_polls
from tests.lab_truth.stored import StoredRun, read_runs
from tests.reproduce.table import Table

MOST_CHANGES_A_MINUTE = 3
REASONS = 12
COLUMNS = (Mark.TRUE, Mark.SILENT, Mark.MISSED, Mark.LATE, Mark.UNCLEAR, Mark.FALSE)


def main() -> int:
    """Exit status 0 if nothing false and nothing missed is said, 1 otherwise, 2 usage."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab_truth", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=list(BY_NAME), help=", ".join(BY_NAME))
    parser.add_argument("--times", type=int, default=1, metavar="N", help="plant each fault so often (1)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="store the polls here, for --score")
    parser.add_argument("--score", type=Path, metavar="FOLDER", help="score the polls of an earlier run, without a lab")
    arguments = parser.parse_args()
    if arguments.score is not None:
        return _report(list(read_runs(arguments.score)))
    # Imported late: it starts no database for --score.
    from tests.lab_truth.lab_runs import run_faults

    faults = [fault for fault in FAULTS if arguments.only is None or fault.name in arguments.only]
    with tempfile.TemporaryDirectory(prefix="soundings-truth-") as folder:
        kept = arguments.keep or Path(folder)
        kept.mkdir(parents=True, exist_ok=True)
        if list(kept.glob("*.jsonl")):
            parser.error(f"{kept} has stored polls already: give another folder")
        run_faults(faults, arguments.times, kept)
        return _report(list(read_runs(kept)))


def _report(runs: Sequence[StoredRun]) -> int:
    scored = [(run, score_polls(run.polls, run.truth)) for run in runs]
    table = _by_fault(scored)
    print(f"{table.markdown()}\n{by_surface(scored).lines()}\n")
    _print_reasons(scored)
    for failure in table.failures:
        print(failure, file=sys.stderr)
    return 1 if table.failures else 0


def _by_fault(scored: Sequence[tuple[StoredRun, list[PollScore]]]) -> Table:
    """A row for each fault, all times it was planted together; a poll has the worst mark of its surfaces."""
    table = Table(("fault", "polls", *COLUMNS, "changes of the sentence a minute, at most"))
    total, most = Counter[Mark](), 0
    for fault in FAULTS:
        own = [(run, polls) for run, polls in scored if run.fault is fault]
        if not own:
            continue
        marks = Counter(poll.mark for _, polls in own for poll in polls)
        changes = max(changes_a_minute(run.polls) for run, _ in own)
        table.rows.append(_row(fault.title, marks, str(changes)))
        total, most = total + marks, max(most, changes)
        if any(not run.is_calm for run, _ in own):
            table.failures.append(f"{fault.title}: still told when the polls ended")
    table.rows.append(_row("all", total, str(most)))
    for mark in (Mark.FALSE, Mark.MISSED):
        if total[mark]:
            table.failures.append(f"{total[mark]} polls {mark}, should be none")
    if most > MOST_CHANGES_A_MINUTE:
        table.failures.append(f"{most} changes of the sentence in a minute, at most {MOST_CHANGES_A_MINUTE}")
    return table


def by_surface(scored: Sequence[tuple[StoredRun, list[PollScore]]]) -> Table:
    """A row for each surface of all faults, and of each."""
    table = Table(("surface", "fault", "polls", *COLUMNS))
    found: dict[tuple[str, str], Counter[Mark]] = {}
    for fault in ("all", *dict.fromkeys(run.fault.title for run, _ in scored)):
        for run, polls in scored:
            if fault in ("all", run.fault.title):
                for poll in polls:
                    for surface, marked in poll.surfaces.items():
                        found.setdefault((fault, surface), Counter())[marked.mark] += 1
    for (fault, surface), marks in found.items():
        table.rows.append((surface, *_row(fault, marks)))
    return table


def _row(name: str, marks: Counter[Mark], *further: str) -> tuple[str, ...]:
    return name, str(marks.total()), *(str(marks[mark]) for mark in COLUMNS), *further


def _print_reasons(scored: Sequence[tuple[StoredRun, list[PollScore]]]) -> None:
    """The most frequent reasons of each fault, worst marks first."""
    for run, polls in scored:
        found = Counter(
            (marked.mark, surface, marked.reason)
            for poll in polls
            for surface, marked in poll.surfaces.items()
            if marked.mark not in (Mark.TRUE, Mark.SILENT)
        )
        order = list(Mark)
        ranked = sorted(found.items(), key=lambda item: (-order.index(item[0][0]), -item[1]))
        for (mark, surface, reason), number in ranked[:REASONS]:
            print(f"{run.fault.name}: {number} × {surface} {mark}: {reason}")


if __name__ == "__main__":
    sys.exit(main())
