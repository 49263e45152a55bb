"""Cells of the grid and of the site pages have the condition and the level of their tracks, as has `GET /grid`."""

from __future__ import annotations

import json
import re

import pytest
from django.utils import timezone

from monitor.alerts.evaluate import evaluate
from monitor.alerts.models import Incident
from monitor.analysis.figures import percent_interval
from monitor.archive.models import Burst
from monitor.archive.upkeep import freshness
from monitor.archive.upkeep.freshness import RecurringWork
from monitor.present import read
from monitor.present.conditions import Condition
from monitor.present.models import PathTrack
from monitor.present.track import Signal
from tests.db.merging import roll_up_raw
from tests.db.planted_cycles import NOW, at, follow, paths_of_three_sites, plant
from tests.db.web.test_pages_grid import cell
from tests.db.web.test_pages_site import rows
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_worker")]
LOCAL = {"host": "localhost"}
NAME = "slac → ornl"
BOTH = (NAME, "ornl → slac")


@pytest.fixture
def paths(monkeypatch):
    return paths_of_three_sites(monkeypatch)


@pytest.fixture
def get(client, monkeypatch):
    """A page as of so many seconds after `NOW`."""

    def fetch(address="/", seconds=0):
        monkeypatch.setattr(timezone, "now", lambda: at(seconds))
        answer = client.get(address, headers=LOCAL)
        assert answer.status_code == 200, answer.content
        return answer.content.decode()

    return fetch


def plant_all(paths, lost_of, since_s=-1800, until_s=0):
    """Half an hour of cycles on all paths; those of one lose packets or end early."""
    for name, path in paths.items():
        is_own = name == NAME
        plant(path, since_s if is_own else -1800, until_s if is_own else 0, lost_of if is_own else lambda _: 0)


def api_cell(get, path, query="?period=now"):
    cells = json.loads(get(f"/api/v1/grid{query}"))["cells"]
    return next(row for row in cells if row["path_id"] == path.pk)


def way(html, other, *, to_site):
    """Loss, median RTT, estimate and throughput of a direction on the page of a site."""
    (row,) = (row for row in rows(html) if row[0] == other)
    return row[5:9] if to_site else row[1:5]


def twice(seconds):
    """20% for five minutes."""
    return 2 * (seconds >= -300)


def until_240(seconds):
    """20% from 540 to 240 s ago."""
    return 2 * (-540 <= seconds < -240)


def flapping(seconds):
    """Down for 20 of each 60 s in the last five minutes."""
    return 10 * (seconds >= -300 and seconds % 60 < 20)


@pytest.mark.parametrize(
    ("lost_of", "condition", "style", "text"),
    [
        (lambda _: 0, Condition.NORMAL, "none-lost", "0"),
        (twice, Condition.BAD, "loss-5", "△20%"),
        (until_240, Condition.NORMAL, "none-lost", "✓0"),
        (lambda s: 10 * (s >= -120), Condition.DEAD, "total-loss", "△all lost"),
        (flapping, Condition.FLAPS, "loss-5 outage", "△⇅flaps"),
    ],
    ids=["normal", "bad", "ended", "dead", "flaps"],
)
def test_a_cell_has_the_condition_of_its_track(get, paths, lost_of, condition, style, text):
    plant_all(paths, lost_of)
    follow()

    html = get()

    assert read.load()[paths[NAME].pk].condition is condition
    assert cell(html, paths[NAME])[:2] == (style, text)
    assert cell(html, paths["fnal → ornl"])[:2] == ("none-lost", "0")
    assert api_cell(get, paths[NAME])["condition"] == condition.name.lower()


