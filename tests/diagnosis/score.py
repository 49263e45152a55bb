"""Verdicts on the reports of `tests.diagnosis.reports` beside what was set: `python -m tests.diagnosis.score`.

The reports are read and diagnosed as delivered tests are, by `read_report` and `diagnose_run`, without anything known
of the path, or with its capacity. Thresholds were set on one half of the settings; the table has the other.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache

import msgspec

from monitor.analysis.transfer import Verdict
from monitor.archive.diagnosis.findings import Background, RunDiagnosis, diagnose_run
from probes.transfers.iperf3.report import read_report
from probes.transfers.spec import ThroughputRun, ThroughputSpec
from tests.diagnosis.reports import OF_KERNEL, Json, joined, recorded
from tests.diagnosis.settings import Setting

AT = datetime(2026, 11, 28, tzinfo=UTC)
ADDRESS = "192.0.2.2"
PAYLOAD_RATIO = 1448 / 1500

RIGHT = {
    "full": {Verdict.BOTTLENECK_QUEUE},
    "share": {Verdict.BOTTLENECK_QUEUE},
    "loss": {Verdict.RANDOM_LOSS, Verdict.LOSS},
    "window": {Verdict.WINDOW_LIMITED},
    "application": {Verdict.APPLICATION_LIMITED},
    "policer": {Verdict.POLICER},
    "reordering": {Verdict.REORDERING},
}
UNCLEAR = {Verdict.UNDETERMINED, Verdict.LOSS}
"""Verdicts that name no cause: `loss` says that it is unknown. It is right only where loss was set."""

FORMS: dict[str, Callable[[Json], Json]] = {
    "0.1 s, both ends": lambda report: report,
    "0.1 s": lambda report: joined(report),
    "0.5 s": lambda report: joined(report, 5),
    "1 s": lambda report: joined(report, 10),
    "1 s, both ends": lambda report: joined(report, 10, server=True),
    "2 s": lambda report: joined(report, 20),
    "1 s, capacity known": lambda report: joined(report, 10),
    "1 s, without RTT": lambda report: joined(report, 10, without=OF_KERNEL),
}


def run_of(setting: Setting, report: Json) -> ThroughputRun:
    """A report as the agent delivers it."""
    spec = ThroughputSpec(address=ADDRESS, reverse=setting.reverse)
    return read_report(msgspec.json.encode(report), spec, ADDRESS, AT)


def diagnosed(setting: Setting, report: Json, *, capacity: bool = False) -> RunDiagnosis | None:
    """The diagnosis of a report."""
    known_bps = setting.rate_mbps * 1e6 * PAYLOAD_RATIO if capacity else None
    return diagnose_run(run_of(setting, report), Background(1, AT, capacity_bps=known_bps))


def judged(setting: Setting, diagnosis: RunDiagnosis | None) -> str:
    """`right`, `wrong` or `unclear`. A share of a link that is called all of it is wrong."""
    if diagnosis is None:
        return "unclear"
    if diagnosis.verdict in RIGHT[setting.truth]:
        is_all = setting.truth == "share" and "this flow's share" not in diagnosis.sentence
        return "wrong" if is_all else "right"
    return "unclear" if diagnosis.verdict in UNCLEAR else "wrong"


@cache
def counts(*, tuned: bool) -> dict[str, dict[str, Counter[str]]]:
    """Judgements by form of the report and by truth, of the tuned settings or of the others."""
    rows = [(setting, report) for setting, report in recorded() if setting.is_for_tuning == tuned]
    made: dict[str, dict[str, Counter[str]]] = {}
    for form, made_of in FORMS.items():
        of_form: dict[str, Counter[str]] = {}
        for setting, report in rows:
            diagnosis = diagnosed(setting, made_of(report), capacity="capacity" in form)
            of_form.setdefault(setting.truth, Counter())[judged(setting, diagnosis)] += 1
        made[form] = of_form
    return made


def confusion(*, tuned: bool, form: str) -> dict[str, Counter[str]]:
    """The verdicts on the reports of each truth."""
    made: dict[str, Counter[str]] = {truth: Counter() for truth in RIGHT}
    for setting, report in recorded():
        if setting.is_for_tuning == tuned:
            diagnosis = diagnosed(setting, FORMS[form](report))
            made[setting.truth]["none" if diagnosis is None else diagnosis.verdict] += 1
    return made


def tables() -> str:
    """Both tables of docs/method/diagnosis.md, in Markdown."""
    lines = ["| report | right | unclear | wrong |", "| --- | --- | --- | --- |"]
    for form, of_truth in counts(tuned=False).items():
        total = sum(of_truth.values(), Counter())
        shares = (f"{total[name]} ({total[name] / total.total():.1%})" for name in ("right", "unclear", "wrong"))
        lines.append(f"| {form} | {' | '.join(shares)} |")
    lines += ["", "| set; 0.1 s, both ends | verdicts |", "| --- | --- |"]
    for truth, verdicts in confusion(tuned=False, form="0.1 s, both ends").items():
        lines.append(f"| {truth} | {', '.join(f'{name} {number}' for name, number in verdicts.most_common())} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(tables())
    sys.exit(0)
