"""Public iperf3 reports of other people, and their diagnosis.

`python -m tests.diagnosis.public` prints each verdict and counts them by version. In
`tests/fixtures/iperf3/public/reports.json` each report has its source, its intervals, the limits consistent with its
figures (`limits`, determined by hand; empty where it shows no limit) and the reason. `texts.json` has those that were
published as text: bytes and windows to three digits, and no RTT.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from monitor.analysis.transfer import Diagnosis, Recording, SenderInterval, Verdict, diagnose

FOLDER = Path(__file__).parents[1] / "fixtures" / "iperf3" / "public"

Report = dict[str, Any]


def reports() -> list[Report]:
    """All reports."""
    return [
        report
        for name in ("reports.json", "texts.json")
        for report in msgspec.json.decode((FOLDER / name).read_bytes(), type=list[Report])
    ]


def recording(report: Report) -> Recording:
    """A report in the form of the analysis."""
    interval_s, omitted = report["interval_s"], report["omitted_intervals"]
    unknown = [None] * len(report["sent_bytes"])
    rtts_us, windows_bytes = report["rtt_us"] or unknown, report.get("window_bytes", unknown)
    received_bytes = report["received_bytes"]
    return Recording(
        samples=tuple(
            SenderInterval(
                start_s=number * interval_s,
                end_s=(number + 1) * interval_s,
                sent_bytes=sent_bytes,
                retransmits=retransmits,
                cwnd_bytes=cwnd_bytes,
                rtt_ms=None if rtt_us is None else rtt_us / 1000,
                peer_window_bytes=window_bytes,
            )
            for number, (sent_bytes, retransmits, cwnd_bytes, rtt_us, window_bytes) in enumerate(
                zip(
                    report["sent_bytes"],
                    report["retransmits"],
                    report["cwnd_bytes"],
                    rtts_us,
                    windows_bytes,
                    strict=True,
                )
            )
        ),
        omitted_s=omitted * interval_s,
        mss_bytes=report["mss_bytes"],
        congestion_control=report["control"],
        sender_cpu_ratio=report["sender_cpu_ratio"],
        receiver_cpu_ratio=report["receiver_cpu_ratio"],
        delivered_bytes=None if received_bytes is None else received_bytes + sum(report["sent_bytes"][:omitted]),
    )


def is_wrong(report: Report, diagnosis: Diagnosis) -> bool:
    """Whether a limit is named that contradicts the report's figures."""
    return diagnosis.verdict is not Verdict.UNDETERMINED and diagnosis.verdict not in report["limits"]


def main(names: Sequence[str]) -> int:
    """Exit status 1 where a verdict is wrong."""
    counts: dict[str, Counter[str]] = {}
    wrong = 0
    for report in reports():
        if names and report["name"] not in names:
            continue
        diagnosis = diagnose(recording(report))
        counts.setdefault(report["iperf3"], Counter())[diagnosis.verdict] += 1
        wrong += is_wrong(report, diagnosis)
        print(f"{report['name']:24} {diagnosis.sentence}{'  WRONG' if is_wrong(report, diagnosis) else ''}")
    print(f"\n{'iperf3':10} {'reports':>7}  verdicts")
    for version, verdicts in sorted(counts.items()):
        print(f"{version:10} {verdicts.total():7}  {', '.join(f'{name} {n}' for name, n in verdicts.most_common())}")
    print(f"wrong: {wrong}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
