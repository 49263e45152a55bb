"""Reads the statements in a sentence, a title or a line of the status page: a regular expression for each form.

In: a text, the time of reading in seconds since the epoch, and the names of the sites. Out: a `Statement` for each
clause, with its paths, figures and time. A clause that no form knows is of the kind `UNKNOWN`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from tests.lab_truth.truth import Pair


class Kind(StrEnum):
    """Form of a statement."""

    ALL_NORMAL = "all normal"
    PROBLEMS = "count of paths with problems"
    NORMAL = "count of normal paths"
    INCIDENTS = "count of incidents"
    OVER = "over"
    PAST = "past"
    OVERDUE = "overdue"
    CHECKED = "being checked"
    FLAPS = "flaps"
    DEAD = "dead"
    LOSS = "loss"
    JITTER = "jitter"
    RTT = "RTT"
    RATE = "rate"
    UNDECIDED = "undecided"
    UNKNOWN = "unknown"


OF_LOSS = frozenset({Kind.FLAPS, Kind.DEAD, Kind.LOSS})
BAD = OF_LOSS | {Kind.JITTER, Kind.RTT, Kind.RATE}
"""Kinds that name a path as bad now."""

FORMS: tuple[tuple[Kind, str], ...] = (
    (Kind.UNDECIDED, r"State unknown|Too early|not judged|first results|not permitted|not be measured|disabled"
                     r"|in maintenance"),
    (Kind.ALL_NORMAL, r"^(?:All (?P<count>[\d,]+) paths are|The path is) normal"),
    (Kind.PAST, r"Last incident|resolved|ended without an incident|^Loss of .* ended"),
    (Kind.PROBLEMS, r"^(?P<count>[\d,]+) of (?P<of>[\d,]+)(?: paths)? (?:has|have|had) (?:a )?problems?"),
    (Kind.PROBLEMS, r"^(?P<count>[Nn]o) path has a problem now"),
    (Kind.OVER, r"^(?P<count>[\d,]+) over, waiting"),
    (Kind.OVER, r"normal again|waiting to close|back to|(?:replies|answers) again|after an outage|problems? .*\bover"
                r"|no (?:more )?loss since|[Bb]ack to normal|\bover (?:since|by)\b|no reply from \d.*since then no"),
    (Kind.OVERDUE, r"without (?:newer|current) (?:data|results)|without (?:data|any results)|do not count"
                   r"|no newer (?:data|results)|during (?:own|throughput)"),
    (Kind.CHECKED, r"\bchecked\b|not proven|not exclude|its way back|incident on the reverse path|few packets"),
    (Kind.INCIDENTS, r"^(?P<count>No|[\d,]+) open incidents?|^(?:and )?\d+ other incident|^Open incidents?$"),
    (Kind.NORMAL, r"^(?P<count>[\d,]+)(?: of (?P<of>[\d,]+) paths are)? normal|^No problems:? ?(?P<rest>\d+)?"),
    (Kind.FLAPS, r"\bflaps?\b|\bflapp(?:ing|ed)\b|no reply at times"),
    (Kind.DEAD, r"\bdead\b|no repl(?:y|ies)(?! from \d)|without replies|unreachable|all lost"),
    (Kind.LOSS, r"\bloss\b|\bloses?\b|\blost\b"),
    (Kind.JITTER, r"\bjitter\b|\bIPDV\b|RTT varies"),
    (Kind.RATE, r"bit/s|throughput"),
    (Kind.RTT, r"\bRTT\b|\bqueue\b|unusual delays|slow responses"),
)  # fmt: skip

CLAUSES = re.compile(
    r"(?<=problems): |(?<=[Oo]pen incident): |(?<=[Oo]pen incidents): |\. (?=[A-Z0-9])"
    r"|[;,] (?=(?:and )?[\d,]+ (?:paths?|more|normal|of [\d,]+ paths|other|in|with|without|being|waiting|after)\b|One )"
)
OF_THEM_OVER = re.compile(r"(?<=pen incident)(s?), (?:(?:both |all )?over|[\d,]+ of them over)(?=:)")
PART = re.compile(r"(?P<count>[\d,]+) of (?P<of>[\d,]+) paths|^(?P<number>One|[\d,]+)(?: more)? paths?\b")
OVER_A_SIZE = re.compile(r"(?P<size>[\d,]+) (?:B|bytes?)\b")
PEAK = re.compile(r"[,;]? ?\b(?:peak|lowest|up to|down to|from|over the whole time shown)\b[^,;)]*")
WAS = re.compile(r"\(was (?P<was>[\d.,]+)[^)]*\)|before (?P<before>[\d.,]+)")
NONE_SINCE = re.compile(r",? ?\b(?:none(?: lost)?|no loss) since [^,;)]*")
PERCENT = re.compile(
    r"(?P<about>about |~)?(?P<below>below |< ?)?(?P<low>\d+(?:\.\d+)?)(?:(?:%? to |–)(?P<high>\d+(?:\.\d+)?))?%"
)
MS = re.compile(r"(?:(?P<was>[\d.,]+)(?: ms)? → )?(?P<now>\d[\d.,]*) ms")
RATE = re.compile(r"(?:(?P<was>[\d.,]+)(?: (?P<was_unit>[kMG]?)bit/s)? → )?(?P<now>\d[\d.,]*) (?P<unit>[kMG]?)bit/s")
SINCE = re.compile(
    r"(?:since|began|detected)(?P<about> about)? (?:(?P<day>\d{4}-\d\d-\d\d) )?(?P<clock>\d\d:\d\d(?::\d\d)?)"
)
ENDED = re.compile(r"\bsince (?:(?P<day>\d{4}-\d\d-\d\d) )?(?P<clock>\d\d:\d\d(?::\d\d)?)")
ONSET = re.compile(r"\b(?:from|began)(?P<about> about)? (?:(?P<day>\d{4}-\d\d-\d\d) )?(?P<clock>\d\d:\d\d(?::\d\d)?)")
WORST = re.compile(r"; (?:(?P<dead>dead)|(?P<level>[^;]*(?:%|ms))) from\b")
FOR = re.compile(r"\bfor (?P<number>\d+(?:\.\d+)?) (?P<unit>s|min|h)\b")
UNITS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}

SHARE_OF_POINT = {Kind.LOSS: 0.35, Kind.RTT: 0.03, Kind.RATE: 0.3}
"""How far a figure without an interval may be from the truth, as a share of it."""
ABOUT = (0.4, 2.0)
"""Of a loss whose interval is wider than itself, and which is rounded to 1, 2, 3, 5 or 7."""
TOTAL = 1.0
"""Loss of all packets."""
LEAST_MS = 2.0
"""A lab on a busy machine adds so much to an RTT."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure: a loss ratio, ms or bit/s."""

    low: float
    high: float

    def meets(self, low: float, high: float) -> bool:
        return self.low <= high and low <= self.high


