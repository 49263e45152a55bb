"""Scores the title of a closed incident against the trouble that it was: level, packet size, onset and end."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tests.lab_truth.marks import Mark, Marked
from tests.lab_truth.statement_marks import LARGEST_BYTES, end_mark, names, onset_mark
from tests.lab_truth.statements import ONSET, End, Kind, Statement, moment, read_clause
from tests.lab_truth.truth import Pair, Phase, Truth

PERIOD = re.compile(
    r",? (?P<begin>from (?:about )?(?:[\d-]{10} )?[\d:]{5,8}) (?P<end>to (?:[\d-]{10} )?[\d:]{5,8}) UTC"
)
OUTAGES = re.compile(r"(?P<number>\d+) outages")
END = re.compile(r"to (?:(?P<day>\d{4}-\d\d-\d\d) )?(?P<clock>\d\d:\d\d(?::\d\d)?)")


def closed_marks(incident: Mapping[str, Any], pair_of: Mapping[int, Pair], truth: Truth, at: float) -> Iterator[Marked]:
    """The marks of the title; of its paths that are not affected as well."""
    paths = [pair_of[key] for key in incident["path_ids"] if key in pair_of]
    title = read_title(incident["title"], at, {site for pair in truth.pairs for site in pair})
    clean = [pair for pair in paths if truth.phase(pair, at) is Phase.CLEAN]
    if clean:
        yield Marked(Mark.FALSE, f"closed incident on {names(clean)}, not affected")
    affected = [pair for pair in paths if pair not in clean]
    if not affected:
        return
    if title.kind is Kind.UNKNOWN:
        yield Marked(Mark.UNCLEAR, f"no form for: {title.text}")
        return
    yield onset_mark(title, affected, title.since, title.since_within_s, truth, at)
    yield end_mark(title, affected, truth, at)
    yield _level_mark(title, affected, truth, at)


def read_title(text: str, at: float, sites: set[str]) -> Statement:
    """The trouble in a title, with its onset and end."""
    period = PERIOD.search(text)
    read = replace(read_clause(PERIOD.sub("", text), at, sites), text=text)
    if period is None:
        return read
    since, since_within_s = moment(ONSET.search(period["begin"]), at)
    end = End(*moment(END.search(period["end"]), at))
    return replace(read, since=since, since_within_s=since_within_s, end=end)


def _level_mark(title: Statement, paths: Sequence[Pair], truth: Truth, at: float) -> Marked:
    """The worst of the newest episode of any of its paths."""
    times = {
        pair: (episode[0].since, min(at, episode[-1].until)) for pair in paths if (episode := truth.episode(pair, at))
    }
    size = title.packet_bytes
    if title.kind in (Kind.DEAD, Kind.FLAPS):
        is_dead = any(truth.loss_range(pair, *of, size or 0)[1] > 0.999 for pair, of in times.items())
        if not is_dead:
            return Marked(Mark.FALSE, f"some packets passed: {title.text}")
        told, true = OUTAGES.search(title.text), {len(truth.episode(pair, at)) for pair in times}
        # One is short for two whole cycles now and then.
        is_counted = told is None or any(abs(int(told["number"]) - number) <= 1 for number in true)
        return Marked(Mark.TRUE) if is_counted else Marked(Mark.UNCLEAR, f"{true} outages: {title.text}")
    if title.figure is None:
        return Marked(Mark.TRUE)
    if title.kind is Kind.LOSS:
        if size is None and any(truth.sizes_differ(pair) for pair in paths):
            return Marked(Mark.UNCLEAR, f"no packet size: {title.text}")
        worst = [truth.loss_range(pair, *of, size or LARGEST_BYTES)[1] for pair, of in times.items()]
        ranges = [(ratio, ratio) for ratio in worst]
    elif title.kind is Kind.RATE:
        ranges = [(rate, rate) for pair, of in times.items() for rate in (truth.rate_range(pair, *of)[0],)]
    else:
        ranges = [truth.worst_rtt(pair, *of) for pair, of in times.items()]
    if title.kind in (Kind.JITTER, Kind.OVER) or any(title.figure.meets(low, high) for low, high in ranges):
        return Marked(Mark.TRUE)
    return Marked(Mark.UNCLEAR, f"figure of {title.text}")
