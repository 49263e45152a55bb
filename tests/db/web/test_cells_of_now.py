"""Cells of the grid and of the site pages say now: a loss that is checked, an end, figures that are not of now."""

from __future__ import annotations

import json
import re

import pytest
from django.utils import timezone

from monitor.alerts.evaluate import evaluate
from monitor.alerts.models import Incident
from monitor.archive.models import Burst
from monitor.archive.upkeep import freshness
from monitor.archive.upkeep.freshness import RecurringWork
from tests.db.merging import roll_up_raw
from tests.db.web.test_mesh_state_now import NOW, at, paths_of_three_sites, plant
from tests.db.web.test_pages_grid import cell
from tests.db.web.test_pages_site import rows
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_worker")]
BOTH = ("slac → ornl", "ornl → slac")


@pytest.fixture
def paths(monkeypatch):
    return paths_of_three_sites(monkeypatch)


@pytest.fixture
def get(client, monkeypatch):
    """A page as of so many seconds after `NOW`."""

    def fetch(address, seconds=0):
        freshness.note(RecurringWork.EVALUATION, at(seconds))
        monkeypatch.setattr(timezone, "now", lambda: at(seconds))
        answer = client.get(address, headers={"host": "localhost"})
        assert answer.status_code == 200, answer.content
        return answer.content.decode()

    return fetch


def way(html, other, *, to_site):
    """Loss, median RTT, estimate and throughput of a direction on the page of a site."""
    (row,) = (row for row in rows(html) if row[0] == other)
    return row[5:9] if to_site else row[1:5]


@pytest.fixture
def ended_loss(paths):
    """40% loss on a path from 440 s to 240 s ago, with its incident, which is resolved."""
    path = paths["slac → ornl"]
    for name, other in paths.items():
        plant(other, -1800, -120, lambda s, name=name: 4 if name == "slac → ornl" and -440 <= s < -240 else 0)
    for seconds in (-260, *range(-230, -100, 10)):
        evaluate(at(seconds))
    incident = Incident.objects.get()
    assert incident.closed_at is not None
    return path, incident


def test_an_end_is_not_marked_beside_a_loss_that_is_checked(get, paths, ended_loss):
    path, _ = ended_loss
    for other in paths.values():
        plant(other, -120, 0, lambda s, other=other: 2 if other == path and s >= -60 else 0)

    before, html = get("/", -120), get("/")

    assert cell(before, path)[1].startswith("✓")
    _, text, sentence = cell(html, path)
    assert "✓" not in text
    assert text.startswith("△")
    assert lacks(sentence, "incident ended", "loss above the alert threshold, being checked: 12 of ") == []
    assert all("△" not in cell(html, other)[1] for other in paths.values() if other != path)
    assert re.search(r'class="swatch check"[^>]*>△<', html)
    assert "△" in cell(get("/?cells=compact"), path)[1]
    assert f'id="p{path.pk}"' in get("/?paths=problems")


def test_a_refresh_of_the_cells_marks_the_checked_paths_too(get, paths):
    path = paths["slac → ornl"]
    for other in paths.values():
        plant(other, -600, 0, lambda s, other=other: 3 if other == path and s >= -60 else 0)
    version = re.search(r'data-version="([^"]+)"', get("/", -60))[1]

    changed = get(f"/grid/changes?since={version}")

    assert "△" in cell("".join(json.loads(changed)["cells"].values()), path)[1]


@pytest.mark.parametrize("lost", [0, 1])
def test_a_figure_without_newer_data_has_no_colour_of_good(get, paths, lost):
    """The newest burst is 2 minutes old, of cycles of 10 s; it and those before lost nothing, or 1 of 110 packets."""
    path = paths["slac → ornl"]
    for other in paths.values():
        plant(other, -600, -120 if other == path else 0, lambda s: lost * (s == -300))

    html = get("/")

    style, text, sentence = cell(html, path)
    assert (style, text[:1]) == ("stale", "◷")
    assert "no newer data" in sentence
    good = cell(html, paths["ornl → slac"])[0]
    assert good in ("none-lost", "loss-0")
    assert re.search(r'class="swatch stale"[^>]*>◷<', html)
    assert cell(get("/?metric=rtt"), path)[0] == "stale"
    assert f'id="p{path.pk}"' in get("/?paths=problems")


def test_a_figure_before_excluded_pings_has_the_sign_of_our_own_test(get, paths):
    """Newer pings arrived, all sent during a throughput test: data is not missing."""
    path = paths["slac → ornl"]
    for other in paths.values():
        plant(other, -600, 0)
    Burst.objects.filter(path_id=path.pk, measured_at__gt=at(-60)).update(during_test=True)

    html = get("/")

    assert cell(html, path)[:2] == ("stale", "⇄0")
    meaning = re.search(r'class="swatch stale"[^>]*>⇄</span>([^<]*)<', html)[1]
    assert "during throughput tests only" in meaning


