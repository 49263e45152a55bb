"""`manage.py routes`: load tables that name hops, show their dates, look addresses up."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from monitor.database_errors import reported_to_user
from monitor.progress import progress
from monitor.routes.formats.as_tables import read_as_tables
from monitor.routes.formats.ixp_lists import read_ixp_lists
from monitor.routes.formats.table_file import FileFault
from monitor.routes.loaded_tables import TableSource, replace_table, sources
from monitor.routes.models import TableName
from monitor.routes.places import HopName, of_addresses
from monitor.routes.tables.batches import packed_address
from probes.commands.own_command import MANAGE
from probes.commands.subcommands import add_subcommand
from probes.quantities import counted

READERS = {TableName.AS: read_as_tables, TableName.IXP: read_ixp_lists}
FILES = {
    TableName.AS: "database of libloc or MaxMind, CSV or TSV of ranges, compressed or not; several make one table",
    TableName.IXP: "CSV of prefix, name, or JSON of PeeringDB; several make one table",
}
NOT_LOADED = f"no table loaded; load one with {MANAGE} routes {{}} load FILE"


class Command(BaseCommand):
    help = "Load tables that name the hops of routes: AS, exchange points. See docs/routes.md."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        tables = parser.add_subparsers(dest="table", required=True, metavar="asn|ixp")
        for name, text in (
            (TableName.AS, "load the table of AS numbers, names and countries, show its date, look addresses up"),
            (TableName.IXP, "load the prefixes of Internet exchange points, show their date"),
        ):
            actions = add_subcommand(tables, name.value, text).add_subparsers(dest="action", required=True)
            load = add_subcommand(actions, "load", "replace the table by that in these files, or change nothing")
            load.add_argument("files", nargs="+", type=Path, metavar="FILE", help=FILES[name])
            status = add_subcommand(actions, "status", "show source, date and size of the table")
            status.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object")
            if name == TableName.AS:
                look_up = add_subcommand(actions, "lookup", "show AS, country, exchange point and name of addresses")
                look_up.add_argument("addresses", nargs="+", metavar="ADDRESS", help="IPv4 or IPv6 address")
                look_up.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object")

    def handle(self, *args: Any, table: str, action: str, **options: Any) -> None:
        name = TableName(table)
        with reported_to_user():
            match action:
                case "load":
                    self._load(name, options["files"])
                case "status":
                    self._status(name, timezone.now(), as_json=options["as_json"])
                case _:
                    self._look_up(options["addresses"], as_json=options["as_json"])

    def _load(self, name: TableName, files: list[Path]) -> None:
        with progress("reading") as show:
            try:
                contents = READERS[name](files)
            except FileFault as fault:
                raise CommandError(f"{fault}\nnothing was changed") from fault
            show("storing")
            replace_table(name, contents, timezone.now())
        self._status(name, timezone.now(), as_json=False)

    def _status(self, name: TableName, now: datetime, *, as_json: bool) -> None:
        source = next((source for source in sources() if source.name == name), None)
        if as_json:
            self.stdout.write(msgspec.json.encode(source).decode())
        elif source is None:
            self.stdout.write(NOT_LOADED.format(name.value))
        else:
            self.stdout.writelines(f"{line}\n" for line in _status_lines(source, now))

    def _look_up(self, addresses: list[str], *, as_json: bool) -> None:
        for address in addresses:
            if packed_address(address) is None:
                raise CommandError(f'"{address}" is not an IP address; write it as in 192.0.2.1 or 2001:db8::1')
        names = of_addresses(addresses)
        if as_json:
            self.stdout.write(msgspec.json.encode(names).decode())
            return
        width = max(map(len, names))
        for address, name in names.items():
            self.stdout.write(f"{address:<{width}}  {_in_words(name)}")
        source = next((source for source in sources() if source.name == TableName.AS), None)
        self.stdout.write(NOT_LOADED.format(TableName.AS.value) if source is None else f"AS numbers: {source}")


def _status_lines(source: TableSource, now: datetime) -> list[str]:
    age = "" if source.dated_at is None else f", {counted((now - source.dated_at).days, 'day')} old"
    kinds = "AS" if source.name == TableName.AS else "member AS"
    return [
        f"source:  {source}{age}",
        f"loaded:  {source.loaded_at:%Y-%m-%d %H:%M} UTC",
        f"ranges:  {source.ipv4_ranges:,} IPv4, {source.ipv6_ranges:,} IPv6; {source.as_count:,} {kinds}",
    ]


def _in_words(name: HopName) -> str:
    parts = [name.as_text, name.country, name.special]
    labelled = [("exchange", name.ixp), ("network", name.network), ("name", name.host_name)]
    parts += [f"{label} {value}" for label, value in labelled if value]
    return ", ".join(part for part in parts if part) or "unknown"