def test_a_normal_cell_that_may_be_bad_shows_its_interval(get, paths):
    """One lost packet is no loss above 1%, two within half a minute may be."""
    plant_all(paths, lambda seconds: int(seconds in (-50, -20)))
    follow()
    track = read.load()[paths[NAME].pk].track(Signal.LOSS)

    style, text, sentence = cell(get(), paths[NAME])

    low, high = track.interval
    assert (track.condition, low < 0.01 < high) == (Condition.NORMAL, True)
    assert (style, text) == ("loss-0", percent_interval(low, high))
    assert f"loss {text} · " in sentence
    assert cell(get(), paths["fnal → ornl"])[1] == "0"
    assert {row.path_id for row in PathTrack.objects.filter(interval__isnull=False)} == {paths[NAME].pk}


def test_a_cell_in_trouble_says_now_and_the_window(get, paths):
    plant_all(paths, twice)
    follow()

    now, window = cell(get(), paths[NAME])[2].split(" · ")

    assert re.fullmatch(r"slac to ornl: loses 20% since 12:2[45]:\d\d UTC", now)
    assert window == "60 of 600 lost in the last 10 min"


def test_a_cell_after_a_trouble_says_its_end_and_its_level(get, paths):
    plant_all(paths, until_240)
    follow()

    sentence = cell(get(), paths[NAME])[2]

    assert lacks(sentence, "no loss: 0 of", "no more loss since 12:26:00 UTC", "20% from", "60 of 600 lost") == []


def test_the_api_has_the_segments_of_the_track(get, paths):
    plant_all(paths, until_240)
    follow()
    track = read.load()[paths[NAME].pk].track(Signal.LOSS)

    row = api_cell(get, paths[NAME])

    assert (row["value"], row["value_measured"], row["sent"], row["received"]) == (0.0, 0.1, 600, 540)
    assert (row["value_sent"], row["value_received"]) == (round(track.now.lost.sent),) * 2
    assert (row["is_since_end"], row["state"]) == (True, "none_lost")
    assert row["ended_at"].startswith("2026-11-21T12:2")
    assert row["value_peak"] == pytest.approx(0.2, abs=0.02)
    assert row["level_s"] == pytest.approx(track.newest_s - track.end.at_s)
    calm = api_cell(get, paths["fnal → ornl"])
    assert (calm["ended_at"], calm["is_since_end"], calm["value_peak"]) == (None, False, None)


def test_a_path_without_replies_has_its_last_one(get, paths):
    """The packets are a second apart, and the last answered is the tenth of the cycle before the outage."""
    plant_all(paths, lambda s: 10 * (s >= -120))
    follow()

    sentence, row = cell(get(), paths[NAME])[2], api_cell(get, paths[NAME])

    assert "dead since 12:27:59 UTC" in sentence
    assert row["unanswered_since"].startswith("2026-11-21T12:27:59")
    assert (row["state"], row["value"], row["value_measured"]) == ("total_loss", 1.0, 0.2)
    assert (row["value_sent"], row["value_received"]) == (None, None)
    assert cell(get("/?metric=rtt"), paths[NAME])[:2] == ("total-loss", "△all lost")


def test_a_figure_without_newer_data_has_no_colour_of_good(get, paths):
    plant_all(paths, lambda _: 0, until_s=-120)
    follow()

    html = get()

    style, text, sentence = cell(html, paths[NAME])
    assert (style, text) == ("stale", "◷0")
    assert "as of 12:27:50 UTC, no newer data" in sentence
    assert re.search(r'class="swatch stale"[^>]*>◷<', html)
    assert cell(get("/?metric=rtt"), paths[NAME])[0] == "stale"
    assert f'id="p{paths[NAME].pk}"' in get("/?paths=problems")


def test_a_figure_before_excluded_pings_has_the_sign_of_our_own_test(get, paths):
    """Newer pings arrived, all sent during a throughput test: data is not missing."""
    plant_all(paths, lambda _: 0)
    Burst.objects.filter(path_id=paths[NAME].pk, measured_at__gt=at(-60)).update(during_test=True)
    follow()

    html = get()

    assert cell(html, paths[NAME])[:2] == ("stale", "⇄0")
    assert "during throughput tests only" in html


