"""Struct of a whole mesh.toml, from the structs of its tables."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, Union

from msgspec import Struct, defstruct, structs

from monitor.mesh.document import alert_rules
from monitor.mesh.document.alert_rules import FOR, RuleSettings, Selectors
from monitor.mesh.document.budgets import BudgetKeys
from monitor.mesh.document.entries import BetweenGroup, MeshGroup, MeshKeys, SiteEntry, StarGroup
from monitor.mesh.document.networks import NetworkEntry
from monitor.mesh.document.notify_routes import NOTIFY, NotifyKeys
from monitor.mesh.document.service_levels import ServiceLevel
from monitor.mesh.document.sweeps import SweepEntry
from monitor.mesh.kinds import MESH_KINDS
from probes.toml.keys import meaning
from probes.toml.tables import Table


def file_struct() -> type[Struct]:
    kinds = tuple(mesh_kind.entry for mesh_kind in MESH_KINDS.values())
    return _file_struct(kinds, tuple(alert_rules.RULES.items()))


@cache
def _file_struct(kinds: tuple[type[Struct], ...], rules: tuple[tuple[str, type[RuleSettings]], ...]) -> type[Struct]:
    tests = Union[kinds]  # type: ignore[valid-type]  # noqa: UP007
    groups = MeshGroup | StarGroup | BetweenGroup
    return defstruct(
        "MeshFile",
        [
            ("mesh", _table(MeshKeys, '[mesh] and name = "…" below it')),
            ("site", _table(tuple[SiteEntry, ...], "[[site]] for each place")),
            ("test", _table(tuple[tests, ...], "[[test]] for each kind of measurement")),
            ("group", _table(tuple[groups, ...], "[[group]] for the sites that measure a test")),
            ("alerts", _with_selection("Alerts", [(name, rule | None, None) for name, rule in rules]) | None, None),
            ("service_level", _with_selection("ServiceLevels", _fields(ServiceLevel)) | None, None),
            ("budget", BudgetKeys | None, None),
            ("network", tuple[NetworkEntry, ...], ()),
            ("sweep", tuple[SweepEntry, ...], ()),
        ],
    )


def selections(top: Table) -> Iterator[Table]:
    for key in ("alerts", "service_level"):
        for above in top.tables(key):
            yield from above.tables(NOTIFY)
            yield from above.tables(FOR)
    yield from top.tables("sweep")


def _table(hint: Any, example: str) -> Any:
    return Annotated[hint, meaning("", example)]


def _fields(struct: type[Struct]) -> list[tuple[str, Any, Any]]:
    return [(field.name, field.type, field.default) for field in structs.fields(struct)]


def _with_selection(name: str, keys: list[tuple[str, Any, Any]]) -> Any:
    selection = defstruct(f"{name}For", keys, bases=(Selectors,), frozen=True, kw_only=True)
    routes = [(NOTIFY, tuple[NotifyKeys, ...], ())] if name == "Alerts" else []
    return defstruct(name, [*keys, *routes, (FOR, tuple[selection, ...], ())], frozen=True)  # type: ignore[valid-type]
