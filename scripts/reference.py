"""Write docs/reference from the code: keys of mesh.toml and limits.toml, variables, retention of tables, the API.

`python -m scripts.reference` (`make reference`) writes the pages; with `--check` it exits with 1 instead if one is out
of date.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import django
import msgspec
from django.conf import settings

from monitor.archive.retention_bounds import BOUNDS, Bound
from monitor.environment import VARIABLES
from monitor.mesh.document import structure
from probes.site.limits.limits import Limits
from probes.toml.keys import Key, keys_of, tag_key, to_toml

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"
NONE = "–"

# Units by the end of a key's name; minutes, bytes, bits or packets precede `per day` and `per hour`.
UNITS = {
    "_per_day": "per day",
    "_per_hour": "per hour",
    "_per_s": "packets/s",
    "_mbps": "Mbit/s",
    "_bps": "bit/s",
    "_bytes": "bytes",
    "_deg": "degrees",
    "_ratio": "ratio",
    "_ms": "ms",
    "_s": "s",
}


@dataclass(frozen=True, slots=True)
class TableReference:
    header: str
    tag: Key | None
    struct: type[msgspec.Struct]

    @property
    def title(self) -> str:
        if self.tag is None:
            return f"`{self.header}`"
        return f"`{self.header}` with `{self.tag.name} = {to_toml(self.struct.__struct_config__.tag)}`"

    @property
    def keys(self) -> list[Key]:
        """Keys with plain values; nested tables are tables of their own."""
        tag = [] if self.tag is None else [self.tag]
        return [*tag, *(key for key in keys_of(self.struct).values() if not key.tables)]


def tables_of(struct: type[msgspec.Struct], above: str = "") -> Iterator[TableReference]:
    for key in keys_of(struct).values():
        name = f"{above}{key.name}"
        for variant in key.tables:
            table = TableReference(f"[[{name}]]" if key.is_list else f"[{name}]", tag_key(key.tables), variant)
            if table.keys:
                yield table
            # The rules in [[alerts.for]] are those of [alerts].
            if name != "alerts.for":
                yield from tables_of(variant, f"{name}.")


def mesh_page() -> str:
    return _page(
        "mesh.toml: all keys",
        "[mesh.md](../mesh.md) explains the file. `[[…]]` is a table that may occur more than once. "
        "`[[alerts.for]]` and `[[service_level.for]]` select paths, and then take the rules, as in "
        "`loss = { above_ratio = 0.05 }`, or the keys of `[service_level]`, for these paths.",
        structure.file_struct(),
    )


def limits_page() -> str:
    return _page(
        "limits.toml: all keys",
        "[agent.md](../agent.md#limits) explains the file, which is in the data folder of a site's agent. All keys are "
        "optional.",
        Limits,
    )


def environment_page() -> str:
    rows = [f"| `{name}` | {meaning[:1].upper()}{meaning[1:]}. |" for name, meaning in VARIABLES.items()]
    introduction = (
        "Written by `make reference` from the code; do not edit.\n"
        "The centre reads these variables. Each can also be given as a file, `NAME_FILE`, which is better for secrets."
    )
    return (
        "\n".join(["# Environment variables", "", introduction, "", "| variable | meaning |", "|---|---|", *rows])
        + "\n"
    )


def retention_page() -> str:
    """Write a row for the tables of each bound."""
    tables: dict[tuple[str, str], list[str]] = {}
    for table, bound in BOUNDS.items():
        tables.setdefault((bound.text, _days(bound)), []).append(f"`{table}`")
    introduction = (
        "Written by `make reference` from the code; do not edit.\n"
        "[archive.md](../archive.md#how-long-it-is-kept) explains retention. The variable sets the days; 0: forever."
    )
    rows = [f"| {', '.join(names)} | {text} | {days} |" for (text, days), names in tables.items()]
    heading = ["| tables | retention | variable, default days |", "|---|---|---|"]
    return "\n".join(["# Retention of all tables", "", introduction, "", *heading, *rows]) + "\n"


def api_page() -> str:
    """Contents of docs/reference/api.md: a row for each request of the users' API, from its OpenAPI description."""
    # Models are imported with the API, which needs the apps of Django.
    from monitor.api.users import api

    introduction = (
        "Written by `make reference` from the code; do not edit.\n"
        "[api.md](../api.md) explains the API. Addresses are below `/api/v1/`; times are of ISO 8601."
    )
    rows = [
        f"| `{method.upper()} {_address(path, operation)}` | {_purpose(operation)} |"
        for path, operations in api.get_openapi_schema(path_prefix="")["paths"].items()
        for method, operation in operations.items()
    ]
    return (
        "\n".join(["# All requests of the API", "", introduction, "", "| request | answer |", "|---|---|", *rows])
        + "\n"
    )


