"""Scores the cells of the grid's page: what a hover says, by itself and against the truth, and the visible text.

In: cells as `tests.lab_truth.pages` reads them. The words of a clause are read by `tests.lab_truth.statements`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tests.lab_truth.loss_figures import STRAY_RATIO, loss_mark, read_loss
from tests.lab_truth.marks import Mark, Marked
from tests.lab_truth.statement_marks import CYCLE_S, LOSS, statement_mark
from tests.lab_truth.statements import BAD, OF_LOSS, SINCE, Kind, Statement, moment, read_clause
from tests.lab_truth.truth import ACTIVE, AFFECTED, Pair, Phase, Signal, Truth

AS_OF = re.compile(
    r"^as of (?:(?P<day>\d{4}-\d\d-\d\d) )?(?P<clock>\d\d:\d\d(?::\d\d)?)(?: UTC)?(?:, (?P<newer>[^:]*))?: ",
    re.IGNORECASE,
)
CLAUSES = re.compile(
    r", (?=(?:now )?(?:loses|lost|dead since|flaps|no more|no reply|answers again|RTT|normal again|low|more jitter|slow"
    r"|unusual|too few|waiting|incident (?:open|over)|in maintenance|by |IPv\d))"
    r"|; (?:[\d,]+ B: )?(?=loss |no loss|no round trip lost|RTT [\d.]|too few)"
)
NO_LOSS = re.compile(r"^no (?:loss|round trip lost)(?! since)")
TOO_FEW = re.compile(r"^too few packets")
LOSS_ENDS = re.compile(r"no more loss|(?:answers|replies) again")
UNSCORED = re.compile(r"^(?:incident |in maintenance|by |IPv\d|waiting|no data|test failed|measured only)")
FIGURE = re.compile(r"(?:< |~|up to )?[\d.]+(?: to [\d.]+)?%?")
SHOWN_S = 600.0
BEST_STYLES = frozenset({"none-lost", "loss-0"})


@dataclass(frozen=True, slots=True)
class Hover:
    """The clauses of a hover. `at` is the time that it is of; it `is_old` where it says so, and `is_overdue` where it
    says that there are no newer data."""

    at: float
    is_overdue: bool
    is_old: bool
    findings: tuple[str, ...]
    statements: tuple[Statement, ...]
    has_too_few: bool


def read_hover(said: str, pair: Pair, packet_bytes: int, at: float) -> Hover:
    """The clauses before the counts. Without a size in its words a loss is of the packets of the grid."""
    head = said.partition(": ")[2].partition(" · ")[0]
    as_of = AS_OF.search(head)
    of_at = at if as_of is None else moment(as_of, at)[0] or at
    clauses = CLAUSES.split(head if as_of is None else head[as_of.end() :])
    findings = [text for text in clauses if NO_LOSS.search(text) or text.startswith("loss ")]
    others = [text for text in clauses if text not in findings and not TOO_FEW.search(text)]
    return Hover(
        of_at,
        as_of is not None and "no newer" in (as_of["newer"] or ""),
        as_of is not None,
        tuple(findings),
        tuple(_statement(text, pair, packet_bytes, of_at) for text in others if not UNSCORED.search(text)),
        any(TOO_FEW.search(text) for text in clauses),
    )


def _statement(text: str, pair: Pair, packet_bytes: int, at: float) -> Statement:
    read = read_clause(text, at, pair)
    size = packet_bytes if read.packet_bytes is None and _signal(read) is Signal.LOSS else read.packet_bytes
    return replace(read, pairs=frozenset({pair}), sites=frozenset(), packet_bytes=size)


def _signal(statement: Statement) -> Signal | None:
    """The signal of a lasting trouble or an end; None of other kinds."""
    if statement.kind in OF_LOSS:
        return Signal.LOSS
    if statement.kind is Kind.OVER:
        of_loss = Signal.LOSS if LOSS_ENDS.search(statement.text) else None
        return Signal.RTT if "RTT" in statement.text else of_loss
    return {Kind.RTT: Signal.RTT, Kind.JITTER: Signal.JITTER, Kind.RATE: Signal.RATE}.get(statement.kind)


def hover_marks(
    said: str, pair: Pair, packet_bytes: int, truth: Truth, at: float, delivered: float | None = None
) -> Iterator[Marked]:
    """The marks of a hover. `delivered` is the begin of the newest burst that had been delivered long before."""
    hover = read_hover(said, pair, packet_bytes, at)
    for text in hover.findings:
        figure = read_loss(text)
        # The words alone are of all packets shown.
        loss = read_loss("0") if figure is None and NO_LOSS.search(text) else figure
        if loss is not None:
            yield loss_mark(text, loss, pair, packet_bytes, truth, hover.at, since=_since(text, hover.at))
    of_run = [each for each in hover.statements if not _is_of_earlier(each, pair, truth, hover.at)]
    yield from (statement_mark(statement, truth, hover.at) for statement in of_run)
    yield from (Marked(Mark.UNCLEAR, f"{reason}: {said}") for reason in _contradictions(hover, packet_bytes))
    if hover.is_overdue and delivered is not None and delivered > hover.at + 1.0 + CYCLE_S:
        yield Marked(Mark.FALSE, f"results {delivered - hover.at:.0f} s newer were delivered: {said}")
    is_silent = bool(hover.findings) and not of_run
    if is_silent and not hover.is_old:
        yield _silence_mark(said, pair, truth, hover.at)


def _since(text: str, at: float) -> float:
    """Since when the packets of a figure without a trouble are counted: those shown, or of a level."""
    return moment(SINCE.search(text), at)[0] or at - SHOWN_S


def _is_of_earlier(statement: Statement, pair: Pair, truth: Truth, at: float) -> bool:
    """Whether it tells an end before the first impairment of the run: it stays for ten minutes."""
    begin = min((each.since for each in truth.impairments), default=math.inf)
    end = statement.end.at
    return end is not None and end + CYCLE_S < begin and truth.phase(pair, at) is not Phase.PROVED


def _silence_mark(said: str, pair: Pair, truth: Truth, at: float) -> Marked:
    """Of a hover with a figure, but without a word on the trouble that the path is in."""
    if not any(stretch.since <= at < stretch.until for stretch in truth.stretches(pair)):
        return Marked(Mark.TRUE)
    is_proved = truth.phase(pair, at) is Phase.PROVED
    return Marked(Mark.MISSED if is_proved else Mark.SILENT, f"the fault is not told: {said}")


def _contradictions(hover: Hover, packet_bytes: int) -> Iterator[str]:
    """A trouble that lasts, and the end of it, or no loss, or too few packets, of the same packets and signal."""
    lasting = {(_signal(each), each.packet_bytes) for each in hover.statements if each.kind in BAD}
    over = {(_signal(each), each.packet_bytes) for each in hover.statements if each.kind is Kind.OVER}
    own = Signal.LOSS, packet_bytes
    if lasting & over:
        yield "lasts and is over"
    elif own in lasting and any(NO_LOSS.search(text) for text in hover.findings):
        yield "loss and no loss"
    if own in lasting and hover.has_too_few:
        yield "too few packets and their loss"


def text_marks(cell: Mapping[str, Any], pair: Pair, packet_bytes: int, truth: Truth, at: float) -> Iterator[Marked]:
    """The marks of the visible text of a cell. A sign beside a calm figure may stay after a trouble has ended."""
    text, is_flagged = str(cell["text"]), bool(set("▲△").intersection(cell["signs"]))
    shown = f"cell {' → '.join(pair)} {packet_bytes} B: {cell['signs']} {text}"
    kinds = {each.kind for each in read_hover(cell["said"], pair, packet_bytes, at).statements}
    figure = read_loss(text) if FIGURE.fullmatch(text) or text == "all lost" else None
    is_best = bool(BEST_STYLES.intersection(cell["style"].split()))
    is_calm = is_best and figure is not None and figure.high <= STRAY_RATIO
    if is_flagged and is_calm and (BAD & kinds or truth.phase(pair, at) in ACTIVE):
        yield Marked(Mark.UNCLEAR, f"{shown}, in the best band")
    if "▲" in cell["signs"] and truth.phase(pair, at) is Phase.CLEAN:
        yield Marked(Mark.FALSE, f"{shown}, not affected")
    if set("◷⇄").intersection(cell["signs"]):
        return
    if text == "flaps" and len(truth.episode(pair, at, LOSS)) < 2:
        yield Marked(Mark.FALSE, shown)
    if text == "all lost" and truth.phase(pair, at, LOSS) in AFFECTED:
        if truth.loss_range(pair, truth.level_since(pair, at, LOSS), at, packet_bytes)[1] <= 0.999:
            yield Marked(Mark.FALSE, shown)
    elif figure is not None:
        since = truth.level_since(pair, at, LOSS) if is_flagged else at - SHOWN_S
        yield loss_mark(shown, figure, pair, packet_bytes, truth, at, since=since)
