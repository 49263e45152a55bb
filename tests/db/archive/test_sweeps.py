"""Sweeps: a grid of tests that is run, stopped and continued; its page, its API and its command.

`Agents` simulates the agents: requested tests end at once, with one window per RTT of 100 ms for each stream, up to 50
Mbit/s.
"""

import io
import json
import re
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone

from monitor.archive import throughput_sweeps
from monitor.archive.models import SweepCell, ThroughputTest, UndiagnosedTest
from monitor.mesh.models import Slot
from monitor.mesh.schedule.on_demand import NoFreeSlot, OnDemandError, Settings
from tests.db.pages_mesh import make_mesh, throughput

pytestmark = pytest.mark.django_db
KIB = 2**10
RTT_S, CAPACITY_BPS = 0.1, 50e6
SAID = {"duration_s": 2.0, "start_s": 0.2, "too_short": False, "wanted_s": 2.0, "idle_rtt_ms": 100.0}


class Agents:
    """Ends the next requested test when called with a sweep; `failing` are (streams, window)s that fail."""

    def __init__(self, failing=(), stop_after=None):
        self.failing, self.stop_after, self.ended = set(failing), stop_after, 0

    def __call__(self, cells):
        if self.stop_after is not None and self.ended >= self.stop_after:
            raise KeyboardInterrupt
        for slot in (
            Slot.objects.filter(outcome=None).select_related("request", "measurement").order_by("starts_at")[:1]
        ):
            parameters = slot.parameters
            self.ended += 1
            if (parameters["streams"], parameters["window_bytes"]) in self.failing:
                Slot.objects.filter(pk=slot.pk).update(outcome="busy", detail="the server served somebody else")
                continue
            rate_bps = min(CAPACITY_BPS, parameters["streams"] * parameters["window_bytes"] * 8 / RTT_S)
            Slot.objects.filter(pk=slot.pk).update(outcome="measured")
            throughput(
                slot.measurement.path, slot.starts_at, rate_bps, slot_id=slot.pk, test="on-demand",
                streams=parameters["streams"], verdict="window-limited", sentence="window-limited", diagnosis=SAID,
            )  # fmt: skip


@pytest.fixture
def path():
    return make_mesh(now=timezone.now() - timedelta(days=1))["slac", "cern"]


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch):
    monkeypatch.setattr(throughput_sweeps, "POLL_S", 0.0)


def a_sweep(path, windows=(256 * KIB, 1024 * KIB), streams=(1, 4), **settings):
    grid = throughput_sweeps.settings_of(Settings(duration_s=2), windows, streams, **settings)
    return throughput_sweeps.create(path, grid, name="slac to cern", by="somebody", now=timezone.now())


def rates(cells):
    return {(cell.setting.streams, cell.setting.window_bytes / KIB): cell.throughput_bps for cell in cells.cells}


def test_every_cell_is_run_once_and_stored(path):
    rows = throughput_sweeps.run(a_sweep(path), Agents())

    # 256 KiB per 100 ms are 20.97 Mbit/s.
    assert rates(rows) == {(1, 256): 20_971_520, (4, 256): 50e6, (1, 1024): 50e6, (4, 1024): 50e6}
    assert rows.rtt_ms == 100.0
    assert Slot.objects.count() == 4


def test_results_outlive_their_slot(path):
    number = a_sweep(path)
    rows = throughput_sweeps.run(number, Agents())

    Slot.objects.all().delete()

    assert rates(throughput_sweeps.load(number, timezone.now())) == rates(rows)


def test_a_test_that_ends_just_after_the_check_is_stored(path, monkeypatch):
    number = a_sweep(path, streams=(1,), windows=(256 * KIB,))
    agents, original = Agents(), throughput_sweeps.keep_results

    def keep(sweep_id, now):
        original(sweep_id, now)
        agents(None)

    monkeypatch.setattr(throughput_sweeps, "keep_results", keep)
    throughput_sweeps.run(number, lambda _: None)

    # Now the other end's half of the test arrives, and its diagnosis is pending again.
    UndiagnosedTest.objects.bulk_create(
        UndiagnosedTest(path_id=test.path_id, measured_at=test.measured_at) for test in ThroughputTest.objects.all()
    )
    assert rates(throughput_sweeps.load(number, timezone.now())) == {(1, 256): 20_971_520}