@dataclass(frozen=True, slots=True)
class End:
    """Of a trouble that is over: between `at` and `at + within_s` it ended, and the worst loss or RTT that it had."""

    at: float | None = None
    within_s: float = 0.0
    worst_loss: Interval | None = None
    worst_ms: Interval | None = None


@dataclass(frozen=True, slots=True)
class Statement:
    """A clause. `pairs` are the named paths, of an arrow ↔ both; `directions` are those named with an arrow →.
    `count` of `of` paths; it began between `since` and `since + since_within_s`."""

    kind: Kind
    text: str
    pairs: frozenset[Pair] = frozenset()
    directions: frozenset[Pair] = frozenset()
    sites: frozenset[str] = frozenset()
    count: int | None = None
    of: int | None = None
    figure: Interval | None = None
    was: Interval | None = None
    packet_bytes: int | None = None
    since: float | None = None
    since_within_s: float = 0.0
    is_fading: bool = False
    end: End = End()


def read_sentence(text: str, at: float, sites: Collection[str]) -> list[Statement]:
    """The statements of a sentence on the whole mesh."""
    name = _any_of(sites)
    another = re.compile(rf"(?:;|,? and) (?=(?:{name})(?: [→↔]|:))|\. (?=(?:{name})\b)")
    clauses = CLAUSES.split(OF_THEM_OVER.sub(r"\1", text.strip()))
    parts = (part for clause in clauses for part in another.split(clause))
    return [read_clause(part, at, sites) for part in parts if part.strip(" .")]


def read_clause(text: str, at: float, sites: Collection[str]) -> Statement:
    """The statement of a single clause or a title, by the first form that fits."""
    text = text.strip().rstrip(".")
    kind, counts = _form(text)
    both, directions, named = _places(text, sites)
    is_fading = kind in BAD and NONE_SINCE.search(text) is not None
    plain = NONE_SINCE.sub("", text) if is_fading else text
    size = OVER_A_SIZE.search(plain)
    figure, was = _figures(kind, plain)
    since, within_s = _since(plain, at) if kind is not Kind.OVER else moment(ONSET.search(plain), at)
    if "count" not in counts and (part := PART.search(text)) is not None:
        counts = part.groupdict()
    return Statement(
        kind,
        text,
        both | directions,
        directions,
        named,
        _number(counts.get("count") or counts.get("rest") or counts.get("number")),
        _number(counts.get("of")),
        figure,
        was,
        None if size is None else int(size["size"].replace(",", "")),
        since,
        within_s,
        is_fading,
        _end(plain, at) if kind is Kind.OVER else End(),
    )


def _form(text: str) -> tuple[Kind, dict[str, str | None]]:
    for kind, pattern in FORMS:
        match = re.search(pattern, text)
        if match is not None:
            return kind, match.groupdict()
    return Kind.UNKNOWN, {}


