"""`python -m tests.compose [--write | --upgrade]`: start docker-compose.yml and check it, as root on Debian 12.

It prints a table, and with --write puts it into docs/testing.md. Exit status: 0 if all checks pass, 1 if not.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from tests.compose import bases
from tests.compose.checks import CHECKS
from tests.compose.engine import CommandError, Engine, install_engine, install_plugins
from tests.compose.stack import Stack, name_of
from tests.compose.upgrade import TITLE, check_upgrade
from tests.reproduce.table import machine, placed

DOCUMENT = bases.ROOT / "docs" / "testing.md"
IMAGES = {"soundings:0.1.0": 600, "soundings-agent:0.1.0": 250}
"""Sizes in MB that they must stay below."""

Row = tuple[str, str, bool]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    scope = parser.add_mutually_exclusive_group()
    scope.add_argument("--write", action="store_true", help="put the table into docs/testing.md")
    scope.add_argument("--upgrade", action="store_true", help="check only the upgrade from an earlier commit")
    parser.add_argument("--folder", type=Path, default=bases.ROOT / ".cache" / "compose", help="data of the engine")
    args = parser.parse_args()
    if os.geteuid() != 0:
        print("compose: needs root, for an engine of its own; run: sudo make test-compose", file=sys.stderr)
        return 1
    tree = bases.next_release()
    install_engine()
    install_plugins(args.folder / "config", tree)
    engine = Engine(args.folder)
    try:
        engine.start()
        bases.make(engine, args.folder, tree)
        rows = [] if args.upgrade else run(Stack(engine, args.folder / "stack"))
        try:
            say(rows, TITLE, check_upgrade(engine, args.folder / "upgrade"), True)
        except CommandError as error:
            say(rows, TITLE, f"FAILED: {' '.join(str(error).split())}", False)
    finally:
        engine.stop()
    table = markdown(rows)
    print(table)
    if args.write:
        DOCUMENT.write_text(placed(DOCUMENT.read_text(), "checks", table))
    return 0 if all(holds for _, _, holds in rows) else 1


def run(stack: Stack) -> list[Row]:
    """Build, start and check; containers and volumes are removed afterwards."""
    stack.prepare()
    rows: list[Row] = []
    try:
        stack.far("down", "--volumes")
        stack.compose("down", "--volumes", "--remove-orphans")
        started = time.monotonic()
        stack.compose("build")
        say(rows, "image built", f"{time.monotonic() - started:.0f} s", True)
        seconds = stack.up()
        say(rows, "first `up --wait`, new volumes", f"{seconds:.0f} s", True)
        for title, check in CHECKS:
            try:
                say(rows, title, check(stack), True)
            except (CommandError, OSError, KeyError, ValueError) as error:
                say(rows, title, f"FAILED: {' '.join(str(error).split())}", False)
        for image, most in IMAGES.items():
            size_mb = int(stack.engine.run("docker", "image", "inspect", "--format", "{{.Size}}", image)[1]) / 1e6
            say(rows, f"size of `{image}`", f"{size_mb:.0f} MB", size_mb < most)
        say(rows, "memory per container", memory(stack), True)
        say(rows, "versions", versions(stack), True)
    except CommandError as error:
        say(rows, "start", f"FAILED: {error}", False)
    finally:
        stack.far("down", "--volumes")
        stack.compose("down", "--volumes", "--remove-orphans", check=False)
    return rows


def say(rows: list[Row], title: str, result: str, holds: bool) -> None:
    rows.append((title, result, holds))
    print(f"{'OK  ' if holds else 'FAIL'} {title}: {result}", flush=True)


def memory(stack: Stack) -> str:
    """Memory of each running container, from `docker stats`."""
    format_ = "{{.ID}} {{.MemUsage}}"
    lines = stack.engine.run("docker", "stats", "--no-stream", "--no-trunc", "--format", format_)[1].splitlines()
    used = {line.split()[0]: line.split()[1] for line in lines}
    return ", ".join(
        sorted(f"{name_of(container)} {used.get(container['Id'], '?')}" for container in stack.containers())
    )


def versions(stack: Stack) -> str:
    engine = stack.engine.run("docker", "version", "--format", "{{.Server.Version}}")[1].strip()
    plugins = [
        re.sub(r".*?v?(\d+\.\d+\.\d+).*", r"\1", stack.engine.run("docker", name, "version")[1].strip())
        for name in ("compose", "buildx")
    ]
    database = stack.sql("SHOW server_version").split()[0]
    python = stack.compose("exec", "-T", "web", "python", "-V").split()[-1]
    return (
        f"Docker Engine {engine}, Compose {plugins[0]}, Buildx {plugins[1]}; stand-ins: Python {python}, PostgreSQL "
        f"{database}, Debian 12's Redis and nginx; nginx for Grafana"
    )


def markdown(rows: list[Row]) -> str:
    lines = ["| check | result |", "|---|---|", *(f"| {title} | {result} |" for title, result, _ in rows)]
    return "\n".join(lines) + f"\n\n*{datetime.now(UTC):%Y-%m-%d}. {machine()}*\n"


if __name__ == "__main__":
    sys.exit(main())
