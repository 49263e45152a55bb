"""LLNL to Dallas at SC2000 (Pratt and others; King): a plateau from a window of 1.5 MB, idle time, and lock-step.

Rates, windows and blocks are a fortieth of the published ones. A clean path has no plateau from 1.5 MB on: its rate
grows with the window up to the bandwidth-delay product of 3.88 MB. So another cause limited the hosts to 1.5 MB per
RTT, 240 Mbit/s; in the lab that is the pacing of the sender. The lock-step protocol sends a block of that size and
waits for the answer.
"""

from __future__ import annotations

from tests.lab import RunningLab
from tests.reproduce.ends import Plan
from tests.reproduce.table import Table
from tests.reproduce.transfer import Measured, Run, Say, measure

SCALE = 40
RTT_MS, CAPACITY_MBPS = 50.0, 622.0
WINDOWS_MB = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
PLATEAU_MB, IDLE_AT_MB, IDLE_PUBLISHED = 1.5, 2.0, 0.48
HOST_MBPS = PLATEAU_MB * 8 / RTT_MS * 1000
START_UP_S, MEASURED_S = 2.0, 6.0
BDP_MB = CAPACITY_MBPS * RTT_MS / 8 / 1000


def reproduce(lab: RunningLab, say: Say) -> Table:
    """Each window with the path alone and with the hosts' limit; then lock-step. Failures are of the three claims."""
    table = Table(
        (
            "window, MB", "share of the BDP", "published", "the path alone, Mbit/s", "link idle",
            f"hosts of {HOST_MBPS:.0f} Mbit/s", "and in lock-step",
        )
    )  # fmt: skip
    alone, hosts = {}, {}
    for window_mb in WINDOWS_MB:
        say(f"  window of {window_mb:g} MB")
        alone[window_mb] = measure(lab, _run(window_mb), say)
        hosts[window_mb] = measure(lab, _run(window_mb, pacing_mbps=HOST_MBPS / SCALE), say)
        lock_step = _lock_step(lab, window_mb, say) if window_mb == IDLE_AT_MB else None
        table.rows.append(
            (
                f"{window_mb:g}", f"{window_mb / BDP_MB:.0%}", _published(window_mb),
                f"{_mbps(alone[window_mb]):.0f}", f"{idle_share(alone[window_mb]):.0%}",
                f"{_mbps(hosts[window_mb]):.0f}", "–" if lock_step is None else f"{_mbps(lock_step):.0f}",
            )
        )  # fmt: skip
        say(f"    {' '.join(table.rows[-1])}")
        if lock_step is not None and not 0.4 <= lock_step.rate_bps / hosts[window_mb].rate_bps <= 0.6:
            table.failures.append("lock-step did not halve the rate")
    plateau = [_mbps(host) for window_mb, host in hosts.items() if window_mb >= PLATEAU_MB]
    if min(plateau) < 0.85 * max(plateau):
        table.failures.append(
            f"not flat from {PLATEAU_MB:g} MB on: {', '.join(f'{rate:.0f}' for rate in plateau)} Mbit/s"
        )
    if abs(idle_share(alone[IDLE_AT_MB]) - IDLE_PUBLISHED) > 0.05:
        table.failures.append(f"the link was idle for {idle_share(alone[IDLE_AT_MB]):.0%} at {IDLE_AT_MB:g} MB")
    return table


def idle_share(measured: Measured) -> float:
    """The ratio of time in which the bottleneck was idle."""
    return 1.0 - measured.data.forwarded_bytes * 8 / measured.seconds / (CAPACITY_MBPS / SCALE * 1e6)


def _run(window_mb: float, **options: float | int) -> Run:
    plan = Plan(START_UP_S + MEASURED_S, "reno", window_bytes=round(window_mb * 1e6 / SCALE), **options)  # type: ignore[arg-type]
    path = {"rate_mbps": CAPACITY_MBPS / SCALE}
    return Run(RTT_MS, path, plan, START_UP_S, backlogged=plan.block_bytes is None)


def _lock_step(lab: RunningLab, window_mb: float, say: Say) -> Measured:
    block_bytes = round(PLATEAU_MB * 1e6 / SCALE)
    return measure(lab, _run(window_mb, pacing_mbps=HOST_MBPS / SCALE, block_bytes=block_bytes), say)


def _published(window_mb: float) -> str:
    claims = {PLATEAU_MB: "flat from here on", IDLE_AT_MB: f"idle {IDLE_PUBLISHED:.0%}; lock-step halves"}
    return claims.get(window_mb, "–")


def _mbps(measured: Measured) -> float:
    """Scaled to the published rate."""
    return measured.rate_bps * SCALE / 1e6
