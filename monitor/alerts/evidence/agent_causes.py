"""Likely causes at the agents and sites: the agent or its clock, a site that is down, tests that fail."""

from __future__ import annotations

from collections.abc import Sequence

from monitor.alerts.detect.rules.finding import AlertRule, Effect
from monitor.alerts.evidence.comparison import delay_rise, is_normal, loss_rose
from monitor.alerts.evidence.facts import AgentFacts, Facts, PeriodFigures
from monitor.alerts.evidence.stated import Fault, LikelyCause
from monitor.analysis import figures as shown
from monitor.archive.outcomes import outcome_words

SILENT_S = 120
LEAST_UNANSWERED = 3
# Least bursts without a reply, and highest share of answered packets, of a path that has died.
MOST_ANSWERED = 0.3
# Sites that stopped delivering at the same time; from this number the fault is placed at the centre.
LEAST_SILENT_SITES = 2
# Paths from a site without a report of trouble; from this number the fault is placed at its agent.
LEAST_PATHS_OF_AGENT = 2


def centre_is_cut_off(facts: Facts, rule: AlertRule, where: str) -> LikelyCause | None:
    """No site delivers, or nearly none: nothing is known of the sites themselves."""
    deliveries = facts.deliveries
    if rule.effect is not Effect.NO_DATA or deliveries is None or deliveries.silent < LEAST_SILENT_SITES:
        return None
    reporting = deliveries.agents - deliveries.silent
    if reporting > max(deliveries.agents // 10, 1 if deliveries.silent > LEAST_SILENT_SITES else 0):
        return None
    have = "has" if reporting == 1 else "have"
    sites = f"only {reporting} of {deliveries.agents} sites {have}" if reporting else "no site has"
    return LikelyCause(
        Fault.CENTRE,
        f"The centre or its network: {sites} delivered results since {deliveries.newest_at:%Y-%m-%d %H:%M:%S} UTC. "
        "Nothing is known of the paths since then.",
        "Check the network, the firewall and the web server of the centre. Agents keep their results and deliver them "
        "when they reach it again.",
    )


def site_is_down(facts: Facts, rule: AlertRule, where: str) -> LikelyCause | None:
    """A site that nobody reaches, with a silent agent."""
    if rule.effect not in (Effect.NO_DATA, Effect.UNREACHABLE) or not facts.paths or facts.failures:
        return None
    is_unreachable = rule.effect is Effect.UNREACHABLE
    inbound = [path.there if is_unreachable else path.back for path in facts.paths]
    sites = {path.destination_site if is_unreachable else path.source_site for path in facts.paths}
    silent = next(
        (agent for agent in facts.agents if sites == {agent.site} and _silent_s(agent, facts) >= SILENT_S), None
    )
    reached = [direction.after for direction in inbound if direction is not None and direction.after.sent]
    if silent is None or not reached or not all(_is_cut_off(figures) for figures in reached):
        return None
    from_sites = len({path.source_site if is_unreachable else path.destination_site for path in facts.paths})
    return LikelyCause(
        Fault.SITE_DOWN,
        f"Site {silent.site} is down or cut off: its agent has not reported for "
        f"{shown.duration(_silent_s(silent, facts))}, and no ping of {from_sites} other "
        f"{'site' if from_sites == 1 else 'sites'} is answered.",
        f"Ask {silent.site} about its power, its uplink and planned work.",
    )


def agent_is_silent(facts: Facts, rule: AlertRule, where: str) -> LikelyCause | None:
    if rule.effect is not Effect.NO_DATA or facts.failures:
        return None
    source = next((agent for agent in facts.agents if agent.is_source), None)
    if source is None or source.delivered_at is None:
        name = source.site if source else "the source"
        return LikelyCause(
            Fault.AGENT_SILENT,
            f"The agent of {name} never reported: it is not running, or cannot reach the centre.",
            _check_agent(name),
        )
    if _silent_s(source, facts) >= SILENT_S:
        return LikelyCause(
            Fault.AGENT_SILENT,
            f"No report from the agent of {source.site} for {shown.duration(_silent_s(source, facts))}: its machine, "
            f"its service or its route to the centre is down{_with(source, 'last reported')}"
            f"{_answers_pings(facts, source)}.",
            _check_agent(source.site),
        )
    if source.clock_troubles:
        return LikelyCause(
            Fault.CLOCK,
            f"The clock of {source.site} is wrong ({' and '.join(source.clock_troubles)}): its agent reports, and its "
            "results lie at other times.",
            f"Set the clock of {source.site} and start NTP there.",
        )
    return LikelyCause(
        Fault.AGENT_SILENT,
        f"The agent of {source.site} reports, but without results of these paths: they are not in its plan, or its "
        f"cycles are late{_with(source)}.",
        _check_agent(source.site),
    )


def cannot_be_measured(facts: Facts, rule: AlertRule, where: str) -> LikelyCause | None:
    if rule.effect is not Effect.NO_DATA:
        return None
    newest = max(facts.failures, key=lambda failure: failure.at)
    detail = f": {newest.detail}" if newest.detail else ""
    return LikelyCause(
        Fault.TESTS_FAIL,
        f"The agent's tests fail with outcome {outcome_words(newest.outcome)}{detail}.",
        "Run site doctor at the site.",
    )


def agent_itself(facts: Facts, rule: AlertRule, where: str) -> LikelyCause | None:
    """Only the agent's own pings are bad, without an equal rise of the minimum RTT: a busy host delays only some
    packets."""
    sources = {path.source_site for path in facts.paths}
    if rule.trouble.needs_tests or rule.effect is Effect.NO_DATA or len(sources) != 1:
        return None
    rises = [rise for path in facts.paths if (rise := delay_rise(path.there)) is not None]
    backs = [path.back for path in facts.paths if path.back is not None and path.back.after.sent]
    if any(rise.is_of_route for rise in rises) or not backs or not all(is_normal(back) for back in backs):
        return None
    if not rises and not any(loss_rose(path.there) for path in facts.paths):
        return None
    troubled = next((agent for agent in facts.agents if agent.is_source and agent.measuring_troubles), None)
    reverse = "pings from other sites to it cross the same network and are normal"
    if troubled is not None:
        return LikelyCause(
            Fault.AGENT,
            f"The agent of {troubled.site} itself: {' and '.join(troubled.measuring_troubles)}; {reverse}.",
            _check_agent(troubled.site),
        )
    (site,) = sources
    if not site or len(backs) < LEAST_PATHS_OF_AGENT:
        return None
    return LikelyCause(Fault.AGENT, f"The agent of {site} or its host: {reverse}.", _check_agent(site))


def _silent_s(agent: AgentFacts, facts: Facts) -> float:
    if agent.delivered_at is None:
        return 0.0
    return ((facts.agents_at or facts.gathered_at) - agent.delivered_at).total_seconds()


def _answers_pings(facts: Facts, agent: AgentFacts) -> str:
    backs = [path.back.after for path in facts.paths if path.source_site == agent.site and path.back is not None]
    reached = [figures for figures in backs if figures.sent]
    answered_at = max((figures.answered_at for figures in reached if figures.answered_at is not None), default=None)
    if answered_at is None or not all(_answers(figures) for figures in reached):
        return ""
    return f"; its host answers pings, last at {answered_at:%Y-%m-%d %H:%M:%S} UTC"


def _is_cut_off(figures: PeriodFigures) -> bool:
    # Whether pings went unanswered; the first may precede the inexact beginning.
    return figures.bursts_all_lost >= LEAST_UNANSWERED and figures.received <= MOST_ANSWERED * figures.sent


def _answers(figures: PeriodFigures) -> bool:
    return figures.received > (1.0 - MOST_ANSWERED) * figures.sent


def _check_agent(site: str) -> str:
    return f"Check the agent and its host at {site}: site status and site doctor there."


def _with(agent: AgentFacts, verb: str = "reports") -> str:
    return f"; it {verb}: {_listed(agent.troubles)}" if agent.troubles else ""


def _listed(parts: Sequence[str]) -> str:
    return ", ".join(parts)
