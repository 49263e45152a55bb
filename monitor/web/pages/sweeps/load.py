"""Load the page of a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import altair as alt

from monitor.analysis import figures
from monitor.analysis.sweeps.sweet_spot import knees, lacking, plane_label, segment_remarks, sentences, window_label
from monitor.archive.throughput_sweeps import Sweep, SweepCellResult
from monitor.mesh.models import Path
from monitor.web.charts.layout import CONFIG
from monitor.web.charts.marks import Row, Spec
from monitor.web.charts.series import rounded
from monitor.web.labels import outcome_label

ROW_PX = 44
HEADS_PX = 60


@dataclass(frozen=True, slots=True)
class PlaneView:
    label: str
    chart_id: str
    chart: Spec
    sentences: tuple[str, ...]
    cells: tuple[tuple[SweepCellResult, str], ...]


@dataclass(frozen=True, slots=True)
class SweepView:
    sweep: Sweep
    path: Path | None  # None where the mesh no longer has it
    lacking: str | None
    planes: tuple[PlaneView, ...]


def sweep_view(sweep: Sweep) -> SweepView:
    told = knees(sweep.grid, sweep.rtt_ms)
    best_bps = max((cell.throughput_bps or 0.0 for cell in sweep.cells), default=0.0)
    planes: list[PlaneView] = []
    for plane in dict.fromkeys(cell.setting.plane for cell in sorted(sweep.cells, key=_of_setting)):
        cells = sorted((cell for cell in sweep.cells if cell.setting.plane == plane), key=_of_setting)
        knee = told.get(plane)
        planes.append(
            PlaneView(
                label=plane_label(plane),
                chart_id=f"sweep-{len(planes)}-spec",
                chart=heat_map(cells, None if knee is None else knee.knee.setting, best_bps),
                sentences=(
                    *(() if knee is None else sentences(knee, sweep.rtt_ms)),
                    *segment_remarks(cell.cell for cell in cells),
                ),
                cells=tuple((cell, window_label(cell.setting.window_bytes)) for cell in cells),
            )
        )
    path = Path.objects.with_hosts().filter(pk=sweep.path_id).first()
    return SweepView(sweep, path, lacking(sweep.grid), tuple(planes))


def heat_map(cells: Sequence[SweepCellResult], knee: object, best_bps: float) -> Spec:
    rows = [_row(cell, cell.setting == knee, best_bps) for cell in cells]
    windows = sorted({cell.setting.window_bytes for cell in cells}, reverse=True)
    spec = _layout(
        tuple(str(number) for number in sorted({cell.setting.streams for cell in cells})),
        tuple(window_label(window) for window in windows),
    )
    return {
        **spec,
        "height": ROW_PX * len(windows) + HEADS_PX,
        "datasets": {
            "measured": [row for row in rows if row["bps"] is not None],
            "failed": [row for row in rows if row["bps"] is None and row["ended"]],
            "waiting": [row for row in rows if not row["ended"]],
            "knee": [row for row in rows if row["knee"]],
        },
        "params": [],
    }


def _of_setting(cell: SweepCellResult) -> Any:
    return cell.setting


def _row(cell: SweepCellResult, is_knee: bool, best_bps: float) -> Row:
    bps = cell.throughput_bps
    return {
        "streams": str(cell.setting.streams),
        "window": window_label(cell.setting.window_bytes),
        "bps": rounded(bps),
        "share": None if bps is None or not best_bps else round(bps / best_bps, 3),
        "text": why(cell) if bps is None else figures.bit_rate(bps),
        "detail": cell.sentence or cell.detail or "",
        "ended": cell.outcome is not None,
        "knee": is_knee,
    }


def why(cell: SweepCellResult) -> str:
    if cell.outcome is not None:
        return outcome_label(cell.outcome)
    return "waiting" if cell.state is None else str(cell.state)


@cache
def _layout(streams: tuple[str, ...], windows: tuple[str, ...]) -> Spec:
    x = alt.X("streams:O", title="streams", scale=alt.Scale(domain=list(streams)), axis=alt.Axis(labelAngle=0))
    y = alt.Y("window:O", title="window per stream", scale=alt.Scale(domain=list(windows)))
    heat = alt.Color("share:Q", title="of the best", scale=alt.Scale(domain=[0, 1], scheme="viridis"), legend=None)
    tooltip = [
        alt.Tooltip("window:O"),
        alt.Tooltip("streams:O"),
        alt.Tooltip("text:N", title="throughput"),
        alt.Tooltip("share:Q", title="of the best", format=".0%"),
        alt.Tooltip("detail:N", title="reason"),
    ]
    measured, failed, waiting = (
        alt.Chart(alt.NamedData(name=name)).encode(x=x, y=y) for name in ("measured", "failed", "waiting")
    )
    dark = alt.datum.share < 0.6
    layers = [
        measured.mark_rect(stroke="transparent").encode(color=heat, tooltip=tooltip),
        failed.mark_rect(style="no-data").encode(tooltip=tooltip),
        measured.mark_text(fontSize=12).encode(
            text="text:N", color=alt.condition(dark, alt.value("#ffffff"), alt.value("#111111")), tooltip=tooltip
        ),
        failed.mark_text(style="failed", fontSize=12, fontWeight="bold").encode(text="text:N", tooltip=tooltip),
        waiting.mark_text(style="span-label", fontSize=12).encode(text="text:N", tooltip=tooltip),
        alt.Chart(alt.NamedData(name="knee"))
        .mark_rect(style="knee", filled=False, strokeWidth=3)
        .encode(x=x, y=y, tooltip=tooltip),
    ]
    return alt.layer(*layers).properties(width="container").configure(**CONFIG).to_dict()
