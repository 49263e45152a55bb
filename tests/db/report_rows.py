"""Common rows of the tests of reports: hours of a path, throughput tests, and the text of a page."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from html.parser import HTMLParser
from typing import Any
from zoneinfo import ZoneInfo

from monitor.analysis.sketches import IPDV_MS, Sketches
from monitor.archive.models import BurstHour, ThroughputTest
from monitor.archive.upkeep import freshness
from monitor.archive.upkeep.freshness import RecurringWork
from monitor.mesh.models import Path
from monitor.reports.contents.compose import report_of
from monitor.reports.contents.report import Report, ReportScope
from monitor.reports.numbers import Numbers
from monitor.reports.periods import Period, Week
from tests.db.copied_rows import copy_rows
from tests.db.merging import merge_hours, sketch_of

UTC = ZoneInfo("UTC")
WEEK = Period.of_week(Week(2026, 47), UTC)
BEFORE = WEEK.before
NOW = WEEK.until + timedelta(minutes=15)
ENGLISH = Numbers()
IPDV_SKETCH = Sketches.of_values([0] * 4, [-0.05, -0.05, 0.05, 0.05], 1, IPDV_MS).to_bytes()[0]
"""A sketch of differences whose quartiles are 0.1 ms apart."""


def make_hours(
    path: Path,
    since: datetime,
    *,
    hours: int = 168,
    lost: int = 0,
    rtt_ms: float = 159.9,
    size: int = 1000,
    during_test: int = 0,
) -> None:
    """Summaries of whole hours, 60 bursts of ten packets each; `lost` packets in the first of them."""
    copy_rows(
        hour(
            path,
            since + timedelta(hours=number),
            600,
            600 - (lost if number == 0 else 0),
            rtt_ms,
            size,
            bursts_during_test=during_test,
        )
        for number in range(hours)
    )


def hour(
    path: Path, at: datetime, sent: int, received: int, rtt_ms: float | None, size: int = 1000, **fields: Any
) -> BurstHour:
    """An hour with bursts of ten packets, not saved; losses are in as few bursts as possible."""
    answered = received > 0
    rtt = rtt_ms if answered else None
    return BurstHour(
        **{
            "path_id": path.pk,
            "packet_bytes": size,
            "hour": at,
            "bursts": sent // 10,
            "bursts_all_lost": 0 if answered else sent // 10,
            "bursts_none_lost": received // 10,
            "bursts_during_test": 0,
            "bursts_not_measured": 0,
            "sent": sent,
            "received": received,
            "duplicates": 0,
            "reordered": 0,
            "rtt_min_ms": None if rtt is None else rtt - 1,
            "rtt_p25_ms": rtt,
            "rtt_median_ms": rtt,
            "rtt_p75_ms": rtt,
            "rtt_p95_ms": rtt,
            "rtt_max_ms": rtt,
            "rtt_avg_ms": rtt,
            "ipdv_ms": 0.1 if answered else None,
            "rtt_sketch": sketch_of(rtt, received) if answered else None,
            "ipdv_sketch": IPDV_SKETCH if answered else None,
            **fields,
        }
    )


def make_throughput(path: Path, at: datetime, throughput_bps: float | None, **fields: Any) -> None:
    ThroughputTest.objects.create(
        path_id=path.pk,
        measured_at=at,
        test="tcp",
        outcome="tool_failure" if throughput_bps is None else "measured",
        streams=1,
        throughput_bps=throughput_bps,
        **fields,
    )


def report(
    period: Period = WEEK, now: datetime = NOW, scope: ReportScope | None = None, numbers: Numbers = ENGLISH
) -> Report:
    """The report, after all hours were merged into days and the alert rules were evaluated."""
    merge_hours(now)
    freshness.note(RecurringWork.EVALUATION, now)
    return report_of(scope or ReportScope(), period, now, numbers)


class Text(HTMLParser):
    """The text of a page without its styles, white space folded."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.hidden = 0
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: Iterable[object]) -> None:
        self.hidden += tag == "style"

    def handle_endtag(self, tag: str) -> None:
        self.hidden -= tag == "style"

    def handle_data(self, data: str) -> None:
        if not self.hidden:
            self.parts.append(data)

    @property
    def lines(self) -> list[str]:
        """The text of each element that has any, with white space folded."""
        return [folded for part in self.parts if (folded := " ".join(part.split()))]

    def __str__(self) -> str:
        return " ".join(self.lines)
