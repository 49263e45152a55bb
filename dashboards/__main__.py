"""`python -m dashboards`: write dashboards and alert rules; `… reader`: create Grafana's database role.

Exit status: 0 done, 1 failed (or, with --check, stale), 2 usage.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dashboards import alert_rules, alerts, mesh, paths, reader, site, system, throughput
from dashboards.render import ALERTING_DIR, JSON_DIR, stale, write
from probes.commands.subcommands import add_subcommand

DASHBOARDS = {
    "mesh.json": mesh.build,
    "site.json": site.build,
    "paths.json": paths.build,
    "throughput.json": throughput.build,
    "alerts.json": alerts.build,
    "system.json": system.build,
}
ALERTING = {"soundings.json": alert_rules.build}


def main(arguments: list[str] | None = None) -> int:
    parsed = parser().parse_args(arguments)
    status: int = parsed.run(parsed)
    return status


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="python -m dashboards", description="Write the Grafana dashboards of Soundings.", allow_abbrev=False
    )
    top.add_argument("--check", action="store_true", help="write nothing; exit 1 if a committed file is stale")
    top.set_defaults(run=_render)
    commands = top.add_subparsers(metavar="COMMAND")
    grant = add_subcommand(commands, "reader", f"create or update the read-only role {reader.ROLE} for Grafana")
    grant.add_argument(
        "--password-file", type=Path, required=True, metavar="FILE", help="file with the role's password"
    )
    grant.set_defaults(run=_reader)
    return top


def _render(parsed: argparse.Namespace) -> int:
    folders = ((JSON_DIR, DASHBOARDS), (ALERTING_DIR, ALERTING))
    if parsed.check:
        old = [folder / name for folder, builders in folders for name in stale(builders, folder)]
        for path in old:
            print(f"{_short_path(path)}: stale; update it with: python -m dashboards", file=sys.stderr)
        return 1 if old else 0
    for path in (path for folder, builders in folders for path in write(builders, folder)):
        print(_short_path(path))
    return 0


def _short_path(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _reader(parsed: argparse.Namespace) -> int:
    try:
        address = reader.grant_from_environment(parsed.password_file)
    except reader.ReaderError as error:
        print(f"dashboards reader: {error}", file=sys.stderr)
        return 1
    print(f"{reader.ROLE} may read the views of the schema {reader.SCHEMA}")
    print(f"data source: url {address.host}, database {address.database}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
