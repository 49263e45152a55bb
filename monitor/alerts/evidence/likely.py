"""The likely cause of an incident in one sentence, by rules that are stated: the first that holds is the answer.

In: the facts, and what the incident is. Out: a sentence. docs/alerts.md lists the rules in this order. What cannot be
told from what was measured is said to be unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from monitor.alerts.evidence.facts import AgentFacts, Direction, Facts, Figures
from monitor.analysis import binomial
from monitor.analysis import figures as shown

UNKNOWN = "Not known: nothing that was measured tells these causes apart."
NOT_YET = "Not known yet: the evidence is being gathered."

MATTERS_MS = 1.0
"""A change of round trips by less, and by less than `MATTERS_SHARE`, is none."""
MATTERS_SHARE = 0.05
SHARE_OF_FLOOR = 0.5
"""Where the least round trip rose by half of what the median did, the way is longer."""
CONFIDENCE = 0.975

LOSS_RULES = ("loss", "loss_regression")
Rule = Callable[[Facts, Sequence[str]], str | None]


def likely(facts: Facts | None, rules: Sequence[str]) -> str:
    """The sentence; `rules` are the names of the rules that found something, the gravest first."""
    if facts is None:
        return NOT_YET
    return next((sentence for rule in RULES if (sentence := rule(facts, rules)) is not None), UNKNOWN)


def _agent_is_silent(facts: Facts, rules: Sequence[str]) -> str | None:
    if rules[0] != "no_data" or facts.failures:
        return None
    source = next((one for one in facts.agents if one.is_source), None)
    if source is None or source.delivered_at is None:
        where = source.site if source else "the source"
        return f"The agent of {where} has never delivered anything: it does not run, or cannot reach the centre."
    silent = (facts.gathered_at - source.delivered_at).total_seconds()
    if silent < SILENT_S:
        return (
            f"The agent of {source.site} delivers, but nothing of these paths: it does not have them in its plan, or "
            "its "
            f"cycles are late{_with(source)}."
        )
    return (
        f"The agent of {source.site} has been silent for {shown.duration(silent)}: its machine, its service or its way "
        "to "
        f"the centre is down{_with(source)}."
    )


SILENT_S = 120


def _cannot_be_measured(facts: Facts, rules: Sequence[str]) -> str | None:
    if rules[0] != "no_data":
        return None
    newest = max(facts.failures, key=lambda one: one.at)
    detail = f": {newest.detail}" if newest.detail else ""
    return f"The agent tries and cannot measure, with the outcome {newest.outcome}{detail}."


def _agent_itself(facts: Facts, rules: Sequence[str]) -> str | None:
    troubled = next((one for one in facts.agents if one.is_source and one.troubles), None)
    if troubled is None or rules[0] == "throughput":
        return None
    well = [one.back for one in facts.paths if one.back is not None]
    if well and any(_loss_rose(one) for one in well):
        return None
    return f"The agent of {troubled.site} itself: {' and '.join(troubled.troubles)}, and the reverse paths are well."


def _address_changed(facts: Facts, rules: Sequence[str]) -> str | None:
    for path in facts.paths:
        was, now = path.there.before.address, path.there.after.address
        if was is not None and now is not None and was != now:
            return f"The name {path.destination_address} resolves to another address: {now}, before {was}."
    return None


def _interrupted(facts: Facts, rules: Sequence[str]) -> str | None:
    if rules[0] != "unreachable":
        return None
    if facts.routers:
        one = facts.routers[0]
        said = one.name.replace("_", " ")
        return f"The path is interrupted at {one.router}, which answers {said} ({one.count:,} times)."
    back = [one.back.after for one in facts.paths if one.back is not None and one.back.after.sent]
    if back and all(one.lost < one.sent for one in back):
        return (
            "The destination does not answer this source but does measure in the other direction: a filter, or a route "
            "that differs by direction."
        )
    return "The path is interrupted, or the destination is down: nothing is answered and no router says why."


def _throughput(facts: Facts, rules: Sequence[str]) -> str | None:
    if rules[0] not in ("throughput", "estimate"):
        return None
    lossy = next((one for one in _directions(facts) if _loss_rose(one)), None)
    if lossy is not None:
        return f"Loss, which slows TCP down: {_loss_change(lossy)}."
    if facts.verdicts:
        return f"By the newest test: {facts.verdicts[0].sentence}"
    return None


def _large_packets(facts: Facts, rules: Sequence[str]) -> str | None:
    if rules[0] not in LOSS_RULES:
        return None
    for one in _directions(facts):
        sizes = sorted(one.after.sizes, key=lambda size: size.packet_bytes)
        if len(sizes) < 2 or not sizes[0].sent or not sizes[-1].sent:
            continue
        small, large = sizes[0], sizes[-1]
        least = float(binomial.lower_bound(large.lost, large.sent, CONFIDENCE))
        if least > 2.0 * float(binomial.upper_bound(small.lost, small.sent, CONFIDENCE)):
            return (
                f"Large packets are lost more than small ones ({shown.loss(large.lost, large.sent)} at "
                f"{large.packet_bytes} bytes, {shown.loss(small.lost, small.sent)} at {small.packet_bytes}): bit "
                "errors, "
                "or a link with a smaller MTU."
            )
    return None


def _route(facts: Facts, rules: Sequence[str]) -> str | None:
    for one in _directions(facts):
        was, now = one.before, one.after
        if was.ttl is not None and now.ttl is not None and was.ttl != now.ttl:
            level = _rise_ms(was.rtt_min_ms, now.rtt_min_ms)
            moved = "" if level is None else f", and the least round trip went by {level:+.1f} ms"
            return f"Another route: the TTL of replies on {one.name} went from {was.ttl} to {now.ttl}{moved}."
    return None


def _queue_or_way(facts: Facts, rules: Sequence[str]) -> str | None:
    for one in _directions(facts):
        floor, median = _rises(one.before, one.after)
        if median is None or not _matters(median, one.before.rtt_median_ms):
            continue
        lossy = f" and drops packets ({_loss_change(one)})" if _loss_rose(one) else ""
        if floor is not None and floor >= SHARE_OF_FLOOR * median:
            return (
                f"A longer way, or a queue that never empties: on {one.name} the least round trip rose by {floor:.1f} "
                "ms, "
                f"the median by {median:.1f} ms{', and packets are lost' if lossy else ''}."
            )
        return (
            f"Congestion: a queue fills{lossy}; on {one.name} the median round trip rose by {median:.1f} ms, the least "
            "by "
            f"{max(floor or 0.0, 0.0):.1f} ms."
        )
    return None


def _loss_alone(facts: Facts, rules: Sequence[str]) -> str | None:
    if rules[0] not in LOSS_RULES:
        return None
    one = next((one for one in _directions(facts) if _loss_rose(one)), None)
    if one is None:
        return None
    return (
        f"Loss without delay ({_loss_change(one)}, round trips as before): a faulty link or interface, a policer, or a "
        "short queue."
    )


def _order(facts: Facts, rules: Sequence[str]) -> str | None:
    return {
        "reordering": "Packets of one burst take ways of different length: parallel links, or a device that sprays "
        "packets.",
        "duplicates": "Packets are copied on the way: a switching loop, or a link that repeats frames.",
        "jitter": "A queue that fills and empties: round trips scatter more than before.",
    }.get(rules[0])


RULES: tuple[Rule, ...] = (
    _agent_is_silent,
    _cannot_be_measured,
    _agent_itself,
    _address_changed,
    _interrupted,
    _throughput,
    _route,
    _large_packets,
    _queue_or_way,
    _loss_alone,
    _order,
)


def _directions(facts: Facts) -> Iterator[Direction]:
    """The paths of the incident, then the ways back."""
    yield from (one.there for one in facts.paths)
    yield from (one.back for one in facts.paths if one.back is not None)


def _loss_rose(one: Direction) -> bool:
    """Whether the loss after is above that before, by intervals that do not overlap."""
    was, now = one.before.loss_high_ratio, one.after.loss_low_ratio
    return was is not None and now is not None and now > was


def _loss_change(one: Direction) -> str:
    was, now = one.before, one.after
    return f"{shown.loss(now.lost, now.sent)} on {one.name}, before {shown.loss(was.lost, was.sent)}"


def _rises(was: Figures, now: Figures) -> tuple[float | None, float | None]:
    return _rise_ms(was.rtt_min_ms, now.rtt_min_ms), _rise_ms(was.rtt_median_ms, now.rtt_median_ms)


def _rise_ms(was: float | None, now: float | None) -> float | None:
    return None if was is None or now is None else now - was


def _matters(rise_ms: float, was_ms: float | None) -> bool:
    return rise_ms >= max(MATTERS_MS, MATTERS_SHARE * (was_ms or 0.0))


def _with(agent: AgentFacts) -> str:
    return f"; it told: {', '.join(agent.troubles)}" if agent.troubles else ""
