"""Takes one direction out of a bidirectional report (`iperf3 --bidir`); leaves others unchanged."""

from __future__ import annotations

from probes.transfers.iperf3.document import Json

SUFFIX = "_bidir_reverse"


def one_direction(report: Json, reverse: bool) -> Json:
    # Before 3.17 only the streams' names show that a test is bidirectional.
    if f"sum_received{SUFFIX}" not in report["end"]:
        return report
    start, served = report["start"], report.get("server_output_json")
    return {
        **report,
        "start": {**start, "test_start": {**start["test_start"], "reverse": int(reverse)}},
        **_of_end(report, sends=not reverse, reverse=reverse),
        **(
            {}
            if served is None
            else {"server_output_json": {**served, **_of_end(served, sends=reverse, reverse=reverse)}}
        ),
    }


def _of_end(report: Json, *, sends: bool, reverse: bool) -> Json:
    """Intervals and end of one reporter, which sends or receives this direction."""
    end = report["end"]
    streams = [stream for stream in end["streams"] if bool(stream["sender"]["sender"]) is sends]
    intervals = [
        {
            "streams": [stream for stream in interval["streams"] if bool(stream["sender"]) is sends],
            "sum": interval[f"sum{SUFFIX}" if reverse else "sum"],
        }
        for interval in report["intervals"]
    ]
    sums = {name: end[f"{name}{SUFFIX}"] for name in ("sum_sent", "sum_received")} if reverse else {}
    control = (
        {"sender_tcp_congestion": end["receiver_tcp_congestion"]}
        if reverse and "receiver_tcp_congestion" in end
        else {}
    )
    return {"intervals": intervals, "end": {**end, "streams": streams, **sums, **control}}