def test_a_loss_of_too_few_packets_has_no_band(get, paths):
    """100 packets, of which none was lost, do not exclude a loss of 1%."""
    plant_all(paths, lambda _: 0, since_s=-100)
    follow()

    style, text, sentence = cell(get(), paths[NAME])

    assert (style, text) == ("bound", "too few")
    assert lacks(sentence, "too few packets so far", "0 of 100") == []
    assert cell(get("/?metric=rtt"), paths[NAME])[1] == "20.00 ms"


def test_a_path_without_results_waits(get, paths):
    for name, path in paths.items():
        if name != NAME:
            plant(path, -1800, 0)
    PathTrack.objects.create(path=paths[NAME], signal=Signal.LOSS, condition=Condition.AWAITED, segments=[])
    freshness.note(RecurringWork.EVALUATION, NOW)

    assert cell(get(), paths[NAME])[:2] == ("no-data", "waiting")


def test_tracks_that_nobody_keeps_current_are_not_shown(get, paths):
    """The alert rules are evaluated no more since five minutes, and the loss is over since four."""
    plant_all(paths, lambda s: 2 * (-540 <= s < -240))
    follow(at(-300))

    html = get()

    assert cell(html, paths[NAME])[1] == "10%"
    assert api_cell(get, paths[NAME])["condition"] is None


def test_a_history_grid_keeps_its_figures_and_has_the_signs_of_now(get, paths):
    plant_all(paths, twice)
    roll_up_raw(NOW)
    follow()

    _, text, sentence = cell(get("/?period=hour"), paths[NAME])

    # 60 of 1,800 packets.
    assert text == "△3.3%"
    assert lacks(sentence, "now loses 20%", "since 12:25:00 UTC", "60 of 1,800 lost") == []


def test_a_loss_of_large_packets_is_in_their_cell_alone(get, paths):
    """All of 1,000 bytes are lost, none of 100."""
    for name, path in paths.items():
        plant(path, -1800, 0)
        plant(path, -1800, 0, lambda _, name=name: 10 * (name == NAME), packet_bytes=1000)
    roll_up_raw(NOW)
    follow(at(-20))
    unknown = cell(get("/?size=100"), paths[NAME])
    # As soon as its packets exclude the loss of the large ones.
    follow()
    small, large = (cell(get(f"/?size={size}"), paths[NAME]) for size in (100, 1000))

    assert unknown[1] == "△50%"
    assert small[:2] == ("bound", "△1,000 B")
    assert lacks(small[2], "loses 100% of packets of 1,000 bytes since", "; 100 B: no loss · 0 of 600") == []
    assert large[:2] == ("total-loss", "△all lost")
    assert api_cell(get, paths[NAME], "?period=now&size=100")["value"] == 0.0
    assert api_cell(get, paths[NAME], "?period=now&size=1000")["value"] == 1.0


def test_a_cell_has_no_loss_as_soon_as_its_outage_has_ended(get, paths):
    """Of the packets shown a third were lost; the newest burst is the first with replies, which ends the outage."""
    for name, path in paths.items():
        plant(path, -1800, 0, lambda s, name=name: 10 * (name == NAME and -210 <= s < -10))
    roll_up_raw(NOW)
    follow()

    style, text, sentence = cell(get(), paths[NAME])

    assert (style.split()[0], text) == ("none-lost", "✓0")
    assert lacks(sentence, "no loss", "answers again since 12:29:5", "dead from 12:26:") == []
    assert api_cell(get, paths[NAME])["value"] == 0.0