PAGES = {
    "mesh.md": mesh_page,
    "limits.md": limits_page,
    "environment.md": environment_page,
    "retention.md": retention_page,
    "api.md": api_page,
}


def main(arguments: list[str]) -> int:
    """Write the pages, or with --check compare; return the exit status."""
    django.setup()  # registers the alert rules
    outdated = [name for name, page in PAGES.items() if not _is_current(FOLDER / name, page())]
    if "--check" in arguments:
        for name in outdated:
            print(f"docs/reference/{name} is out of date; run make reference", file=sys.stderr)
        return 1 if outdated else 0
    FOLDER.mkdir(exist_ok=True)
    for name in outdated:
        (FOLDER / name).write_text(PAGES[name]())
        print(f"docs/reference/{name} written")
    return 0


def meaning(table: TableReference, key: Key) -> str:
    """Description of a key as a sentence; a tag has its struct's docstring."""
    if key == table.tag:
        return (table.struct.__doc__ or "").partition("\n")[0]
    ending = "" if key.meaning.endswith(".") else "."
    return f"{key.meaning[:1].upper()}{key.meaning[1:]}{ending}"


def _address(path: str, operation: dict[str, Any]) -> str:
    """Address of a request as people write it: `paths/ID/series?since=&until=`."""
    named = re.sub(r"\{\w+_id\}", "ID", path.lstrip("/")).replace("{at}", "TIME").replace("{role}", "ROLE")
    queried = [f"{parameter['name']}=" for parameter in operation.get("parameters", []) if parameter["in"] == "query"]
    return named + (f"?{'&'.join(queried)}" if queried else "")


def _purpose(operation: dict[str, Any]) -> str:
    """Summary of a request, with its description as further sentences."""
    texts = [" ".join(operation.get(part, "").split()) for part in ("summary", "description")]
    return ". ".join(text.removesuffix(".") for text in texts if text).replace("|", r"\|")


def _days(bound: Bound) -> str:
    return NONE if bound.key is None else f"`{bound.variable}`, {settings.RETENTION_DAYS[bound.key]}"


def _is_current(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text


def _page(title: str, introduction: str, struct: type[msgspec.Struct]) -> str:
    lines = [f"# {title}", "", "Written by `make reference` from the code; do not edit.", introduction]
    for table in tables_of(struct):
        lines += [
            "",
            f"## {table.title}",
            "",
            "| key | type | unit | default | bounds | meaning |",
            "|---|---|---|---|---|---|",
        ]
        lines += [f"| {' | '.join(_row(table, key))} |" for key in table.keys]
    return "\n".join(lines) + "\n"


def _row(table: TableReference, key: Key) -> tuple[str, ...]:
    value = key if key.item is None else key.item
    bounds = ", ".join(f"`{choice}`" for choice in value.choices) or value.bounds or NONE
    return f"`{key.name}`", key.type_name, _unit(key), _default(key), bounds, meaning(table, key)


def _default(key: Key) -> str:
    if key.is_required:
        return "required"
    return NONE if key.default in (None, "") else f"`{to_toml(key.default)}`"


def _unit(key: Key) -> str:
    ending = next((ending for ending in UNITS if key.name.endswith(ending)), None)
    if ending is None or key.type_name not in ("integer", "number", "list of integers"):
        return NONE
    if ending in ("_per_day", "_per_hour"):
        return f"{key.name.removesuffix(ending).rpartition('_')[2]} {UNITS[ending]}"
    return UNITS[ending]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
