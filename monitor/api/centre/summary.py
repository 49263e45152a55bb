"""The users' API about a whole centre, by which centres show each other."""

from __future__ import annotations

from datetime import datetime

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router, Schema

from monitor.alerts.evidence.words import headline, since
from monitor.alerts.models import Severity
from monitor.api.centre.state import MeshStateOut, state_fields
from monitor.archive.upkeep import freshness
from monitor.mesh.models import Mesh
from monitor.overview.grid import Grid
from monitor.overview.mesh_state import MeshState, load_mesh_state
from monitor.overview.path_figures import FigureState, PathFigures
from monitor.overview.wide.losses import PairCell, PlaceGrid, load_place_grid
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
    """The paths from a group or region to another: how many, those with current results, those in trouble, those with
    an open incident, and the worst of them, with the packets of its loss now, and the part of it that is proven (95%).
    Its figures are null where no path has packets."""

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
    """The loss between groups or regions (`kind`) at `until`, with packets of so many bytes. `pairs` has the worst
    first, at most 400; `pairs_in_all` is how many there are. `pairs` is empty before the mesh has a path."""

    kind: str
    packet_bytes: int
    until: datetime
    pairs_in_all: int
    pairs: list[PlacePairOut]


class CentreOut(Schema):
    """A centre: the name of its mesh, empty before the first, its state, its open incidents, the worst first and at
    most 20, and the loss now between its groups or regions, null before it has a site. `at` is when it was made, by the
    clock of that centre."""

    mesh: str
    at: datetime
    sites: int
    state: MeshStateOut
    incidents: list[CentreIncidentOut]
    loss: PlaceLossOut | None


@router.get("/centre", response=CentreOut, summary="The whole centre: state, open incidents, loss between groups")
def get_centre(request: HttpRequest) -> dict[str, object]:
    now = timezone.now()
    return centre_fields(load_mesh_state(freshness.load(), now), now)


def centre_fields(state: MeshState, now: datetime) -> dict[str, object]:
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
                **_worst_loss(grid, cell.worst),
            }
            for (source, destination), cell in worst_first[:MOST_PAIRS]
        ],
    }


def _worst_loss(grid: Grid, path: PathFigures) -> dict[str, object]:
    now = grid.cell_now(path)
    is_dead = path.state is FigureState.TOTAL_LOSS
    sent, received = (path.sent, 0) if is_dead else (now.value_sent, now.value_received)
    return {
        "worst_sent": sent or None,
        "worst_received": received if sent else None,
        "worst_proven_loss_ratio": path.proven_loss_ratio if sent else None,
    }


def _order(cell: PairCell) -> tuple[bool, bool, float, int]:
    lost = cell.worst.value
    return not cell.with_incident, not cell.bad, 1.0 if lost is None else -lost, -cell.bad
