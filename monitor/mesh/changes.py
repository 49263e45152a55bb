"""Rows written by an apply of mesh.toml."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Action = Literal["added", "changed", "retired"]
ACTIONS: tuple[Action, ...] = ("added", "changed", "retired")


@dataclass(frozen=True, slots=True)
class MeshChange:
    """Row written by an apply; `detail` has its changes, or that a retired row is used again."""

    action: Action
    kind: str
    name: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.action} {self.kind} {self.name}" + (f": {self.detail}" if self.detail else "")


@dataclass(slots=True)
class MeshChanges:
    """Rows written by an apply, in order."""

    items: list[MeshChange] = field(default_factory=list)
    slots_deleted: int = 0  # had not begun

    @property
    def is_empty(self) -> bool:
        return not self.items

    def select(self, action: Action, kind: str | None = None) -> list[MeshChange]:
        return [change for change in self.items if change.action == action and kind in (None, change.kind)]

    def counts(self, action: Action) -> dict[str, int]:
        return dict(Counter(change.kind for change in self.select(action)))


def differences(row: Any, fields: Mapping[str, Any]) -> Iterator[str]:
    """Yield `every_s 60 → 300` for each differing field; tables are compared key by key."""
    for name, value in fields.items():
        present = getattr(row, name)
        is_table = isinstance(present, dict) and isinstance(value, dict)
        yield from _describe_difference("" if is_table else name, present, value)


def _describe_difference(name: str, present: Any, value: Any) -> Iterator[str]:
    if present == value:
        return
    if isinstance(present, dict) and isinstance(value, dict):
        for key in dict.fromkeys((*value, *present)):
            yield from _describe_difference(f"{name}.{key}" if name else key, present.get(key), value.get(key))
    else:
        yield f"{name} {_value_text(present)} → {_value_text(value)}"


def _value_text(value: object) -> str:
    return "none" if value is None else str(value)