def _places(text: str, sites: Collection[str]) -> tuple[frozenset[Pair], frozenset[Pair], frozenset[str]]:
    """The paths named with ↔, those with → or `from … to`, and all named sites."""
    name = _any_of(sites)
    both = [found.groups() for found in re.finditer(rf"\b({name}) ↔ ({name})\b", text)]
    one_way = re.finditer(rf"\b({name}) → ({name})\b|\bfrom ({name}) to ({name})\b", text)
    directions = frozenset((found[1] or found[3], found[2] or found[4]) for found in one_way)
    pairs = frozenset(pair for a, b in both for pair in ((a, b), (b, a)))
    return pairs, directions, frozenset(re.findall(rf"\b({name})\b", text))


def _any_of(sites: Collection[str]) -> str:
    return "|".join(sorted(map(re.escape, sites), key=len, reverse=True))


def _figures(kind: Kind, text: str) -> tuple[Interval | None, Interval | None]:
    """The figure of now and that before, in the unit of the kind."""
    was = WAS.search(text)
    before = None if was is None else was["was"] or was["before"]
    plain = PEAK.sub("", WAS.sub("", text))
    if kind is Kind.LOSS:
        found = PERCENT.search(plain)
        return (None if found is None else read_percent(found)), None
    if kind in (Kind.RTT, Kind.OVER, Kind.JITTER):
        found = MS.search(plain)
        if found is None:
            return None, None
        before = before or found["was"]
        return _point(Kind.RTT, found["now"], 1.0), None if before is None else _point(Kind.RTT, before, 1.0)
    if kind is Kind.RATE:
        found = RATE.search(plain)
        if found is None:
            return None, None
        unit = UNITS[found["unit"]]
        earlier = None if before is None else _point(Kind.RATE, before, unit)
        if found["was"] is not None:
            earlier = _point(Kind.RATE, found["was"], UNITS[found["was_unit"] or found["unit"]])
        return _point(Kind.RATE, found["now"], unit), earlier
    return None, None


def read_percent(found: re.Match[str]) -> Interval:
    half = 0.5 * 10.0 ** -len(found["low"].partition(".")[2])
    low, high = float(found["low"]), float(found["high"] or found["low"])
    if found["below"]:
        return Interval(0.0, (high + half) / 100)
    if found["high"]:
        return Interval((low - half) / 100, (high + half) / 100)
    if found["about"]:
        return Interval(ABOUT[0] * low / 100, ABOUT[1] * low / 100)
    within = max(half, SHARE_OF_POINT[Kind.LOSS] * low)
    return Interval((low - within) / 100, (low + within) / 100)


def _point(kind: Kind, written: str, unit: float) -> Interval:
    value = float(written.replace(",", "").rstrip("."))
    within = max(SHARE_OF_POINT[kind] * value, LEAST_MS if kind is Kind.RTT else 0.0)
    return Interval((value - within) * unit, (value + within) * unit)


def _since(text: str, at: float) -> tuple[float | None, float]:
    """The stated onset, and the resolution of its words in seconds."""
    clock = SINCE.search(text)
    if clock is not None:
        return moment(clock, at)
    lasting = FOR.search(text)
    if lasting is None:
        return None, 0.0
    unit_s = {"s": 1.0, "min": 60.0, "h": 3600.0}[lasting["unit"]]
    # The words are rounded down, and a page may be some seconds old.
    within_s = max(unit_s if "." not in lasting["number"] else unit_s / 10, 5.0)
    return at - float(lasting["number"]) * unit_s - within_s, within_s


def moment(clock: re.Match[str] | None, at: float) -> tuple[float | None, float]:
    """The moment of a clock in the words, the newest before `at` without a day, and its resolution in seconds."""
    if clock is None:
        return None, 0.0
    now, found = datetime.fromtimestamp(at, UTC), clock.groupdict()
    moment = datetime.fromisoformat(f"{found['day'] or now.date()}T{found['clock']}+00:00")
    if found["day"] is None and moment > now + timedelta(hours=1):
        moment -= timedelta(days=1)
    resolution_s = 1.0 if found["clock"].count(":") == 2 else 60.0
    return moment.timestamp(), resolution_s + (60.0 if found.get("about") else 0.0)


def _end(text: str, at: float) -> End:
    """The stated end of a trouble, and the worst that it was."""
    ended, within_s = moment(ENDED.search(text), at)
    found = WORST.search(text)
    if found is None:
        return End(ended, within_s)
    if found["dead"]:
        return End(ended, within_s, worst_loss=Interval(TOTAL, TOTAL))
    percent, ms = PERCENT.search(found["level"]), MS.search(found["level"])
    return End(
        ended,
        within_s,
        None if percent is None else read_percent(percent),
        None if ms is None else _point(Kind.RTT, ms["now"], 1.0),
    )


def _number(written: str | None) -> int | None:
    if written is None:
        return None
    return 0 if written.capitalize() == "No" else 1 if written == "One" else int(written.replace(",", ""))
