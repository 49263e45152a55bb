"""Annotations of operators on a path, a site or the whole mesh. Removal keeps the row; actions are audited."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q

from monitor.alerts.incidents.actions import ActionRefused, QuietScope, UnknownObject
from monitor.alerts.models import Annotation, AuditRecord
from monitor.mesh.models import Path, Site

FURTHEST_BACK = timedelta(days=3660)
# Clocks of people and the centre differ.
MOST_AHEAD = timedelta(minutes=5)


def annotate(scope: QuietScope, at: datetime, text: str, who: str, now: datetime) -> Annotation:
    """Note a change of the scope at a time; idempotent. Raises `ActionRefused`."""
    if at > now + MOST_AHEAD:
        raise ActionRefused(f"{at:%Y-%m-%d %H:%M} UTC lies in the future; use maintenance to announce work")
    if at < now - FURTHEST_BACK:
        raise ActionRefused(f"{at:%Y-%m-%d %H:%M} UTC is more than 10 years ago; is the year right?")
    with transaction.atomic():
        made, is_new = Annotation.objects.get_or_create(
            path=scope.path,
            site=scope.site,
            at=at,
            text=text,
            made_by=who,
            removed_at=None,
            defaults={"made_at": now},
        )
        if is_new:
            what = f"annotated {scope} at {at:%Y-%m-%d %H:%M} UTC"
            AuditRecord.objects.create(at=now, who=who, what=what, comment=text)
    return made


def remove(annotation_id: int, who: str, now: datetime) -> None:
    """Remove an annotation; idempotent. Raises `UnknownObject`."""
    with transaction.atomic():
        removed = Annotation.objects.filter(pk=annotation_id, removed_at=None).update(removed_at=now, removed_by=who)
        if removed:
            what = f"removed annotation {annotation_id}"
            AuditRecord.objects.create(at=now, who=who, what=what)
        elif not Annotation.objects.filter(pk=annotation_id).exists():
            raise UnknownObject(f"there is no annotation {annotation_id}")


def annotations_of_path(path_id: int, since: datetime, until: datetime) -> list[Annotation]:
    """The annotations that concern a path in [since, until), oldest first."""
    of_path = Path.objects.filter(pk=path_id)
    sites = Q(site__in=of_path.values("source__site")) | Q(site__in=of_path.values("destination__site"))
    concerned = Q(path=path_id) | sites | Q(path=None, site=None)
    rows = Annotation.objects.filter(concerned, removed_at=None, at__gte=since, at__lt=until)
    return list(rows.select_related("path", "site").order_by("at", "pk"))


def annotations_of_site(site: Site, since: datetime, until: datetime) -> list[Annotation]:
    """The annotations that concern a site in [since, until), newest first."""
    on_paths = Q(path__source__site=site) | Q(path__destination__site=site)
    rows = Annotation.objects.filter(
        Q(site=site) | on_paths | Q(path=None, site=None), removed_at=None, at__gte=since, at__lt=until
    )
    ends = ("path__source__site", "path__destination__site")
    return list(rows.select_related("site", *ends).order_by("-at", "-pk"))
