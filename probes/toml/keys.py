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

_TYPE_WORDS = {bool: "true or false", int: "an integer", float: "a number", str: "a string", list: "a list"}


class InvalidValue(Exception):
    """An invalid value; the text names its key, the problem and the fix."""


def described(meaning: str, example: str = "") -> Meta:
    """Description of a key, and an example as it stands in the file, for error messages."""
    return Meta(description=meaning, examples=[example] if example else None)


def must(rule: str, pattern: str, *, is_secret: bool = False) -> Meta:
    """Pattern of a string, and the rule in words that complete the sentence `key = "value" …`.

    Messages do not show the value if a secret may be there by mistake.
    """
    return Meta(pattern=rf"^(?:{pattern})\Z", extra={"rule": rule, "is_secret": is_secret})


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
        subject = f"{name}: {written(value)}" if is_element else f"{name} = {written(value)}"
        if self.meta.get("is_secret"):
            subject = name
        try:
            decoded = msgspec.convert(value, self.hint)
        except msgspec.ValidationError as error:
            if ", got `" in str(error):
                each = ": each" if is_element else ""
                raise InvalidValue(f"{name}{each} must be {self._words}, not {type_words(value)}") from error
            if isinstance(value, str) and not value.strip():
                raise InvalidValue(f"{name} is empty; write a string or leave the line out") from error
            if isinstance(value, list):
                raise InvalidValue(f"{name} {self._length_fault(len(value))}") from error
            raise InvalidValue(f"{subject} {self._fault}") from error
        check = self.meta.get("check")
        fault = None if check is None else check(value)
        if fault is not None:
            raise InvalidValue(f"{subject} {fault}")
        return decoded

    @property
    def example(self) -> str:
        return str(self.meta.get("examples", [""])[0])

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
    def _words(self) -> str:
        match self.type:
            case inspect.BoolType():
                return _TYPE_WORDS[bool]
            case inspect.IntType() | inspect.FloatType():
                word = _TYPE_WORDS[int if isinstance(self.type, inspect.IntType) else float]
                return f"{word} {'from' if ' to ' in self.bounds else 'of'} {self.bounds}" if self.bounds else word
            case inspect.VarTupleType() | inspect.ListType():
                return "a list, [ … ]"
            case inspect.LiteralType() if not isinstance(self.choices[0], str):
                return alternatives(self.choices)
        return "a string in double quotes"

    @property
    def _fault(self) -> str:
        if self.choices:
            return f"is not valid; write {alternatives(self.choices)}"
        return f"is out of range; write {self.bounds}" if self.bounds else str(self.meta["rule"])

    def _length_fault(self, length: int) -> str:
        if length == 0:
            return "is empty; write at least one element"
        needed = getattr(self.type, "min_length", None)
        return f"has {length} element{'s' if length > 1 else ''}; write {needed}, as in {self.example}"


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


def type_words(value: object) -> str:
    if isinstance(value, dict):
        return "a table"
    return _TYPE_WORDS.get(type(value), "a date or time")


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
