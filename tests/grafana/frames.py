"""Check the form of the plugin's answers: whether a result fits its panel, annotation, variable or alert rule. Pure.

An answer is that of Grafana's data source in JSON: by the query's letter an error or frames, a frame being fields with
their values. Each check returns sentences about faults, none if there are none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

TIME_PANELS = {"timeseries", "state-timeline", "status-history", "trend", "candlestick", "heatmap"}
NUMBER_PANELS = {"timeseries", "heatmap"}
WORDS_OF_A_LINK = re.compile(r"\$\{__data\.fields(?:\.(\w+)|\[\"([^\"]+)\"\])(?:\.\w+)?\}")


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a frame. `kind` is time, number, string or boolean; `labels` are of a series."""

    name: str
    kind: str
    labels: Mapping[str, str]
    values: Sequence[Any]


@dataclass(frozen=True, slots=True)
class Frame:
    fields: tuple[Field, ...]
    notices: tuple[str, ...] = ()

    def of_kind(self, kind: str) -> list[Field]:
        return [field for field in self.fields if field.kind == kind]

    @property
    def rows(self) -> int:
        return max((len(field.values) for field in self.fields), default=0)

    def records(self) -> list[dict[str, Any]]:
        names = [field.name for field in self.fields]
        return [
            dict(zip(names, values, strict=True))
            for values in zip(*(field.values for field in self.fields), strict=True)
        ]


def read(result: Mapping[str, Any]) -> list[Frame]:
    """The frames of a query's result."""
    return [_frame(raw) for raw in result.get("frames") or ()]


def _frame(raw: Mapping[str, Any]) -> Frame:
    schema = raw["schema"]
    columns = raw.get("data", {}).get("values") or [[] for _ in schema.get("fields") or ()]
    fields = tuple(
        Field(field.get("name", ""), field["type"], field.get("labels") or {}, values)
        for field, values in zip(schema.get("fields") or (), columns, strict=True)
    )
    notices = (schema.get("meta") or {}).get("notices") or ()
    return Frame(fields, tuple(notice["text"] for notice in notices))


def query_faults(result: Mapping[str, Any]) -> list[str]:
    """Errors and notices: the plugin reports a failed conversion between long and wide series in either."""
    if result.get("error"):
        return [str(result["error"])]
    return [notice for frame in read(result) for notice in frame.notices]


def panel_faults(panel: Mapping[str, Any], frames: Sequence[Frame]) -> Iterator[str]:
    """A chart over time needs a time field in order, and numbers; no panel may have two columns of the same name."""
    for frame in frames:
        if not frame.fields:
            continue
        names = [(field.name, tuple(field.labels.items())) for field in frame.fields]
        if len(set(names)) < len(names):
            yield f"two columns of a name: {', '.join(name for name, _ in names)}"
        yield from _map_faults(panel, frame)
        if panel["type"] not in TIME_PANELS or panel.get("transformations"):
            continue
        times = frame.of_kind("time")
        if not times:
            yield f"no time field: {', '.join(f'{field.name} ({field.kind})' for field in frame.fields)}"
        if panel["type"] in NUMBER_PANELS:
            if not frame.of_kind("number"):
                yield "no field of numbers"
            for field in frame.of_kind("string"):
                yield f"text in {field.name} does not become a series"
        for field in times[:1]:
            if None in field.values:
                yield f"a row without a time in {field.name}"
            elif any(later < earlier for earlier, later in pairwise(field.values)):
                yield f"rows are not in the order of {field.name}"


def _map_faults(panel: Mapping[str, Any], frame: Frame) -> Iterator[str]:
    """A layer with coordinates names the columns of both, which must be numbers."""
    numbers = {field.name for field in frame.of_kind("number")}
    for layer in panel.get("options", {}).get("layers", ()):
        location = layer.get("location", {})
        for end in ("latitude", "longitude"):
            if location.get("mode") == "coords" and location.get(end) not in numbers:
                yield f"no numbers for the {end}: {location.get(end)}"


def annotation_faults(frames: Sequence[Frame]) -> Iterator[str]:
    """Grafana reads the columns time, timeEnd, text and tags, by these names."""
    for frame in frames:
        kinds = {field.name: field.kind for field in frame.fields}
        if kinds and kinds.get("time") != "time":
            yield f"time is {kinds.get('time', 'missing')}"
        if kinds.get("timeEnd", "time") not in ("time", "number"):
            yield f"timeEnd is {kinds['timeEnd']}"
        for name in ("text", "tags"):
            if kinds and kinds.get(name) != "string":
                yield f"{name} is {kinds.get(name, 'missing')}"
        for record in frame.records():
            if record.get("time") is None:
                yield f"an annotation without a time: {record.get('text')}"


def alert_faults(frames: Sequence[Frame]) -> Iterator[str]:
    """An expression takes a table with a single column of numbers, in which the texts are labels that differ by row."""
    for frame in frames:
        numbers = frame.of_kind("number")
        others = [field for field in frame.fields if field.kind not in ("number", "string")]
        if len(numbers) != 1 or others:
            yield f"not numeric: {', '.join(f'{field.name} ({field.kind})' for field in frame.fields) or 'no fields'}"
            continue
        labels = [tuple(field.values[row] for field in frame.of_kind("string")) for row in range(frame.rows)]
        for repeated in sorted({row for row in labels if labels.count(row) > 1}, key=repr):
            yield f"two rows with the labels {repeated}"
        if None in numbers[0].values:
            yield f"no number in {numbers[0].name}"


def verdict_faults(result: Mapping[str, Any], results: Mapping[str, Any]) -> Iterator[str]:
    """The expression that decides must give 0 or 1 for each row of the rule's queries."""
    for answer in (result, *results.values()):
        if answer.get("error"):
            yield str(answer["error"])
            return
    values = [value for frame in read(result) for field in frame.of_kind("number") for value in field.values]
    rows = sum(frame.rows for name, other in results.items() for frame in read(other) if other is not result)
    if len(values) != rows or not set(values) <= {0, 1}:
        yield f"the rule decides {values} on {rows} rows"


def name_faults(panel: Mapping[str, Any], columns: Sequence[Field]) -> Iterator[str]:
    """Columns that overrides and links name must be among those that the panel's queries return.

    Where series have names that are in no query, the data name them, and any of them may be absent.
    """
    names = {column.name for column in columns}
    sql = " ".join(target["rawSql"] for target in panel["targets"])
    if panel.get("transformations") or any(column.labels or column.name not in sql for column in columns):
        return
    for override in panel["fieldConfig"]["overrides"]:
        matcher = override["matcher"]
        if matcher["id"] == "byName" and matcher["options"] not in names:
            yield f"an override names {matcher['options']}, which no query returns"
    for link in WORDS_OF_A_LINK.finditer(repr(panel["fieldConfig"])):
        if (link[1] or link[2]) not in names:
            yield f"a link names {link[1] or link[2]}, which no query returns"
