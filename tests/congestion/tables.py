"""Tables of `congestion`, daily congestion on simulated paths. They take two minutes of a processor."""

from __future__ import annotations

from collections.abc import Callable

from tests.congestion.planted import congested_path, quiet_path
from tests.congestion.score import PathScore, is_reported, quantile, ratio, score, select
from tests.reproduce.table import Table
from tests.scored import count_of

PATHS = 400
OTHER_PATHS = 150
QUIET_MONTHS = 1000
MONTH_DAYS = 30
COLUMNS = (
    "", "paths", "found", "begin: error, median / 90%", "within ±", "end: error, median / 90%", "within ±",
    "number of days right, or by one", "other hours",
)  # fmt: skip

LEAST_FOUND, LEAST_COVERED, MOST_MEDIAN_MIN, MOST_P90_MIN, MOST_FALSE = 0.97, 0.88, 5.0, 15.0, 10


def queues(share: float) -> Table:
    """Queues on paths with a burst a minute, all and by their kinds; then on paths with fewer bursts."""
    scores = [score(congested_path(seed)) for seed in range(count_of(PATHS, share))]
    table = Table(COLUMNS)
    table.rows.append(_row("all", scores))
    kinds: dict[str, Callable[[PathScore], bool]] = {
        "+3 to +5 ms": lambda of_path: of_path.queue.rise_ms < 5.0,
        "+5 to +15 ms": lambda of_path: 5.0 <= of_path.queue.rise_ms < 15.0,
        "+15 to +50 ms": lambda of_path: of_path.queue.rise_ms >= 15.0,
        "1 to 2 h long": lambda of_path: of_path.queue.end_h - of_path.queue.begin_h < 2.0,
        "on fewer than half of the days": lambda of_path: of_path.queue.days.mean() < 0.5,
    }
    table.rows += [_row(name, of_kind) for name, holds in kinds.items() if (of_kind := select(scores, holds))]
    for every_min in (5, 10):
        rare = [score(congested_path(seed, every_min=every_min)) for seed in range(count_of(OTHER_PATHS, share))]
        table.rows.append(_row(f"a burst every {every_min} min", rare))
    named = [of_path for of_path in scores if of_path.hours]
    if len(named) < LEAST_FOUND * len(scores):
        table.failures.append(f"{len(named)} of {len(scores)} found, fewer than {LEAST_FOUND:.0%}")
    for name, errors_min in (
        ("begin", [of_path.begin_error_min for of_path in named]),
        ("end", [of_path.end_error_min for of_path in named]),
    ):
        if quantile(errors_min, 0.5) > MOST_MEDIAN_MIN or quantile(errors_min, 0.9) > MOST_P90_MIN:
            table.failures.append(
                f"{name}: errors of {quantile(errors_min, 0.5):.1f} / {quantile(errors_min, 0.9):.1f}"
            )
    for edge, name in enumerate(("begin", "end")):
        if ratio(of_path.covered[edge] for of_path in named) < LEAST_COVERED:
            table.failures.append(f"{name}: within the stated uncertainty in fewer than {LEAST_COVERED:.0%}")
    return table


def weekdays(share: float) -> Table:
    """Whether the worst weekday is named."""
    scores = select(
        [score(congested_path(seed)) for seed in range(count_of(PATHS, share))],
        lambda of_path: of_path.hours is not None,
    )
    table = Table(("the queue is", "paths", "that weekday named", "none named", "another named"))
    for name, has_worst in (
        ("higher by 40 to 100% on a weekday", True),
        ("as high on all weekdays, or lower on some", False),
    ):
        of_kind = select(scores, lambda of_path, has=has_worst: (of_path.queue.worst_weekday is not None) == has)
        named = [of_path.hours.worst_weekday for of_path in of_kind if of_path.hours]
        right = sum(of_path.hours.worst_weekday == of_path.queue.worst_weekday for of_path in of_kind if of_path.hours)
        none = named.count(None)
        counts = (right, none, len(named) - right - none) if has_worst else (0, none, len(named) - none)
        table.rows.append((name, str(len(of_kind)), *(str(count) for count in counts)))
    return table


def slots(share: float) -> Table:
    """The same queues by slots of three lengths."""
    table = Table(COLUMNS)
    paths = [congested_path(seed) for seed in range(count_of(OTHER_PATHS, share))]
    for slot_min in (5, 10, 15):
        table.rows.append(_row(f"{slot_min} min", [score(path, slot_min) for path in paths]))
    return table


def quiet(share: float) -> Table:
    """Months without a queue that recurs, looked at every week."""
    months = count_of(QUIET_MONTHS, share)
    false = sum(is_reported(quiet_path(seed, MONTH_DAYS)) for seed in range(months))
    table = Table(("path-months without daily congestion", "with a statement in any of their weeks"))
    table.rows.append((f"{months:,}", str(false)))
    if false > MOST_FALSE:
        table.failures.append(f"{false} quiet months have a statement")
    return table


def _row(name: str, scores: list[PathScore]) -> tuple[str, ...]:
    named = [of_path for of_path in scores if of_path.hours]
    begins = [of_path.begin_error_min for of_path in named]
    ends = [of_path.end_error_min for of_path in named]
    off = [abs(of_path.hours.days_congested - of_path.days) for of_path in named if of_path.hours]
    return (
        name, str(len(scores)), f"{len(named) / len(scores):.1%}",
        f"{quantile(begins, 0.5):.1f} / {quantile(begins, 0.9):.1f} min",
        f"{ratio(of_path.covered[0] for of_path in named):.0%}",
        f"{quantile(ends, 0.5):.1f} / {quantile(ends, 0.9):.1f} min",
        f"{ratio(of_path.covered[1] for of_path in named):.0%}",
        f"{ratio(days == 0 for days in off):.0%}, {ratio(days <= 1 for days in off):.0%}",
        str(sum(of_path.others for of_path in scores)),
    )  # fmt: skip


PARTS = {"queues": queues, "weekdays": weekdays, "slots": slots, "quiet": quiet}
