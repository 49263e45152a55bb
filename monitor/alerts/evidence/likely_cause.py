"""The likely cause of an incident: the first of EXPLANATIONS (docs/alerts.md) that applies, else the gravest rule's
usual cause, or undetermined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from monitor.alerts.detect.rules.catalogue import rule_of
from monitor.alerts.detect.rules.finding import AlertRule, Trouble
from monitor.alerts.evidence.agent_causes import (
    agent_is_silent,
    agent_itself,
    cannot_be_measured,
    centre_is_cut_off,
    site_is_down,
)
from monitor.alerts.evidence.facts import Facts
from monitor.alerts.evidence.one_way.stated import delayed_one_way, with_delay_direction
from monitor.alerts.evidence.path_causes import (
    address_changed,
    delay_rose,
    interrupted,
    large_packets,
    loss_after_few_pings,
    loss_alone,
    lost_one_way,
    never_answered,
    route_changed,
    throughput_fell,
)
from monitor.alerts.evidence.routes.causes import route_change_measured, with_place
from monitor.alerts.evidence.stated import Fault, LikelyCause

UNKNOWN = "Undetermined: the measurements fit several causes."
NOT_YET = "Pending: evidence is being gathered."

Explanation = Callable[[Facts, AlertRule, str], LikelyCause | None]

EXPLANATIONS: tuple[Explanation, ...] = (
    centre_is_cut_off,
    site_is_down,
    agent_is_silent,
    cannot_be_measured,
    address_changed,
    never_answered,
    interrupted,
    agent_itself,
    throughput_fell,
    route_change_measured,
    route_changed,
    large_packets,
    delay_rose,
    delayed_one_way,
    loss_alone,
    lost_one_way,
    loss_after_few_pings,
)


def likely_cause(facts: Facts | None, rules: Sequence[str], cause: str) -> LikelyCause:
    """Find the likely cause; `rules` are gravest first, `cause` is the place by grouping."""
    if facts is None:
        return LikelyCause(Fault.UNKNOWN, NOT_YET)
    rule = rule_of(rules[0])
    explained = (explanation(facts, rule, where_text(cause)) for explanation in EXPLANATIONS)
    stated = next((stated for stated in explained if stated is not None), None)
    if stated is None and rule.usual_cause:
        stated = LikelyCause(Fault.USUAL, rule.usual_cause)
    return with_place(with_delay_direction(stated or LikelyCause(Fault.UNKNOWN, UNKNOWN), facts), facts)


def flapping(stated: LikelyCause, cause: str, *, is_over: bool) -> LikelyCause:
    flaps, goes = ("Flapped", "went and came") if is_over else ("Flaps", "goes and comes")
    return replace(
        stated,
        sentence=f"{flaps} {where_text(cause)}: a link or route {goes} back.",
        next_step="Trace the route in an outage and between outages: the link that goes is where they differ.",
    )


def cause_place(cause: str) -> str:
    """The place in the name of a cause, without the prefix of its trouble."""
    prefixes = [trouble.prefix for trouble in Trouble if trouble.prefix]
    return next((cause.removeprefix(prefix) for prefix in prefixes if cause.startswith(prefix)), cause)


def where_text(cause: str) -> str:
    """The place of a cause in a sentence: `between slac and cern`, `at host cern-a`, `on the paths of cern`."""
    for arrow in (" ↔ ", " → "):
        source, found, destination = cause.partition(arrow)
        if found:
            return f"between {source} and {destination}" if arrow == " ↔ " else f"from {source} to {destination}"
    for ending, before in ((" outbound", "on the paths from"), (" inbound", "on the paths to")):
        if cause.endswith(ending):
            return f"{before} {cause.removesuffix(ending)}"
    if cause.startswith("AS "):
        return f"in {cause}"
    if cause.startswith(("host ", "uplink ", "hop ", "link ", "the border ")):
        return f"at {cause}"
    if cause.startswith("agent of "):
        return f"on the paths from {cause.removeprefix('agent of ')}"
    return f"on {cause}" if cause.startswith("all ") else f"on the paths of {cause}"
