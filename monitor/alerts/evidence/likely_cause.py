"""The likely cause of an incident in a sentence: the first of EXPLANATIONS that applies.

In: the facts, and the incident's rules. Out: a sentence. docs/alerts.md lists the explanations in this order. If none
applies it is the usual cause of the gravest rule, or undetermined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from monitor.alerts.detect.rules.catalogue import rule_of
from monitor.alerts.detect.rules.finding import AlertRule, Effect
from monitor.alerts.evidence.facts import AgentFacts, Direction, Facts, PeriodFigures
from monitor.analysis import binomial
from monitor.analysis import figures as shown
from probes.quantities import counted

UNKNOWN = "Undetermined: the measurements fit several causes."
NOT_YET = "Pending: evidence is being gathered."

MATTERS_MS = 1.0
"""RTT changes below both this and `MATTERS_SHARE` are ignored."""
MATTERS_SHARE = 0.05
SHARE_OF_FLOOR = 0.5
"""If the minimum RTT rose by this share of the median's rise, the route is longer."""
CONFIDENCE = 0.975

Explanation = Callable[[Facts, AlertRule], str | None]


def likely_cause(facts: Facts | None, rules: Sequence[str]) -> str:
    """The likely cause; `rules` are the names of the incident's rules, gravest first."""
    if facts is None:
        return NOT_YET
    rule = rule_of(rules[0])
    explained = (explanation(facts, rule) for explanation in EXPLANATIONS)
    return next((sentence for sentence in explained if sentence is not None), rule.usual_cause or UNKNOWN)


def _agent_is_silent(facts: Facts, rule: AlertRule) -> str | None:
    if rule.effect is not Effect.NO_DATA or facts.failures:
        return None
    source = next((agent for agent in facts.agents if agent.is_source), None)
    if source is None or source.delivered_at is None:
        where = source.site if source else "the source"
        return f"The agent of {where} never reported: it is not running, or cannot reach the centre."
    silent = (facts.gathered_at - source.delivered_at).total_seconds()
    if silent < SILENT_S:
        return (
            f"The agent of {source.site} reports, but without results of these paths: they are not in its plan, or "
            f"its cycles are late{_with(source)}."
        )
    return (
        f"No report from the agent of {source.site} for {shown.duration(silent)}: its machine, its service or its "
        f"route to the centre is down{_with(source)}."
    )


SILENT_S = 120


def _cannot_be_measured(facts: Facts, rule: AlertRule) -> str | None:
    if rule.effect is not Effect.NO_DATA:
        return None
    newest = max(facts.failures, key=lambda failure: failure.at)
    detail = f": {newest.detail}" if newest.detail else ""
    return f"The agent's tests fail with outcome {newest.outcome}{detail}."


def _agent_itself(facts: Facts, rule: AlertRule) -> str | None:
    troubled = next((agent for agent in facts.agents if agent.is_source and agent.troubles), None)
    if troubled is None or rule.trouble.needs_tests:
        return None
    well = [path.back for path in facts.paths if path.back is not None]
    if well and any(_loss_rose(path) for path in well):
        return None
    return f"The agent of {troubled.site} itself: {' and '.join(troubled.troubles)}, and the reverse paths are normal."


def _address_changed(facts: Facts, rule: AlertRule) -> str | None:
    for path in facts.paths:
        was, now = path.there.before.address, path.there.after.address
        if was is not None and now is not None and was != now:
            return f"DNS change: {path.destination_address} now resolves to {now}, before to {was}."
    return None


def _interrupted(facts: Facts, rule: AlertRule) -> str | None:
    if rule.effect is not Effect.UNREACHABLE:
        return None
    if facts.routers:
        router = facts.routers[0]
        said = router.name.replace("_", " ")
        return f"The path is interrupted at {router.router}, which replies {said} ({counted(router.count, 'time')})."
    back = [path.back.after for path in facts.paths if path.back is not None and path.back.after.sent]
    if back and all(figures.lost < figures.sent for figures in back):
        return (
            "The destination does not reply to this source, but the reverse direction works: a filter, or asymmetric "
            "routing."
        )
    return "The path is interrupted, or the destination is down: 100% loss, no ICMP errors from routers."


