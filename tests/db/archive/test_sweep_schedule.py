"""Scheduled sweeps: one test of a path in each period, every setting once in a round, at random times."""

import io
import json
import random
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from msgspec import structs

from monitor.archive import throughput_sweeps
from monitor.archive.models import SweepCell, ThroughputSweep
from monitor.archive.scheduled_settings import scheduled_settings, scheduled_tests
from monitor.archive.sweep_schedule import due_at, grid_of, request_due
from monitor.mesh.document.sweeps import sweep_entry
from monitor.mesh.models import Mesh, Slot
from probes.transfers.spec import KernelCounts, Transfer
from tests.db.pages_mesh import make_mesh, throughput

pytestmark = pytest.mark.django_db
START = datetime(2026, 11, 2, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
KEYS = {"name": "grid", "from": "slac", "to": "cern", "streams": [1, 4], "window_bytes": [262_144, 4_194_304]}


@pytest.fixture
def path():
    paths = make_mesh(now=START - timedelta(days=1))
    Mesh.objects.update(sweeps={"grid": KEYS})
    return paths["slac", "cern"]


def end_tests(rate_of=lambda parameters, at: 1e7 * parameters["streams"], segment_bytes=1448):
    """The agents: measure the tests that were requested."""
    for slot in Slot.objects.filter(outcome=None).exclude(request=None).select_related("request", "measurement__path"):
        Slot.objects.filter(pk=slot.pk).update(outcome="measured")
        kernel = KernelCounts(
            age_s=10.0, busy_s=9.0, peer_window_limited_s=0.0, send_buffer_limited_s=0.0, resent_bytes=0, duplicates=0,
            reordering_seen=0, segment_bytes=segment_bytes,
        )  # fmt: skip
        throughput(
            slot.measurement.path, slot.starts_at, rate_of(slot.parameters, slot.starts_at), slot_id=slot.pk,
            test="on-demand", streams=slot.parameters["streams"], transfer=msgspec.to_builtins(Transfer(kernel=kernel)),
        )  # fmt: skip


def run_hours(hours, begin=START, step=10 * MINUTE, **agents):
    """Call the task each `step`, last in the last minute of each hour. Returns when it requested a test."""
    asked = []
    for number in range(int(hours * HOUR / step)):
        now = begin + (number + 1) * step - MINUTE
        if request_due(now):
            asked.append(now)
            end_tests(**agents)
    request_due(begin + hours * HOUR - timedelta(seconds=1))
    return asked


def test_the_time_within_the_hour_is_spread_over_it():
    hours = [START + number * HOUR for number in range(200)]

    minutes = [(due_at(sweep_entry(KEYS), 1, hour) - hour) / MINUTE for hour in hours]

    assert 0 <= min(minutes) < 6
    # The slot takes 15 s, and the task runs each minute.
    assert 50 < max(minutes) <= 58
    assert 20 < sum(minutes) / 200 < 38


def test_each_hour_has_one_test(path):
    asked = run_hours(8)

    assert [at.hour for at in asked] == list(range(8))
    assert set(SweepCell.objects.values_list("sweep__path_id", flat=True)) == {path.pk}


def test_a_round_tests_every_setting_once_in_random_order_before_the_next(path):
    run_hours(8)

    rounds = list(ThroughputSweep.objects.order_by("pk"))
    grid = {(1, 262_144), (4, 262_144), (1, 4_194_304), (4, 4_194_304)}
    orders = [
        tuple(
            (parameters["streams"], parameters["window_bytes"])
            for parameters in throughput_sweep.cells.order_by("asked_at").values_list("parameters", flat=True)
        )
        for throughput_sweep in rounds
    ]
    assert [set(order) for order in orders] == [grid, grid]
    assert {len(order) for order in orders} == {4}
    assert all(cell.outcome == "measured" for cell in SweepCell.objects.all())


def test_the_order_differs_between_rounds(path):
    entry = sweep_entry({**KEYS, "streams": [1, 2, 4, 8]})
    orders = set()
    for _ in range(4):
        number = throughput_sweeps.create(path, grid_of(entry), name="n", by="b", now=START, schedule="grid")
        cells = SweepCell.objects.filter(sweep=number).order_by("place").values_list("parameters", flat=True)
        orders.add(tuple((cell["streams"], cell["window_bytes"]) for cell in cells))

    assert len(orders) == 4


def test_tests_of_a_schedule_count_as_on_demand(path):
    """So they are excluded from averages, alerts and reports."""
    run_hours(1)

    assert set(Slot.objects.values_list("measurement__test__name", flat=True)) == {"on-demand"}


def test_a_budget_that_is_used_up_is_told_and_the_test_made_up_for(path):
    Mesh.objects.update(budgets={"path": {"max_minutes_per_day": 0.01}})
    assert run_hours(1) == []
    sweep = ThroughputSweep.objects.get()
    assert "budget.path.max_minutes_per_day" in sweep.problem
    assert scheduled_settings(path.pk, START + HOUR, UTC)[0].problem == sweep.problem

    Mesh.objects.update(budgets={})
    assert len(run_hours(1, START + HOUR)) == 1
    assert ThroughputSweep.objects.get().problem is None


def test_a_changed_grid_begins_a_new_round(path):
    run_hours(2)
    Mesh.objects.update(sweeps={"grid": {**KEYS, "streams": [2], "block_bytes": [8192, 65_536]}})
    run_hours(1, START + 2 * HOUR)

    first, second = ThroughputSweep.objects.order_by("pk")
    assert first.cells.count() == 2
    assert {cell.parameters["block_bytes"] for cell in second.cells.all()} == {8192, 65_536}
    assert second.cells.count() == 4


def test_without_its_table_a_sweep_ends_and_keeps_its_results(path):
    assert request_due(START + 59 * MINUTE)
    end_tests()
    Mesh.objects.update(sweeps={})

    assert run_hours(2, START + HOUR) == []
    assert SweepCell.objects.exclude(outcome=None).count() == 1


def test_paths_that_are_not_selected_or_cannot_be_tested_have_none(path):
    Mesh.objects.update(sweeps={"grid": {**KEYS, "to": "niit"}})

    assert run_hours(2) == []
    assert scheduled_settings(path.pk, START + HOUR, UTC) == []


@pytest.fixture
def evening(path):
    """A fortnight of stored tests until the present hour; four streams win from 18 to 24, one stream else."""

    def rate(parameters, at):
        is_large = parameters["window_bytes"] > 262_144
        is_winner = parameters["streams"] == (4 if at.hour >= 18 else 1)
        return (90e6 if is_winner and is_large else 30e6) * (1 + at.day % 5 / 40)

    begin = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(days=14)
    grid = [structs.asdict(setting) for setting in grid_of(sweep_entry(KEYS))]
    chance = random.Random(1)
    rounds = ThroughputSweep.objects.bulk_create(
        ThroughputSweep(path_id=path.pk, name="grid", schedule="grid", asked_by="b", asked_at=begin + 4 * HOUR * number)
        for number in range(14 * 6)
    )
    cells = []
    for sweep in rounds:
        for place, parameters in enumerate(chance.sample(grid, len(grid))):
            at = sweep.asked_at + place * HOUR
            cells.append(
                SweepCell(
                    sweep=sweep, place=place, parameters=parameters, outcome="measured", measured_at=at,
                    throughput_bps=rate(parameters, at),
                )
            )  # fmt: skip
    SweepCell.objects.bulk_create(cells)
    return begin


FACTS = "4 streams of 4 MiB from 18:00 to 24:00", "1 stream of 4 MiB from 0:00 to 18:00"


def test_an_optimum_planted_in_the_evening_is_told_from_stored_tests(path, evening):
    [told] = scheduled_settings(path.pk, datetime.now(UTC), UTC)

    text = " ".join(told.sentences)
    assert [fact for fact in FACTS if fact not in text] == []
    assert told.best.tests == 14 * 24
    assert len(scheduled_tests(path.pk, evening, evening + timedelta(days=1))) == 24


def test_page_api_and_command_tell_the_same(client, path, evening):
    html = client.get(f"/paths/{path.pk}/?tab=settings", headers={"host": "localhost"}).content.decode()
    answer = client.get(f"/api/v1/paths/{path.pk}/best-settings", headers={"host": "localhost"}).json()
    printed, as_json = io.StringIO(), io.StringIO()
    call_command("throughput", "settings", "slac", "cern", stdout=printed)
    call_command("throughput", "settings", "slac", "cern", "--json", stdout=as_json)

    for text in (html, " ".join(answer[0]["sentences"]), " ".join(printed.getvalue().split())):
        assert [fact for fact in FACTS if fact not in text] == []
    [part] = [part for part in answer[0]["parts"] if part["begin_h"] == 18]
    assert part["is_proven"]
    assert (part["rates"][0]["streams"], part["rates"][0]["window_bytes"]) == (4, 4_194_304)
    assert json.loads(as_json.getvalue())[0]["parts"] == answer[0]["parts"]
    assert "may be the best" in html or '<td data-label="result">best</td>' in html
    listed = client.get("/sweeps/", headers={"host": "localhost"}).content.decode()
    assert f'href="/paths/{path.pk}/?tab=settings"' in listed
    assert "/sweeps/" not in listed.partition("<h2>On demand</h2>")[2]


def test_a_path_without_scheduled_sweeps_has_no_settings(client, path):
    html = client.get(f"/paths/{path.pk}/?tab=settings", headers={"host": "localhost"}).content.decode()

    assert 'data-tab="settings"' not in html
    assert client.get(f"/api/v1/paths/{path.pk}/best-settings", headers={"host": "localhost"}).json() == []
    with pytest.raises(CommandError, match="no scheduled sweep"):
        call_command("throughput", "settings", "slac", "cern")


def test_a_requested_mss_that_was_not_used_is_said(path):
    Mesh.objects.update(sweeps={"grid": {**KEYS, "mss_bytes": [1400, 8960], "streams": [1]}})
    run_hours(4, segment_bytes=1388)

    [told] = scheduled_settings(path.pk, START + 4 * HOUR, UTC)

    [remark] = [sentence for sentence in told.sentences if "was requested" in sentence]
    assert remark.startswith("MSS 8960 was requested, but segments of 1388 bytes were sent")


def test_tests_of_a_schedule_are_not_among_the_latest_tests(client, path):
    """They have settings of their own, and would push out the others."""
    began = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - 2 * HOUR
    run_hours(1, began)
    throughput(path, began + MINUTE, 94e6, streams=7)

    html = client.get(f"/paths/{path.pk}/?period=day", headers={"host": "localhost"}).content.decode()

    listed = html.partition('id="test-list"')[2].partition("</table>")[0]
    assert listed.count("aria-current") == 1
    assert "on-demand" not in listed
    assert "1 test of scheduled sweeps is under" in html
    page = client.get("/throughput/?period=day", headers={"host": "localhost"}).content.decode()
    assert f'href="/paths/{path.pk}/?tab=settings">best settings</a>' in page
