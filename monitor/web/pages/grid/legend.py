"""Words around grid and map: legend, period."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from monitor.analysis import figures
from monitor.archive.queries.metrics import Metric
from monitor.overview.grid import NOW_LENGTH, Grid, GridPeriod
from monitor.overview.measures import MetricFormat
from monitor.web.pages.grid.cells import (
    BOUND_STYLE,
    CHECK_SIGN,
    ENDED_SIGN,
    FLAPS_SIGN,
    INCIDENT_SIGN,
    MAINTENANCE_SIGN,
    OUTAGE_SIGN,
    OWN_TEST_SIGN,
    STALE_SIGN,
    STALE_STYLE,
    TOO_FEW,
    cell_style,
    cell_text,
    signs,
)

COLOURS_OF_LOSS = "Colours: the number in trouble, else the loss that is proven, its lower 95% bound:"


WITH_TRACKS = (Metric.LOSS, Metric.RTT_MEDIAN)


@dataclass(frozen=True, slots=True)
class LegendEntry:
    """An entry without `style` is a sentence alone."""

    style: str
    sample: str
    meaning: str


# Entries with these are those of a sign or a text, not of a style.
SAMPLES = {
    *(INCIDENT_SIGN, CHECK_SIGN, FLAPS_SIGN, ENDED_SIGN, TOO_FEW, STALE_SIGN, OWN_TEST_SIGN, OUTAGE_SIGN),
    MAINTENANCE_SIGN,
}
CHECKED = LegendEntry("check", CHECK_SIGN, "in trouble, being checked: no incident open so far")


def period_words(grid: Grid) -> str:
    if grid.period is not GridPeriod.NOW:
        return f"in the last {grid.period}"
    cycles = "three tests" if grid.metric is Metric.THROUGHPUT else "three cycles"
    window = f"in the last {figures.duration(NOW_LENGTH.total_seconds())} or {cycles}, whichever is longer"
    return f"now, since its level began, and counts {window}" if grid.metric in WITH_TRACKS else window


def legend(grid: Grid, measure: MetricFormat) -> list[LegendEntry]:
    entries = [LegendEntry(band.style, "", band.label) for band in measure.bands]
    if grid.against is not None:
        entries = [
            LegendEntry("better", "−" if not grid.metric.lower_is_worse else "+", f"better than {grid.against.words}"),
            LegendEntry("steady", "", "about the same"),
            LegendEntry("worse", "+" if not grid.metric.lower_is_worse else "−", f"worse than {grid.against.words}"),
        ]
    elif grid.metric is Metric.LOSS:
        entries = [LegendEntry("", "", COLOURS_OF_LOSS), *entries, LegendEntry("none-lost", "0", "no round trip lost")]
    elif grid.metric is Metric.ESTIMATE:
        entries.append(LegendEntry(BOUND_STYLE, "≥", "no loss: lower bound, in no band"))
    if grid.metric is not Metric.THROUGHPUT:
        entries.append(LegendEntry("total-loss", "all lost", "100% loss"))
    return [
        *entries,
        LegendEntry("no-data", "no data", "no results received"),
        LegendEntry("not-measured", "not run", "test failed"),
        LegendEntry("own-test", f"{OWN_TEST_SIGN} during test", "measured only during a throughput test"),
        LegendEntry("incident", INCIDENT_SIGN, "incident open"),
        CHECKED,
        *_entries_of_now(grid),
        *_outage_entries(grid),
        LegendEntry("maintenance", MAINTENANCE_SIGN, "in maintenance: alerts suppressed"),
    ]


def _entries_of_now(grid: Grid) -> list[LegendEntry]:
    if grid.period is not GridPeriod.NOW or grid.metric is Metric.THROUGHPUT:
        return []
    stale = LegendEntry(STALE_STYLE, STALE_SIGN, "no newer data: the figure is not of now, and in no band")
    set_aside = LegendEntry(
        STALE_STYLE, OWN_TEST_SIGN, "newer pings sent during throughput tests only, excluded: the figure is not of now"
    )
    flaps = LegendEntry("check", FLAPS_SIGN, "flaps: three or more outages")
    ended = LegendEntry("ended", ENDED_SIGN, "trouble ended in this time: the figure since then")
    few = LegendEntry(BOUND_STYLE, TOO_FEW, "too few packets so far to call the loss normal")
    return [
        flaps,
        *([ended] if grid.metric in WITH_TRACKS else []),
        *([few] if grid.metric is Metric.LOSS else []),
        stale,
        set_aside,
    ]


def _outage_entries(grid: Grid) -> list[LegendEntry]:
    if grid.metric is Metric.THROUGHPUT:
        return []
    return [LegendEntry("outage", OUTAGE_SIGN, "100% loss for a time: at least one burst without any reply")]


def shown_entries(entries: Sequence[LegendEntry], grid: Grid, measure: MetricFormat) -> list[LegendEntry]:
    """The entries that a cell of the grid has, and the sentences."""
    seen, styles = set[str](), {""}
    for path in grid.figures:
        seen.update([cell_text(grid, path)], (sign for _, sign in signs(grid, path)))
        styles.add(cell_style(grid, measure, path))
    return [entry for entry in entries if (entry.sample in seen if entry.sample in SAMPLES else entry.style in styles)]