def test_a_stopped_sweep_keeps_its_results_and_continues(path):
    number = a_sweep(path)
    with pytest.raises(KeyboardInterrupt):
        throughput_sweeps.run(number, Agents(stop_after=1))
    throughput_sweeps.stop(number, timezone.now())
    halfway = throughput_sweeps.load(number, timezone.now())

    rows = throughput_sweeps.run(number, Agents())

    assert 1 <= halfway.ended < 4
    measured_at = {cell.place: cell.measured_at for cell in halfway.cells if cell.outcome}
    assert {
        place: at for place, at in ((cell.place, cell.measured_at) for cell in rows.cells) if place in measured_at
    } == measured_at
    assert rows.ended == 4


def test_a_failed_cell_shows_its_outcome_and_can_be_repeated(path):
    number = a_sweep(path)
    rows = throughput_sweeps.run(number, Agents(failing=[(4, 256 * KIB)]))
    [failed] = [cell for cell in rows.cells if cell.outcome != "measured"]

    assert (failed.outcome, failed.throughput_bps, failed.detail) == ("busy", None, "the server served somebody else")
    assert throughput_sweeps.forget_failures(number) == 1
    assert throughput_sweeps.run(number, Agents()).grid.count(failed.cell) == 0


def test_a_test_without_a_report_is_missed(path):
    number = a_sweep(path, streams=(1,), windows=(KIB * 64,))
    throughput_sweeps._ask_next(throughput_sweeps.load(number, timezone.now()))

    throughput_sweeps.keep_results(number, timezone.now() + timedelta(minutes=10))
    [waiting] = throughput_sweeps.load(number, timezone.now()).cells
    throughput_sweeps.keep_results(number, timezone.now() + timedelta(minutes=20))

    [cell] = throughput_sweeps.load(number, timezone.now()).cells
    assert waiting.outcome is None
    assert (cell.outcome, cell.throughput_bps) == ("missed", None)


def test_without_room_it_stops_with_the_reason(path, monkeypatch):
    number = a_sweep(path)
    request_test = throughput_sweeps.ask

    def ask(*args, **settings):
        if Slot.objects.count() >= 3:
            raise NoFreeSlot("slac has sent its 1 GB of today")
        return request_test(*args, **settings)

    monkeypatch.setattr(throughput_sweeps, "ask", ask)

    with pytest.raises(NoFreeSlot):
        throughput_sweeps.run(number, Agents())

    assert throughput_sweeps.load(number, timezone.now()).ended >= 2


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({"windows_bytes": [], "streams": [1]}, "grid has 0 cells"),
        ({"windows_bytes": range(2048, 2148), "streams": range(1, 6)}, "grid has 500 cells.* 1 to 400"),
        ({"windows_bytes": [1], "streams": [1]}, "window_bytes .*integer from 2048"),
        ({"windows_bytes": [2048], "streams": [0]}, "streams .*integer from 1 to 128"),
    ],
)
def test_an_invalid_grid_is_refused(grid, message):
    with pytest.raises(OnDemandError, match=message):
        throughput_sweeps.settings_of(Settings(), **grid)


def test_all_combinations_are_cells():
    axes = [2048, 4096], [1, 2], ["cubic", "bbr"], [1448], [8192, 65_536]
    settings = throughput_sweeps.settings_of(Settings(), *axes)

    assert len(settings) == 16
    assert {setting.block_bytes for setting in settings} == {8192, 65_536}
    assert {(setting.congestion_control, setting.mss_bytes) for setting in settings} == {("cubic", 1448), ("bbr", 1448)}


def test_the_page_draws_failures_differently_from_rates(client, path):
    number = a_sweep(path)
    throughput_sweeps.run(number, Agents(failing=[(4, 256 * KIB)]))

    html = client.get(f"/sweeps/{number}/", headers={"host": "localhost"}).content.decode()

    chart = json.loads(
        re.search(r'<script id="sweep-0-spec" type="application/json">(.*?)</script>', html, re.DOTALL)[1]
    )
    assert [row["text"] for row in chart["datasets"]["failed"]] == ["busy"]
    assert chart["datasets"]["waiting"] == []
    assert all(row["bps"] > 0 for row in chart["datasets"]["measured"])
    [knee] = chart["datasets"]["knee"]
    assert (knee["streams"], knee["window"]) == ("1", "1 MiB")
    assert re.search(r"Sweet spot: 1 stream [^<.]*\b1 MiB[^<.]* 50 Mbit/s\.", html)
    assert re.search(r"busy</b></td></tr>\s*<tr class=\"said\"><td colspan=\"3\">the server served somebody else", html)
    assert re.search(r"\b1 of 4 cells [^<]*no result[^<]*\(1 busy\)", html)


