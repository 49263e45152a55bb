"""The users' API about annotations."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router, Schema
from pydantic import Field

from monitor.alerts.incidents.actions import find_scope
from monitor.alerts.incidents.annotations import annotate, remove
from monitor.alerts.models import Annotation
from monitor.analysis.changes.before_after import Comparison
from monitor.api.incidents import Line, Text, user_name
from monitor.api.parameters import Moment, PacketBytes, ProblemOut, Range, path_or_404
from monitor.api.record_schemas import with_fields_of
from monitor.overview.annotations.compared import compared_annotations
from monitor.overview.grid import measured_packet_bytes

router = Router(tags=["annotations"])


class AnnotationIn(Schema, extra="forbid"):
    """A change at `at`, not in the future: of a path or a site, or of the whole mesh if none is given."""

    path_id: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    site: Line | None = None
    at: Moment
    text: Text


class AnnotationOut(Schema):
    """An annotation of a path, a site or the whole mesh."""

    id: int
    path_id: int | None
    site: str | None
    at: datetime
    text: str
    made_by: str
    made_at: datetime
    removed_at: datetime | None


@with_fields_of(Comparison, proof=str)
class ComparisonOut(Schema):
    """A figure before and after: RTT in ms, loss as a ratio, throughput in bit/s. `low` to `high` is the 99% interval
    of the difference; `proof` is proven, not proven or cannot tell."""


class ComparedAnnotationOut(AnnotationOut):
    """An annotation with the figures of the path."""

    comparisons: list[ComparisonOut]


@router.get(
    "/paths/{int:path_id}/annotations",
    response={200: list[ComparedAnnotationOut], 404: ProblemOut, 422: ProblemOut},
    summary="Annotations of a path, its sites and the mesh, with RTT, loss and throughput before and after",
)
def get_annotations(
    request: HttpRequest, path_id: int, between: Query[Range], size: PacketBytes = None
) -> list[dict[str, object]]:
    path_or_404(path_id)
    now = timezone.now()
    packet_bytes = measured_packet_bytes(size)
    return [
        {**_out(noted.annotation), "comparisons": noted.comparisons}
        for noted in compared_annotations(path_id, packet_bytes, *between.resolve_at(now), now)
    ]


@router.post(
    "/annotations",
    response={200: AnnotationOut, 409: ProblemOut, 422: ProblemOut},
    summary="Annotate a path, a site or the mesh; the same annotation again is stored once",
)
def make_annotation(request: HttpRequest, body: AnnotationIn) -> dict[str, object]:
    scope = find_scope(body.path_id, body.site)
    return _out(annotate(scope, body.at, body.text, user_name(request), timezone.now()))


@router.delete(
    "/annotations/{int:annotation_id}",
    response={200: AnnotationOut, 404: ProblemOut},
    summary="Remove an annotation; idempotent",
)
def remove_annotation(request: HttpRequest, annotation_id: int) -> dict[str, object]:
    remove(annotation_id, user_name(request), timezone.now())
    return _out(Annotation.objects.select_related("site").get(pk=annotation_id))


def _out(annotation: Annotation) -> dict[str, object]:
    names = ("path_id", "at", "text", "made_by", "made_at", "removed_at")
    return {
        "id": annotation.pk,
        "site": None if annotation.site is None else annotation.site.name,
        **{name: getattr(annotation, name) for name in names},
    }
