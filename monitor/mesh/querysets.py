"""The named questions about rows of the mesh, as querysets of their models."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Self, TypeVar

from django.db.models import Model, Q, QuerySet

if TYPE_CHECKING:
    from monitor.mesh.models import Measurement, Path, Slot  # noqa: F401 - in the strings below, which ruff does not read

RowT = TypeVar("RowT", bound=Model, covariant=True)


class InUseQuerySet(QuerySet[RowT, RowT]):
    """Rows that an apply retires and never deletes."""

    def in_use(self) -> Self:
        """Those that mesh.toml has now."""
        return self.filter(retired_at=None)


class PathQuerySet(InUseQuerySet["Path"]):
    def with_hosts(self) -> Self:
        """With both hosts and their sites, in the same query."""
        return self.select_related("source__site", "destination__site")

    def in_use(self) -> Self:
        """Those that are measured now, with both hosts and their sites."""
        return super().in_use().with_hosts()


class MeasurementQuerySet(InUseQuerySet["Measurement"]):
    def from_site(self, site_id: int) -> Self:
        """Those whose source is a host of this site."""
        return self.filter(path__source__site=site_id)

    def with_hosts(self) -> Self:
        """With the test, the path and both its hosts, in the same query."""
        return self.select_related("test", "path__source", "path__destination")


class SlotQuerySet(QuerySet["Slot", "Slot"]):
    def of_site(self, site_id: int) -> Self:
        """Those in which a host of this site takes part, as client or server."""
        return self.filter(Q(measurement__path__source__site=site_id) | Q(measurement__path__destination__site=site_id))

    def to_come(self, since: datetime, until: datetime) -> Self:
        """Those that have not ended at `since`, have no outcome yet, and start before `until`."""
        return self.filter(outcome=None, ends_at__gt=since, starts_at__lt=until)
