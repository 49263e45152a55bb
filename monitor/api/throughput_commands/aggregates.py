"""`manage.py throughput aggregates`: results of the last days."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.utils import timezone

from monitor.analysis import figures
from monitor.api.throughput.aggregates import AggregateOut
from monitor.archive.outcomes import outcome_words
from monitor.archive.queries.throughput.aggregates import AggregateResult, HarmedPath, MemberResult, aggregate_results
from probes.commands.subcommands import positive

SUMMARY = "results of aggregate tests: sum, each member, fairness, and the effect on other paths"
EXIT_STATUS = "0 shown, also if there are none, 2 usage"
DAYS = 7
MOST_SHOWN = 20
MOST_DAYS, MOST_TESTS = 36_500, 100_000


def add_arguments(parser: CommandParser) -> None:
    parser.add_argument(
        "--days", type=positive(MOST_DAYS), default=DAYS, help=f"show those of the last days (default {DAYS})"
    )
    parser.add_argument(
        "--most", type=positive(MOST_TESTS), default=MOST_SHOWN, help=f"the newest so many (default {MOST_SHOWN})"
    )
    parser.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object for each test")


def run(command: BaseCommand, options: dict[str, Any]) -> None:
    now = timezone.now()
    results = aggregate_results(now - timedelta(days=options["days"]), now, options["most"])
    for result in results:
        if options["as_json"]:
            command.stdout.write(json.dumps(AggregateOut.from_orm(result).dict(), default=str))
        else:
            command.stdout.write("\n".join([*result_lines(result), ""]))
    if not results and not options["as_json"]:
        command.stdout.write(f"No aggregate test in the last {options['days']} days. See docs/throughput.md.")


def result_lines(result: AggregateResult) -> Iterator[str]:
    yield f"{result.test} ({result.shape}), {result.starts_at:%Y-%m-%d %H:%M:%S} UTC, test {result.slot_id}"
    yield f"  {result.sentence}"
    if result.sum_bps is not None:
        yield f"  sum {figures.bit_rate(result.sum_bps)}"
    elif result.partial_sum_bps is not None:
        yield f"  partial sum {figures.bit_rate(result.partial_sum_bps)} of {result.measured} members"
    if result.fairness is not None and result.start_spread_s is not None:
        yield f"  fairness {result.fairness:.3f}, starts {result.start_spread_s:.2f} s apart"
    for member in result.members:
        yield f"    {_member(member)}"
    for path in result.harmed:
        yield f"  harm to others: {_harmed(path)}"


def _member(member: MemberResult) -> str:
    names = f"{member.source} → {member.destination}: "
    if member.throughput_bps is None:
        words = "no report yet" if member.outcome is None else outcome_words(member.outcome)
        return names + words + (f": {member.detail}" if member.detail else "")
    common = "no common time" if member.common_bps is None else figures.bit_rate(member.common_bps)
    return f"{names}{common}, {member.late_s:.2f} s after the first"


def _harmed(path: HarmedPath) -> str:
    return (
        f"{path.source} → {path.destination}: {path.harm}; median RTT {_ms(path.rest_rtt_median_ms)} → "
        f"{_ms(path.loaded_rtt_median_ms)}, {path.loaded_sent - path.loaded_received} of {path.loaded_sent} lost "
        f"({path.shares})"
    )


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f} ms"