def test_a_longer_rtt_is_that_of_now(get, paths):
    """The window of ten minutes has the RTT of before; large packets take 15 ms more."""
    for name, path in paths.items():
        for size, more_ms in ((100, 0.0), (1000, 15.0)):
            plant(
                path, -1800, 0, packet_bytes=size,
                rtts_of=lambda s, name=name, ms=more_ms: [ms + (120.0 if name in BOTH and s >= -200 else 20.0)] * 10,
            )  # fmt: skip
    for seconds in range(-400, 10, 10):
        evaluate(at(seconds))
    roll_up_raw(NOW)

    _, text, sentence = cell(get("/?metric=rtt"), paths[NAME])
    ways = [way(get("/sites/ornl/?period=hour"), "slac", to_site=to_site) for to_site in (False, True)]

    assert re.fullmatch(r"[▲△]120\.0 ms", text)
    assert cell(get("/?metric=rtt&size=1000"), paths[NAME])[1] == f"{text[0]}135.0 ms"
    assert "median RTT <b>135.0 ms</b>" in get(f"/paths/{paths[NAME].pk}/?size=1000")
    assert lacks(sentence, "RTT 120 ms since 12:26:", "(was 20", "median 20.00 ms, 600 of 600 answered") == []
    assert api_cell(get, paths[NAME], "?metric=rtt_median_ms&period=now")["value_measured"] == pytest.approx(20.0)
    for loss, rtt, *_ in ways:
        assert (loss, rtt) == ("< 0.17%", f"{text[0]} now 120.0 ms")


def test_a_cell_under_an_incident_has_its_sign(get, paths):
    plant_all(paths, twice)
    for seconds in range(-250, 10, 10):
        evaluate(at(seconds))

    style, text, sentence = cell(get(), paths[NAME])

    assert Incident.objects.get().closed_at is None
    assert (style, text) == ("loss-5 incident", "▲20%")
    assert "incident open" in sentence
    assert api_cell(get, paths[NAME])["incident_id"] == Incident.objects.get().pk


def test_the_api_names_the_incident_that_has_ended(get, paths):
    plant_all(paths, until_240)
    for seconds in range(-500, 10, 10):
        evaluate(at(seconds))
    Incident.objects.update(closed_at=at(-60), ended_at=at(-240))

    row = api_cell(get, paths[NAME])

    assert (row["ended_incident_id"], row["condition"]) == (Incident.objects.get().pk, "normal")


def test_a_refresh_of_the_cells_has_their_conditions(get, paths):
    plant_all(paths, lambda s: 3 * (s >= -60))
    follow(at(-70))
    version = re.search(r'data-version="([^"]+)"', get("/", -60))[1]
    follow()

    changed = get(f"/grid/changes?since={version}")

    assert "△" in cell("".join(json.loads(changed)["cells"].values()), paths[NAME])[1]


def test_a_site_page_has_the_cells_of_the_grid_in_trouble(get, paths):
    plant_all(paths, twice)
    roll_up_raw(NOW)
    follow()

    html = get("/sites/ornl/?period=hour")

    assert way(html, "slac", to_site=True)[0] == f"△ now {cell(get(), paths[NAME])[1].removeprefix('△')}"
    assert "△" not in way(html, "slac", to_site=False)[0]
    assert [row[0] for row in rows(html)] == ["slac", "fnal"]


def test_a_site_page_has_the_figures_of_the_period_long_after_an_end(get, paths):
    for name, path in paths.items():
        plant(path, -1800, 700, until_240 if name == NAME else lambda _: 0)
    roll_up_raw(at(700))
    follow(at(700))

    html = get("/sites/ornl/?period=hour", 700)

    # 60 of 2,500 packets.
    assert way(html, "slac", to_site=True)[0] == "2.4%"


def test_the_list_of_paths_has_the_signs_of_the_cells(get, paths):
    for name, path in paths.items():
        plant(path, -1800, -120 if name == "slac → fnal" else 0, twice if name == NAME else lambda _: 0)
    follow()

    html = get("/?order=list")

    texts = dict(re.findall(r'href="/paths/(\d+)/">[^<]*</a></th><td><span[^>]*>([^<]*)</span>', html))
    signs = {name: texts[str(path.pk)].rpartition(" ")[0] for name, path in paths.items()}
    assert signs == {**dict.fromkeys(paths, ""), "slac → fnal": "◷", NAME: "△"}


def test_the_map_marks_the_pair_of_a_path_in_trouble(get, paths):
    plant_all(paths, twice)
    follow()

    html = get("/map/")

    assert "loses 20% since 12:2" in html
    assert html.count("△") == 2  # beside the line, and in the legend
