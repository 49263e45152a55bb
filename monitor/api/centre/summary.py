"""The users' API about a whole centre in one answer, by which centres show each other: its state in a sentence, its
open incidents, and the loss between its groups or regions."""

from __future__ import annotations

from datetime import datetime

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Router, Schema

from monitor.alerts.evidence.words import headline, since
from monitor.alerts.models import Severity
from monitor.api.centre.state import MeshStateOut, state_fields
from monitor.api.freshness import OF_SUMMARIES, date_summaries
from monitor.archive.queries.tables import Tick
from monitor.archive.upkeep import freshness
from monitor.archive.upkeep.freshness import lacks_since
from monitor.mesh.models import Mesh
from monitor.overview.mesh_state import MeshState, load_mesh_state
from monitor.overview.wide.losses import BAD_RATIO, PairCell, PlaceGrid, load_place_grid
from monitor.overview.wide.places import load_places

MOST_INCIDENTS = 20
MOST_PAIRS = 400

router = Router(tags=["centre"])


class CentreIncidentOut(Schema):
    """An open incident: its title, and its beginning as the pages have it."""

    id: int
    title: str
    severity: Severity
    since: datetime


class PlacePairOut(Schema):
    """The paths from a group or region to another in the period: how many, those with packets, those that lost
    `bad_ratio` or more, those with an open incident, and the worst of them, with the part of its loss that is proven
    (95%). Its figures are null where no path has packets."""

    source: str
    destination: str
    paths: int
    measured: int
    bad: int
    with_incident: int
    worst_path_id: int
    worst_source: str
    worst_destination: str
    worst_sent: int | None
    worst_received: int | None
    worst_proven_loss_ratio: float | None


class PlaceLossOut(Schema):
    """The loss between groups or regions (`kind`), from summaries of hours from `since` to `until`, with packets of so
    many bytes. `pairs` has the worst first, at most 400; `pairs_in_all` is how many there are. `pairs` is empty before
    the mesh has a path."""

    kind: str
    packet_bytes: int
    bad_ratio: float
    since: datetime
    until: datetime
    pairs_in_all: int
    pairs: list[PlacePairOut]


class CentreOut(Schema):
    """A centre: the name of its mesh, empty before the first, its state, its open incidents, the worst first and at
    most 20, and the loss of the last one to two hours between its groups or regions, null before it has a site. `at` is
    when it was made, by the clock of that centre."""

    mesh: str
    at: datetime
    sites: int
    state: MeshStateOut
    incidents: list[CentreIncidentOut]
    loss: PlaceLossOut | None


@router.get(
    "/centre",
    response=CentreOut,
    summary="The whole centre: state, open incidents, loss between groups",
    openapi_extra=OF_SUMMARIES,
)
def get_centre(request: HttpRequest, response: HttpResponse) -> dict[str, object]:
    now = timezone.now()
    date_summaries(response, lacks_since(Tick.HOUR, now))
    return centre_fields(load_mesh_state(freshness.load(), now), now)


def centre_fields(state: MeshState, now: datetime) -> dict[str, object]:
    """The fields of this centre's own `CentreOut`."""
    places = load_places(more_than=0)
    return {
        "mesh": Mesh.objects.values_list("name", flat=True).first() or "",
        "at": now,
        "sites": 0 if places is None else len(places.number_of),
        "state": state_fields(state),
        "incidents": [
            {
                "id": incident.pk,
                "title": headline(incident),
                "severity": incident.severity,
                "since": since(incident),
            }
            for incident in state.incidents[:MOST_INCIDENTS]
        ],
        "loss": None if places is None else _loss_fields(load_place_grid(places, None, now)),
    }


def _loss_fields(shown: PlaceGrid) -> dict[str, object]:
    names, grid = shown.places.names, shown.grid
    worst_first = sorted(shown.cells.items(), key=lambda pair: _order(pair[1]))
    return {
        "kind": shown.places.kind,
        "packet_bytes": grid.packet_bytes,
        "bad_ratio": BAD_RATIO,
        "since": grid.covered_since,
        "until": shown.at,
        "pairs_in_all": len(worst_first),
        "pairs": [
            {
                "source": names[source],
                "destination": names[destination],
                "paths": cell.paths,
                "measured": cell.measured,
                "bad": cell.bad,
                "with_incident": cell.with_incident,
                "worst_path_id": cell.worst.path_id,
                "worst_source": cell.worst.source,
                "worst_destination": cell.worst.destination,
                "worst_sent": cell.worst.sent or None,
                "worst_received": cell.worst.received if cell.worst.sent else None,
                "worst_proven_loss_ratio": cell.worst.proven_loss_ratio if cell.worst.sent else None,
            }
            for (source, destination), cell in worst_first[:MOST_PAIRS]
        ],
    }


def _order(cell: PairCell) -> tuple[bool, float, int]:
    """Pairs with an open incident first, then the worst loss, then the most bad paths."""
    lost = cell.worst.loss_ratio
    return not cell.with_incident, 1.0 if lost is None else -lost, -cell.bad
