"""SLAC to IN2P3 (Matthews and Cottrell, 2001): which window with how many streams fills a path of 175 ms.

Rates and windows are a tenth of the published ones, so that a window is the same fraction of the bandwidth-delay
product. The queue before the bottleneck is ours: the routers' queues were not published.
"""

from __future__ import annotations

import numpy as np

from tests.lab import RunningLab
from tests.reproduce.ends import Plan
from tests.reproduce.table import Table
from tests.reproduce.transfer import Measured, Run, Say, measure

SCALE = 10
RTT_MS, CAPACITY_MBPS, QUEUE_MS = 175.0, 100.0, 50.0
PRODUCTS_KB = (512, 1024, 1536, 2048, 2560, 4096)
STREAMS = (1, 4, 8)
PUBLISHED = {2048: "70 to 80", 2560: "more variable", 4096: "more variable"}
BBFTP_STREAMS, BBFTP_WINDOW_KB, BBFTP_PUBLISHED_MBPS = 10, 64, 30
KIB = 1024
START_UP_S, MEASURED_S, STEP_S = 16.0, 10.0, 1.0
"""A window that fills the path may lose in slow start; Reno recovers in W/2 RTTs, 13 s."""
KNEE_WITHIN = 0.1
WINDOW_LAW_WITHIN = 0.15
BDP_KB = CAPACITY_MBPS * 1e6 * RTT_MS / 1000 / 8 / KIB


def reproduce(lab: RunningLab, say: Say) -> Table:
    """The sweep, and bbftp's ten streams. A failure is a knee elsewhere than at the bandwidth-delay product, or a small
    window with more or less than one window per RTT."""
    table = Table(
        (
            "window × streams, KB",
            "share of the BDP",
            "published, Mbit/s",
            *(f"{n} stream{'s'[: n > 1]}" for n in STREAMS),
        )
    )
    rates_mbps: dict[tuple[int, int], float] = {}
    for product_kb in PRODUCTS_KB:
        cells = []
        for streams in STREAMS:
            say(f"  {streams} × {product_kb / streams:g} KB")
            measured = measure(lab, _run(product_kb / streams, streams), say)
            rates_mbps[streams, product_kb] = measured.rate_bps * SCALE / 1e6
            cells.append(_rate_and_deviation(measured))
            say(f"    {cells[-1]}")
        table.rows.append((f"{product_kb:,}", f"{product_kb / BDP_KB:.0%}", PUBLISHED.get(product_kb, "–"), *cells))
    say(f"  {BBFTP_STREAMS} × {BBFTP_WINDOW_KB} KB")
    bbftp = measure(lab, _run(BBFTP_WINDOW_KB, BBFTP_STREAMS), say)
    total_kb = BBFTP_STREAMS * BBFTP_WINDOW_KB
    table.rows.append(
        (
            f"bbftp: {BBFTP_STREAMS} × {BBFTP_WINDOW_KB}", f"{total_kb / BDP_KB:.0%}", str(BBFTP_PUBLISHED_MBPS),
            f"{BBFTP_STREAMS} streams: {_rate_and_deviation(bbftp)}", *("–" for _ in STREAMS[1:]),
        )
    )  # fmt: skip
    streams, product_kb = knee(rates_mbps)
    table.rows.append(
        (
            "sweet spot", f"{product_kb / BDP_KB:.0%}", "2,200 KB, 1 stream",
            f"{product_kb:,} KB, {streams} stream{'s'[: streams > 1]}", *("–" for _ in STREAMS[1:]),
        )
    )  # fmt: skip
    table.failures = _failures(rates_mbps, bbftp.rate_bps * SCALE / 1e6)
    return table


def knee(rates_mbps: dict[tuple[int, int], float]) -> tuple[int, int]:
    """Of (streams, window × streams), the fewest streams and then the smallest window within `KNEE_WITHIN` of the
    best."""
    enough = (1.0 - KNEE_WITHIN) * max(rates_mbps.values())
    return min(pair for pair, rate_mbps in rates_mbps.items() if rate_mbps >= enough)


def _run(window_kb: float, streams: int) -> Run:
    path = {"rate_mbps": CAPACITY_MBPS / SCALE, "queue_ms": QUEUE_MS}
    plan = Plan(START_UP_S + MEASURED_S, "reno", streams, window_bytes=round(window_kb * KIB / SCALE))
    return Run(RTT_MS, path, plan, START_UP_S)


def _rate_and_deviation(measured: Measured) -> str:
    """Scaled to the published rate: Mbit/s ± the deviation of the seconds."""
    seconds_mbps = measured.rates_bps(STEP_S) * SCALE / 1e6
    return f"{measured.rate_bps * SCALE / 1e6:.0f} ± {np.std(seconds_mbps):.1f}"


def _failures(rates_mbps: dict[tuple[int, int], float], bbftp_mbps: float) -> list[str]:
    failures = []
    streams, product_kb = knee(rates_mbps)
    if streams != 1 or not 0.7 <= product_kb / BDP_KB <= 1.2:
        failures.append(f"the knee is at {streams} × {product_kb / streams:g} KB, the BDP is {BDP_KB:.0f} KB")
    limited = {(streams, kb): rate for (streams, kb), rate in rates_mbps.items() if kb < 0.75 * BDP_KB}
    limited[BBFTP_STREAMS, BBFTP_STREAMS * BBFTP_WINDOW_KB] = bbftp_mbps
    for (streams, kb), rate_mbps in limited.items():
        expected_mbps = kb * KIB * 8 / RTT_MS / 1000
        if abs(rate_mbps / expected_mbps - 1.0) > WINDOW_LAW_WITHIN:
            failures.append(
                f"{streams} × {kb / streams:g} KB: {rate_mbps:.1f} Mbit/s, window/RTT is {expected_mbps:.1f}"
            )
    return failures
