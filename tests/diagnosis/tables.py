"""The table of `diagnosis`, the verdicts on scenarios that are repeated in the lab."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec

from monitor.analysis.transfer import diagnose
from tests.diagnosis.reading import recording
from tests.diagnosis.runs import LAB, expected_verdict, prepare, run
from tests.diagnosis.scenarios import BEYOND, RTT_MS, SCENARIOS
from tests.lab import RunningLab
from tests.reproduce.table import Table
from tests.scored import count_of

REPEATS = 10
WANTED_SHARE = 0.9
KNOWN = SCENARIOS | BEYOND


def verdicts(share: float, only: list[str], rtt_ms: float, save: Path | None) -> Table:
    """The verdicts on each scenario; expected is the right one in 9 of 10 runs."""
    counts = {name: Counter[str]() for name in only}
    with RunningLab(LAB) as lab:
        prepare(lab)
        expected = {name: expected_verdict(lab, KNOWN[name]) for name in only}
        for number in range(1, count_of(REPEATS, share) + 1):
            for name in only:
                result = run(lab, KNOWN[name], rtt_ms)
                diagnosis = diagnose(recording(result))
                counts[name][diagnosis.verdict] += 1
                right = "" if diagnosis.verdict is expected[name] else "  WRONG"
                print(f"{number:3} {name:18} {diagnosis.sentence}{right}", flush=True)
                if save is not None:
                    (save / f"{name}-{number}.json").write_bytes(msgspec.json.encode(result) + b"\n")
    table = Table(("scenario", "right", "verdicts"))
    for name, count in counts.items():
        right_runs, runs = count[expected[name]], count.total()
        listed = ", ".join(f"{verdict} {number}" for verdict, number in count.most_common())
        table.rows.append((name, f"{right_runs}/{runs}", listed))
        if right_runs < WANTED_SHARE * runs:
            table.failures.append(f"{name}: {right_runs} of {runs} right, should be {WANTED_SHARE:.0%}")
    return table


PARTS = {"verdicts": verdicts}
OPTIONS = {
    "--only": {"nargs": "+", "choices": list(KNOWN), "default": list(SCENARIOS), "metavar": "SCENARIO"},
    "--rtt-ms": {"type": float, "default": RTT_MS, "help": f"round trip of the path, ms ({RTT_MS})"},
    "--save": {"type": Path, "help": "folder for the runs, a file for each"},
}
