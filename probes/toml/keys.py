"""Keys of TOML tables, declared as msgspec struct fields; msgspec decides whether a value is valid."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec import Meta, inspect, structs

from probes import free_text
from probes.toml.lines import suggestion

Text = Annotated[str, Meta(pattern=r"\S")]
NOT_EMPTY = Meta(min_length=1)
# No element of the list may be listed twice.
DISTINCT = Meta(extra_json_schema={"uniqueItems": True})

_TYPE_NAMES: dict[type, str] = {inspect.BoolType: "boolean", inspect.IntType: "integer", inspect.FloatType: "number"}
_SHOWN_CHARACTERS = 60


class InvalidValue(Exception):
    """An invalid value; the text names its key, the problem and the fix."""


def meaning(sentence: str, example: str | Callable[[], str] = "") -> Meta:
    """Meaning of a key, and an example as in the file, or its function, for error messages."""
    return Meta(description=sentence, examples=[example] if example else None)


def must_be(rule: str, pattern: str | None = None, *, is_secret: bool = False) -> Meta:
    """Rule that completes `key must be …`, with a string's pattern.

    With `is_secret` messages hide the value.
    """
    meta = {"rule": rule, "is_secret": is_secret}
    return Meta(pattern=None if pattern is None else rf"^(?:{pattern})\Z", extra=meta)


def check(fault_of: Callable[[Any], str | None]) -> Meta:
    """`fault_of` completes `key = "value" …`, or returns None for a valid value."""
    return Meta(extra={"check": fault_of})


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key of a table, or the elements of a list, its `item`."""

    name: str
    hint: Any  # type as annotated
    type_info: inspect.Type  # without None and metadata
    meta: Mapping[str, Any]
    item: Key | None
    tables: tuple[type[msgspec.Struct], ...]  # structs of a table or list of tables
    is_element: bool = False
    attribute: str = ""  # field of the struct; empty for its tag
    default: Any = None
    is_required: bool = False

    def decode(self, value: object) -> Any:
        """Convert a value. Raises `InvalidValue`."""
        try:
            decoded = msgspec.convert(value, self.hint)
        except msgspec.ValidationError as error:
            each = ": each" if self.is_element else ""
            string = "the string " if isinstance(value, str) and self.type_name != "string" else ""
            given = "" if self.meta.get("is_secret") else f", not {string}{to_short_toml(value)}"
            hint = suggestion(value, map(str, self.choices)) if isinstance(value, str) else self._percent_hint(value)
            raise InvalidValue(f"{self.name}{each} must be {self._needed}{given}{hint}") from error
        unprintable = free_text.fault(value) if isinstance(value, str) else None
        if unprintable is not None:
            raise InvalidValue(f"{self.name}{': each' if self.is_element else ''} must {unprintable}")
        fault = self.meta["check"](value) if "check" in self.meta else None
        if fault is not None:
            raise InvalidValue(f"{self.name}{':' if self.is_element else ' ='} {to_toml(value)} {fault}")
        return decoded

    @property
    def meaning(self) -> str:
        return str(self.meta.get("description", ""))

    @property
    def example(self) -> str:
        example = self.meta.get("examples", ["…"])[0]
        return str(example() if callable(example) else example)

    @property
    def is_distinct(self) -> bool:
        return bool(self.meta.get("uniqueItems"))

    @property
    def is_list(self) -> bool:
        return self.item is not None

    @property
    def type_name(self) -> str:
        if self.item is not None:
            return f"list of {self.item.type_name}s"
        if self.choices and isinstance(self.choices[0], int):
            return "integer"
        return _TYPE_NAMES.get(type(self.type_info), "string")

    @property
    def choices(self) -> tuple[str | int, ...]:
        """Values of a literal type, in the order of declaration."""
        return get_args(_bare(self.hint)) if isinstance(self.type_info, inspect.LiteralType) else ()

    @property
    def bounds(self) -> str:
        """Range of a number in words; empty without bounds."""
        given = self.type_info
        if not isinstance(given, (inspect.IntType, inspect.FloatType)):
            return ""
        if given.ge is not None and given.le is not None:
            return f"{format_number(given.ge)} to {format_number(given.le)}"
        limits = (("more than", given.gt), ("at least", given.ge), ("less than", given.lt), ("at most", given.le))
        return " and ".join(f"{word} {format_number(limit)}" for word, limit in limits if limit is not None)

    def _percent_hint(self, value: object) -> str:
        """How to write a number above 1 where a ratio up to 1 is needed."""
        info = self.type_info
        if not isinstance(info, inspect.FloatType) or 1 not in (info.le, info.lt):
            return ""
        if not isinstance(value, (int, float)) or not 1 < value <= 100:
            return ""
        ratio = round(value / 100, 12)
        return "" if ratio == info.lt else f"; for {to_toml(value)}% write {to_toml(ratio)}"

    @property
    def _needed(self) -> str:
        if "rule" in self.meta or self.choices:
            return str(self.meta.get("rule") or alternatives(self.choices))
        if isinstance(self.type_info, inspect.BoolType):
            return "true or false"
        is_non_empty = getattr(self.type_info, "min_length", None) or getattr(self.type_info, "pattern", None)
        name = f"non-empty {self.type_name}" if is_non_empty else self.type_name
        between = "" if not self.bounds else " from " if " to " in self.bounds else " of "
        return f"{'an' if name == 'integer' else 'a'} {name}{between}{self.bounds}"


