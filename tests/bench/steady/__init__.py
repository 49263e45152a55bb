"""The steady state: simulated agents against the whole stack. `python -m tests.bench steady --sites N --paths M`.

Services as `manage.py up` starts them, in a folder of their own; agents that deliver over HTTP (`agents`, a process of
its own), pages that somebody opens, Grafana's queries. Printed are the processor time of each process and purpose in
the minutes after the start, memory, the times of deliveries and pages, and the lag of rollups and alerts. Everything is
stopped and deleted in the end.
"""

from __future__ import annotations

import argparse
import sys

from tests.bench import Row

SITES, PATHS, MINUTES = 100, 10_000, 3.0


def run(sites: int = SITES, paths: int = PATHS, minutes: float = MINUTES) -> list[Row]:
    """The figures of a run."""
    from tests.bench.steady.measure import measure

    return measure(sites, paths // sites, minutes)


def rows_of(arguments: list[str]) -> list[Row]:
    """The figures of a run with the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench steady", description=__doc__)
    parser.add_argument("--sites", type=int, default=SITES)
    parser.add_argument("--paths", type=int, default=PATHS, help="of all sites together")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="after the first cycle of all sites")
    options = parser.parse_args(arguments)
    if options.paths % options.sites:
        parser.error("--paths must be a multiple of --sites: all sites have as many")
    print(f"{options.sites} sites, {options.paths:,} paths, {options.minutes:g} minutes", file=sys.stderr)
    return run(options.sites, options.paths, options.minutes)
