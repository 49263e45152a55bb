"""The present of a path on its own page, whose tiles are of a day: as its cells in the grids of now have it."""

from __future__ import annotations

import re

import pytest
from django.utils import timezone
from django.utils.html import strip_tags

from monitor.analysis.changes.present import LostPackets
from monitor.analysis.segments.loss_segments import LossSegment
from monitor.analysis.segments.segment import Moment
from monitor.analysis.segments.stretches import LOSSY as LOSSY_STATE
from monitor.mesh.models import Path
from monitor.present import read
from monitor.present.conditions import Condition
from monitor.present.track import Signal, Track
from monitor.present.written import write
from tests.db.merging import roll_up_raw
from tests.db.planted_cycles import NOW, at, follow, paths_of_three_sites, plant
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_worker")]
LOSSY = "slac → ornl"


@pytest.fixture
def paths(monkeypatch):
    monkeypatch.setattr(timezone, "now", lambda: NOW)
    return paths_of_three_sites(monkeypatch)


@pytest.fixture
def page(client):
    def get(address):
        answer = client.get(address, headers={"host": "localhost"})
        assert answer.status_code == 200, answer.content
        return answer.content.decode()

    return get


def plant_all(paths, lost_of, until_s=0):
    """Half an hour of cycles on all paths; those of one lose packets or end early."""
    for name, path in paths.items():
        is_own = name == LOSSY
        plant(path, -1800, until_s if is_own else 0, lost_of if is_own else lambda _: 0)
    roll_up_raw(NOW)
    follow()


def part(html, name):
    """The text of a part of the page."""
    (line,) = re.findall(rf'id="{name}"[^>]*>(.*?)</(?:p|details|div)>', html, re.S)
    return " ".join(strip_tags(line.replace("</t", " </t")).split())


@pytest.mark.parametrize(
    ("lost_of", "line"),
    [
        (lambda _: 0, "Now: loss 0, median RTT 20.00 ms"),
        (lambda s: 2 * (s >= -300), "△ Now: loss 20%, median RTT 20.00 ms"),
        (lambda s: 2 * (-540 <= s < -240), "✓ Now: loss 0, median RTT 20.00 ms"),
        (lambda s: 10 * (s >= -300), "△ Now: no reply since 12:24:59 UTC"),
    ],
    ids=["normal", "bad", "ended", "dead"],
)
def test_the_line_has_the_figures_of_the_cells(page, paths, lost_of, line):
    plant_all(paths, lost_of)

    assert part(page(f"/paths/{paths[LOSSY].pk}/"), "present") == line


def test_a_path_in_trouble_without_an_incident_says_so(page, paths):
    plant_all(paths, lambda s: 2 * (s >= -300))

    assert "Being checked: loses 20% since 12:2" in part(page(f"/paths/{paths[LOSSY].pk}/"), "alarm")
    assert part(page(f"/paths/{paths['fnal → ornl'].pk}/"), "alarm") == ""


def test_a_figure_that_is_not_of_now_has_its_time(page, paths):
    plant_all(paths, lambda _: 0, until_s=-120)

    line = part(page(f"/paths/{paths[LOSSY].pk}/"), "present")

    assert line == "◷ As of 12:27:50 UTC: loss 0, median RTT 20.00 ms"


def test_a_path_without_data_says_so(page, paths):
    assert part(page(f"/paths/{paths[LOSSY].pk}/"), "present") == "Now: no data"


def test_the_loss_of_each_size_is_now_and_of_the_last_hour(page, paths):
    """All large packets of the last five minutes are lost."""
    plant(paths[LOSSY], -1800, 0, lambda s: 10 * (s >= -300), lambda _: [35.0] * 10, packet_bytes=1000)
    plant_all(paths, lambda _: 0)
    follow(at(-20))
    follow()

    small, html = (page(f"/paths/{paths[LOSSY].pk}/?size={size}") for size in (100, 1000))

    assert part(small, "present").startswith("△ Now: loss, 1,000 B 100%, ")
    assert part(html, "present").startswith("△ Now: all lost")
    facts = "100 B", "0 of 1,800, so below", "1,000 B", "100% since 12:24:59 UTC", "300 of 1,800 lost"
    assert lacks(part(html, "present-rows"), *facts) == []


def test_a_loss_of_all_sizes_is_told_of_all_packets(page, paths):
    """A fifth of the packets of each size is lost; each size alone proves less."""
    plant(paths[LOSSY], -1800, 0, lambda s: 2 * (s >= -300), packet_bytes=1000)
    plant_all(paths, lambda s: 2 * (s >= -300))
    follow(at(-20))
    follow()

    html = page(f"/paths/{paths[LOSSY].pk}/?size=1000")

    assert part(html, "present").startswith("△ Now: loss 20%, ")
    rows = part(html, "present-rows")
    assert rows.count("20% since") == 1
    assert lacks(rows, "120 of 3,600 lost", "100 B", "60 of 1,800 lost", "1,000 B", "60 of 1,800 lost") == []


def test_a_loss_that_stamp_alone_shows_is_told_of_its_way(page, paths):
    plant_all(paths, lambda _: 0)
    key, begun = paths[LOSSY].pk, Moment(at(-300).timestamp(), at(-310).timestamp(), at(-300).timestamp())
    loss = LossSegment(LOSSY_STATE, begun, LostPackets(1000.0, 70.0))
    write([Track(key, Signal.LOSS, "forward", 0, Condition.BAD, NOW.timestamp(), (loss,))])

    html = page(f"/paths/{key}/")

    assert part(html, "present") == "△ Now: loss, forward 7%, median RTT 20.00 ms"
    assert "Being checked: loses 7% since 12:25:00 UTC" in part(html, "alarm")
    assert read.load([key])[key].loss_ratio == pytest.approx(0.07)


def test_a_retired_path_has_no_present(page, paths):
    plant_all(paths, lambda _: 0)
    Path.objects.filter(pk=paths[LOSSY].pk).update(retired_at=NOW)

    assert part(page(f"/paths/{paths[LOSSY].pk}/"), "present") == ""
