"""The counts that the worker keeps are those of all bursts delivered so far, in whichever batches they came."""

import math
import random
from collections import defaultdict
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from monitor.alerts.detect.sources import SourceOfWorker
from monitor.archive.models import Burst
from monitor.archive.queries.for_alerts import COUNTS, TIMES
from tests.db.alert_rows import make_bursts, make_mesh
from tests.db.copied_rows import copy_rows

pytestmark = pytest.mark.django_db
BEGAN = datetime(2026, 11, 21, 9, 58, 20, tzinfo=UTC)
HOUR = timedelta(hours=1)
SIZES = (100, 1000)


def bursts_of(chance, path_id):
    """Bursts of four hours, a cycle of 20 s to 5 min; some lose packets, some were not measured or in our own test."""
    every_s, first_s = chance.choice([20, 60, 300]), chance.uniform(0, 20)
    for number in range(int(4 * 3600 / every_s)):
        for size in SIZES:
            at = BEGAN + timedelta(seconds=round(first_s + number * every_s + chance.uniform(0, 1), 6))
            sent = 0 if chance.random() < 0.05 else 10
            yield Burst(
                path_id=path_id, packet_bytes=size, measured_at=at, outcome="measured" if sent else "no_route",
                sent=sent, received=sent - chance.choice([0, 0, 0, 1, 10]) if sent else 0,
                duplicates=chance.choice([0, 0, 1]), reordered=chance.choice([0, 0, 2]),
                during_test=chance.random() < 0.1, rtts_ms=[],
            )  # fmt: skip


def expected(stored, now, step_s, steps):
    """By path and step: counts; and by path: when the newest burst was tried, measured, answered, counted."""
    end_s = math.ceil(now.timestamp() / 60) * 60
    counts, newest = defaultdict(lambda: [0] * len(COUNTS)), defaultdict(lambda: [-math.inf] * len(TIMES))
    for burst in stored:
        at_s = burst.measured_at.timestamp()
        step = math.ceil((end_s - at_s) / step_s) - 1
        if burst.measured_at >= now or step >= steps:
            continue
        is_measured, is_answered = burst.outcome == "measured", burst.received > 0
        is_counted = is_measured and not burst.during_test
        for place, holds in enumerate((True, is_measured, is_answered, is_counted)):
            newest[burst.path_id][place] = max(newest[burst.path_id][place], at_s if holds else -math.inf)
        if is_counted:
            more = (1, burst.sent, burst.received, burst.received < burst.sent)
            more += (burst.reordered > 0, burst.duplicates > 0)
            key = burst.path_id, step
            counts[key] = [count + of for count, of in zip(counts[key], more, strict=True)]
    return dict(counts), {path_id: times for path_id, times in newest.items() if max(times) > -math.inf}


def found(columns):
    """The same of the columns of a source."""
    counts, newest = {}, defaultdict(lambda: [-math.inf] * len(TIMES))
    for row in range(len(columns["path_id"])):
        key = int(columns["path_id"][row]), int(columns["step"][row])
        of_step = [int(columns[name][row]) for name in COUNTS]
        if any(of_step):
            counts[key] = of_step
        for place, name in enumerate(TIMES):
            if not math.isnan(columns[name][row]):
                newest[key[0]][place] = max(newest[key[0]][place], float(columns[name][row]))
    return counts, dict(newest)


@pytest.mark.parametrize("seed", range(6))
def test_kept_counts_are_those_of_all_bursts_delivered(seed):
    """Agents deliver oldest first, at times after an hour of silence, and repeat batches."""
    chance = random.Random(seed)
    path_ids = [path.pk for path in make_mesh(["slac", "cern", "fnal"], BEGAN).values()]
    waiting = {path_id: sorted(bursts_of(chance, path_id), key=lambda of: of.measured_at) for path_id in path_ids}
    silent_until = dict.fromkeys(waiting, BEGAN)
    source, stored, batch, now = SourceOfWorker(), [], [], BEGAN
    while now < BEGAN + 4 * HOUR:
        now += timedelta(seconds=chance.choice([7, 31.25, 60, 60, 150, 400]))
        for path_id, bursts in waiting.items():
            if now < silent_until[path_id]:
                continue
            ended = sum(of.measured_at < now - timedelta(seconds=12) for of in bursts)
            batch, waiting[path_id] = bursts[:ended], bursts[ended:]
            if chance.random() < 0.1:
                silent_until[path_id] = now + timedelta(minutes=chance.uniform(1, 80))
                batch, waiting[path_id] = batch[: len(batch) // 2], [*batch[len(batch) // 2 :], *waiting[path_id]]
            copy_rows(batch)
            stored += batch
        Burst.objects.bulk_create(batch, ignore_conflicts=True)

        assert found(source.recent_counts(now, 300, 12)) == expected(stored, now, 300, 12)
        hour = now.replace(minute=0, second=0, microsecond=0)
        if now > hour:
            counts, _ = expected(stored, now, (math.ceil((now - hour).total_seconds() / 60)) * 60, 1)
            assert found(source.counts_since(hour, now))[0] == counts


def test_a_burst_out_of_order_is_found_in_the_next_minutes():
    """It began long before bursts that are stored already, as of an agent whose clock was set back."""
    chance = random.Random(0)
    bursts = [of for of in bursts_of(chance, 1) if of.measured_at < BEGAN + HOUR]
    now, source = BEGAN + HOUR, SourceOfWorker()
    late = bursts.pop(len(bursts) // 2)
    copy_rows(bursts)
    source.recent_counts(now, 300, 12)
    late.save(force_insert=True)

    for minute in range(14):
        counts = source.recent_counts(now + timedelta(minutes=minute), 3600, 1)["bursts"].sum()

    in_window = [of for of in [*bursts, late] if of.measured_at >= now + timedelta(minutes=-46, seconds=-20)]
    assert counts == sum(of.outcome == "measured" and not of.during_test for of in in_window)


def test_only_the_newest_minutes_are_read_again():
    source, now = SourceOfWorker(), BEGAN + HOUR
    copy_rows(of for of in bursts_of(random.Random(1), 1) if of.measured_at < now)
    source.recent_counts(now, 300, 12)

    with CaptureQueriesContext(connection) as captured:
        source.recent_counts(now + timedelta(seconds=10), 300, 12)
        source.counts_since(now.replace(minute=0, second=0), now + timedelta(seconds=10))

    assert sum(query["sql"].startswith("COPY") for query in captured.captured_queries) == 1


@pytest.mark.parametrize(("step_s", "steps"), [(120, 1), (300, 1), (300, 12), (90, 1), (7200, 1)])
@pytest.mark.parametrize("after", [timedelta(seconds=4), timedelta(seconds=59.5), timedelta()])
def test_the_newest_step_lacks_the_rest_of_its_minute(step_s, steps, after):
    """All steps together have the raw bursts of their length without those seconds, a burst each second."""
    path, now = make_mesh(["slac", "cern"], BEGAN)["slac → cern"], BEGAN + timedelta(seconds=100) + after
    make_bursts(path, [0] * 8000, now - timedelta(seconds=7999.5), every_s=1)
    source = SourceOfWorker()

    bursts = source.recent_counts(now, step_s, steps)["bursts"].sum()

    counted_s = step_s * steps - source.lacking_s(now, step_s, steps)
    assert abs(bursts - counted_s) < 1