def _throughput(facts: Facts, rule: AlertRule) -> str | None:
    if rule.effect is not Effect.LOW_THROUGHPUT:
        return None
    lossy = next((direction for direction in _directions(facts) if _loss_rose(direction)), None)
    if lossy is not None:
        return f"Loss, which slows TCP down: {_loss_change(lossy)}."
    if facts.verdicts:
        return f"Newest throughput test: {facts.verdicts[0].sentence}"
    return None


def _large_packets(facts: Facts, rule: AlertRule) -> str | None:
    if rule.effect is not Effect.LOSS:
        return None
    for direction in _directions(facts):
        sizes = sorted(direction.after.sizes, key=lambda size: size.packet_bytes)
        if len(sizes) < 2 or not sizes[0].sent or not sizes[-1].sent:
            continue
        small, large = sizes[0], sizes[-1]
        least = float(binomial.lower_bound(large.lost, large.sent, CONFIDENCE))
        if least > 2.0 * float(binomial.upper_bound(small.lost, small.sent, CONFIDENCE)):
            return (
                f"Large packets are lost more than small ones ({shown.loss(large.lost, large.sent)} at "
                f"{large.packet_bytes} bytes, {shown.loss(small.lost, small.sent)} at {small.packet_bytes}): bit "
                "errors, or a link with a smaller MTU."
            )
    return None


def _route(facts: Facts, rule: AlertRule) -> str | None:
    for direction in _directions(facts):
        was, now = direction.before, direction.after
        if was.ttl is not None and now.ttl is not None and was.ttl != now.ttl:
            level = _rise_ms(was.rtt_min_ms, now.rtt_min_ms)
            moved = "" if level is None else f", the minimum RTT changed by {level:+.1f} ms"
            return f"Route change: the TTL of replies on {direction.name} went from {was.ttl} to {now.ttl}{moved}."
    return None


def _queue_or_way(facts: Facts, rule: AlertRule) -> str | None:
    for direction in _directions(facts):
        floor, median = _rises(direction.before, direction.after)
        if median is None or not _matters(median, direction.before.rtt_median_ms):
            continue
        lossy = f" and drops packets ({_loss_change(direction)})" if _loss_rose(direction) else ""
        if floor is not None and floor >= SHARE_OF_FLOOR * median:
            return (
                f"A longer route, or a queue that never empties: on {direction.name} the minimum RTT rose by "
                f"{floor:.1f} ms, the median by {median:.1f} ms{', with packet loss' if lossy else ''}."
            )
        return (
            f"Congestion: a queue fills{lossy}; on {direction.name} the median RTT rose by {median:.1f} ms, the "
            f"minimum by {max(floor or 0.0, 0.0):.1f} ms."
        )
    return None


def _loss_alone(facts: Facts, rule: AlertRule) -> str | None:
    if rule.effect is not Effect.LOSS:
        return None
    direction = next((direction for direction in _directions(facts) if _loss_rose(direction)), None)
    if direction is None:
        return None
    return (
        f"Loss without delay ({_loss_change(direction)}, RTT unchanged): a faulty link or interface, a policer, or a "
        "short queue."
    )


EXPLANATIONS: tuple[Explanation, ...] = (
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
)


def _directions(facts: Facts) -> Iterator[Direction]:
    """The paths of the incident, then their reverse paths."""
    yield from (path.there for path in facts.paths)
    yield from (path.back for path in facts.paths if path.back is not None)


def _loss_rose(direction: Direction) -> bool:
    """Whether loss rose: the intervals before and after do not overlap."""
    was, now = direction.before.loss_high_ratio, direction.after.loss_low_ratio
    return was is not None and now is not None and now > was


def _loss_change(direction: Direction) -> str:
    was, now = direction.before, direction.after
    return f"{shown.loss(now.lost, now.sent)} on {direction.name}, before {shown.loss(was.lost, was.sent)}"


def _rises(was: PeriodFigures, now: PeriodFigures) -> tuple[float | None, float | None]:
    return _rise_ms(was.rtt_min_ms, now.rtt_min_ms), _rise_ms(was.rtt_median_ms, now.rtt_median_ms)


def _rise_ms(was: float | None, now: float | None) -> float | None:
    return None if was is None or now is None else now - was


def _matters(rise_ms: float, was_ms: float | None) -> bool:
    return rise_ms >= max(MATTERS_MS, MATTERS_SHARE * (was_ms or 0.0))


def _with(agent: AgentFacts) -> str:
    return f"; it reports: {', '.join(agent.troubles)}" if agent.troubles else ""
