"""The SQL formulas give the figures of `monitor.analysis`, and are inlined."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from django.db import connection

from monitor.analysis.loss import loss_bound_ratio
from monitor.analysis.tcp import mathis_bps, mathis_estimate
from monitor.archive.queries.metrics import Metric
from tests.oracles import pinger

pytestmark = [pytest.mark.django_db, pytest.mark.timescale]

RTTS_MS = (None, 0.0, 0.001, 0.9, 20.0, 149.9, 150.0, 150.1, 431.5, 30_000.0)
IPDVS_MS = (None, 0.0, 0.25, 4.0, 75.0, 2_000.0)
LOSS_RATIOS = (None, 0.0, 1e-6, 0.001, 0.03, 0.36, 0.5, 1.0)
COUNTS = (
    (None, None),
    (10, None),
    (0, 0),
    (1, 1),
    (3, 3),
    (10, 0),
    (10, 10),
    (300, 300),
    (300, 299),
    (10**9, 10**9 - 1),
)
"""Packets sent and received."""


def rows_of(expression: str, types: str, rows: list[tuple[Any, ...]]) -> list[Any]:
    """The SQL expression of columns a, b, c with these types for each row."""
    names = "abc"[: len(rows[0])]
    columns = ", ".join(f"{name} {kind.strip()}" for name, kind in zip(names, types.split(","), strict=True))
    places = ", ".join(["(" + ", ".join(["%s"] * len(names)) + ")"] * len(rows))
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TEMPORARY TABLE figures (at serial, {columns})")
        cursor.execute(
            f"INSERT INTO figures ({', '.join(names)}) VALUES {places}", list(itertools.chain.from_iterable(rows))
        )
        cursor.execute(f"SELECT {expression} FROM figures ORDER BY at")
        return [value for (value,) in cursor.fetchall()]


def close_to(value: float | None) -> Any:
    return None if value is None or np.isnan(value) else pytest.approx(value, rel=1e-12, abs=1e-12)


def test_the_bound_of_no_loss_equals_that_of_analysis() -> None:
    sent = [(number,) for number in (None, 0, 1, 2, 3, 4, 10, 299, 300, 10**9)]

    bounds = rows_of("reporting.loss_bound_ratio(a)", "integer", sent)

    assert bounds == [close_to(None if number is None else loss_bound_ratio(number, number)) for (number,) in sent]


def test_the_mathis_rate_equals_that_of_analysis() -> None:
    pairs = list(itertools.product((*RTTS_MS, -1.0), (*LOSS_RATIOS, -0.1)))

    rates_bps = rows_of("reporting.mathis_bps(a, b)", "double precision, double precision", pairs)

    assert rates_bps == [close_to(float(mathis_bps(*np.array(pair, dtype=np.float64)))) for pair in pairs]


@pytest.mark.parametrize("counts", ["integer", "bigint", "numeric"])
def test_the_estimate_of_counts_equals_that_of_analysis(counts: str) -> None:
    triples = [(rtt_ms, *pair) for rtt_ms, pair in itertools.product(RTTS_MS, COUNTS)]
    expected = [mathis_estimate(*np.array(triple, dtype=np.float64)) for triple in triples]
    types = f"double precision, {counts}, {counts}"

    rates_bps = rows_of("reporting.mathis_estimate_bps(a, b, c)", types, triples)
    assert rates_bps == [close_to(float(rate_bps)) for rate_bps, _ in expected]
    with connection.cursor() as cursor:
        cursor.execute("SELECT reporting.mathis_estimate_is_floor(a, b, c) FROM figures ORDER BY at")
        floors = [is_floor for (is_floor,) in cursor.fetchall()]

    for triple, rate_bps, is_floor, (_, floor) in zip(triples, rates_bps, floors, expected, strict=True):
        assert is_floor == (None if rate_bps is None else bool(floor)), triple


@pytest.mark.parametrize("ipdv", ["real", "double precision"])
def test_mos_equals_that_of_analysis(ipdv: str) -> None:
    triples = list(itertools.product(RTTS_MS, IPDVS_MS, LOSS_RATIOS))

    scores = rows_of("reporting.mos(a, b, c)", f"double precision, {ipdv}, double precision", triples)

    assert scores == [close_to(pinger.mos_of(*triple)) for triple in triples]


@pytest.mark.parametrize("metric", [Metric.LOSS_FLOOR, Metric.ESTIMATE, Metric.MOS])
def test_the_planner_inlines_the_formulas(metric: Metric) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (VERBOSE, COSTS OFF) SELECT {metric.sql} FROM burst_day")
        plan = "\n".join(line for (line,) in cursor.fetchall())
        cursor.execute("EXPLAIN (VERBOSE, COSTS OFF) SELECT loss_floor_ratio, mos FROM metrics_by_day")
        plan += "\n".join(line for (line,) in cursor.fetchall())

    assert "burst_day" in plan
    assert "reporting." not in plan
