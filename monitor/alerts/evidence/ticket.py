"""Write the plain text of an incident for a provider's ticket: UTC, addresses, figures with intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from monitor.alerts.evidence import words
from monitor.alerts.evidence.ending import is_over
from monitor.alerts.evidence.evidence import Evidence, PathEvidence
from monitor.alerts.evidence.facts import Direction, HostTest, PeriodFigures
from monitor.alerts.evidence.one_way.stated import counts_texts
from monitor.alerts.evidence.routes.causes import place_text
from monitor.alerts.evidence.routes.traced import RouteFacts, TracedHop, TracedRoute
from monitor.alerts.history import opened_at, raised_text
from monitor.alerts.models import Incident
from monitor.analysis import figures as shown
from monitor.archive.outcomes import outcome_words
from probes.quantities import counted

WIDTH = 26
ADDRESS = "address pinged"
NO_REPLY = "(no reply)"


def ticket_text(incident: Incident, evidence: Evidence) -> str:
    """Write the ticket of an incident: all that a provider needs to start."""
    lines = [words.headline(incident), "", *_summary(incident, evidence)]
    for path in evidence.paths:
        lines += ["", *_path(path)]
    for route in evidence.routes:
        lines += ["", *_route(route)]
    if evidence.paths_left_out:
        lines += ["", f"and {counted(evidence.paths_left_out, 'more path')}"]
    lines += [line for title, part in _parts(evidence) if part for line in ("", title, *(f"  {item}" for item in part))]
    lines += ["", *_notes(evidence)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _summary(incident: Incident, evidence: Evidence) -> Iterator[str]:
    raised = raised_text(incident)
    yield f"Severity:      {incident.severity}{f', {raised}' if raised else ''}"
    yield f"Detected:      {incident.opened_at:%Y-%m-%d %H:%M:%S} UTC"
    opened = opened_at(incident)
    if opened is not None:
        yield f"Opened:        {opened:%Y-%m-%d %H:%M:%S} UTC"
    if evidence.began_text:
        yield f"Began:         {evidence.began_text}"
    if (ended := words.until(incident)) is not None:
        yield f"Ended:         {ended:%Y-%m-%d %H:%M:%S} UTC (lasted {words.duration_text(incident, ended)})"
    if incident.reopened_at is not None:
        yield f"Reopened:      {incident.reopened_at:%Y-%m-%d %H:%M:%S} UTC"
    if incident.closed_at is not None:
        yield f"Resolved:      {incident.closed_at:%Y-%m-%d %H:%M:%S} UTC; {incident.closing}"
    else:
        yield "Resolved:      no"
    yield f"Likely cause:  {evidence.likely}"
    if evidence.cause.next_step and not is_over(incident):
        yield f"Next step:     {evidence.cause.next_step}"
    for number, share in enumerate(evidence.shares):
        yield f"{'Where:' if number == 0 else '':<15}{share.text}"
    if incident.correction:
        yield f"Correction:    {incident.correction}"


def _path(path: PathEvidence) -> Iterator[str]:
    yield f"{path.name}: {path.source_address} to {path.destination_address}, IPv{path.family}"
    for finding in path.findings:
        yield f"  {finding}"
    for direction in (path.there, path.back):
        if direction is not None:
            yield from _table(direction)


def _route(route: RouteFacts) -> Iterator[str]:
    yield f"Route {place_text(route)}"
    for name, trace in (("before", route.before), ("after", route.after)):
        if trace is None:
            yield f"  no trace {name}"
            continue
        yield f"  trace {name}, {trace.at:%Y-%m-%d %H:%M:%S} UTC{f', {trace.end}' if trace.end else ''}"
        yield from _hops(trace)


def _hops(trace: TracedRoute) -> Iterator[str]:
    width = max((len(hop.address or NO_REPLY) for hop in trace.hops), default=0)
    for hop in trace.hops:
        figures = f"{_probes(hop):>13}  {shown.milliseconds(hop.rtt_ms):>10}"
        limited = "  (rate limit)" if hop.is_limited else ""
        yield f"    {hop.ttl:>2}  {hop.address or NO_REPLY:<{width}}  {figures}  {hop.place or ''}{limited}"


def _probes(hop: TracedHop) -> str:
    return f"{hop.lost} of {hop.sent} lost" if hop.sent else "not probed"


def _table(direction: Direction) -> Iterator[str]:
    columns = [
        ("baseline", direction.before),
        ("since the onset", direction.after),
        *([("last hour", direction.now)] if direction.now else []),
    ]
    yield f"  {direction.name:<{WIDTH - 2}}" + "".join(f"{name:<{WIDTH}}" for name, _ in columns)
    for title, of in ROWS:
        if title != ADDRESS or any(figures.address for _, figures in columns):
            yield f"    {title:<{WIDTH - 4}}" + "".join(f"{of(figures):<{WIDTH}}" for _, figures in columns)
    if direction.left_out is not None:
        first, last = direction.left_out
        yield f"    left out: {first:%Y-%m-%d %H:%M:%S} to {last:%H:%M:%S}, within which it began"


def _loss(of: PeriodFigures) -> str:
    if of.loss_low_ratio is None or of.loss_high_ratio is None:
        return shown.NO_DATA
    if of.lost == 0:
        return shown.loss(0, of.sent)
    return f"{shown.loss(of.lost, of.sent)} ({shown.percent_interval(of.loss_low_ratio, of.loss_high_ratio)})"


def _ms(name: str) -> Callable[[PeriodFigures], str]:
    return lambda of: shown.milliseconds(getattr(of, name))


ROWS: tuple[tuple[str, Callable[[PeriodFigures], str]], ...] = (
    ("from", lambda of: f"{of.since:%Y-%m-%d %H:%M:%S}"),
    ("to", lambda of: f"{of.until:%Y-%m-%d %H:%M:%S}"),
    ("packets lost of sent", lambda of: f"{of.lost:,} of {of.sent:,}" if of.sent else shown.NO_DATA),
    ("loss", _loss),
    ("RTT, minimum", _ms("rtt_min_ms")),
    ("RTT, median", _ms("rtt_median_ms")),
    ("RTT, 95th percentile", _ms("rtt_p95_ms")),
    ("jitter (IPDV)", _ms("ipdv_ms")),
    ("out of order", lambda of: shown.count(of.reordered)),
    ("duplicates", lambda of: shown.count(of.duplicates)),
    ("TTL of replies", lambda of: "unknown" if of.ttl is None else str(of.ttl)),
    (ADDRESS, lambda of: of.address or "–"),
)


def _parts(evidence: Evidence) -> Iterator[tuple[str, list[str]]]:
    yield (
        "ICMP errors from routers since the beginning:",
        [
            f"{error.path}: {error.router} {error.name.replace('_', ' ')}, {counted(error.count, 'time')}"
            for error in evidence.routers
        ],
    )
    yield "Loss by direction, as counted by STAMP:", counts_texts(evidence.one_way)
    yield (
        "Failed tests:",
        [
            f"{failure.path}: {failure.at:%Y-%m-%d %H:%M:%S} UTC {outcome_words(failure.outcome)}"
            f"{f', {failure.detail}' if failure.detail else ''}"
            for failure in evidence.failures
        ],
    )
    yield (
        "During throughput tests (excluded from the figures):",
        [
            f"{test.path}: {test.starts_at:%Y-%m-%d %H:%M:%S} to {test.ends_at:%H:%M:%S} UTC, "
            f"{outcome_words(test.outcome) if test.outcome else _without_result(test, evidence)}"
            for test in evidence.own_tests
        ],
    )
    yield (
        "Throughput:",
        [f"{verdict.path}: {verdict.at:%Y-%m-%d %H:%M} UTC, {verdict.sentence}" for verdict in evidence.verdicts],
    )
    yield "Agents:", [agent.text for agent in evidence.agents]


def _notes(evidence: Evidence) -> Iterator[str]:
    sizes = {path.there.after.rtt_packet_bytes or path.there.before.rtt_packet_bytes for path in evidence.paths} - {
        None
    }
    of_size = f" with {', '.join(str(size) for size in sorted(sizes, key=str))} bytes of payload" if sizes else ""
    yield (
        f"All times UTC. Loss of ICMP echoes, all sizes pooled, with its exact 95% CI; RTT of echoes{of_size}. "
        "Baselines are without earlier incidents unless these fill the day."
    )
    yield words.link(evidence.incident_id)


def _without_result(test: HostTest, evidence: Evidence) -> str:
    # State a test without a result, which may have been delivered since.
    at = evidence.gathered_at
    if at is None:
        return "not delivered"
    return f"{'running at' if at < test.ends_at else 'not delivered by'} {at:%Y-%m-%d %H:%M:%S} UTC"
