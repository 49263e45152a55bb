"""iperf3's report of a test, with the server's part, and what `ss -ti` said, as a `Recording`.

A trimmed report is what a fixture in `tests/fixtures/iperf3/diagnosis` holds: the fields of iperf3's JSON that are
used, under iperf3's names and in its units, and the last line of `ss` for each stream.
"""

from __future__ import annotations

import re
from typing import Any

from monitor.analysis.transfer import Arrival, KernelCounts, Recording, Sample

STREAM_FIELDS = ("bytes", "retransmits", "snd_cwnd", "snd_wnd", "rtt", "pmtu")

Json = dict[str, Any]


def trimmed(report: Json, socket_lines: list[str], cpu: tuple[float | None, float | None]) -> Json:
    """The part of a report that is read here: no names, addresses or dates of the machine."""
    return {
        "start": {
            "tcp_mss_default": report["start"]["tcp_mss_default"],
            "target_bitrate": report["start"]["target_bitrate"],
            "num_streams": report["start"]["test_start"]["num_streams"],
        },
        "intervals": [_trimmed_interval(one) for one in report["intervals"]],
        "server_intervals": [
            {field: one["sum"][field] for field in ("start", "end", "bytes")}
            for one in report["server_output_json"]["intervals"]
        ],
        "end": {field: report["end"][field] for field in ("cpu_utilization_percent", "sender_tcp_congestion")},
        "scheduled_percent": cpu,
        "ss": "\n".join(re.sub(r"^.*?(?=cubic|bbr|reno)", "", line).strip() for line in socket_lines),
    }


def _trimmed_interval(reported: Json) -> Json:
    streams = [{field: stream[field] for field in STREAM_FIELDS} for stream in reported["streams"]]
    return {"start": reported["sum"]["start"], "end": reported["sum"]["end"], "streams": streams}


def recording(report: Json) -> Recording:
    """A trimmed report as the analysis takes it."""
    start, end = report["start"], report["end"]
    own, used = report["scheduled_percent"], end["cpu_utilization_percent"]
    cpu = [max(one or 0.0, other) / 100.0 for one, other in zip(own, _both_ends(used), strict=True)]
    return Recording(
        samples=tuple(_sample(one) for one in report["intervals"]),
        arrivals=tuple(Arrival(one["start"], one["end"], one["bytes"]) for one in report["server_intervals"]),
        streams=start["num_streams"],
        mss_bytes=start["tcp_mss_default"],
        congestion_control=end["sender_tcp_congestion"],
        asked_bps=start["target_bitrate"] or None,
        sender_cpu_ratio=cpu[0],
        receiver_cpu_ratio=cpu[1],
        kernel=kernel_counts(report["ss"]),
    )


def _both_ends(percent: Json) -> tuple[float, float]:
    return percent["host_total"], percent["remote_total"]


def _sample(reported: Json) -> Sample:
    streams = reported["streams"]
    return Sample(
        start_s=reported["start"],
        end_s=reported["end"],
        sent_bytes=sum(one["bytes"] for one in streams),
        retransmits=sum(one["retransmits"] for one in streams),
        cwnd_bytes=sum(one["snd_cwnd"] for one in streams),
        peer_window_bytes=sum(one["snd_wnd"] for one in streams),
        rtt_ms=sum(one["rtt"] for one in streams) / len(streams) / 1000.0,
        path_mtu_bytes=min(one["pmtu"] for one in streams),
    )


def kernel_counts(socket_lines: str) -> KernelCounts | None:
    """What `ss -ti` says of the streams, a line each; None where it said nothing. `ss` leaves out what is zero.

    The server of a test sends no data, so that `lastrcv`, the time since some came, is the age of the connection.
    """
    lines = [line for line in socket_lines.splitlines() if "busy:" in line]
    if not lines:
        return None
    return KernelCounts(
        age_s=_mean_s(lines, "lastrcv"),
        busy_s=_mean_s(lines, "busy"),
        peer_window_limited_s=_mean_s(lines, "rwnd_limited"),
        send_buffer_limited_s=_mean_s(lines, "sndbuf_limited"),
        duplicates=sum(int(_number(line, "dsack_dups")) for line in lines),
    )


def _mean_s(lines: list[str], name: str) -> float:
    return sum(_number(line, name) for line in lines) / len(lines) / 1000.0


def _number(line: str, name: str) -> float:
    found = re.search(rf"\b{name}:(\d+)", line)
    return float(found[1]) if found else 0.0
