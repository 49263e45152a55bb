"""Write docs/reference from the code: all keys of mesh.toml and limits.toml, and all environment variables.

`python -m scripts.reference` (`make reference`) writes the pages; with `--check` it writes nothing and exits with 1 if
a page is out of date. Types, bounds and defaults of mesh.toml are recorded while `monitor.mesh.document.reader.Reader`
reads a file that has every table. The sentences are those of `monitor.mesh.document.entries.Doc`, beside the fields.
limits.toml comes from the structs of `probes.site.limits`, the variables from `monitor.environment`.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import django
import msgspec

from monitor.environment import VARIABLES
from monitor.mesh.document import alert_rules, budgets, entries, notify_routes, reader, service_levels
from monitor.mesh.document.fields import Fields
from monitor.mesh.kinds import MESH_KINDS
from probes import toml_lines
from probes.site.limits.limits import Limits

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"
NONE = "–"
REQUIRED = "required"

SAMPLE = """
[mesh]
name = "sample"
[[site]]
name = "sample"
[[site.host]]
address = "host.example.org"
[[group]]
name = "sample-1"
shape = "mesh"
[[group]]
name = "sample-2"
shape = "star"
[[group]]
name = "sample-3"
shape = "between"
[[alerts.notify]]
channel = "sample"
severity = "notice"
path = ["sample", "other"]
[[alerts.for]]
path = ["sample", "other"]
[service_level]
[[service_level.for]]
path = ["sample", "other"]
[budget.path]
[budget.host]
[budget.uplink]
"""
"""Every table of mesh.toml, and a [[test]] and [[group]] of each kind; the [alerts] tables of the rules are added."""

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
"""Units by the end of a key's name; minutes, bytes, bits or packets precede `per day` and `per hour`."""


@dataclass(slots=True)
class Key:
    """Row of the reference. Bounds are inclusive unless `are_open`."""

    type: str
    default: object = NONE
    low: float | None = None
    high: float | None = None
    are_open: bool = False
    choices: Collection[str] = ()
    sentence: str = ""


@dataclass(slots=True)
class Table:
    """Table of a file: `[header]`, or `[[header]]` if it may occur more than once, and its keys in order."""

    header: str
    is_list: bool = False
    variant: str = ""
    keys: dict[str, Key] = dataclasses.field(default_factory=dict)

    @property
    def title(self) -> str:
        name = f"[[{self.header}]]" if self.is_list else f"[{self.header}]"
        return f"`{name}`" + (f" with {self.variant}" if self.variant else "")


class RecordedFields(Fields):
    """Fields of a table that record the keys that are read in `recorded`, by header and variant."""

    header = ""
    is_list = False
    recorded: dict[tuple[str, str], Table]

    def text(self, key: str, *, default: str | None = None, example: str = "") -> str:
        self._record(key, Key("string", _default(default)))
        return super().text(key, default=default, example=example)

    def flag(self, key: str, *, default: bool) -> bool:
        self._record(key, Key("boolean", default))
        return super().flag(key, default=default)

    def integer(self, key: str, *, low: int, high: int, default: int | None = None, example: str = "") -> int:
        self._record(key, Key("integer", _default(default), low, high))
        return super().integer(key, low=low, high=high, default=default, example=example)

    def number(self, key: str, *, low: float, high: float, default: float | None = None, example: str = "") -> float:
        self._record(key, Key("number", _default(default), low, high))
        return super().number(key, low=low, high=high, default=default, example=example)

    def texts(self, key: str, *, default: tuple[str, ...] | None = None, example: str = "") -> dict[str, int]:
        self._record(key, Key("list of strings", _default(default)))
        return super().texts(key, default=default, example=example)

    def integers(self, key: str, *, low: int, high: int, default: tuple[int, ...]) -> tuple[int, ...]:
        self._record(key, Key("list of integers", default, low, high))
        return super().integers(key, low=low, high=high, default=default)

    def table(self, key: str, label: str) -> Fields | None:
        table = super().table(key, label)
        if isinstance(table, RecordedFields):
            table.header = f"{self.header}.{key}".lstrip(".")
            table.recorded = self.recorded
        return table

    def tables(self, key: str, label: str, header: str) -> list[Fields]:
        tables = super().tables(key, label, header)
        for table in tables:
            if isinstance(table, RecordedFields):
                table.header, table.is_list, table.recorded = header, True, self.recorded
        return tables

    def one_of(self, key: str, value: str, choices: Collection[str], line: int | None = None) -> bool:
        self._table().keys[key].choices = choices
        return super().one_of(key, value, choices, line)

    def _record(self, key: str, value: Key) -> None:
        self._table().keys.setdefault(key, value)

    def _table(self) -> Table:
        variant = ""
        for key in ("kind", "shape"):
            if self.header in ("test", "group") and key in self._nodes:
                variant = f'{key} = "{self._nodes[key].value}"'
        return self.recorded.setdefault(
            (self.header, variant), Table(self.header, self.is_list, f"`{variant}`" if variant else "")
        )


