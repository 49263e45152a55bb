"""Published figures that no lab of ours can have, beside the models: gigabits over the Atlantic, storage over ATM.

In: nothing. Out: tables for docs/method/reproduce.md. The models are those of `monitor.analysis.tcp` and
`probes.policer.cells`; a unit test compares the document with them.
"""

from __future__ import annotations

from collections.abc import Callable

from monitor.analysis.tcp import CongestionControl, buffer_bytes, recovery_s, slow_start_s, window_limit_bps
from probes.policer.cells import CELL_BYTES, cells_of_packet
from tests.reproduce.atm import CONTRACT_MBPS
from tests.reproduce.table import Table

RTT_MS = 180.0
LINK_BPS, STREAM_BPS, SLOW_BPS = 2.5e9, 2.38e9, 1e9
MSS_BYTES = {1500: 1448, 9000: 8948}
INITIAL_SEGMENTS = 2.0
"""RFC 2581, of 2003; ten since RFC 6928."""
WINDOW_BYTES = 120e6
STEADY_SHARE = 0.9
TB_BITS, TB_S = 8e12, 3700.0
RENO, SCALABLE, CUBIC = CongestionControl.RENO, CongestionControl.SCALABLE, CongestionControl.CUBIC
BLOCK_BYTES, BLOCK_MS = 64 * 1024, 25.0
"""A block, and the time that it took in Tierney, "China Clipper Project" (LBNL, 1999): measured, no requirement."""
HEADERS_BYTES = 52


def land_speed() -> Table:
    """Sunnyvale to Geneva, 2003: window, slow start, length of a test and volume."""
    start_s = [_start_s(1500, delayed_acks) for delayed_acks in (False, True)]
    table = Table(("figure", "published", "computed", "from"))
    table.rows = [
        (
            "window, MB", "120, twice the BDP", f"BDP {float(buffer_bytes(LINK_BPS, RTT_MS)) / 1e6:.1f}",
            "2.5 Gbit/s × 180 ms",
        ),
        (
            "limit by that window, Gbit/s", "–", f"{float(window_limit_bps(WINDOW_BYTES, RTT_MS)) / 1e9:.2f}",
            "120 MB / 180 ms: the link binds",
        ),
        (
            "one stream, Gbit/s", "2.38, MTU 9,000", f"at most {LINK_BPS * MSS_BYTES[9000] / 9000 / 1e9:.2f}",
            "payload of the link's packets",
        ),
        (
            "slow start at 1 Gbit/s, s", "5 to 6", f"{start_s[0]:.1f}; {start_s[1]:.1f} with delayed ACKs",
            "⌈log(W/2)⌉ RTTs, base 2 and 1.5",
        ),
        (
            "test with 90% in steady state, s", "60", f"{start_s[1] / (1 - STEADY_SHARE):.0f}; 50 to 60",
            "slow start computed; published / 0.1",
        ),
        (
            "1 TB, s", "3,700", f"{TB_BITS / STREAM_BPS:,.0f}", "at 2.38 Gbit/s; 3,700 s are 2.16 Gbit/s on average",
        ),
    ]  # fmt: skip
    return table


def recovery() -> Table:
    """Recovery from one loss over the same path, by MTU, streams and congestion control."""
    table = Table(("sender", "MTU", "streams", "at 1 Gbit/s", "at 2.5 Gbit/s"))
    for control, delayed_acks, name in (
        (RENO, True, "Reno, delayed ACKs"),
        (RENO, False, "Reno, an ACK for each"),
        (CUBIC, False, "CUBIC (RFC 9438)"),
        (SCALABLE, False, "Scalable"),
    ):
        for mtu in MSS_BYTES:
            for streams in (1, 10) if control is RENO else (1,):
                times = [
                    float(recovery_s(control, rate_bps / streams, RTT_MS, MSS_BYTES[mtu], delayed_acks))
                    for rate_bps in (SLOW_BPS, LINK_BPS)
                ]
                table.rows.append((name, f"{mtu:,}", str(streams), *map(_time, times)))
    return table


def atm_storage() -> Table:
    """A contract of cells as IP and TCP, and blocks of 64 kB, one outstanding, over it."""
    table = Table(
        (
            "packet, bytes", "cells", "IP, Mbit/s", "TCP, Mbit/s", "published, Mbit/s", "64 kB at that rate, ms",
            "measured in China Clipper, ms", "blocks at an RTT of 5 ms, Mbit/s", "of 40 ms",
        )
    )  # fmt: skip
    for ip_bytes, published in ((576, "–"), (1500, "–"), (9180, "19")):
        cells = cells_of_packet(ip_bytes)
        ip_mbps = CONTRACT_MBPS * ip_bytes / (cells * CELL_BYTES)
        tcp_mbps = ip_mbps * (ip_bytes - HEADERS_BYTES) / ip_bytes
        block_ms = 8 * BLOCK_BYTES / tcp_mbps / 1000.0
        one_by_one = [f"{8 * BLOCK_BYTES / (block_ms + rtt_ms) / 1000.0:.1f}" for rtt_ms in (5.0, 40.0)]
        table.rows.append(
            (
                f"{ip_bytes:,}", str(cells), f"{ip_mbps:.1f}", f"{tcp_mbps:.1f}", published, f"{block_ms:.1f}",
                f"{BLOCK_MS:.0f}", *one_by_one,
            )
        )  # fmt: skip
    return table


def _start_s(mtu: int, delayed_acks: bool) -> float:
    return float(slow_start_s(SLOW_BPS, RTT_MS, MSS_BYTES[mtu], INITIAL_SEGMENTS, delayed_acks))


def _time(seconds: float) -> str:
    if seconds < 60.0:
        return f"{seconds:.1f} s"
    return f"{seconds / 60.0:.1f} min" if seconds < 3600.0 else f"{seconds / 3600.0:.1f} h"


COMPUTED: dict[str, Callable[[], Table]] = {
    "land-speed": land_speed,
    "recovery": recovery,
    "atm-storage": atm_storage,
}
