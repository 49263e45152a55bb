"""The present of a path on its own page, whose tiles are of a day: as its cells in the grids of now have it."""

from __future__ import annotations

import re

import pytest
from django.utils import timezone
from django.utils.html import strip_tags

from monitor.alerts.evaluate import evaluate
from monitor.archive.upkeep import freshness
from monitor.archive.upkeep.freshness import RecurringWork
from monitor.mesh.models import Path
from tests.db.merging import roll_up_raw
from tests.db.web.test_mesh_state_now import NOW, at, paths_of_three_sites, plant
from tests.db.web.test_pages_grid import cell

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_worker")]
LOSSY = "slac → ornl"


@pytest.fixture
def paths(monkeypatch):
    monkeypatch.setattr(timezone, "now", lambda: NOW)
    freshness.note(RecurringWork.EVALUATION, NOW)
    return paths_of_three_sites(monkeypatch)


@pytest.fixture
def page(client):
    def get(address):
        answer = client.get(address, headers={"host": "localhost"})
        assert answer.status_code == 200, answer.content
        return answer.content.decode()

    return get


def plant_all(paths, lost_of, until_s=0, rtts_of=lambda _: [20.0] * 10):
    """Half an hour of cycles on all paths; those of one lose packets, end early or take longer."""
    for name, path in paths.items():
        of_lossy = {"lost_of": lost_of, "rtts_of": rtts_of} if name == LOSSY else {}
        plant(path, -1800, until_s if name == LOSSY else 0, **of_lossy)
    roll_up_raw(NOW)


def present(page, path, query=""):
    html = page(f"/paths/{path.pk}/{query}")
    (line,) = re.findall(r'id="present"[^>]*>(.*?)</p>', html, re.S)
    return " ".join(strip_tags(line).split())


def in_grid(page, path, metric="loss"):
    return cell(page(f"/?metric={metric}"), path)[1]


def in_line(page, path):
    """The line that the cells of both grids ask for: the signs of the loss first."""
    signs, loss = re.fullmatch(r"(\W*?)([~\d].*)", in_grid(page, path)).groups()
    rtt = re.search(r"[\d.]+ ms", in_grid(page, path, "rtt"))[0]
    return f"{signs} Now: loss {loss}, median RTT {rtt}".strip()


@pytest.mark.parametrize(
    ("lost_of", "line"),
    [
        (lambda _: 0, "Now: loss 0, median RTT 20.00 ms"),
        (lambda s: 2 * (s >= -120), "△ Now: loss ~20%, median RTT 20.00 ms"),
        (lambda s: 2 * (-540 <= s < -240), "✓ Now: loss 0, median RTT 20.00 ms"),
        (lambda s: 5 * (s < -900), "Now: loss 0, median RTT 20.00 ms"),
    ],
    ids=["normal", "checked", "ended", "of before"],
)
def test_the_line_has_the_figures_of_the_cells(page, paths, lost_of, line):
    plant_all(paths, lost_of)

    assert present(page, paths[LOSSY]) == line == in_line(page, paths[LOSSY])


def test_the_line_has_the_level_of_an_open_incident(page, paths):
    """20% for ten minutes, 40% in the last four: the window of the cell has both."""
    plant_all(paths, lambda s: 0 if s < -600 else 2 if s < -240 else 4)
    for seconds in (-300, -200, -100, 0):
        evaluate(at(seconds))

    line = present(page, paths[LOSSY])

    assert line.startswith("▲ Now: loss ")
    assert line == in_line(page, paths[LOSSY])


@pytest.mark.parametrize("is_evaluated", [True, False], ids=["incident", "before"])
def test_a_path_without_replies_has_its_last_one(page, paths, is_evaluated):
    """The packets are a second apart, and the last answered is the tenth of the cycle before the outage."""
    plant_all(paths, lambda s: 10 * (s >= -300))
    if is_evaluated:
        for seconds in (-200, -100, 0):
            evaluate(at(seconds))

    sign = "▲" if is_evaluated else "△"
    assert re.fullmatch(rf"{sign} Now: no reply since 12:2[45]:\d\d UTC", present(page, paths[LOSSY]))
    assert in_grid(page, paths[LOSSY]) == f"{sign}all lost"
    since = re.search(r"no reply since (\S+ UTC)", cell(page("/"), paths[LOSSY])[2])[1]
    assert since in present(page, paths[LOSSY])


def test_a_figure_that_is_not_of_now_has_its_time(page, paths):
    plant_all(paths, lambda _: 0, until_s=-120)

    assert present(page, paths[LOSSY]) == "◷ As of 12:27:50 UTC: loss 0, median RTT 20.00 ms"


def test_a_path_without_data_says_so(page, paths):
    assert present(page, paths[LOSSY]) == "Now: no data"


def test_packets_of_another_size_have_their_own_cell(page, paths):
    plant_all(paths, lambda _: 0)
    plant(paths[LOSSY], -600, 0, lambda _: 0, lambda _: [35.0] * 10, packet_bytes=1000)
    roll_up_raw(NOW)

    assert present(page, paths[LOSSY], "?size=1000") == "Now: loss 0, median RTT 35.00 ms"
    assert present(page, paths[LOSSY]) == "Now: loss 0, median RTT 20.00 ms"


def test_a_retired_path_has_no_present(page, paths):
    plant_all(paths, lambda _: 0)
    Path.objects.filter(pk=paths[LOSSY].pk).update(retired_at=NOW)

    assert present(page, paths[LOSSY]) == ""
