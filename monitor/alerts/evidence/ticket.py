"""The text of an incident to paste into a ticket of a provider: UTC, addresses, figures with their intervals, nothing
to click first.

In: an incident with its paths, its evidence. Out: plain text of lines up to a hundred characters where it can be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from monitor.alerts.evidence import words
from monitor.alerts.evidence.evidence import Evidence, PathEvidence
from monitor.alerts.evidence.facts import Direction, Figures
from monitor.alerts.models import Incident
from monitor.analysis import figures as shown

WIDTH = 26


def ticket_text(incident: Incident, evidence: Evidence) -> str:
    """All that somebody at the other end of the line needs to begin."""
    lines = [words.headline(incident, evidence), "", *_summary(incident, evidence)]
    for path in evidence.paths:
        lines += ["", *_path(path)]
    if evidence.paths_left_out:
        lines += ["", f"and {evidence.paths_left_out} more paths"]
    lines += [line for title, part in _parts(evidence) if part for line in ("", title, *(f"  {one}" for one in part))]
    lines += ["", *_notes(evidence)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _summary(incident: Incident, evidence: Evidence) -> Iterator[str]:
    yield f"Opened:        {incident.opened_at:%Y-%m-%d %H:%M:%S} UTC ({incident.severity})"
    if evidence.began_text:
        yield f"Began:         {evidence.began_text}"
    if incident.reopened_at is not None:
        yield f"Again since:   {incident.reopened_at:%Y-%m-%d %H:%M:%S} UTC"
    if incident.closed_at is not None:
        yield f"Over:          {incident.closed_at:%Y-%m-%d %H:%M:%S} UTC; {incident.closing}"
    else:
        yield "Over:          no"
    yield f"Likely cause:  {evidence.likely}"
    for number, share in enumerate(evidence.shares):
        yield f"{'Where:' if number == 0 else '':<15}{share.text}"
    if incident.correction:
        yield f"Correction:    {incident.correction}"


def _path(path: PathEvidence) -> Iterator[str]:
    yield f"{path.name}: {path.source_address} to {path.destination_address}, IPv{path.family}"
    for finding in path.findings:
        yield f"  {finding}"
    for one in (path.there, path.back):
        if one is not None:
            yield from _table(one)


def _table(one: Direction) -> Iterator[str]:
    columns = [("before", one.before), ("after", one.after), *([("last hour", one.now)] if one.now else [])]
    yield f"  {one.name:<{WIDTH - 2}}" + "".join(f"{name:<{WIDTH}}" for name, _ in columns)
    for title, of in ROWS:
        yield f"    {title:<{WIDTH - 4}}" + "".join(f"{of(figures):<{WIDTH}}" for _, figures in columns)


def _loss(of: Figures) -> str:
    if of.loss_low_ratio is None or of.loss_high_ratio is None:
        return shown.NO_DATA
    if of.lost == 0:
        return shown.loss(0, of.sent)
    return f"{shown.loss(of.lost, of.sent)} ({shown.percent(of.loss_low_ratio)} to {shown.percent(of.loss_high_ratio)})"


def _ms(name: str) -> Callable[[Figures], str]:
    return lambda of: shown.milliseconds(getattr(of, name))


ROWS: tuple[tuple[str, Callable[[Figures], str]], ...] = (
    ("from", lambda of: f"{of.since:%Y-%m-%d %H:%M:%S}"),
    ("to", lambda of: f"{of.until:%Y-%m-%d %H:%M:%S}"),
    ("packets lost of sent", lambda of: f"{of.lost:,} of {of.sent:,}"),
    ("loss", _loss),
    ("round trip, least", _ms("rtt_min_ms")),
    ("round trip, median", _ms("rtt_median_ms")),
    ("round trip, 95%", _ms("rtt_p95_ms")),
    ("delay variation, IPDV", _ms("ipdv_ms")),
    ("out of order", lambda of: shown.count(of.reordered)),
    ("duplicates", lambda of: shown.count(of.duplicates)),
    ("TTL of replies", lambda of: "not known" if of.ttl is None else str(of.ttl)),
    ("address pinged", lambda of: of.address or "not known"),
)


def _parts(evidence: Evidence) -> Iterator[tuple[str, list[str]]]:
    yield (
        "What routers said (ICMP errors, after the beginning):",
        [f"{one.path}: {one.router} {one.name.replace('_', ' ')}, {one.count:,} times" for one in evidence.routers],
    )
    yield (
        "Not measured:",
        [
            f"{one.path}: {one.at:%Y-%m-%d %H:%M:%S} UTC {one.outcome}{f', {one.detail}' if one.detail else ''}"
            for one in evidence.failures
        ],
    )
    yield (
        "Our own throughput tests meanwhile (bursts during them count nowhere):",
        [
            f"{one.path}: {one.starts_at:%Y-%m-%d %H:%M:%S} to {one.ends_at:%H:%M:%S} UTC, "
            f"{one.outcome or 'not reported'}"
            for one in evidence.own_tests
        ],
    )
    yield "Throughput:", [f"{one.path}: {one.at:%Y-%m-%d %H:%M} UTC, {one.sentence}" for one in evidence.verdicts]
    yield "The measuring machines:", [one.text for one in evidence.agents]


def _notes(evidence: Evidence) -> Iterator[str]:
    sizes = {one.there.after.rtt_packet_bytes or one.there.before.rtt_packet_bytes for one in evidence.paths} - {None}
    of_size = f" of {', '.join(str(one) for one in sorted(sizes, key=str))} bytes" if sizes else ""
    yield (
        f"All times UTC. Loss of ICMP echoes, all sizes pooled, with its exact 95% interval; round trips{of_size} of "
        "payload."
    )
    yield words.link(evidence.incident_id)
