"""`python -m tests.bench [NAME…]`: prints the machine and the commit, then the table of each benchmark.

Those that take many minutes run only when named; `steady`, `storm` and `agent` take options after their name. A figure
means little without its machine: compare ratios within a run.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import platform
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

import tests.bench


def main(arguments: list[str]) -> int:
    """Run the named benchmarks, or all short ones by default. Returns the exit status."""
    names = arguments[:1] if len(arguments) > 1 and arguments[1].startswith("-") else arguments
    options = arguments[len(names) :]
    module_names = sorted(
        module.name
        for module in pkgutil.iter_modules(tests.bench.__path__)
        if module.name not in ("__main__", *tests.bench.SHARED)
    )
    unknown = [name for name in names if name not in module_names]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are: {', '.join(module_names)}", file=sys.stderr)
        return 2
    print(f"machine  {processor()}, {os.cpu_count()} cores, Linux {platform.release()}")
    print(f"commit   {commit()}")
    for name in names or [name for name in module_names if name not in tests.bench.LONG]:
        table = Table("measure", "value", "reach", title=name, title_justify="left", box=None, pad_edge=False)
        module = importlib.import_module(f"tests.bench.{name}")
        for row in module.rows_of(options) if options else module.run():
            table.add_row(row.measure, row.value, row.reach)
        Console(highlight=False).print(table)
    return 0


def processor() -> str:
    """The model of the first processor, from the kernel."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()


def commit() -> str:
    """The checked-out commit, and whether the tree differs from it."""
    described = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    return described.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
