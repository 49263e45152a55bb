"""Scores a single statement, as `tests.lab_truth.statements` reads it, against the planted truth."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from tests.lab_truth.marks import Mark, Marked, worst
from tests.lab_truth.statements import BAD, OF_LOSS, TOTAL, Kind, Statement
from tests.lab_truth.truth import AFFECTED, DELAYS, Pair, Phase, Signal, Truth

CYCLE_S = 10.0
LARGEST_BYTES = 10**6
LOSS = frozenset({Signal.LOSS})
SIGNALS = {
    **dict.fromkeys(OF_LOSS, LOSS),
    Kind.RTT: DELAYS,
    Kind.JITTER: DELAYS,
    # A loss or a longer RTT slows a transfer as well.
    Kind.RATE: frozenset(Signal),
}
DATED = BAD | {Kind.OVER}


def statement_mark(statement: Statement, truth: Truth, at: float, paths: Sequence[Pair] | None = None) -> Marked:
    """The mark of a statement by itself. `paths` are those of its incident, where it has one."""
    if statement.kind is Kind.UNKNOWN:
        return Marked(Mark.UNCLEAR, f"no form for: {statement.text}")
    if statement.kind is Kind.ALL_NORMAL or statement.kind is Kind.NORMAL:
        proved = truth.in_phase(at, {Phase.PROVED})
        normal = len(truth.pairs) if statement.count is None else statement.count
        says_normal = statement.kind is Kind.ALL_NORMAL or statement.count is not None
        is_false = says_normal and bool(proved) and calls_normal(normal, truth, proved)
        return Marked(Mark.FALSE, f"called normal: {names(proved)}") if is_false else Marked(Mark.TRUE)
    if statement.kind is Kind.PROBLEMS:
        return _problems_mark(statement, truth, at)
    if statement.kind is Kind.OVER:
        return _over_mark(statement, truth, at, paths)
    return _bad_mark(statement, truth, at, paths) if statement.kind in BAD else Marked(Mark.TRUE)


def _problems_mark(statement: Statement, truth: Truth, at: float) -> Marked:
    affected, ended = truth.in_phase(at, AFFECTED), truth.in_phase(at, {Phase.ENDED})
    proved = truth.in_phase(at, {Phase.PROVED})
    if not statement.count and proved:
        return Marked(Mark.FALSE, f"{statement.text}: {names(proved)} have")
    if (statement.count or 0) <= len(affected):
        return Marked(Mark.TRUE)
    is_late = (statement.count or 0) <= len(affected | ended)
    return Marked(Mark.LATE if is_late else Mark.FALSE, f"{statement.text}: {len(affected)} have")


def _over_mark(statement: Statement, truth: Truth, at: float, paths: Sequence[Pair] | None) -> Marked:
    """An end is false while the path is impaired for certain or flaps, or with a wrong end or onset; its figures are
    those of now and of the worst time."""
    named = _concerned(statement, truth, paths)
    if not named:
        is_false = not statement.sites and calls_over(statement.count or 0, truth, at)
        return Marked(Mark.FALSE, f"called over: {statement.text}") if is_false else Marked(Mark.TRUE)
    phases = {pair: truth.phase(pair, at) for pair in named}
    lasting = [pair for pair in named if phases[pair] is Phase.PROVED]
    # A site by itself may have a trouble that is over, and another.
    is_of_all = bool(statement.pairs) or paths is not None
    if lasting and (is_of_all or not {Phase.ENDING, Phase.ENDED}.intersection(phases.values())):
        return Marked(Mark.FALSE, f"called over: {names(lasting)}")
    if {*phases.values()} == {Phase.CLEAN}:
        return Marked(Mark.FALSE, f"called over: {names(named)}, not affected")
    checks: tuple[Callable[[], Marked], ...] = (
        lambda: end_mark(statement, named, truth, at),
        lambda: onset_mark(statement, named, statement.since, statement.since_within_s, truth, at),
        lambda: _ended_figure_mark(statement, named, truth, at),
    )
    return worst(check() for check in checks)


def end_mark(statement: Statement, named: Sequence[Pair], truth: Truth, at: float) -> Marked:
    """An end is that of a stretch of the newest episode of any of its paths."""
    if statement.end.at is None:
        return Marked(Mark.TRUE)
    ends = [stretch.until for pair in named for stretch in truth.episode(pair, at) if stretch.until <= at]
    latest, allowed_s = statement.end.at + statement.end.within_s, CYCLE_S + min(truth.onset_s, truth.end_s)
    if any(end - allowed_s <= latest and statement.end.at <= end + allowed_s for end in ends):
        return Marked(Mark.TRUE)
    off_s = min((statement.end.at + statement.end.within_s / 2 - end for end in ends), key=abs, default=float("inf"))
    return Marked(Mark.FALSE, f"end {off_s:+.0f} s off: {statement.text}")


def _ended_figure_mark(statement: Statement, named: Sequence[Pair], truth: Truth, at: float) -> Marked:
    """The RTT of now, and the worst loss or RTT of the newest episode of any of its paths."""
    episodes = {pair: episode for pair in named if (episode := truth.episode(pair, at))}
    times = {pair: (episode[0].since, min(at, episode[-1].until)) for pair, episode in episodes.items()}
    of_now = [truth.rtt_range(pair, at - CYCLE_S, at) for pair in named]
    losses = [truth.loss_range(pair, *of, statement.packet_bytes)[1] for pair, of in times.items()]
    rtts = [truth.worst_rtt(pair, *of) for pair, of in times.items()]
    loss, end = statement.end.worst_loss, statement.end
    if loss is not None and loss.low >= TOTAL and max(losses) <= 0.999:
        return Marked(Mark.FALSE, f"{statement.text}: some packets passed")
    told = ((statement.figure, of_now), (loss, [(ratio, ratio) for ratio in losses]), (end.worst_ms, rtts))
    for figure, ranges in told:
        if figure is not None and not any(figure.meets(low, high) for low, high in ranges):
            return Marked(Mark.UNCLEAR, f"figure of {statement.text}")
    return Marked(Mark.TRUE)


def _concerned(statement: Statement, truth: Truth, paths: Sequence[Pair] | None) -> list[Pair]:
    """The paths that a statement names; of a statement on a site those of its incident, or all of the site."""
    named = [pair for pair in truth.pairs if pair in statement.pairs]
    if named:
        return named
    return list(paths) if paths is not None else [pair for pair in truth.pairs if statement.sites & {*pair}]


def _bad_mark(statement: Statement, truth: Truth, at: float, paths: Sequence[Pair] | None) -> Marked:
    """A statement that a path or a site is bad now."""
    signals = SIGNALS[statement.kind]
    named = _concerned(statement, truth, paths)
    phases = {pair: truth.phase(pair, at, signals) for pair in named}
    of_site = {pair: truth.phase(pair, at, signals) for pair in truth.pairs if statement.sites & {*pair}}
    checks: tuple[Callable[[], Marked], ...] = (
        lambda: _place_mark(statement, phases),
        lambda: _direction_mark(statement, truth, at, signals),
        lambda: onset_mark(statement, named, statement.since, statement.since_within_s, truth, at),
        lambda: _part_mark(statement, of_site, truth, at),
        lambda: _figure_mark(statement, named, truth, at),
    )
    return worst(check() for check in checks)


def _place_mark(statement: Statement, phases: Mapping[Pair, Phase]) -> Marked:
    if not phases:
        return Marked(Mark.UNCLEAR, f"no path in: {statement.text}")
    is_named = bool(statement.pairs)
    clean = [pair for pair, phase in phases.items() if phase is Phase.CLEAN]
    if len(clean) == len(phases) or (is_named and clean):
        return Marked(Mark.FALSE, f"{statement.kind} of {names(clean)}, not affected")
    if not AFFECTED.intersection(phases.values()):
        return Marked(Mark.TRUE if statement.is_fading else Mark.LATE, f"{statement.text}: ended")
    return Marked(Mark.TRUE)


def _direction_mark(statement: Statement, truth: Truth, at: float, signals: frozenset[Signal]) -> Marked:
    for direction in statement.directions & truth.pairs:
        impaired = truth.directions(direction, signals)
        if impaired and direction not in impaired and statement.kind is not Kind.RATE:
            return Marked(Mark.FALSE, f"direction {' → '.join(direction)}")
    return Marked(Mark.TRUE)


def onset_mark(
    statement: Statement, named: Sequence[Pair], since: float | None, within_s: float, truth: Truth, at: float
) -> Marked:
    """An onset is that of a stretch of the newest episode of any of its paths."""
    onsets = [stretch.since for pair in named for stretch in truth.episode(pair, at)]
    if since is None or not onsets or statement.kind not in DATED:
        return Marked(Mark.TRUE)
    allowed_s = CYCLE_S + truth.onset_s
    if any(onset - allowed_s <= since + within_s and since <= onset + allowed_s for onset in onsets):
        return Marked(Mark.TRUE)
    off_s = min((since + within_s / 2 - onset for onset in onsets), key=abs)
    return Marked(Mark.FALSE, f"onset {off_s:+.0f} s off: {statement.text}")


def _part_mark(statement: Statement, phases: Mapping[Pair, Phase], truth: Truth, at: float) -> Marked:
    """`6 of 8 paths`: so many are affected, or were until a moment ago."""
    if statement.of is None or statement.count is None or statement.pairs:
        return Marked(Mark.TRUE)
    proved = sum(phase is Phase.PROVED for phase in phases.values())
    lately = truth.impaired_since(at - truth.end_s, at) & phases.keys()
    if proved <= statement.count <= len(lately) and statement.of == len(phases):
        return Marked(Mark.TRUE)
    return Marked(Mark.UNCLEAR, f"{statement.text}: {proved} to {len(lately)} of {len(phases)}")


def _figure_mark(statement: Statement, named: Sequence[Pair], truth: Truth, at: float) -> Marked:
    """The figure holds the truth of one of its paths in the time of a level; of a loss that differs by size it is that
    of a size."""
    if statement.kind is Kind.DEAD and not any(_loses_all(statement, pair, truth, at) for pair in named):
        return Marked(Mark.FALSE, f"{statement.text}: some packets pass")
    if statement.kind is Kind.FLAPS and not any(len(truth.episode(pair, at, LOSS)) > 1 for pair in named):
        return Marked(Mark.FALSE, f"{statement.text}: one outage at most")
    is_of_no_size = statement.kind is Kind.LOSS and statement.packet_bytes is None and statement.figure is not None
    if is_of_no_size and any(truth.sizes_differ(pair) for pair in named):
        return Marked(Mark.UNCLEAR, f"no packet size: {statement.text}")
    for figure, times in ((statement.figure, None), (statement.was, -1.0)):
        if figure is None or not named:
            continue
        ranges = [_range(statement, pair, truth, at if times is None else times) for pair in named]
        if not any(figure.meets(low, high) for low, high in ranges):
            return Marked(Mark.UNCLEAR, f"figure of {statement.text}")
    return Marked(Mark.TRUE)


def _loses_all(statement: Statement, pair: Pair, truth: Truth, at: float) -> bool:
    packet_bytes = LARGEST_BYTES if statement.packet_bytes is None else statement.packet_bytes
    return truth.loss_range(pair, at - truth.end_s - CYCLE_S, at, packet_bytes)[1] > 0.999


def _range(statement: Statement, pair: Pair, truth: Truth, at: float) -> tuple[float, float]:
    """The true figure of the time of a level before `at`; without impairments where `at` is negative."""
    since = truth.level_since(pair, at, SIGNALS[statement.kind])
    if statement.kind in OF_LOSS:
        return truth.loss_range(pair, since, at, statement.packet_bytes)
    if statement.kind is Kind.RATE:
        # Of rates without a limit nothing is planted: a transfer's depends on its RTT and loss.
        low, high = truth.rate_range(pair, since, at)
        return (low, high) if high < float("inf") else (0.0, float("inf"))
    low, high = truth.rtt_range(pair, since, at)
    return (0.0, high) if statement.kind is Kind.JITTER else (low, high)


def names(pairs: Iterable[Pair]) -> str:
    return ", ".join(" → ".join(pair) for pair in sorted(pairs))


def calls_normal(normal: int, truth: Truth, proved: frozenset[Pair]) -> bool:
    return normal > len(truth.pairs) - len(proved)


def calls_over(over: int, truth: Truth, at: float) -> bool:
    """Whether so many paths are over that an impaired one must be among them."""
    return bool(truth.in_phase(at, {Phase.PROVED})) and over > len(truth.in_phase(at, {Phase.ENDING, Phase.ENDED}))
