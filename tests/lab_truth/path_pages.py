"""Scores the page of a path: its banner, the figures of now and its table of the sizes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tests.lab_truth.cells import LEAST_MS, SHARE_OF_POINT
from tests.lab_truth.hovers import AS_OF, SHOWN_S
from tests.lab_truth.loss_figures import loss_mark, read_loss
from tests.lab_truth.marks import Mark, Marked
from tests.lab_truth.statement_marks import statement_mark
from tests.lab_truth.statements import BAD, SINCE, Interval, Kind, moment, read_clause
from tests.lab_truth.truth import ACTIVE, DELAYS, Pair, Phase, Truth

LOSS_FIGURE = re.compile(r"\bloss (?P<loss>.*?)(?:, median RTT|$)|\b(?P<silent>no reply since|all lost)\b")
RTT_FIGURE = re.compile(r"\bmedian RTT (?P<ms>\d[\d.,]*) ms")
OF_SIZE = re.compile(r"^loss(?:, (?P<size>[\d,]+) B)?$")


def path_page_marks(page: Mapping[str, Any], pair: Pair, truth: Truth, at: float) -> Iterator[Marked]:
    """The marks of the figures of a page by themselves, and against each other."""
    size, now = int(page["packet_bytes"]), str(page["now"])
    as_of = AS_OF.search(now)
    of_at = at if as_of is None else moment(as_of, at)[0] or at
    yield from _banner_marks(page, pair, truth, at)
    headline, rows = _headline_loss(now), _losses_by_size(page, size)
    if headline is not None:
        yield loss_mark(f"headline {now}", headline, pair, size, truth, of_at)
    for packet_bytes, (text, figure) in rows.items():
        # A row has the time of its level.
        since = moment(SINCE.search(text), of_at)[0]
        yield loss_mark(f"row {text}", figure, pair, packet_bytes, truth, of_at, since=since)
    yield from _rtt_marks(now, pair, truth, of_at)
    if headline is not None and rows:
        told = f"headline {now}, rows {', '.join(text for text, _ in rows.values())}"
        if headline.low > max(figure.high for _, figure in rows.values()):
            yield Marked(Mark.UNCLEAR, f"above all rows: {told}")
        elif size in rows and not headline.meets(rows[size][1].low, rows[size][1].high):
            yield Marked(Mark.UNCLEAR, f"not the row of {size} B: {told}")
    if not page["banner"] and as_of is None and truth.phase(pair, at) in ACTIVE and truth.is_impaired(pair, at):
        is_proved = truth.phase(pair, at) is Phase.PROVED
        yield Marked(Mark.MISSED if is_proved else Mark.SILENT, "no banner")


def _banner_marks(page: Mapping[str, Any], pair: Pair, truth: Truth, at: float) -> Iterator[Marked]:
    for text in page["banner"]:
        checked = text.startswith("Being checked: ")
        read = read_clause(text.removeprefix("Being checked: "), at, {site for pair in truth.pairs for site in pair})
        if checked and read.kind in BAD | {Kind.OVER}:
            read = replace(read, pairs=frozenset({pair}))
        # The title of an incident may be of a site: it is of all its paths.
        yield statement_mark(read, truth, at, [pair] if checked else None)


def _headline_loss(now: str) -> Interval | None:
    found = LOSS_FIGURE.search(now)
    return None if found is None else read_loss(found["loss"] or found["silent"])


def _losses_by_size(page: Mapping[str, Any], packet_bytes: int) -> dict[int, tuple[str, Interval]]:
    """The losses of now in the table with their words, by packet size; of the page's own where it names none."""
    rows: dict[int, tuple[str, Interval]] = {}
    for row in page["rows"]:
        named, figure = OF_SIZE.search(row["name"]), read_loss(row["now"])
        if named is not None and figure is not None:
            size = packet_bytes if named["size"] is None else int(named["size"].replace(",", ""))
            rows[size] = f"{row['name']} {row['now']}", figure
    return rows


def _rtt_marks(now: str, pair: Pair, truth: Truth, at: float) -> Iterator[Marked]:
    found = RTT_FIGURE.search(now)
    if found is None:
        return
    value, phase = float(found["ms"].replace(",", "")), truth.phase(pair, at, DELAYS)
    within = max(LEAST_MS, SHARE_OF_POINT[Kind.RTT] * value)
    since = truth.level_since(pair, at, DELAYS) if phase is Phase.PROVED else at - SHOWN_S
    low, high = truth.rtt_range(pair, since, at)
    if not Interval(value - within, value + within).meets(low, high):
        yield Marked(Mark.LATE if phase is Phase.ENDED else Mark.UNCLEAR, f"{now}: true {low:.4g} to {high:.4g} ms")