class RecordingReader(reader.Reader):
    """Reader that records the keys of its tables."""

    fields = RecordedFields


def mesh_tables() -> list[Table]:
    """Tables of mesh.toml with all their keys."""
    RecordedFields.recorded = {}
    tests = "".join(f'[[test]]\nname = "sample-{kind}"\nkind = "{kind}"\n' for kind in MESH_KINDS)
    rules = "".join(f'[alerts.{name}]\nseverity = "warning"\n' for name in alert_rules.RULES)
    RecordingReader(toml_lines.parse(SAMPLE + tests + rules))
    tables = [table for table in RecordedFields.recorded.values() if table.header]
    for table in tables:
        sentences = _sentences(table)
        defaults = _struct_defaults(table)
        choices = _struct_choices(table)
        for name, key in table.keys.items():
            key.sentence = sentences.get(name, "")
            key.are_open = _is_open(table.header, name)
            key.choices = key.choices or choices.get(name, ())
            key.default = defaults.get(name, key.default)
            if key.default is None or table.header.startswith("budget."):
                key.default = NONE
        if table.header.startswith("alerts.") and table.header.removeprefix("alerts.") in alert_rules.RULES:
            name = table.header.removeprefix("alerts.")
            table.keys["severity"].default = alert_rules.severity_of(alert_rules.RULES[name]())
    return sorted(tables, key=lambda table: _order(table.header))


def limits_tables() -> list[Table]:
    """Tables of limits.toml with all their keys."""
    tables = []
    for section in Limits.__struct_fields__:
        struct = getattr(Limits(), section)
        hints = get_type_hints(type(struct), include_extras=True)
        keys = {name: _limits_key(hint, getattr(struct, name)) for name, hint in hints.items()}
        tables.append(Table(section, keys=keys))
    return tables


def mesh_page() -> str:
    """Contents of docs/reference/mesh.md."""
    return _page(
        "mesh.toml: all keys",
        "[mesh.md](../mesh.md) explains the file. `[[…]]` is a table that may occur more than once. "
        "`[[alerts.for]]` and `[[service_level.for]]` select paths, and then take the rules, as in "
        "`loss = { above_ratio = 0.05 }`, or the keys of `[service_level]`, for these paths.",
        mesh_tables(),
    )


def limits_page() -> str:
    """Contents of docs/reference/limits.md."""
    return _page(
        "limits.toml: all keys",
        "[agent.md](../agent.md#limits) explains the file, which is in the data folder of a site's agent. All keys are "
        "optional.",
        limits_tables(),
    )


def environment_page() -> str:
    """Contents of docs/reference/environment.md."""
    rows = [f"| `{name}` | {meaning[:1].upper()}{meaning[1:]}. |" for name, meaning in VARIABLES.items()]
    introduction = (
        "Written by `make reference` from the code; do not edit.\n"
        "The centre reads these variables. Each can also be given as a file, `NAME_FILE`, which is better for secrets."
    )
    return (
        "\n".join(["# Environment variables", "", introduction, "", "| variable | meaning |", "|---|---|", *rows])
        + "\n"
    )


PAGES = {"mesh.md": mesh_page, "limits.md": limits_page, "environment.md": environment_page}


def main(arguments: list[str]) -> int:
    """Write the pages, or with --check compare them; the exit status."""
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


def _is_current(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text


def _page(title: str, introduction: str, tables: list[Table]) -> str:
    lines = [f"# {title}", "", "Written by `make reference` from the code; do not edit.", introduction]
    for table in tables:
        lines += [
            "",
            f"## {table.title}",
            "",
            "| key | type | unit | default | bounds | meaning |",
            "|---|---|---|---|---|---|",
        ]
        lines += [f"| {' | '.join(row)} |" for row in _rows(table)]
    return "\n".join(lines) + "\n"


def _rows(table: Table) -> Iterator[tuple[str, ...]]:
    for name, key in table.keys.items():
        default = key.default if key.default in (NONE, REQUIRED) else f"`{_toml(key.default)}`"
        yield f"`{name}`", key.type, _unit(name, key), str(default), _bounds(key), key.sentence


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_toml, value))}]"
    return f'"{value}"' if isinstance(value, str) else _number(float(str(value)))


def _number(value: float) -> str:
    return f"{value:.0f}" if value == int(value) and abs(value) < 1e10 else f"{value:g}"


def _unit(name: str, key: Key) -> str:
    if key.type not in ("integer", "number", "list of integers"):
        return NONE
    ending = next((ending for ending in UNITS if name.endswith(ending)), None)
    if ending is None:
        return NONE
    if ending in ("_per_day", "_per_hour"):
        return f"{name.removesuffix(ending).rpartition('_')[2]} {UNITS[ending]}"
    return UNITS[ending]


