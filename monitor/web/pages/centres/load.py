"""Load the page of all centres.

Addresses of another centre are its configured URL with numbers and quoted names, never an address that it sent.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlencode

from django.conf import settings
from django.urls import reverse
from pydantic import ValidationError

from monitor.analysis import figures
from monitor.api.centre.summary import CentreIncidentOut, CentreOut, PlacePairOut, centre_fields
from monitor.archive.queries.metrics import Metric
from monitor.centres.configured import OtherCentre
from monitor.centres.models import CentreAnswer
from monitor.overview.measures import MEASURES
from monitor.overview.mesh_state import MeshState

# Centres are asked every half minute.
OLD_AFTER = timedelta(minutes=2)
# A clock that differs by more is mentioned.
MOST_OFF = timedelta(seconds=60)
PAIRS_SHOWN = 10
HERE = "this centre"
ANOTHER_RELEASE = "the stored summary is of another release of Soundings"


@dataclass(frozen=True, slots=True)
class PlaceLossRow:
    """Two groups or regions, with the worst path between them."""

    names: str
    address: str
    worst: str
    worst_address: str
    style: str
    loss: str
    bad: str
    with_incident: int


@dataclass(frozen=True, slots=True)
class IncidentRow:
    title: str
    severity: str
    address: str


@dataclass(frozen=True, slots=True)
class CentreCard:
    name: str
    address: str
    at: datetime | None  # when its summary was requested; None without a summary
    is_old: bool  # requested minutes ago
    problem: str  # why the last request had no answer
    clock: str  # how far its clock is from this centre's, if notably
    summary: CentreOut | None
    incidents: tuple[IncidentRow, ...] = ()
    pairs: tuple[PlaceLossRow, ...] = ()

    @property
    def style(self) -> str:
        """Class of the state; unknown without a new summary."""
        if self.summary is None or self.is_old:
            return "unknown"
        return self.summary.state.style

    @property
    def more_incidents(self) -> int:
        return 0 if self.summary is None else len(self.summary.state.open_incidents) - len(self.incidents)

    @property
    def more_pairs(self) -> int:
        loss = None if self.summary is None else self.summary.loss
        return 0 if loss is None else loss.pairs_in_all - len(self.pairs)


@dataclass(frozen=True, slots=True)
class CentresView:
    cards: tuple[CentreCard, ...]
    hidden: int


def load_centres(state: MeshState, now: datetime, *, others: bool) -> CentresView:
    own = CentreOut.model_validate(centre_fields(state, now))
    cards = [_card(HERE, reverse("grid"), own, now, now, "")]
    if others:
        answers = CentreAnswer.objects.in_bulk([centre.name for centre in settings.OTHER_CENTRES])
        cards += [_other(centre, answers.get(centre.name), now) for centre in settings.OTHER_CENTRES]
    return CentresView(tuple(cards), 0 if others else len(settings.OTHER_CENTRES))


def _other(centre: OtherCentre, answer: CentreAnswer | None, now: datetime) -> CentreCard:
    base = f"{centre.url}/"
    if answer is None or answer.url != centre.url:
        return _card(centre.name, base, None, None, now, "not asked so far: the worker asks every half minute")
    problem = answer.problem
    try:
        summary = None if answer.summary is None else CentreOut.model_validate(answer.summary)
    except ValidationError:
        summary, problem = None, problem or ANOTHER_RELEASE
    return _card(centre.name, base, summary, answer.answered_at, now, problem)


def _card(
    name: str, base: str, summary: CentreOut | None, at: datetime | None, now: datetime, problem: str
) -> CentreCard:
    is_old = at is None or now - at > OLD_AFTER
    if summary is None or at is None:
        return CentreCard(name, base, at, is_old, problem, "", None)
    loss = summary.loss
    pairs = () if loss is None else loss.pairs[:PAIRS_SHOWN]
    return CentreCard(
        name,
        base,
        at,
        is_old,
        problem,
        _clock_words(summary.at - at),
        summary,
        tuple(_incident(base, incident) for incident in summary.incidents),
        tuple(_pairs(base, pairs)),
    )


def _clock_words(offset: timedelta) -> str:
    if abs(offset) <= MOST_OFF:
        return ""
    return f"{figures.duration(abs(offset).total_seconds())} {'ahead' if offset > timedelta(0) else 'behind'}"


def _incident(base: str, incident: CentreIncidentOut) -> IncidentRow:
    return IncidentRow(incident.title, incident.severity, f"{base}incidents/{incident.id}/")


def _pairs(base: str, pairs: Iterable[PlacePairOut]) -> Iterable[PlaceLossRow]:
    for pair in pairs:
        query = urlencode({"from": pair.source, "to": pair.destination})
        unmeasured = pair.paths - pair.measured
        style, loss = _loss(pair)
        yield PlaceLossRow(
            names=f"{pair.source} → {pair.destination}",
            address=f"{base}?{query}",
            worst=f"{pair.worst_source} → {pair.worst_destination}",
            worst_address=f"{base}paths/{pair.worst_path_id}/?period=hour",
            style=style,
            loss=loss,
            bad=f"{pair.bad:,} of {pair.paths:,}" + (f", {unmeasured:,} not measured" if unmeasured else ""),
            with_incident=pair.with_incident,
        )


def _loss(pair: PlacePairOut) -> tuple[str, str]:
    sent, received, proven = pair.worst_sent, pair.worst_received, pair.worst_proven_loss_ratio
    if not sent or received is None:
        return "no-data", figures.NO_DATA
    if received == 0:
        return "total-loss", "all lost"
    measure = MEASURES[Metric.LOSS]
    lost = sent - received
    style = measure.style(0.0) if lost == 0 else measure.band(proven if proven is not None else lost / sent).style
    return style, figures.loss(lost, sent)
