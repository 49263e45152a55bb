"""Reports of iperf3 from transfers with a known limit, as they were recorded in the lab and as other tests would have
reported them: with longer intervals, without the server's part, without RTTs.

`tests/fixtures/iperf3/settings/reports.jsonl.xz` has a line for each transfer: the name of its setting, and the report
with the fields that `probes.transfers.iperf3.report` reads.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from tests.diagnosis.settings import Setting, settings

RECORDED = Path(__file__).parents[1] / "fixtures" / "iperf3" / "settings" / "reports.jsonl.xz"

Json = dict[str, Any]

OF_START = {"version", "test_start", "tcp_mss_default"}
OF_SUM = {"start", "end", "seconds", "bytes", "bits_per_second", "retransmits", "omitted", "sender"}
OF_STREAM = {"bytes", "retransmits", "snd_cwnd", "snd_wnd", "rtt", "rttvar", "pmtu", "sender"}
OF_KERNEL = ("snd_wnd", "rtt", "rttvar", "pmtu")


@cache
def recorded() -> tuple[tuple[Setting, Json], ...]:
    """Each transfer's setting and report."""
    of_name = {setting.name: setting for setting in settings()}
    with lzma.open(RECORDED) as lines:
        rows = map(json.loads, lines)
        return tuple((of_name[row["setting"]], row["report"]) for row in rows)


def write(rows: Iterable[tuple[str, Json]]) -> None:
    """Store reports by the names of their settings."""
    RECORDED.parent.mkdir(exist_ok=True)
    with lzma.open(RECORDED, "wb", preset=9) as lines:
        for name, report in rows:
            lines.write(json.dumps({"setting": name, "report": read_fields(report)}, separators=(",", ":")).encode())
            lines.write(b"\n")


def read_fields(report: Json) -> Json:
    """The fields of a report that are read."""
    kept = {"intervals": [_of_interval(interval) for interval in report["intervals"]], "end": _of_end(report["end"])}
    if "test_start" in report.get("start", {}):
        kept["start"] = {name: value for name, value in report["start"].items() if name in OF_START}
    if "server_output_json" in report:
        kept["server_output_json"] = read_fields(report["server_output_json"])
    return kept


def _of_interval(interval: Json) -> Json:
    sums = {
        name: {
            "end": round(part["end"], 4),
            "bytes": part["bytes"],
            "omitted": part["omitted"],
            "seconds": round(part["seconds"], 4),
        }
        for name, part in interval.items()
        if name.startswith("sum")
    }
    return sums | {
        "streams": [
            {name: value for name, value in stream.items() if name in OF_STREAM} for stream in interval["streams"]
        ]
    }


def _of_end(end: Json) -> Json:
    streams = [
        {part: {name: value for name, value in figures.items() if name in OF_SUM} for part, figures in stream.items()}
        for stream in end["streams"]
    ]
    sums = {
        name: {key: value for key, value in part.items() if key in OF_SUM}
        for name, part in end.items()
        if name.startswith("sum")
    }
    others = {name: value for name, value in end.items() if name not in {"streams", *sums}}
    return {"streams": streams, **sums, **others}


def joined(report: Json, intervals: int = 1, *, server: bool = False, without: Iterable[str] = ()) -> Json:
    """The report with so many intervals in each, as with a longer `-i`; without the server's part, or these fields."""
    made = dict(report)
    if server and "server_output_json" in made:
        made["server_output_json"] = joined(made["server_output_json"], intervals, without=without)
    else:
        made.pop("server_output_json", None)
    parts = [made["intervals"][begin : begin + intervals] for begin in range(0, len(made["intervals"]), intervals)]
    # iperf3 adds a last interval that is shorter only if it lasts for a tenth of the others.
    made["intervals"] = [_joined(part, set(without)) for part in parts if len(part) > intervals // 10]
    return made


def _joined(part: list[Json], without: set[str]) -> Json:
    """Bytes and retransmissions are sums, all other figures those of the end."""
    last = {name: dict(figures) for name, figures in part[-1].items() if name.startswith("sum")}
    for name, figures in last.items():
        figures["bytes"] = sum(interval[name]["bytes"] for interval in part)
        figures["seconds"] = sum(interval[name]["seconds"] for interval in part)
    streams = [{name: value for name, value in stream.items() if name not in without} for stream in part[-1]["streams"]]
    for place, stream in enumerate(streams):
        for name in {"bytes", "retransmits"} & stream.keys():
            stream[name] = sum(interval["streams"][place][name] for interval in part)
    return {**part[-1], **last, "streams": streams}
