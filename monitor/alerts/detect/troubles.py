"""Which paths may be bad for a common reason: at the same time, and in the same way.

An outage and a delay never combine; partial loss and delay may share a queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from monitor.alerts.detect.rules.catalogue import rule_of
from monitor.alerts.detect.rules.finding import Effect, RuleFinding, Trouble
from monitor.alerts.detect.silence import silent_since
from monitor.alerts.detect.snapshot import Key, Snapshot

LOSS_EFFECTS = (Effect.LOSS, Effect.UNREACHABLE)
# Loss may precede an outage of the same trouble by this much.
LEAD_S = 60.0


@dataclass(frozen=True, slots=True)
class LastingIncident:
    """A lasting incident and the state of its findings; times in seconds since the epoch."""

    cause: str
    keys: frozenset[Key]  # findings not over
    since: datetime | None = None  # earliest begin of these, None if unknown
    recovered_s: Mapping[Key, float] = field(default_factory=dict)  # since when a finding is back to normal
    relapsed: frozenset[Key] = frozenset()  # were back to normal and are bad again
    outages: frozenset[Key] = frozenset()  # without any reply
    cut_s: Mapping[Key, float] = field(default_factory=dict)  # last reply before each outage
    detected_s: Mapping[Key, float] = field(default_factory=dict)  # of partial loss
    ended: frozenset[int] = frozenset()  # paths with findings that are over
    findings: tuple[RuleFinding, ...] = ()  # all, ended included
    may_be_narrower: bool = False  # so young that evidence may still come

    @property
    def path_ids(self) -> frozenset[int]:
        return self.ended | {path_id for path_id, _ in self.keys}


@dataclass(frozen=True, slots=True)
class BadTogether:
    """Findings without an incident and paths of lasting incidents that may have a common cause."""

    new: tuple[RuleFinding, ...]
    findings: tuple[RuleFinding, ...]  # all that fire now
    held: Mapping[Key, str]  # incident of each finding in an incident
    # former incident of `new` findings that were back to normal
    relapsed: Mapping[Key, str] = field(default_factory=dict)
    apart: frozenset[int] = frozenset()  # paths with another trouble, no evidence here

    @property
    def keys(self) -> frozenset[Key]:
        return frozenset(self.held) | {finding.key for finding in self.findings}

    @property
    def path_ids(self) -> frozenset[int]:
        return frozenset(path_id for path_id, _ in self.keys)

    @property
    def holder(self) -> dict[int, str]:
        return {path_id: cause for (path_id, _), cause in self.held.items()}


def trouble_of(rule: str) -> Trouble:
    """The group of rules that the rule of this name belongs to."""
    return rule_of(rule).trouble


def lasting_keys(lasting: Iterable[LastingIncident]) -> frozenset[Key]:
    return frozenset[Key]().union(*(incident.keys for incident in lasting))


def all_together(trouble: Trouble, findings: Sequence[RuleFinding], lasting: Sequence[LastingIncident]) -> BadTogether:
    already = lasting_keys(lasting)
    new = tuple(finding for finding in findings if finding.key not in already)
    return BadTogether(new, tuple(findings), _held(lasting, lambda key: trouble_of(key[1]) is trouble))


def bad_together(
    findings: Sequence[RuleFinding],
    lasting: Sequence[LastingIncident],
    snapshot: Snapshot,
    lost_at_s: Mapping[int, float],
    cut_s: Mapping[int, float],
) -> list[BadTogether]:
    """Split new findings of bad RTT or loss into parts that may have a common cause."""
    already = lasting_keys(lasting)
    recovered_s = {key: at_s for incident in lasting for key, at_s in incident.recovered_s.items()}
    relapsed = {key: incident.cause for incident in lasting for key in incident.relapsed}
    outages = frozenset[Key]().union(*(incident.outages for incident in lasting))
    new = [finding for finding in findings if finding.key not in already or finding.key in relapsed]
    times_s = {finding.key: _time_s(finding, snapshot, lost_at_s) for finding in new}

    def part(
        of_part: Sequence[RuleFinding],
        least_s: float,
        keeps: Callable[[Key], bool],
        apart: frozenset[Key] = frozenset(),
    ) -> BadTogether:
        """Add kept lasting findings bad since `least_s`, unless `apart`."""

        def is_in(key: Key) -> bool:
            is_bad = recovered_s.get(key, least_s) >= least_s and key not in apart
            return trouble_of(key[1]) is Trouble.ROUND_TRIPS and is_bad and key not in relapsed and keeps(key)

        own = {finding.key for finding in of_part}
        again = [finding for finding in findings if finding.key in already and is_in(finding.key)]
        return BadTogether(
            tuple(of_part),
            (*of_part, *again),
            _held(lasting, is_in),
            {key: cause for key, cause in relapsed.items() if key in own},
            frozenset(path_id for path_id, _ in apart),
        )

    last_s = max(recovered_s.values(), default=-float("inf"))
    earlier = [finding for finding in new if times_s[finding.key] <= last_s]
    now = [finding for finding in new if times_s[finding.key] > last_s]
    parts = []
    for at_once in (earlier, now):
        cut = [finding for finding in at_once if _is_loss(finding.key) and finding.path_id in cut_s]
        before = _lossy_before(cut, lasting, snapshot, cut_s)
        if before:
            parts.append(part(cut, min(times_s[finding.key] for finding in cut), _is_loss, before))
            at_once = [finding for finding in at_once if finding not in cut]
        least_s = min((times_s[finding.key] for finding in at_once), default=0.0)
        losses = [finding for finding in at_once if _is_loss(finding.key)]
        delays = [finding for finding in at_once if not _is_loss(finding.key)]
        if any(_is_outage(finding, snapshot) for finding in losses):
            parts.append(part(losses, least_s, _is_loss))
            parts.append(part(delays, least_s, lambda key: key not in outages))
        elif losses:
            parts.append(part(at_once, least_s, lambda key: True, _cut_later(lasting, least_s)))
        else:
            parts.append(part(delays, least_s, lambda key: key not in outages))
    return [together for together in parts if together.new]


def _lossy_before(
    cut: Sequence[RuleFinding], lasting: Sequence[LastingIncident], snapshot: Snapshot, cut_s: Mapping[int, float]
) -> frozenset[Key]:
    own = {finding.path_id for finding in cut}
    least_s = min((cut_s[path_id] for path_id in own), default=-float("inf")) - LEAD_S
    return frozenset(
        key
        for incident in lasting
        for key, detected_s in incident.detected_s.items()
        if detected_s < least_s and key[0] not in own and not _is_silent(key[0], snapshot)
    )


def _cut_later(lasting: Sequence[LastingIncident], lost_s: float) -> frozenset[Key]:
    return frozenset(
        key for incident in lasting for key, began_s in incident.cut_s.items() if lost_s < began_s - LEAD_S
    )


def settled_s(lasting: Sequence[LastingIncident], snapshot: Snapshot) -> dict[int, float]:
    """By path, when its last loss incident ended or recovered: only later packets show present loss."""
    ends = [(key, at_s) for incident in lasting for key, at_s in incident.recovered_s.items()]
    at_s: dict[int, float] = {}
    for (path_id, rule), end_s in [*snapshot.ended_s.items(), *ends]:
        if rule_of(rule).effect in LOSS_EFFECTS:
            at_s[path_id] = max(at_s.get(path_id, end_s), end_s)
    return at_s


def _held(lasting: Sequence[LastingIncident], is_in: Callable[[Key], bool]) -> dict[Key, str]:
    return {key: incident.cause for incident in lasting for key in incident.keys if is_in(key)}


def _is_loss(key: Key) -> bool:
    return rule_of(key[1]).effect in LOSS_EFFECTS


def _is_outage(finding: RuleFinding, snapshot: Snapshot) -> bool:
    return _is_silent(finding.path_id, snapshot) or rule_of(finding.rule).effect is Effect.UNREACHABLE


def _is_silent(path_id: int, snapshot: Snapshot) -> bool:
    return path_id in snapshot.rows and silent_since(path_id, snapshot) is not None


def _time_s(finding: RuleFinding, snapshot: Snapshot, lost_at_s: Mapping[int, float]) -> float:
    """Epoch seconds: onset of an RTT step or loss, else now."""
    if _is_loss(finding.key):
        return lost_at_s.get(finding.path_id, snapshot.now.timestamp())
    if "figure" in finding.figures and "since" in finding.figures:
        return datetime.fromisoformat(finding.figures["since"]).timestamp()
    return snapshot.now.timestamp()