def _bounds(key: Key) -> str:
    if key.choices:
        return ", ".join(f"`{choice}`" for choice in key.choices)
    if key.low is None and key.high is None:
        return NONE
    low, high = _number(key.low or 0), None if key.high is None else _number(key.high)
    if key.are_open:
        return f"more than {low}, less than {high}"
    return f"at least {low}" if high is None else f"{low} to {high}"


def _default(value: Any) -> object:
    """Default of a key as the reader gives it; a default derived from the sample is none."""
    if value is None:
        return REQUIRED
    return NONE if isinstance(value, str) and (not value or value.startswith("sample")) else value


@cache
def _structs() -> Mapping[tuple[str, str], type]:
    """Structs of the tables by header and variant, once the alert rules are registered."""
    return {
        ("mesh", ""): entries.MeshDocument,
        ("site", ""): entries.SiteEntry,
        ("site.host", ""): entries.HostEntry,
        **{("test", name): mesh_kind.entry for name, mesh_kind in MESH_KINDS.items()},
        ("alerts.notify", ""): notify_routes.Route,
        ("service_level", ""): service_levels.ServiceLevel,
        ("service_level.for", ""): service_levels.ServiceLevel,
        **{("group", shape): entries.GroupEntry for shape in entries.SHAPES},
        **{(f"alerts.{name}", ""): rule for name, rule in alert_rules.RULES.items()},
    }


def _struct(table: Table) -> type | None:
    return _structs().get((table.header, _variant(table)))


def _variant(table: Table) -> str:
    return table.variant.partition('"')[2].rstrip('"`')


def _docs(struct: type) -> Iterator[tuple[str, str, str]]:
    """Field, key and sentence of the documented fields of a struct."""
    for name, hint in get_type_hints(struct, include_extras=True).items():
        for doc in getattr(hint, "__metadata__", ()):
            if isinstance(doc, entries.Doc):
                yield name, doc.key or name, doc.sentence
    for field in dataclasses.fields(struct):
        if alert_rules.DOC in field.metadata:
            yield field.name, field.name, field.metadata[alert_rules.DOC]


def _sentences(table: Table) -> dict[str, str]:
    """Sentence of each key of a table."""
    struct = _struct(table)
    sentences = {} if struct is None else {key: sentence for _, key, sentence in _docs(struct)}
    if table.header == "site":
        sentences["uplink"] = "Name of the link that all hosts of the site share: one throughput test at a time."
    if table.header.endswith((".for", ".notify")):
        sentences |= alert_rules.SELECTORS | {alert_rules.PATH: alert_rules.PATH_DOC}
    if table.header == "test":
        sentences |= MESH_KINDS[_variant(table)].key_docs
    if struct is entries.GroupEntry:
        sentences |= entries.MEMBERS | {"shape": entries.SHAPE_DOCS[_variant(table)]}
    return sentences | (budgets.KEY_DOCS if table.header.startswith("budget.") else {})


def _struct_defaults(table: Table) -> dict[str, object]:
    """Default of the fields of a table's struct by key, where they have a default that is not the reader's."""
    struct = _struct(table)
    if struct is None:
        return {}
    key_of = {field: key for field, key, _ in _docs(struct)}
    return {
        key_of[field.name]: field.default
        for field in dataclasses.fields(struct)
        if field.name in key_of and field.default not in (dataclasses.MISSING, "")
    }


def _struct_choices(table: Table) -> dict[str, list[str]]:
    """Values of the fields of a table's struct that are literals, by key."""
    struct = _struct(table)
    hints = {} if struct is None else get_type_hints(struct)
    return {
        name: [str(value) for value in get_args(hint)] for name, hint in hints.items() if get_origin(hint) is Literal
    }


def _is_open(header: str, name: str) -> bool:
    if header.startswith("service_level") and name in service_levels.KEYS:
        return service_levels.KEYS[name].are_open
    rule = alert_rules.RULES.get(header.removeprefix("alerts."))
    limits = None if rule is None else dict(alert_rules.keys_of(rule)).get(name, alert_rules.Key(0, None)).limits
    return limits is not None and limits.are_open


def _order(header: str) -> int:
    """Order of tables by their first name, as in the docs; tables of a name keep the order in which they were read."""
    return ("mesh", "site", "test", "group", "alerts", "service_level", "budget").index(header.partition(".")[0])


def _limits_key(hint: Any, default: object) -> Key:
    key = Key("", NONE if default is None or default == "" else default)
    for meta in getattr(hint, "__metadata__", ()):
        key.sentence = meta.description or key.sentence
        key.low = meta.ge if meta.ge is not None else key.low
        key.choices = ()
    schema = msgspec.json.schema(hint)
    branch = next((part for part in schema.get("anyOf", [schema]) if part.get("type") != "null"), schema)
    key.type = {"array": "list of strings", "number": "number", "integer": "integer"}.get(branch["type"], "string")
    key.low = branch.get("minimum", key.low)
    high = branch.get("exclusiveMaximum")
    key.high = None if high is None or high >= 1e18 else high
    key.sentence = key.sentence[:1].upper() + key.sentence[1:] + "."
    return key


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
