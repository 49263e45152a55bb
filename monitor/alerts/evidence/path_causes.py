"""Likely causes in the network by pings and throughput tests: interruption, route, queue, loss, rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from monitor.alerts.detect.rules.finding import AlertRule, Effect
from monitor.alerts.evidence.comparison import (
    DelayRise,
    delay_rise,
    directions,
    is_above_mean,
    loss_rose,
    loss_text,
    pings_compared,
)
from monitor.alerts.evidence.facts import Direction, Facts, PathFacts, PathTests, PeriodFigures
from monitor.alerts.evidence.one_way.outage import CutDirection, cut_direction
from monitor.alerts.evidence.one_way.stated import counted_direction
from monitor.alerts.evidence.stated import BY_STAMP, Fault, LikelyCause, reported_by
from monitor.alerts.evidence.tested_direction import tested_direction
from monitor.analysis import binomial
from monitor.analysis import figures as shown
from monitor.analysis.directions import LostDirection
from monitor.analysis.transfer import Verdict
from monitor.mesh.document.addresses import is_private

CONFIDENCE = 0.975
BEHIND_NAT = "if nothing may come in, behind_nat = true for this host, which is then measured outwards only"
# At this loss, a path without any reply is dead in the other direction too.
DEAD = 0.9
# Packets, all unanswered since the onset, that are an outage: at 70% loss the chance is one in a thousand.
LEAST_ALL_LOST = 20
# No large packets pass if the lower bound of their loss reaches this.
ALL_LOST = 0.9


def address_changed(facts: Facts, rule: AlertRule, where: str) -> LikelyCause | None:
    for path in facts.paths:
        was, now = path.there.before.address, path.there.after.address
        if was is not None and now is not None and was != now:
            return LikelyCause(
                Fault.ADDRESS,
                f"DNS change: {path.destination_address} now resolves to {now}, before to {was}.",
                "Check whether the change of the name was meant.",
            )
    return None


def never_answered(facts: Facts, rule: AlertRule, where: str) -> LikelyCause | None:
    """Paths never answered, to a private address or with a working way back: behind NAT."""
    silent = [path for path in facts.paths if path.there.after.is_cut_off]
    if rule.effect is not Effect.UNREACHABLE or not silent or any(map(_has_answered, silent)):
        return None
    path = silent[0]
    address = path.destination_address
    if is_private(address) and not is_private(path.source_address):
        return LikelyCause(
            Fault.INTERRUPTED,
            f"No ping to {address} was ever answered: a private address, which other networks cannot reach.",
            f"Write the public address of its router into mesh.toml, and {BEHIND_NAT}.",
        )
    if any(pair.back is None or not pair.back.after.received for pair in silent):
        return None
    return LikelyCause(
        Fault.INTERRUPTED,
        f"No ping to {address} was ever answered, but its own pings are: NAT or a firewall lets nothing in.",
        f"Let pings in, or {BEHIND_NAT}.",
    )


def _has_answered(path: PathFacts) -> bool:
    return path.there.after.answered_at is not None or path.there.before.received > 0


def interrupted(facts: Facts, rule: AlertRule, where: str) -> LikelyCause | None:
    if rule.effect is not Effect.UNREACHABLE and not _is_cut_off(facts, rule):
        return None
    was, period = ("Was interrupted", _outage(facts)) if facts.ended_at else ("Interrupted", _last_reply(facts))
    if facts.routers:
        return reported_by(facts.routers[0], is_over=facts.ended_at is not None)
    back = [path.back.after for path in facts.paths if path.back is not None and path.back.after.sent]
    cut = cut_direction(facts)
    if cut is not None:
        return _cut(cut, was, period)
    if back and not any(figures.is_cut_off or _is_dead(figures) for figures in back):
        works = "worked" if facts.ended_at else "works"
        return LikelyCause(
            Fault.INTERRUPTED,
            f"No reply {where}{period}, but the reverse direction {works}: a filter of ICMP, or asymmetric routing.",
            "Compare the filters at both ends; trace the route from both.",
        )
    if back and all(figures.is_cut_off or _is_dead(figures) for figures in back):
        reporting = "; the agents of both ends report" if not facts.ended_at and _agents_report(facts) else ""
        return LikelyCause(
            Fault.INTERRUPTED,
            f"{was} {where}{period}: 100% loss of pings from both ends, which one direction is enough for, "
            f"and no ICMP errors from routers{reporting}.",
            "Trace the route from both ends: the last router that answers is before the interruption.",
        )
    down = "was" if facts.ended_at else "is"
    return LikelyCause(
        Fault.INTERRUPTED,
        f"{was} {where}{period}, or the destination {down} down: 100% loss, no ICMP errors from routers.",
        "Check whether the destination is up, then trace the route to it.",
    )


def _cut(cut: CutDirection, was: str, period: str) -> LikelyCause:
    told = f"{cut.text}, as the reflectors of both ends tell ({BY_STAMP})"
    if cut.toward is None:
        return LikelyCause(
            Fault.INTERRUPTED,
            f"{was} in both directions{period}: {told}.",
            "Trace the route from both ends: the last router that answers is before the interruption.",
        )
    return LikelyCause(
        Fault.INTERRUPTED,
        f"{was} in one direction{period}: {told}.",
        f"Trace the route from {cut.toward[0] or 'the other ends'}, and send the ticket below to the provider of that "
        "direction.",
        cut.toward,
        BY_STAMP,
    )


def _is_cut_off(facts: Facts, rule: AlertRule) -> bool:
    """Whether all newest bursts, or all packets since the onset, are lost."""
    if rule.effect not in (Effect.LOSS, Effect.LOW_THROUGHPUT):
        return False
    lossy = [direction for direction in directions(facts) if loss_rose(direction)]
    return bool(lossy) and (_are_all_lost(facts) or all(direction.after.is_cut_off for direction in lossy))


def _are_all_lost(facts: Facts) -> bool:
    after = [direction.after for direction in directions(facts)]
    is_enough = sum(figures.sent for figures in after) >= LEAST_ALL_LOST
    return is_enough and all(map(_is_all_lost, after))


def _is_all_lost(figures: PeriodFigures) -> bool:
    return figures.sent > 0 and figures.lost == figures.sent


def _last_reply(facts: Facts) -> str:
    silent = [path.there for path in facts.paths if path.there.after.is_cut_off or _is_all_lost(path.there.after)]
    replies = [direction.after.answered_at for direction in silent]
    newest = max((at for at in replies if at is not None), default=None)
    return "" if newest is None else f", last reply {newest:%Y-%m-%d %H:%M:%S} UTC"


def _outage(facts: Facts) -> str:
    again = "" if facts.answered_by is None else f", answered again by {facts.answered_by:%Y-%m-%d %H:%M:%S} UTC"
    return f"{_last_reply(facts)}{again}"


def _is_dead(figures: PeriodFigures) -> bool:
    return figures.lost >= DEAD * figures.sent


def throughput_fell(facts: Facts, rule: AlertRule, where: str) -> LikelyCause | None:
    if rule.effect is not Effect.LOW_THROUGHPUT:
        return None
    lossy = [direction for direction in directions(facts) if loss_rose(direction)]
    if lossy:
        return _loss(facts, lossy, where, "; it slows TCP down")
    slow = [test for test in facts.tests if _fell(test)]
    if not slow and not facts.verdicts:
        return None
    newest = facts.verdicts[0] if facts.verdicts else None
    said = "" if newest is None else f" Newest throughput test: {newest.sentence}"
    is_policed = newest is not None and newest.verdict == Verdict.POLICER
    named = [f"{test.source} → {test.destination} {_change(test)}" for test in slow[:3]]
    more = f" and {len(slow) - 3} more" if len(slow) > 3 else ""
    kept = [test for test in facts.tests if test not in slow and test.after_bps is not None]
    normal = f", {kept[0].source} → {kept[0].destination} {shown.bit_rate(kept[0].after_bps)}" if kept else ""
    fell = f"TCP throughput fell: {', '.join(named)}{more}{normal}; {pings_compared(facts)}." if slow else ""
    return LikelyCause(
        Fault.POLICER if is_policed else Fault.RATE,
        f"{'A policer: ' if is_policed and fell else ''}{fell}{said}".strip(),
        "Ask the providers of this direction about rate limits and changed links; check both hosts.",
        (slow[0].source, slow[0].destination) if len(slow) == 1 else None,
    )


def large_packets(facts: Facts, rule: AlertRule, where: str) -> LikelyCause | None:
    if rule.effect is not Effect.LOSS:
        return None
    for direction in directions(facts):
        sizes = sorted(direction.after.sizes, key=lambda size: size.packet_bytes)
        if len(sizes) < 2 or not sizes[0].sent or not sizes[-1].sent:
            continue
        small, large = sizes[0], sizes[-1]
        least = float(binomial.lower_bound(large.lost, large.sent, CONFIDENCE))
        if least <= 2.0 * float(binomial.upper_bound(small.lost, small.sent, CONFIDENCE)):
            continue
        figures = (
            f"{shown.loss(large.lost, large.sent)} loss at {large.packet_bytes} bytes, "
            f"{shown.loss(small.lost, small.sent)} at {small.packet_bytes}"
        )
        if large.lost / large.sent >= ALL_LOST:
            return LikelyCause(
                Fault.MTU,
                f"MTU black hole {where}: large packets do not pass ({figures}).",
                "Find the link with the smaller MTU (ping with DF and falling sizes), and let ICMP “fragmentation "
                "needed” pass.",
            )
        return LikelyCause(
            Fault.LARGE_PACKETS,
            f"Large packets are lost more than small ones {where} ({figures}): bit errors, or a link with a smaller "
            "MTU.",
            "Check the error counters of the interfaces (CRC, input errors) and the MTU of each link.",
        )
    return None


def route_changed(facts: Facts, rule: AlertRule, where: str) -> LikelyCause | None:
    """A new TTL of replies: the route of the reverse direction changed."""
    changed = [
        direction
        for direction in directions(facts)
        if direction.before.ttl is not None
        and direction.after.ttl is not None
        and direction.before.ttl != direction.after.ttl
    ]
    if not changed:
        return None
    first = changed[0]
    minima = [rise.minimum_ms for direction in directions(facts) if (rise := delay_rise(direction)) is not None]
    moved = f"; the minimum RTT changed by {median(minima):+.1f} ms" if minima else ""
    ends = {tuple(direction.name.split(" → ")[::-1]) for direction in changed}
    lossy = [direction for direction in directions(facts) if loss_rose(direction)]
    loss = f"; loss {loss_text(lossy)}" if lossy else ""
    only = next(iter(ends)) if len(ends) == 1 else None
    way = f", so the route from {only[0]} to {only[1]} changed" if only else ""
    return LikelyCause(
        Fault.ROUTE,
        f"Route change {where}: the TTL of replies on {first.name} went from {first.before.ttl} to "
        f"{first.after.ttl}{way}{moved}{loss}.",
        "Trace the route from both ends and compare it with an earlier one; ask the provider.",
        None if only is None else (only[0], only[1]),
    )


def delay_rose(facts: Facts, rule: AlertRule, where: str) -> LikelyCause | None:
    rises = [rise for direction in directions(facts) if (rise := delay_rise(direction)) is not None]
    if not rises:
        return None
    lossy = [direction for direction in directions(facts) if loss_rose(direction)]
    moved = _moved(rises)
    of_route = sum(rise.is_of_route for rise in rises)
    if of_route == len(rises):
        loss = f"; loss {loss_text(lossy)}" if lossy else ""
        if facts.routes and all(route.is_unchanged for route in facts.routes):
            return LikelyCause(
                Fault.ROUTE,
                f"A longer path {where} with the same routers, or a queue that never empties: {moved}{loss}.",
                "Ask the provider about its queues, and whether a link was rerouted below IP; the ticket below has the "
                "traces.",
            )
        return LikelyCause(
            Fault.ROUTE,
            f"A longer route {where}, or a queue that never empties: {moved}{loss}.",
            "Trace the route from both ends and compare it with an earlier one; ask the provider.",
        )
    if of_route:
        return LikelyCause(
            Fault.UNKNOWN,
            f"Cannot tell {where}: {_moved([rise for rise in rises if rise.is_of_route])}; but "
            f"{_moved([rise for rise in rises if not rise.is_of_route])}.",
            "Look at the charts of both directions.",
        )
    drops = f" and drops packets ({loss_text(lossy)})" if lossy else ""
    return LikelyCause(
        Fault.QUEUE,
        f"Congestion {where}: a queue fills{drops}; {moved}.",
        "Look at the utilisation of the links on this route, and at our own tests at these times.",
    )


def loss_alone(facts: Facts, rule: AlertRule, where: str) -> LikelyCause | None:
    lossy = [direction for direction in directions(facts) if loss_rose(direction)]
    if rule.effect is not Effect.LOSS or not lossy:
        return None
    has_rtts = all(direction.after.rtt_median_ms is not None for direction in lossy)
    return _loss(facts, lossy, where, ", RTT unchanged" if has_rtts else "")


def lost_one_way(facts: Facts, rule: AlertRule, where: str) -> LikelyCause | None:
    """A loss that STAMP counted, but pings do not show: too small, or sparing their packets."""
    counted = counted_direction(facts) if rule.effect is Effect.LOSS else None
    if counted is None or counted.direction is LostDirection.UNKNOWN:
        return None
    place = f"{where} in both directions" if counted.toward is None else counted.place
    return LikelyCause(
        Fault.LOSS,
        f"Loss {place}: {counted.figures}, counted by {BY_STAMP}; {pings_compared(facts)}. A faulty link "
        "or interface, a policer, or a short queue; packets of another size or protocol may be spared.",
        _next_for_loss(counted.toward),
        counted.toward,
        BY_STAMP,
    )


def loss_after_few_pings(facts: Facts, rule: AlertRule, where: str) -> LikelyCause | None:
    """A loss above its limit, with too few packets before to compare."""
    lossy = [direction for direction in directions(facts) if is_above_mean(direction)]
    return _loss(facts, lossy, where, "") if rule.effect is Effect.LOSS and lossy else None


def _loss(facts: Facts, lossy: Sequence[Direction], where: str, more: str) -> LikelyCause:
    counted = counted_direction(facts)
    if counted is not None and counted.toward is not None:
        return LikelyCause(
            Fault.LOSS,
            f"Loss {counted.place}: {counted.figures}, counted by {BY_STAMP}; round trips {loss_text(lossy)}{more}. "
            "A faulty link or interface, a policer, or a short queue.",
            _next_for_loss(counted.toward),
            counted.toward,
            BY_STAMP,
        )
    if counted is not None and counted.direction is LostDirection.BOTH:
        return LikelyCause(
            Fault.LOSS,
            f"Loss {where} in both directions: {counted.figures}, counted by {BY_STAMP}; round trips "
            f"{loss_text(lossy)}{more}. A faulty link or interface, a policer, or a short queue.",
            "Check the interface errors at both ends; send the ticket below to the providers of both directions.",
        )
    by_tests = tested_direction(facts)
    if counted is not None:
        told = "" if by_tests.toward is None else f"; {by_tests.text}"
        text = f"direction: cannot tell ({BY_STAMP}: {counted.figures}){told}"
        by_tests = replace(by_tests, text=text)
    return LikelyCause(
        Fault.LOSS,
        f"Loss {where}, {by_tests.text}: {loss_text(lossy)}{more}. A faulty link or interface, a policer, or a short "
        "queue.",
        _next_for_loss(by_tests.toward, by_tests.wanted),
        by_tests.toward,
    )


def _next_for_loss(toward: tuple[str, str] | None, wanted: str = "") -> str:
    if toward is None:
        tests = f"Run {wanted} to learn which loses; check" if wanted else "Check"
        return f"{tests} the interface errors at both ends."
    source, destination = toward
    way = (
        f"from {source} to {destination}"
        if source and destination
        else f"out of {source}"
        if source
        else f"into {destination}"
    )
    return f"Check errors and drops of the interfaces {way}; send the ticket below to the provider of that direction."


def _moved(rises: Sequence[DelayRise]) -> str:
    names = " and ".join(rise.name for rise in rises) if len(rises) <= 2 else f"{len(rises)} paths"
    level = "" if len(rises) == 1 else " (medians of the paths)" if len(rises) > 2 else ""
    minimum_ms = max(median(rise.minimum_ms for rise in rises), 0.0)
    return (
        f"on {names} the minimum RTT rose by {minimum_ms:.1f} ms, the median by "
        f"{median(rise.median_ms for rise in rises):.1f} ms{level}"
    )


def _agents_report(facts: Facts) -> bool:
    sites = {site for path in facts.paths for site in (path.source_site, path.destination_site)}
    since = min((path.there.after.since for path in facts.paths), default=facts.gathered_at)
    reporting = {agent.site for agent in facts.agents if agent.delivered_at is not None and agent.delivered_at > since}
    return bool(sites) and sites <= reporting


def _fell(test: PathTests) -> bool:
    return test.before_bps is not None and test.after_bps is not None and test.after_bps < 0.85 * test.before_bps


def _change(test: PathTests) -> str:
    return f"{shown.bit_rate(test.after_bps)} (was {shown.bit_rate(test.before_bps)})"
