"""Run every query of `dashboards/` through Grafana's own PostgreSQL plugin: `python -m tests.grafana`.

Builds the plugin's program with Go, which takes ten minutes and more the first time, starts a PostgreSQL, plants a
small mesh, and runs panels, variables, annotations and alert rules: for each combination of options, over periods of
all lengths, without options, and with a hostile text in the variables. Not here: rendering, and Grafana's server.
"""

from __future__ import annotations

import argparse
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from monitor.stack.postgres import PostgresError
from probes.supervision.supervise import StartError
from tests.grafana.mesh import plant, server
from tests.grafana.planted import FAULTS, RULES, undetected
from tests.grafana.plugin import VERSION, PluginError, build, running
from tests.grafana.provisioned import dashboards
from tests.grafana.runs import Runs
from tests.reproduce.table import Table, placed

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "grafana.md"


def main() -> int:
    """Exit status 0 without faults, 1 for a fault or without Go or a database, 2 for usage."""
    parser = argparse.ArgumentParser(prog="python -m tests.grafana", description=__doc__)
    parser.add_argument("--timescale", action="store_true", help="on TimescaleDB, as `make test-timescale` has it")
    parser.add_argument("--write", action="store_true", help=f"put the table into docs/{DOCUMENT.name}")
    arguments = parser.parse_args()
    try:
        build()
        with server(with_timescale=arguments.timescale) as name:
            source, planted = plant()
            begin_s = time.perf_counter()
            with running(source) as plugin:
                runs = Runs(plugin, planted, datetime.now(UTC))
                missed = undetected(plugin, runs.now)
                for dashboard in dashboards():
                    runs.dashboard(dashboard)
                    print(f"{dashboard.name}: {runs.counts[dashboard.name].runs} runs", flush=True)
                runs.alert_rules()
    except (PluginError, PostgresError, StartError) as error:
        print(f"grafana: {error}", file=sys.stderr)
        return 1
    table = result(runs)
    table.failures += missed
    planted_faults = len(FAULTS) + len(RULES)
    text = (
        f"{table.markdown()}\n*{runs.now:%Y-%m-%d}. Plugin {VERSION}, {name}, {time.perf_counter() - begin_s:.0f} s; "
        f"{planted_faults - len(missed)} of {planted_faults} planted faults were seen.*\n"
    )
    print(f"\n{text}")
    for fault in table.failures:
        print(fault, file=sys.stderr)
    if arguments.write:
        DOCUMENT.write_text(placed(DOCUMENT.read_text(), "plugin", text))
    return 1 if table.failures else 0


def result(runs: Runs) -> Table:
    """A row per dashboard, with the faults as failures."""
    table = Table(("dashboard", "queries", "runs", "rows", "slowest, ms", "faults"))
    for name, count in runs.counts.items():
        faults = sum(fault.startswith(f"{name}: ") for fault in runs.faults)
        numbers = (len(count.queries), count.runs, count.rows, round(count.slowest_s * 1000), faults)
        table.rows.append((name, *(f"{number:,}" for number in numbers)))
    counts = runs.counts.values()
    totals = (
        sum(len(count.queries) for count in counts),
        sum(count.runs for count in counts),
        sum(count.rows for count in counts),
        round(max(count.slowest_s for count in counts) * 1000),
        len(runs.faults),
    )
    table.rows.append(("all", *(f"{number:,}" for number in totals)))
    table.failures += [f"{fault} ({times} times)" for fault, times in runs.faults.items()]
    return table


if __name__ == "__main__":
    sys.exit(main())
