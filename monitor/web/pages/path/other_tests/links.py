"""Use of a path's links."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from monitor.archive.queries.throughput.interfaces import InterfaceAverage, interface_averages
from monitor.mesh.models import Path
from monitor.overview.links.use import LinkUse, links_of_path
from monitor.web.charts.marks import Spec, TimeAxis
from monitor.web.pages.path.other_tests.link_charts import day_chart, weeks_chart

MOST_SHOWN = 4
DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class LinkView:
    """Charts are None without readings of the last day, or without a summarized week."""

    use: LinkUse
    day: Spec | None
    weeks: Spec | None
    errors: int  # packets of the last day
    drops: int  # packets of the last day


def load_links(path: Path, now: datetime) -> tuple[LinkView, ...]:
    """Links at present, whatever the page's period."""
    return tuple(_view(use, now) for use in links_of_path(path, now)[:MOST_SHOWN])


def _view(use: LinkUse, now: datetime) -> LinkView:
    averages: list[InterfaceAverage] = []
    if use.test is not None:
        averages = interface_averages(use.path_id, use.test, now - DAY, now)
    return LinkView(
        use=use,
        day=day_chart(averages, use.forecast.capacity_bps, TimeAxis(now - DAY, now)) if averages else None,
        weeks=weeks_chart(use) if use.weeks else None,
        errors=sum(average.errors for average in averages),
        drops=sum(average.drops for average in averages),
    )
