"""Keys of TOML tables, declared as the fields of msgspec structs.

A field has the type of the key with its bounds (`msgspec.Meta`), its default and its description. `keys_of` lists the
keys of a struct, for `probes.toml.tables` and for docs/reference; `ValueType.decode` converts a value, or raises
`InvalidValue` with the sentence for the user. msgspec decides whether a value is valid.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec import Meta, inspect, structs

Text = Annotated[str, Meta(pattern=r"\S")]
NOT_EMPTY = Meta(min_length=1)
DISTINCT = Meta(extra_json_schema={"uniqueItems": True})
"""No element of the list may be listed twice."""

_TYPE_NAMES: dict[type, str] = {inspect.BoolType: "boolean", inspect.IntType: "integer", inspect.FloatType: "number"}
_SHOWN_CHARACTERS = 60


class InvalidValue(Exception):
    """An invalid value; the text names its key, the problem and the fix."""


def described(meaning: str, example: str = "") -> Meta:
    """Description of a key, and an example as it stands in the file, for error messages."""
    return Meta(description=meaning, examples=[example] if example else None)


def must_be(rule: str, pattern: str | None = None, *, is_secret: bool = False) -> Meta:
    """Rule that completes the sentence `key must be …`, with the pattern of a string.

    Messages do not show the value if a secret may be there by mistake.
    """
    meta = {"rule": rule, "is_secret": is_secret}
    return Meta(pattern=None if pattern is None else rf"^(?:{pattern})\Z", extra=meta)


def checked(fault_of: Callable[[Any], str | None]) -> Meta:
    """Check of a value; `fault_of` completes the sentence `key = "value" …`, or returns None for a valid value."""
    return Meta(extra={"check": fault_of})


@dataclass(frozen=True, slots=True)
class ValueType:
    """Type of a value: as annotated, and without None and metadata."""

    hint: Any
    type: inspect.Type
    meta: Mapping[str, Any]

    def decode(self, name: str, value: object, *, is_element: bool = False) -> Any:
        """Convert the value of key `name`, or an element of its list. Raises `InvalidValue`."""
        try:
            decoded = msgspec.convert(value, self.hint)
        except msgspec.ValidationError as error:
            each = ": each" if is_element else ""
            string = "the string " if isinstance(value, str) and self.type_name != "string" else ""
            given = "" if self.meta.get("is_secret") else f", not {string}{shown(value)}"
            raise InvalidValue(f"{name}{each} must be {self._needed}{given}") from error
        fault = self.meta["check"](value) if "check" in self.meta else None
        if fault is not None:
            raise InvalidValue(f"{name}{':' if is_element else ' ='} {written(value)} {fault}")
        return decoded

    @property
    def type_name(self) -> str:
        """Name of the type, such as `list of integers`."""
        if isinstance(self.type, (inspect.VarTupleType, inspect.ListType)):
            return f"list of {_value_type(get_args(_bare(self.hint))[0]).type_name}s"
        if self.choices and isinstance(self.choices[0], int):
            return "integer"
        return _TYPE_NAMES.get(type(self.type), "string")

    @property
    def choices(self) -> tuple[str | int, ...]:
        """Values of a literal type, in the order in which it is declared."""
        return get_args(_bare(self.hint)) if isinstance(self.type, inspect.LiteralType) else ()

    @property
    def bounds(self) -> str:
        """Range of a number in words; empty without bounds."""
        if not isinstance(self.type, (inspect.IntType, inspect.FloatType)):
            return ""
        low, high = self.type.ge, self.type.le
        if low is not None and high is not None:
            return f"{number(low)} to {number(high)}"
        limits = (("more than", self.type.gt), ("at least", low), ("less than", self.type.lt), ("at most", high))
        return " and ".join(f"{word} {number(limit)}" for word, limit in limits if limit is not None)

    @property
    def _needed(self) -> str:
        """Valid values, to complete the sentence `key must be …`."""
        if "rule" in self.meta or self.choices:
            return str(self.meta.get("rule") or alternatives(self.choices))
        if isinstance(self.type, inspect.BoolType):
            return "true or false"
        is_non_empty = getattr(self.type, "min_length", None) or getattr(self.type, "pattern", None)
        name = f"a non-empty {self.type_name}" if is_non_empty else f"a {self.type_name}".replace("a int", "an int")
        between = "" if not self.bounds else " from " if " to " in self.bounds else " of "
        return f"{name}{between}{self.bounds}"


@dataclass(frozen=True, slots=True)
class Key(ValueType):
    """A key of a table, and the attribute of the struct, empty for a tag.

    `item` is the type of a list's elements, `tables` the structs of a table or of a list of tables.
    """

    name: str
    attribute: str
    default: Any = None
    is_required: bool = False
    item: ValueType | None = None
    tables: tuple[type[msgspec.Struct], ...] = ()

    @property
    def description(self) -> str:
        return str(self.meta.get("description", ""))

    @property
    def example(self) -> str:
        return str(self.meta.get("examples", [""])[0])

    @property
    def is_distinct(self) -> bool:
        return bool(self.meta.get("uniqueItems"))

    @property
    def is_list(self) -> bool:
        return isinstance(self.type, (inspect.VarTupleType, inspect.ListType))


@cache
def keys_of(struct: type[msgspec.Struct]) -> dict[str, Key]:
    """Keys of a table by name, in order; without the tag of its struct."""
    return {declared.encode_name: _key(declared) for declared in structs.fields(struct)}


@cache
def tag_key(variants: tuple[type[msgspec.Struct], ...]) -> Key | None:
    """Key that selects the struct of a table among `variants`, or None."""
    tags = [struct.__struct_config__.tag for struct in variants]
    name = variants[0].__struct_config__.tag_field
    if name is None:
        return None
    hint = Annotated[Literal[tuple(tags)], Meta(examples=[alternatives(tags)])]  # type: ignore[valid-type]
    value = _value_type(hint)
    return Key(value.hint, value.type, value.meta, name=name, attribute="", is_required=True)


def alternatives(values: Collection[object]) -> str:
    """Values as they stand in the file: `"a", "b" or "c"`."""
    *others, last = map(written, values)
    return f"{', '.join(others)} or {last}" if others else last


def written(value: object) -> str:
    """A value as it stands in a TOML file."""
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(written, value))}]"
    if isinstance(value, float) and value.is_integer():
        return number(value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (str, bool)) else str(value)


def number(value: float) -> str:
    return f"{value:.0f}" if value == int(value) and abs(value) < 1e10 else f"{value:g}"


def shown(value: object) -> str:
    """A value as it stands in the file, shortened for a message."""
    text = "a table" if isinstance(value, dict) else written(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def _key(declared: structs.FieldInfo) -> Key:
    value = _value_type(declared.type)
    is_list = isinstance(value.type, (inspect.VarTupleType, inspect.ListType))
    item = _value_type(get_args(_bare(declared.type))[0]) if is_list else None
    of = (value if item is None else item).type
    kinds = of.types if isinstance(of, inspect.UnionType) else (of,)
    tables = tuple(kind.cls for kind in kinds if isinstance(kind, inspect.StructType))
    return Key(
        value.hint,
        value.type,
        value.meta,
        name=declared.encode_name,
        attribute=declared.name,
        default=None if declared.required else declared.default,
        is_required=declared.required,
        item=None if tables else item,
        tables=tables,
    )


def _value_type(hint: Any) -> ValueType:
    bare, meta = inspect.type_info(hint), dict[str, Any]()
    while True:
        if isinstance(bare, inspect.Metadata):
            meta = {**(bare.extra_json_schema or {}), **(bare.extra or {}), **meta}
            bare = bare.type
        elif isinstance(bare, inspect.UnionType) and bare.includes_none:
            (bare,) = (part for part in bare.types if not isinstance(part, inspect.NoneType))
        else:
            return ValueType(hint, bare, meta)


def _bare(hint: Any) -> Any:
    """A type without None and metadata."""
    while get_origin(hint) in (Annotated, Union, UnionType):
        hint = next(part for part in get_args(hint) if part is not type(None))
    return hint
