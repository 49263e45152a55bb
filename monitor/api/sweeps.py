"""The users' API about sweeps."""

from __future__ import annotations

import math
from dataclasses import fields
from datetime import UTC, datetime
from typing import Annotated, Any

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router, Schema
from ninja.errors import HttpError
from pydantic import Field

from monitor.analysis.sweeps.best_setting import BestSetting
from monitor.analysis.sweeps.sweet_spot import SweepSetting, knees, lacking, sentences
from monitor.api.parameters import ProblemOut, path_or_404
from monitor.api.record_schemas import with_fields_of
from monitor.archive.scheduled_settings import ScheduledSettings, scheduled_settings
from monitor.archive.throughput_sweeps import Sweep, SweepCellResult, load, newest

router = Router()


class SweepLineOut(Schema):
    """A sweep by its number."""

    id: int
    name: str
    path_id: int
    asked_at: datetime


class SettingOut(Schema):
    congestion_control: str | None
    mss_bytes: int | None
    block_bytes: int | None
    streams: int
    window_bytes: float | None


@with_fields_of(SweepCellResult, state=str | None, without=("setting",))
class SweepCellOut(SettingOut):
    """A setting and its test. `state` is planned, running, awaited or ended, and null if not requested yet;
    `throughput_bps` is null unless the outcome is `measured`. `segment_bytes` is the payload of the segments that were
    sent, whatever MSS was requested."""


class KneeOut(SettingOut):
    """For a congestion control, MSS and block size: the fewest streams, and of those the smallest window, within 10% of
    the best. `windows_over_bdp` is all their windows over the best rate times the RTT."""

    throughput_bps: float
    best_bps: float
    bdp_bytes: float | None
    windows_over_bdp: float | None
    best_at_edge: bool
    sentences: list[str]


@with_fields_of(Sweep, cells=list[SweepCellOut])
class SweepOut(Schema):
    """A grid of throughput tests on a path. `rtt_ms` is the idle RTT; `lacking` says which cells have no rate,
    null where all have. `schedule` is the name of its [[sweep]] in mesh.toml, of which it is a round; `problem` says
    why the next test of that could not be requested."""

    knees: list[KneeOut]
    lacking: str | None


class SettingRateOut(SettingOut):
    """A setting and its tests: the geometric mean of their rates with its 95% interval (null with a single test).
    `may_be_best`: it is not proven slower than the fastest."""

    tests: int
    mean_bps: float
    low_bps: float | None
    high_bps: float | None
    may_be_best: bool


class BestSettingOut(Schema):
    """The settings in the hours [begin_h, end_h) of the day, fastest first. `is_proven`: the fastest is proven faster
    than all others."""

    begin_h: int
    end_h: int
    is_proven: bool
    settings_with_too_few_tests: int
    rates: list[SettingRateOut]


class BestSettingsOut(Schema):
    """A scheduled sweep of a path: the whole day, and its parts, which are empty with too few tests. `newest_round_id`
    is the number of a sweep; `problem` says why the next test could not be requested."""

    sweep: str
    since: datetime
    until: datetime
    zone: str
    newest_round_id: int
    problem: str | None
    tests: int
    sentences: list[str]
    day: BestSettingOut | None
    parts: list[BestSettingOut]


@router.get("/sweeps", response={200: list[SweepLineOut], 422: ProblemOut}, summary="Sweeps, newest first")
def list_sweeps(request: HttpRequest, limit: Annotated[int, Field(ge=1, le=1000)] = 100) -> list[dict[str, object]]:
    return [
        {"id": number, "name": name, "path_id": path_id, "asked_at": asked_at}
        for number, name, path_id, asked_at in newest(limit)
    ]


@router.get(
    "/sweeps/{int:sweep_id}",
    response={200: SweepOut, 404: ProblemOut, 422: ProblemOut},
    summary="A grid of throughput tests over windows and streams, with its sweet spot",
)
def get_sweep(request: HttpRequest, sweep_id: int) -> dict[str, Any]:
    sweep = load(sweep_id, timezone.now())
    if sweep is None:
        raise HttpError(404, f"there is no sweep {sweep_id}; /api/v1/sweeps lists them")
    return sweep_out(sweep)


def sweep_out(sweep: Sweep) -> dict[str, Any]:
    return {
        **{field.name: getattr(sweep, field.name) for field in fields(sweep)},
        "cells": [_cell(cell) for cell in sweep.cells],
        "knees": [
            {
                **_setting(knee.knee.setting),
                "throughput_bps": knee.knee.throughput_bps,
                "best_bps": knee.best.throughput_bps,
                "bdp_bytes": knee.bdp_bytes,
                "windows_over_bdp": knee.over_bdp,
                "best_at_edge": knee.best_at_edge,
                "sentences": sentences(knee, sweep.rtt_ms),
            }
            for knee in knees(sweep.grid, sweep.rtt_ms).values()
        ],
        "lacking": lacking(sweep.grid),
    }


def _cell(cell: SweepCellResult) -> dict[str, Any]:
    plain = {field.name: getattr(cell, field.name) for field in fields(cell) if field.name != "setting"}
    return {**_setting(cell.setting), **plain}


def _setting(setting: SweepSetting) -> dict[str, Any]:
    return {
        "congestion_control": setting.control or None,
        "mss_bytes": setting.mss_bytes or None,
        "block_bytes": setting.block_bytes or None,
        "streams": setting.streams,
        "window_bytes": None if math.isinf(setting.window_bytes) else setting.window_bytes,
    }


@router.get(
    "/paths/{int:path_id}/best-settings",
    response={200: list[BestSettingsOut], 404: ProblemOut},
    summary="The best settings of a path over the day, by the scheduled sweeps that test it",
)
def get_best_settings(request: HttpRequest, path_id: int) -> list[dict[str, Any]]:
    path_or_404(path_id)
    return [best_settings_out(row) for row in scheduled_settings(path_id, timezone.now(), UTC)]


def best_settings_out(row: ScheduledSettings) -> dict[str, Any]:
    best = row.best
    return {
        "sweep": row.schedule,
        "since": row.since,
        "until": row.until,
        "zone": row.zone,
        "newest_round_id": row.round_id,
        "problem": row.problem,
        "tests": 0 if best is None else best.tests,
        "sentences": list(row.sentences),
        "day": None if best is None else _part(best.day),
        "parts": [] if best is None else [_part(part) for part in best.parts],
    }


def _part(part: BestSetting) -> dict[str, Any]:
    return {
        "begin_h": part.begin_h,
        "end_h": part.end_h,
        "is_proven": part.is_proven,
        "settings_with_too_few_tests": part.lacking,
        "rates": [
            {
                **_setting(rate.setting),
                "tests": rate.tests,
                "mean_bps": rate.mean_bps,
                "low_bps": rate.low_bps,
                "high_bps": rate.high_bps,
                "may_be_best": rate in part.equal,
            }
            for rate in part.rates
        ],
    }