def test_a_sweep_that_has_not_run_has_a_page(client, path):
    html = client.get(f"/sweeps/{a_sweep(path)}/", headers={"host": "localhost"}).content.decode()

    assert "0 of 4 cells done" in html
    assert "4 not run yet" in html


def test_an_unknown_sweep_is_404(client):
    answer = client.get("/sweeps/77/", headers={"host": "localhost"})

    assert answer.status_code == 404
    assert "There is no sweep 77" in answer.content.decode()


def test_the_api_has_cells_and_knees(client, path):
    number = a_sweep(path, controls=["cubic"])
    throughput_sweeps.run(number, Agents(failing=[(1, 1024 * KIB)]))

    [line] = client.get("/api/v1/sweeps", headers={"host": "localhost"}).json()
    answer = client.get(f"/api/v1/sweeps/{number}", headers={"host": "localhost"}).json()

    assert (line["id"], line["path_id"]) == (number, path.pk)
    assert sorted(cell["outcome"] for cell in answer["cells"]) == ["busy", "measured", "measured", "measured"]
    [knee] = answer["knees"]
    assert (knee["streams"], knee["window_bytes"], knee["congestion_control"]) == (4, 256 * KIB, "cubic")
    # 50 Mbit/s × 100 ms / 8 = 625,000 bytes, of four windows of 262,144.
    assert knee["bdp_bytes"] == 625_000
    assert knee["windows_over_bdp"] == pytest.approx(1.678, abs=0.001)
    assert client.get("/api/v1/sweeps/77", headers={"host": "localhost"}).status_code == 404


def throughput_command(*args):
    out = io.StringIO()
    call_command("throughput", "sweep", *args, stdout=out)
    return out.getvalue()


@pytest.fixture
def agents(monkeypatch):
    """The command with agents that end the requested tests before each check."""

    keep = throughput_sweeps.keep_results

    def simulated(agents):
        def keep_then_end(number, now):
            agents(number)
            keep(number, now)

        monkeypatch.setattr(throughput_sweeps, "keep_results", keep_then_end)

    return simulated


def test_the_command_runs_the_grid_and_shows_it(path, agents):
    agents(Agents(failing=[(4, 256 * KIB)]))

    output = throughput_command("slac", "cern", "--windows", "256K,1M", "--streams", "1,4", "--duration-s", "2")

    assert "4 of 4 cells" in output
    assert "busy: the server served somebody else" in output
    assert re.search(r"1 MiB\s+│\s+50 Mbit/s\s+│\s+50 Mbit/s", output)
    assert re.search(r"256 KiB\s+│\s+21 Mbit/s\s+│\s+busy", output)
    assert re.search(r"Sweet spot: 1 stream [^.]*\b1 MiB[^.]* 50 Mbit/s\.", output)
    assert " 0 " not in output


def test_an_interrupted_command_says_how_to_continue(path, agents):
    agents(Agents(stop_after=2))
    with pytest.raises(CommandError) as stopped:
        throughput_command("slac", "cern", "--windows", "256K,1M", "--streams", "1,4")

    number = SweepCell.objects.values_list("sweep_id", flat=True).first()
    assert re.search(rf"[12] of 4 cells .*kept.* --resume {number}$", str(stopped.value))

    agents(Agents())
    answer = json.loads(throughput_command("--resume", str(number), "--json"))
    assert [cell["outcome"] for cell in answer["cells"]] == ["measured"] * 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["slac", "cern"], "give the grid"),
        (["--windows", "1M", "--streams", "1"], "give the two ends"),
        (["slac", "nowhere", "--windows", "1M", "--streams", "1"], "no path .*slac to nowhere"),
        (["--resume", "77"], "there is no sweep 77"),
        (["slac", "cern", "--resume", "1"], "give its number alone"),
        (["slac", "cern", "--windows", "1X", "--streams", "1"], "write bytes, as 262144, 256K"),
        (["slac", "cern", "--windows", "1M", "--streams", "few"], "write whole numbers"),
    ],
)
def test_invalid_options_are_reported(path, options, message):
    with pytest.raises(CommandError, match=message):
        throughput_command(*options)