@cache
def keys_of(struct: type[msgspec.Struct]) -> dict[str, Key]:
    """Keys of a table by name, in order; without the tag of its struct."""
    return {
        field.encode_name: _key(
            field.encode_name,
            field.type,
            attribute=field.name,
            default=None if field.required else field.default,
            is_required=field.required,
        )
        for field in structs.fields(struct)
    }


@cache
def tag_key(variants: tuple[type[msgspec.Struct], ...]) -> Key | None:
    """Key that selects the struct of a table among `variants`, or None."""
    name = variants[0].__struct_config__.tag_field
    if name is None:
        return None
    tags = tuple(struct.__struct_config__.tag for struct in variants)
    return _key(name, Annotated[Literal[tags], Meta(examples=[alternatives(tags)])], is_required=True)


def lists_of_tables(
    structs: tuple[type[msgspec.Struct], ...], above: tuple[str, ...] = ()
) -> Iterator[tuple[str, ...]]:
    """Names, from the top of the file, of each list of tables."""
    for key in (key for struct in structs for key in keys_of(struct).values() if key.tables):
        place = (*above, key.name)
        if key.is_list:
            yield place
        yield from lists_of_tables(key.tables, place)


def alternatives(values: Collection[object]) -> str:
    *others, last = map(to_toml, values)
    return f"{', '.join(others)} or {last}" if others else last


def to_toml(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(to_toml, value))}]"
    if isinstance(value, float) and value.is_integer():
        return format_number(value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (str, bool)) else str(value)


def format_number(value: float) -> str:
    return f"{value:.0f}" if value == int(value) and abs(value) < 1e10 else f"{value:g}"


def to_short_toml(value: object) -> str:
    """A value as in the file, shortened for a message."""
    text = "a table" if isinstance(value, dict) else to_toml(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def _key(name: str, hint: Any, **declared: Any) -> Key:
    bare, meta = inspect.type_info(hint), dict[str, Any]()
    while isinstance(bare, inspect.Metadata) or (isinstance(bare, inspect.UnionType) and bare.includes_none):
        if isinstance(bare, inspect.Metadata):
            meta = {**(bare.extra_json_schema or {}), **(bare.extra or {}), **meta}
            bare = bare.type
        else:
            (bare,) = (part for part in bare.types if not isinstance(part, inspect.NoneType))
    is_list = isinstance(bare, (inspect.VarTupleType, inspect.ListType))
    item = _key(name, get_args(_bare(hint))[0], is_element=True) if is_list else None
    kinds = bare.types if isinstance(bare, inspect.UnionType) else (bare,)
    tables = tuple(kind.cls for kind in kinds if isinstance(kind, inspect.StructType)) if item is None else item.tables
    return Key(name=name, hint=hint, type_info=bare, meta=meta, item=item, tables=tables, **declared)


def _bare(hint: Any) -> Any:
    while get_origin(hint) in (Annotated, Union, UnionType):
        hint = next(part for part in get_args(hint) if part is not type(None))
    return hint
