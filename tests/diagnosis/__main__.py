"""Repeat each scenario and count the verdicts: `python -m tests.diagnosis --repeats 10`."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

import msgspec

from monitor.analysis.transfer import Verdict, diagnose
from tests.diagnosis.reading import recording
from tests.diagnosis.runs import LAB, expected_verdict, prepare, run
from tests.diagnosis.scenarios import BEYOND, RTT_MS, SCENARIOS
from tests.lab import RunningLab

WANTED_SHARE = 0.9
KNOWN = SCENARIOS | BEYOND


def main() -> int:
    """Exit status 0 if each scenario's verdict was right in 9 of 10 runs, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.diagnosis", description=__doc__)
    parser.add_argument("--repeats", type=int, default=10, help="runs of each scenario (10)")
    parser.add_argument("--only", nargs="+", choices=list(KNOWN), default=list(SCENARIOS), metavar="SCENARIO")
    parser.add_argument("--rtt-ms", type=float, default=RTT_MS, help=f"round trip of the path, ms ({RTT_MS})")
    parser.add_argument("--save", type=Path, help="folder for the runs, a file for each")
    arguments = parser.parse_args()
    counts = {name: Counter[str]() for name in arguments.only}
    with RunningLab(LAB) as lab:
        prepare(lab)
        expected = {name: expected_verdict(lab, KNOWN[name]) for name in arguments.only}
        for number in range(1, arguments.repeats + 1):
            for name in arguments.only:
                result = run(lab, KNOWN[name], arguments.rtt_ms)
                diagnosis = diagnose(recording(result))
                counts[name][diagnosis.verdict] += 1
                right = "" if diagnosis.verdict is expected[name] else "  WRONG"
                print(f"{number:3} {name:18} {diagnosis.sentence}{right}", flush=True)
                if arguments.save is not None:
                    (arguments.save / f"{name}-{number}.json").write_bytes(msgspec.json.encode(result) + b"\n")
    return _print_table(counts, expected)


def _print_table(counts: dict[str, Counter[str]], expected: dict[str, Verdict]) -> int:
    print(f"\n{'scenario':18} {'right':>7}  verdicts")
    short = False
    for name, count in counts.items():
        right, runs = count[expected[name]], count.total()
        short |= right < WANTED_SHARE * runs
        print(f"{name:18} {right:3}/{runs:<3}  {', '.join(f'{verdict} {n}' for verdict, n in count.most_common())}")
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