def test_an_rtt_of_an_ended_incident_is_not_the_peak_of_an_outage(get, paths):
    """190.8 ms until 4 minutes ago; the path is down since a minute, in another incident."""
    path = paths["slac → ornl"]
    for other in paths.values():
        plant(other, -600, 0, lambda s, other=other: 10 if other == path and s >= -60 else 0)
    ended = Incident.objects.create(
        rule="rtt", cause="slac → ornl", opened_at=at(-500), closed_at=at(-200), ended_at=at(-240), severity="warning"
    )
    figures = {"figure": "median", "before_ms": 20.0, "after_ms": 190.8}
    fields = {"path": path, "sentence": "", "added_at": at(-500), "since": at(-520)}
    ended.paths.create(**fields, rule="rtt", figures=figures, is_over=True, ended_at=at(-240))
    outage = Incident.objects.create(rule="unreachable", cause="slac → ornl", opened_at=at(-30), severity="critical")
    outage.paths.create(**{**fields, "since": at(-60), "added_at": at(-30)}, rule="unreachable", figures={})

    sentence = cell(get("/?metric=rtt"), path)[2]

    assert lacks(sentence, "all lost", "incident open", ", was 190.8 ms") == []
    assert "peak" not in sentence


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_site_page_says_since_an_end_what_the_grid_says(get, paths, ended_loss, goes_on):
    """Also where the incident goes on with another path."""
    path, incident = ended_loss
    for other in paths.values():
        plant(other, -120, 0)
    roll_up_raw(NOW)
    if goes_on:
        incident.paths.update(is_over=True, ended_at=incident.closed_at)
        incident.paths.create(
            path=paths["slac → fnal"],
            rule="loss",
            sentence="loss",
            added_at=at(-300),
            since=at(-440),
            figures={"sent": 100, "lost": 20},
        )
        Incident.objects.update(closed_at=None, ended_at=None)

    of_grid, html = cell(get("/"), path)[1], get("/sites/ornl/?period=hour")

    loss, rtt, *_ = way(html, "slac", to_site=True)
    assert of_grid == "✓0"
    assert loss == "✓ now 0"
    # 80 of the 1,800 packets of the half hour.
    assert (rtt, way(html, "slac", to_site=False)[0]) == ("20.00 ms", "< 0.17%")


def test_a_site_page_has_the_figures_of_the_period_long_after_an_end(get, paths, ended_loss):
    for other in paths.values():
        plant(other, -120, 700)
    roll_up_raw(at(700))

    html = get("/sites/ornl/?period=hour", 700)

    # 80 of 2,500 packets.
    assert way(html, "slac", to_site=True)[0] == "3.2%"
    assert 'aria-label="slac to ornl: loss over the last hour 3.2%"' in html


def test_a_site_page_marks_the_column_of_a_longer_rtt(get, paths):
    for name, path in paths.items():
        is_longer = name in BOTH
        plant(path, -1800, 0, rtts_of=lambda s, is_longer=is_longer: [120.0 if is_longer and s >= -400 else 20.0] * 10)
    for seconds in range(-400, 10, 10):
        evaluate(at(seconds))
    roll_up_raw(NOW)

    ways = [way(get("/sites/ornl/?period=hour"), "slac", to_site=to_site) for to_site in (False, True)]

    assert {row.path_id for row in Incident.objects.get().paths.all()} == {paths[name].pk for name in BOTH}
    for loss, rtt, *_ in ways:
        assert (loss, rtt) == ("< 0.17%", "▲ now 120.0 ms")


def test_a_site_page_marks_what_is_being_checked_on_its_paths(get, paths):
    path = paths["slac → ornl"]
    for other in paths.values():
        plant(other, -600, 0, lambda s, other=other: 3 if other == path and s >= -60 else 0)
    roll_up_raw(NOW)

    html = get("/sites/ornl/?period=hour")

    assert way(html, "slac", to_site=True)[0] == f"△ now {cell(get('/'), path)[1].removeprefix('△')}"
    assert "△" not in way(html, "slac", to_site=False)[0]


def test_a_checked_outage_stands_before_a_loss_that_is_over(get, paths, ended_loss):
    """The path from fnal is down since a minute; that from slac lost 80 packets, and is well since 4 minutes."""
    for name, path in paths.items():
        plant(path, -120, 0, lambda s, name=name: 10 if name == "fnal → ornl" and s >= -60 else 0)
    roll_up_raw(NOW)

    html = get("/sites/ornl/?period=hour")

    assert [row[0] for row in rows(html)] == ["fnal", "slac"]
    assert way(html, "fnal", to_site=True)[0] == "△ now all lost"


def test_the_list_of_paths_has_the_signs_of_the_cells(get, paths):
    for name, path in paths.items():
        late, lossy = name == "slac → fnal", name == "slac → ornl"
        plant(path, -600, -120 if late else 0, lambda s, lossy=lossy: 3 if lossy and s >= -60 else 0)

    html = get("/?order=list")

    texts = dict(re.findall(r'href="/paths/(\d+)/">[^<]*</a></th><td><span[^>]*>([^<]*)</span>', html))
    signs = {name: texts[str(path.pk)].rpartition(" ")[0] for name, path in paths.items()}
    assert signs == {**dict.fromkeys(paths, ""), "slac → fnal": "◷", "slac → ornl": "△"}
